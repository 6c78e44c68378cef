// SPDX-License-Identifier: GPL-2.0
/* The device: its file operations, and doorbells that arrive. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/cc_platform.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/suspend.h>

#include "bell.h"
#include "osnode.h"

static struct bells nobodys = { .queue = __WAIT_QUEUE_HEAD_INITIALIZER(nobodys.queue) };

static int device_open(struct inode *inode, struct file *file)
{
	struct handle *handle;
	int error;

	if (!capable(CAP_SYS_RAWIO) || !capable(CAP_SYS_ADMIN))
		return -EPERM;
	/* A node's kernel reaches all memory. */
	error = security_locked_down(LOCKDOWN_DEV_MEM);
	if (error)
		return error;
	BUILD_BUG_ON(offsetof(struct handle, hearer));
	handle = kzalloc(sizeof(*handle), GFP_KERNEL);
	if (!handle)
		return -ENOMEM;
	mutex_init(&handle->lock);
	hearer_begin(&handle->hearer, &nobodys);
	handle->mapping = file->f_mapping;
	file->private_data = handle;
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	struct handle *handle = file->private_data;

	mutex_lock(&osnode_lock);
	holding_detach(handle);
	mutex_unlock(&osnode_lock);
	if (handle->heard)
		kobject_put(&handle->heard->kobj);
	kfree(handle);
	return 0;
}

/* Arguments of all requests; each begins where the union does. */
union argument {
	struct osnode_create create;
	struct osnode_attach attach;
	struct osnode_memory memory;
	struct osnode_cpu cpu;
	struct osnode_link link;
	struct osnode_pci pci;
	u32 version;
};

/* Under the lock; what takes long gives it up meanwhile. */
static int perform(struct handle *handle, unsigned int request, union argument *argument)
{
	struct holding *holding = handle->holding;
	int error = !holding ? -ENOTCONN : handle->mode != OSNODE_OWN ? -EPERM : 0;

	switch (request) {
	case OSNODE_IOC_VERSION:
		argument->version = OSNODE_VERSION;
		return 0;
	case OSNODE_IOC_CREATE:
		return handle->heard ? -EISCONN : holding_create(handle, &argument->create);
	case OSNODE_IOC_ATTACH:
		return handle->heard ? -EISCONN : holding_attach(handle, &argument->attach);
	case OSNODE_IOC_BELL:
		return !holding ? error : handle->mode == OSNODE_READ ? -EPERM :
			osnode_cpu_bell(holding, handle->mode == OSNODE_SERVE ? OSNODE_FOR_DEVICES :
									 OSNODE_FOR_CHANNELS);
	case OSNODE_IOC_MEMORY:
		return error ?: memory_add(holding, &argument->memory);
	case OSNODE_IOC_PIECE_BACK:
		return error ?: memory_back(holding, &argument->memory);
	case OSNODE_IOC_CPU:
		return error ?: cpu_claim(holding, &argument->cpu);
	case OSNODE_IOC_CPU_BACK:
		return error ?: cpu_back(holding, &argument->cpu);
	case OSNODE_IOC_PCI:
		return error ?: holding->state == RUNNING ? -EBUSY :
			pci_tell(holding, PCI_TAKE, &argument->pci);
	case OSNODE_IOC_CPUS_BACK:
		return error ?: holding->state == RUNNING ? -EBUSY : (cpu_free(holding), 0);
	case OSNODE_IOC_SEAL:
		return error ?: holding_seal(holding);
	case OSNODE_IOC_LINK:
		return error ?: holding_link(holding, argument->link.name);
	case OSNODE_IOC_START:
	case OSNODE_IOC_LEND:
		return error ?: holding_start(holding, request == OSNODE_IOC_LEND);
	case OSNODE_IOC_STOP:
		return error ?: holding_stop(holding);
	case OSNODE_IOC_MEMORY_BACK:
	case OSNODE_IOC_RELEASE:
		return error ?: holding_release(handle, request == OSNODE_IOC_MEMORY_BACK);
	default:
		return -ENOTTY;
	}
}

