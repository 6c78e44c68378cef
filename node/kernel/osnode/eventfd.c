// SPDX-License-Identifier: GPL-2.0
/*
 * In the host: kicks and calls of a node's devices as eventfds. What the node's bell is for is
 * signalled in its interrupt, and what vhost signals rings the node, both without a turn of the
 * process that serves. It is told what is left: requests, and the node's end. Without this module
 * that process does all of it. docs/design/node-devices.md has the protocol.
 */

#include <linux/capability.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rcupdate.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "osnode.h"

/* A queue. */
struct wire {
	struct list_head list;
	struct wires *wires;
	u32 slot, queue;
	struct eventfd_ctx *kick, *call;
	wait_queue_entry_t called;
	poll_table table; /* by which `called` gets into the eventfd's queue */
};

/* An open file of the device: a server's. */
struct wires {
	struct mutex lock;
	struct file *server; /* of the other device: keeps the node's memory, and START from it */
	struct holding *holding; /* NULL: not attached yet */
	struct eventfd_ctx *left; /* there is something for the server */
	wait_queue_entry_t rung;
	/* Changed under both locks, this one and that of the queue of the node's bells. */
	struct list_head list;
	u32 connected[OSNODE_SLOTS]; /* bit n: queue n is in the list */
};

static void tell(struct eventfd_ctx *eventfd)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	eventfd_signal(eventfd);
#else
	eventfd_signal(eventfd, 1);
#endif
}

static struct osnode_slot *slot_of(struct osnode_bus *bus, unsigned int number)
{
	return (struct osnode_slot *)(bus + 1) + number;
}

/* In the node's bell, and at its STOP: with the lock of the list. */
static int rung(wait_queue_entry_t *entry, unsigned int mode, int sync, void *key)
{
	struct wires *wires = container_of(entry, struct wires, rung);
	struct osnode_window *window = wires->holding->window;
	struct osnode_bus *bus = bus_of(window);
	bool left = READ_ONCE(window->state) >= OSNODE_HALTED;
	u64 slots = xchg(&bus->to_host, 0);
	struct osnode_slot *slot;
	struct wire *wire;

	list_for_each_entry(wire, &wires->list, list)
		if (slots & BIT_ULL(wire->slot) &&
		    test_and_clear_bit(wire->queue, (void *)&slot_of(bus, wire->slot)->kicks))
			tell(wire->kick);
	/* The rest is the server's: it takes kicks that no wire has taken. */
	for (slots &= BIT_ULL(OSNODE_SLOTS) - 1; slots; slots &= slots - 1) {
		slot = slot_of(bus, __ffs64(slots));
		left |= READ_ONCE(slot->request) != READ_ONCE(slot->answer) ||
			READ_ONCE(slot->kicks) & ~(u64)wires->connected[__ffs64(slots)];
	}
	if (left)
		tell(wires->left);
	return 0;
}

/* As the server does it: whoever sets the first bit rings. */
static void interrupt(struct wire *wire)
{
	struct holding *holding = wire->wires->holding;
	struct osnode_bus *bus = bus_of(holding->window);

	atomic64_or(BIT_ULL(wire->queue), (atomic64_t *)&slot_of(bus, wire->slot)->interrupts);
	/* STOP waits for who may still ring. */
	rcu_read_lock();
	if (!atomic64_fetch_or(BIT_ULL(wire->slot), (atomic64_t *)&bus->to_node))
		osnode_cpu_bell(holding, OSNODE_FOR_DEVICES);
	rcu_read_unlock();
}

/* With the eventfd's lock, and interrupts off: of vhost's thread, or of who writes to it. */
static int called(wait_queue_entry_t *entry, unsigned int mode, int sync, void *key)
{
	if (key_to_poll(key) & EPOLLIN)
		interrupt(container_of(entry, struct wire, called));
	return 0;
}

static void join(struct file *file, wait_queue_head_t *queue, poll_table *table)
{
	add_wait_queue(queue, &container_of(table, struct wire, table)->called);
}

static int attach(struct wires *wires, const struct osnode_wires *wanted)
{
	struct file *server;
	struct holding *holding;
	struct eventfd_ctx *left;

	if (wires->holding)
		return -EISCONN;
	server = fget(wanted->server);
	if (!server)
		return -EBADF;
	holding = osnode_device_serves(server);
	left = holding ? eventfd_ctx_fdget(wanted->left) : ERR_PTR(-EINVAL);
	if (IS_ERR(left)) {
		fput(server);
		return PTR_ERR(left);
	}
	wires->server = server;
	wires->holding = holding;
	wires->left = left;
	init_waitqueue_func_entry(&wires->rung, rung);
	add_wait_queue(&holding->for_devices.queue, &wires->rung);
	/* What the node has rung for before. */
	tell(left);
	return 0;
}

