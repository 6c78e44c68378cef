// SPDX-License-Identifier: GPL-2.0
/*
 * In the host: signs of life for a node that watches it. Each cpu counts in a page that the node
 * reads where it is, and a panic leaves its text there. Nothing here waits or takes a lock once
 * the host dies: a panic may come in an NMI. docs/design/node-watchman.md has the protocol.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/cpuhotplug.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/panic_notifier.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/security.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include <osnode.h>

static struct osnode_watch *watch; /* a node may read it until the module goes */
static DEFINE_PER_CPU(struct hrtimer, timer);
static DEFINE_MUTEX(telling);
static int beating; /* of enum cpuhp_state */

static enum hrtimer_restart beat(struct hrtimer *timer)
{
	u64 *beats = &watch->beats[smp_processor_id()];

	WRITE_ONCE(*beats, *beats + 1);
	hrtimer_forward_now(timer, ms_to_ktime(OSNODE_BEAT_MS));
	return HRTIMER_RESTART;
}

/* On the cpu that comes. The timer interrupts at once also where interrupts are threads. */
static int come(unsigned int cpu)
{
	struct hrtimer *mine = this_cpu_ptr(&timer);

	if (cpu >= OSNODE_WATCH_CPUS)
		return 0;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(mine, beat, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(mine, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	mine->function = beat;
#endif
	WRITE_ONCE(watch->beats[cpu], 1);
	hrtimer_start(mine, ms_to_ktime(OSNODE_BEAT_MS), HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static int go(unsigned int cpu)
{
	if (cpu >= OSNODE_WATCH_CPUS)
		return 0;
	hrtimer_cancel(this_cpu_ptr(&timer));
	WRITE_ONCE(watch->beats[cpu], 0);
	return 0;
}

static int panicked(struct notifier_block *block, unsigned long event, void *text)
{
	strscpy(watch->message, text, sizeof(watch->message));
	memcpy(watch->comm, current->comm, sizeof(watch->comm));
	watch->pid = current->pid;
	watch->cpu = raw_smp_processor_id();
	watch->ip = _THIS_IP_;
	watch->sp = current_stack_pointer;
	/* All that comes before it. */
	smp_store_release(&watch->state, OSNODE_WATCH_PANIC);
	return NOTIFY_DONE;
}

/* Before those that may hang. */
static struct notifier_block panic_block = { .notifier_call = panicked, .priority = INT_MAX };

static int watch_open(struct inode *inode, struct file *file)
{
	if (!capable(CAP_SYS_ADMIN) || !capable(CAP_SYS_RAWIO))
		return -EPERM;
	return security_locked_down(LOCKDOWN_DEV_MEM);
}

/* All of it at once; the node sees the last that is whole. */
static ssize_t watch_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	u32 next;
	ssize_t result = size;

	if (!size || size > OSNODE_TOLD_BYTES)
		return -EINVAL;
	mutex_lock(&telling);
	next = watch->told + 1;
	if (copy_from_user(watch->text[next % 2], from, size)) {
		result = -EFAULT;
	} else {
		watch->text_bytes[next % 2] = size;
		smp_store_release(&watch->told, next);
	}
	mutex_unlock(&telling);
	return result;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = watch_open,
	.write = watch_write,
	.llseek = noop_llseek,
};

static ssize_t address_show(struct device *device, struct device_attribute *attribute, char *to)
{
	return sysfs_emit(to, "%#llx\n", (u64)virt_to_phys(watch));
}

static DEVICE_ATTR(address, 0400, address_show, NULL);
static struct attribute *attributes[] = { &dev_attr_address.attr, NULL };
static const struct attribute_group group = { .attrs = attributes };
static const struct attribute_group *groups[] = { &group, NULL };

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kumiki-osnode-watch",
	.fops = &operations,
	.groups = groups,
	.mode = 0600,
};

static int __init watch_init(void)
{
	int error;

	BUILD_BUG_ON(offsetof(struct osnode_watch, beats) != 0x400);
	BUILD_BUG_ON(offsetof(struct osnode_watch, text) != 0x1000);
	watch = alloc_pages_exact(sizeof(*watch), GFP_KERNEL | __GFP_ZERO);
	if (!watch)
		return -ENOMEM;
	watch->version = OSNODE_VERSION;
	beating = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "kumiki/osnode:watch", come, go);
	error = min(beating, 0);
	if (error)
		goto page;
	error = misc_register(&device);
	if (error)
		goto timers;
	atomic_notifier_chain_register(&panic_notifier_list, &panic_block);
	smp_store_release(&watch->magic, OSNODE_WATCH_MAGIC);
	return 0;
timers:
	cpuhp_remove_state(beating);
page:
	free_pages_exact(watch, sizeof(*watch));
	return error;
}

/* A node may look on, at whatever the page is then: without the magic it is nothing to it. */
static void __exit watch_exit(void)
{
	WRITE_ONCE(watch->magic, 0);
	atomic_notifier_chain_unregister(&panic_notifier_list, &panic_block);
	misc_deregister(&device);
	cpuhp_remove_state(beating);
	free_pages_exact(watch, sizeof(*watch));
}

module_init(watch_init);
module_exit(watch_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: signs of life for a node that watches its host");
MODULE_VERSION("0.1.0");
