// SPDX-License-Identifier: GPL-2.0
/*
 * In a node: a virtio transport over slots in the window, so that stock drivers find
 * devices which a process of the host serves. Nothing traps: what the host must do at
 * once (a status, a reset) is a request that it answers; all else is read and written.
 * docs/design/node-devices.md has the protocol.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/device.h>
#include <linux/module.h>
#include <linux/pm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <linux/workqueue.h>

#include "guest.h"

/* How long a server may take for a request: one that has died is started again meanwhile. */
#define ANSWER_LIMIT (5 * HZ)
/* Looks at the answer that spin, 10 us each, before those that sleep. */
#define SPINS 200

struct slot_device {
	struct virtio_device vdev;
	struct osnode_slot *slot;
	unsigned int number;
	u32 present; /* of the slot, when this device came */
	bool asleep; /* from its freeze on, until its driver has it again */
	bool lost; /* the host was not seen to stop: it may write to the rings still */
	struct virtqueue *queues[OSNODE_QUEUES]; /* the bell reads them: RCU */
};

static struct osnode_bus *bus;
static struct device *root;
static struct slot_device __rcu *devices[OSNODE_SLOTS]; /* written by `plug` alone */
static u32 seen; /* of what was announced */
/* It did not answer in time, so nobody waits for it again until something is heard of it. */
static bool silent;

static struct slot_device *of(struct virtio_device *vdev)
{
	return container_of(vdev, struct slot_device, vdev);
}

/* There is something in this slot. Whoever sets the first bit rings. */
static void tell(struct slot_device *device)
{
	if (!atomic64_fetch_or(BIT_ULL(device->number), (atomic64_t *)&bus->to_host))
		osnode_ring_server();
}

static void kick(struct slot_device *device, unsigned int bit)
{
	atomic64_or(BIT_ULL(bit), (atomic64_t *)&device->slot->kicks);
	tell(device);
}

/* Has the host set a status, and waits until it has. */
static int request(struct slot_device *device, u8 status)
{
	struct osnode_slot *slot = device->slot;
	unsigned long limit = jiffies + ANSWER_LIMIT;
	u32 number = slot->request + 1;
	unsigned int turns;

	slot->status = status;
	smp_store_release(&slot->request, number);
	tell(device);
	for (turns = 0; smp_load_acquire(&slot->answer) != number; turns++) {
		if (READ_ONCE(slot->present) != device->present)
			return -ENODEV;
		if (READ_ONCE(silent) || time_after(jiffies, limit)) {
			WRITE_ONCE(silent, true);
			return -ETIMEDOUT;
		}
		if (turns < SPINS) {
			udelay(10);
			continue;
		}
		/* A new server has not heard the old one's bell. */
		if (turns % 64 == 0)
			osnode_ring_server();
		msleep(1);
	}
	return 0;
}

static void slot_get(struct virtio_device *vdev, unsigned int offset, void *to, unsigned int length)
{
	struct osnode_slot *slot = of(vdev)->slot;

	memset(to, 0, length);
	if (offset <= sizeof(slot->config) && length <= sizeof(slot->config) - offset)
		memcpy(to, slot->config + offset, length);
}

static void slot_set(struct virtio_device *vdev, unsigned int offset, const void *from,
		     unsigned int length)
{
	struct osnode_slot *slot = of(vdev)->slot;

	if (offset > sizeof(slot->config) || length > sizeof(slot->config) - offset)
		return;
	memcpy(slot->config + offset, from, length);
	kick(of(vdev), OSNODE_CONFIG_BIT);
}

static u32 slot_generation(struct virtio_device *vdev)
{
	return smp_load_acquire(&of(vdev)->slot->generation);
}

static u8 slot_get_status(struct virtio_device *vdev)
{
	return READ_ONCE(of(vdev)->slot->host_status);
}

static void slot_set_status(struct virtio_device *vdev, u8 status)
{
	int error = request(of(vdev), status);

	if (!status)
		of(vdev)->lost = error == -ETIMEDOUT;
	if (error && error != -ENODEV)
		dev_err(&vdev->dev, "the host did not set status %#x: %d\n", status, error);
	/* It was not started: who waits for it would wait for ever. */
	if (READ_ONCE(of(vdev)->slot->host_status) & VIRTIO_CONFIG_S_NEEDS_RESET) {
		dev_err(&vdev->dev, "the host could not start it: its server's log says why\n");
		virtio_break_device(vdev);
	}
}

static void slot_reset(struct virtio_device *vdev)
{
	slot_set_status(vdev, 0);
}

static u64 slot_get_features(struct virtio_device *vdev)
{
	return of(vdev)->slot->features;
}