/* Both from `wanted`, whose signals count from here on. */
static int join_both(struct wire *wire, const struct osnode_wire *wanted)
{
	struct file *call = eventfd_fget(wanted->call);

	if (IS_ERR(call))
		return PTR_ERR(call);
	wire->kick = eventfd_ctx_fdget(wanted->kick);
	if (IS_ERR(wire->kick)) {
		fput(call);
		return PTR_ERR(wire->kick);
	}
	wire->call = eventfd_ctx_fileget(call);
	init_waitqueue_func_entry(&wire->called, called);
	init_poll_funcptr(&wire->table, join);
	if (vfs_poll(call, &wire->table) & EPOLLIN)
		interrupt(wire);
	fput(call);
	return 0;
}

static int connect(struct wires *wires, const struct osnode_wire *wanted)
{
	struct wire *wire;
	int error;

	if (!wires->holding)
		return -ENOTCONN;
	if (wanted->slot >= OSNODE_SLOTS || wanted->queue >= OSNODE_QUEUES)
		return -EINVAL;
	if (wires->connected[wanted->slot] & BIT(wanted->queue))
		return -EEXIST;
	wire = kzalloc(sizeof(*wire), GFP_KERNEL);
	if (!wire)
		return -ENOMEM;
	wire->wires = wires;
	wire->slot = wanted->slot;
	wire->queue = wanted->queue;
	error = join_both(wire, wanted);
	if (error) {
		kfree(wire);
		return error;
	}
	spin_lock_irq(&wires->holding->for_devices.queue.lock);
	list_add_tail(&wire->list, &wires->list);
	wires->connected[wire->slot] |= BIT(wire->queue);
	spin_unlock_irq(&wires->holding->for_devices.queue.lock);
	return 0;
}

/* Those of a slot; once this has returned nobody is in them. */
static int disconnect(struct wires *wires, u32 slot)
{
	struct wire *wire, *next;
	LIST_HEAD(gone);
	u64 count;

	if (!wires->holding)
		return -ENOTCONN;
	if (slot >= OSNODE_SLOTS)
		return -EINVAL;
	spin_lock_irq(&wires->holding->for_devices.queue.lock);
	list_for_each_entry_safe(wire, next, &wires->list, list)
		if (wire->slot == slot)
			list_move(&wire->list, &gone);
	wires->connected[slot] = 0;
	spin_unlock_irq(&wires->holding->for_devices.queue.lock);
	list_for_each_entry_safe(wire, next, &gone, list) {
		eventfd_ctx_remove_wait_queue(wire->call, &wire->called, &count);
		eventfd_ctx_put(wire->call);
		eventfd_ctx_put(wire->kick);
		kfree(wire);
	}
	return 0;
}

static int wires_open(struct inode *inode, struct file *file)
{
	struct wires *wires;
	int error;

	if (!capable(CAP_SYS_ADMIN) || !capable(CAP_SYS_RAWIO))
		return -EPERM;
	error = security_locked_down(LOCKDOWN_DEV_MEM);
	if (error)
		return error;
	wires = kzalloc(sizeof(*wires), GFP_KERNEL);
	if (!wires)
		return -ENOMEM;
	mutex_init(&wires->lock);
	INIT_LIST_HEAD(&wires->list);
	file->private_data = wires;
	return 0;
}

static int wires_release(struct inode *inode, struct file *file)
{
	struct wires *wires = file->private_data;
	u32 slot;

	if (wires->holding) {
		remove_wait_queue(&wires->holding->for_devices.queue, &wires->rung);
		for (slot = 0; slot < OSNODE_SLOTS; slot++)
			disconnect(wires, slot);
		eventfd_ctx_put(wires->left);
		fput(wires->server);
	}
	kfree(wires);
	return 0;
}

static long wires_ioctl(struct file *file, unsigned int request, unsigned long value)
{
	struct wires *wires = file->private_data;
	union {
		struct osnode_wires wires;
		struct osnode_wire wire;
		u32 slot;
	} argument;
	int error = -ENOTTY;

	if (_IOC_TYPE(request) != OSNODE_IOC_TYPE || _IOC_SIZE(request) > sizeof(argument))
		return -ENOTTY;
	if (copy_from_user(&argument, (void __user *)value, _IOC_SIZE(request)))
		return -EFAULT;
	mutex_lock(&wires->lock);
	if (request == OSNODE_EVENTFD_IOC_ATTACH)
		error = attach(wires, &argument.wires);
	else if (request == OSNODE_EVENTFD_IOC_CONNECT)
		error = connect(wires, &argument.wire);
	else if (request == OSNODE_EVENTFD_IOC_DISCONNECT)
		error = disconnect(wires, argument.slot);
	mutex_unlock(&wires->lock);
	return error;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = wires_open,
	.release = wires_release,
	.unlocked_ioctl = wires_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kumiki-osnode-eventfd",
	.fops = &operations,
	.mode = 0600,
};

module_misc_device(device);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: kicks and calls of OS nodes' devices as eventfds");
MODULE_VERSION("0.1.0");