/* Copies without the lock: a page fault there takes what mmap holds when it takes the lock. */
static long device_ioctl(struct file *file, unsigned int request, unsigned long value)
{
	struct handle *handle = file->private_data;
	void __user *user = (void __user *)value;
	union argument argument = {};
	size_t size = _IOC_SIZE(request);
	int error;

	if (_IOC_TYPE(request) != OSNODE_IOC_TYPE || size > sizeof(argument))
		return -ENOTTY;
	if (!size && value)
		return -EINVAL;
	if (_IOC_DIR(request) & _IOC_WRITE && copy_from_user(&argument, user, size))
		return -EFAULT;
	mutex_lock(&handle->lock);
	mutex_lock(&osnode_lock);
	error = perform(handle, request, &argument);
	mutex_unlock(&osnode_lock);
	mutex_unlock(&handle->lock);
	if (!error && _IOC_DIR(request) & _IOC_READ && copy_to_user(user, &argument, size))
		error = -EFAULT;
	return error;
}

/* Who is handed a node's memory by this descriptor asks where the file ends before mapping it: with all addresses. */
static loff_t device_llseek(struct file *file, loff_t offset, int whence)
{
	return fixed_size_llseek(file, offset, whence, 1LL << boot_cpu_data.x86_phys_bits);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.read = bell_read,
	.poll = bell_poll,
	.unlocked_ioctl = device_ioctl,
	.mmap = memory_mmap,
	.llseek = device_llseek,
};

/* What a descriptor serves; NULL: nothing, or it is none of this device's. */
struct holding *osnode_device_serves(struct file *file)
{
	struct handle *handle = file->private_data;

	return file->f_op == &operations && handle->mode == OSNODE_SERVE ? handle->holding : NULL;
}
EXPORT_SYMBOL_GPL(osnode_device_serves);

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kumiki-osnode",
	.fops = &operations,
	.mode = 0600,
};

/* This kernel would wake to cpus and interrupts that are not as it left them. */
static int sleeps(struct notifier_block *block, unsigned long event, void *data)
{
	if ((event == PM_SUSPEND_PREPARE || event == PM_HIBERNATION_PREPARE) && READ_ONCE(holdings_running))
		return notifier_from_errno(-EBUSY);
	return NOTIFY_DONE;
}

/* What comes next, by kexec maybe, has all of the memory. */
static int reboots(struct notifier_block *block, unsigned long event, void *data)
{
	holdings_stop();
	return NOTIFY_DONE;
}

static struct notifier_block sleep_block = { .notifier_call = sleeps };
static struct notifier_block reboot_block = { .notifier_call = reboots, .priority = INT_MIN };

static int __init osnode_init(void)
{
	int error;

	if (cc_platform_has(CC_ATTR_MEM_ENCRYPT)) {
		pr_err("memory is encrypted here (mem_encrypt=on, SEV or TDX), and a node's kernel would begin in what it cannot read\n");
		return -EOPNOTSUPP;
	}
	error = memory_init() ?: cpus_init();
	if (error)
		return error;
	pci_init();
	/* Requests need the tree. */
	mutex_lock(&osnode_lock);
	error = misc_register(&device);
	if (!error) {
		error = tree_init(&device.this_device->kobj);
		if (error)
			misc_deregister(&device);
	}
	mutex_unlock(&osnode_lock);
	if (!error) {
		register_pm_notifier(&sleep_block);
		register_reboot_notifier(&reboot_block);
		return 0;
	}
	cpus_exit();
	return error;
}

/* No descriptor is open, and no node runs: each would hold the module. */
static void __exit osnode_exit(void)
{
	unregister_reboot_notifier(&reboot_block);
	unregister_pm_notifier(&sleep_block);
	holdings_free();
	tree_exit();
	misc_deregister(&device);
	cpus_exit();
}

module_init(osnode_init);
module_exit(osnode_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: OS nodes, several Linux kernels on one machine");
MODULE_VERSION("0.1.0");