static int slot_finalize_features(struct virtio_device *vdev)
{
	vring_transport_features(vdev);
	if (!__virtio_test_bit(vdev, VIRTIO_F_VERSION_1)) {
		dev_err(&vdev->dev, "it is no device of virtio 1\n");
		return -EINVAL;
	}
	of(vdev)->slot->accepted = vdev->features;
	return 0;
}

static bool slot_notify(struct virtqueue *queue)
{
	kick(of(queue->vdev), queue->index);
	return true;
}

static void slot_del_vqs(struct virtio_device *vdev)
{
	struct slot_device *device = of(vdev);
	struct virtqueue *queue, *next;
	unsigned int n;

	for (n = 0; n < OSNODE_QUEUES; n++)
		WRITE_ONCE(device->queues[n], NULL);
	/* A cpu in a bell may still have one of them. */
	synchronize_rcu();
	list_for_each_entry_safe(queue, next, &vdev->vqs, list) {
		if (!device->lost) {
			vring_del_virtqueue(queue);
			continue;
		}
		/*
		 * A server that was only slow goes on until it sees the reset. Rings that are
		 * never freed are the smaller loss: some pages, once. The buffers in them are
		 * the driver's, which has given them up by now.
		 */
		spin_lock(&vdev->vqs_list_lock);
		list_del_init(&queue->list);
		spin_unlock(&vdev->vqs_list_lock);
	}
}

static struct virtqueue *make_queue(struct slot_device *device, unsigned int n, const char *name,
				    vq_callback_t *callback, bool context)
{
	struct osnode_queue *words = &device->slot->queues[n];
	struct virtqueue *queue;
	u32 limit;

	if (n >= OSNODE_QUEUES)
		return ERR_PTR(-ENOENT);
	limit = READ_ONCE(words->limit);
	if (!limit)
		return ERR_PTR(-ENOENT);
	queue = vring_create_virtqueue(n, limit, SMP_CACHE_BYTES, &device->vdev, true, true,
				       context, slot_notify, callback, name);
	if (!queue)
		return ERR_PTR(-ENOMEM);
	queue->num_max = limit;
	words->size = virtqueue_get_vring_size(queue);
	words->descriptors = virtqueue_get_desc_addr(queue);
	words->driver = virtqueue_get_avail_addr(queue);
	words->device = virtqueue_get_used_addr(queue);
	smp_store_release(&device->queues[n], queue);
	return queue;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static int slot_find_vqs(struct virtio_device *vdev, unsigned int count, struct virtqueue *queues[],
			 struct virtqueue_info infos[], struct irq_affinity *affinity)
#define NAME(n) infos[n].name
#define CALLBACK(n) infos[n].callback
#define CONTEXT(n) infos[n].ctx
#else
static int slot_find_vqs(struct virtio_device *vdev, unsigned int count, struct virtqueue *queues[],
			 vq_callback_t *callbacks[], const char * const names[],
			 const bool *contexts, struct irq_affinity *affinity)
#define NAME(n) names[n]
#define CALLBACK(n) callbacks[n]
#define CONTEXT(n) (contexts && contexts[n])
#endif
{
	struct slot_device *device = of(vdev);
	unsigned int n, index = 0;

	for (n = 0; n < count; n++) {
		queues[n] = NULL;
		if (!NAME(n))
			continue;
		queues[n] = make_queue(device, index++, NAME(n), CALLBACK(n), CONTEXT(n));
		if (IS_ERR(queues[n])) {
			slot_del_vqs(vdev);
			return PTR_ERR(queues[n]);
		}
	}
	return 0;
}

static void slot_synchronize_cbs(struct virtio_device *vdev)
{
	synchronize_rcu();
}

static const char *slot_bus_name(struct virtio_device *vdev)
{
	return dev_name(&vdev->dev);
}

static const struct virtio_config_ops slot_operations = {
	.get = slot_get,
	.set = slot_set,
	.generation = slot_generation,
	.get_status = slot_get_status,
	.set_status = slot_set_status,
	.reset = slot_reset,
	.find_vqs = slot_find_vqs,
	.del_vqs = slot_del_vqs,
	.synchronize_cbs = slot_synchronize_cbs,
	.get_features = slot_get_features,
	.finalize_features = slot_finalize_features,
	.bus_name = slot_bus_name,
};

static void slot_release(struct device *device)
{
	kfree(container_of(device, struct slot_device, vdev.dev));
}

#ifdef CONFIG_PM_SLEEP
static int slot_freeze(struct device *device)
{
	struct virtio_device *vdev = dev_to_virtio(device);
	int error = virtio_device_freeze(vdev);

	of(vdev)->asleep = !error;
	return error;
}

/* Who serves it by now may be another one, who has counted anew, or is about to come. */
static int slot_restore(struct device *device)
{
	struct virtio_device *vdev = dev_to_virtio(device);
	unsigned long limit = jiffies + ANSWER_LIMIT;
	u32 present;
	int error;

	while (!(present = smp_load_acquire(&of(vdev)->slot->present)) && time_before(jiffies, limit))
		msleep(1);
	if (!present || of(vdev)->slot->id != vdev->id.device)
		return -ENODEV;
	of(vdev)->present = present;
	WRITE_ONCE(silent, false);
	error = virtio_device_restore(vdev);
	of(vdev)->asleep = error;
	return error;
}
#endif

/* A transport's driver has these elsewhere: here there is none, and a device's kind comes first. */
static const struct dev_pm_ops slot_pm = { SET_SYSTEM_SLEEP_PM_OPS(slot_freeze, slot_restore) };
static const struct device_type slot_type = { .name = "osnode-slot", .pm = &slot_pm };

static void come(unsigned int number, struct osnode_slot *slot, u32 present)
{
	struct slot_device *device = kzalloc(sizeof(*device), GFP_KERNEL);
	int error;

	if (!device)
		return;
	device->slot = slot;
	device->number = number;
	device->present = present;
	device->vdev.id.device = slot->id;
	device->vdev.id.vendor = 0x4b4d; /* KM */
	device->vdev.config = &slot_operations;
	device->vdev.dev.parent = root;
	device->vdev.dev.release = slot_release;
	device->vdev.dev.type = &slot_type;
	rcu_assign_pointer(devices[number], device);
	error = register_virtio_device(&device->vdev);
	if (!error)
		return;
	pr_err("slot %u: device of kind %u: %d\n", number, slot->id, error);
	RCU_INIT_POINTER(devices[number], NULL);
	synchronize_rcu();
	put_device(&device->vdev.dev);
}

static void go(unsigned int number, struct slot_device *device)
{
	RCU_INIT_POINTER(devices[number], NULL);
	synchronize_rcu();
	/* Nobody will serve what its driver still waits for. */
	virtio_break_device(&device->vdev);
	unregister_virtio_device(&device->vdev);
}

static void plug(struct work_struct *work)
{
	struct osnode_slot *slot;
	struct slot_device *device;
	unsigned int n;
	u32 present;

	WRITE_ONCE(seen, smp_load_acquire(&bus->announced));
	WRITE_ONCE(silent, false);
	for (n = 0; n < OSNODE_SLOTS; n++) {
		slot = (struct osnode_slot *)(bus + 1) + n;
		present = smp_load_acquire(&slot->present);
		device = rcu_dereference_protected(devices[n], true);
		/* Its driver has freed its queues, and would free them again. */
		if (device && device->asleep)
			continue;
		if (device && device->present != present) {
			go(n, device);
			device = NULL;
		}
		if (present && !device)
			come(n, slot, present);
	}
}

static DECLARE_WORK(plug_work, plug);

/* In an interrupt, or in its thread. */
static void rung(void)
{
	u64 slots = READ_ONCE(bus->to_node) ? xchg(&bus->to_node, 0) : 0;
	struct slot_device *device;
	struct virtqueue *queue;
	unsigned int n;
	u64 interrupts;

	WRITE_ONCE(silent, false);
	rcu_read_lock();
	for (; slots; slots &= slots - 1) {
		n = __ffs64(slots);
		device = n < OSNODE_SLOTS ? rcu_dereference(devices[n]) : NULL;
		if (!device)
			continue;
		interrupts = xchg(&device->slot->interrupts, 0);
		if (interrupts & BIT_ULL(OSNODE_CONFIG_BIT))
			virtio_config_changed(&device->vdev);
		for (interrupts &= BIT_ULL(OSNODE_QUEUES) - 1; interrupts;
		     interrupts &= interrupts - 1) {
			queue = smp_load_acquire(&device->queues[__ffs64(interrupts)]);
			if (queue)
				vring_interrupt(0, queue);
		}
	}
	rcu_read_unlock();
	/* Not while devices sleep. */
	if (READ_ONCE(bus->announced) != READ_ONCE(seen))
		queue_work(system_freezable_wq, &plug_work);
}

static int __init slots_init(void)
{
	root = root_device_register("osnode");
	if (IS_ERR(root))
		return PTR_ERR(root);
	bus = osnode_bus();
	osnode_on_bell(rung);
	/* What came before this, whose bell nobody heard. */
	queue_work(system_freezable_wq, &plug_work);
	return 0;
}

/* No exit: the bell calls into it. */
module_init(slots_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: devices of an OS node, served by its host");
MODULE_VERSION("0.1.0");
