// SPDX-License-Identifier: GPL-2.0
/* A wait in kernel mode for a store to a word of user memory: MONITOR and MWAIT. */

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <asm/mwait.h>

#include "module.h"

/* MWAIT's hints up to C2: no processor turns its caches off by them. */
#define MOST_HINT 0x20

/* The interrupt is what ends the wait. */
static enum hrtimer_restart wake(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static void timer_setup_here(struct hrtimer *timer)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup_on_stack(timer, wake, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
#else
	hrtimer_init_on_stack(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	timer->function = wake;
#endif
}

/*
 * The look between MONITOR and MWAIT sees a store before it; one after it ends MWAIT, as any
 * interrupt does, which comes at the earliest when MWAIT has begun (sti's shadow).
 */
static int wait_for_store(const u64 *word, const struct parasc_mwait *wait)
{
	ktime_t end = ktime_add_ns(ktime_get(), min_t(u64, wait->timeout_ns, KTIME_MAX / 2));
	struct hrtimer timer;
	int error = 0;

	timer_setup_here(&timer);
	while (READ_ONCE(*word) == wait->value) {
		if (signal_pending(current)) {
			error = -EINTR;
			break;
		}
		if (ktime_compare(ktime_get(), end) >= 0) {
			error = -ETIMEDOUT;
			break;
		}
		cond_resched();
		preempt_disable();
		/* On the cpu that waits. */
		hrtimer_start(&timer, end, HRTIMER_MODE_ABS_PINNED_HARD);
		local_irq_disable();
		__monitor(word, 0, 0);
		if (READ_ONCE(*word) == wait->value && !need_resched() && hrtimer_active(&timer))
			__sti_mwait(wait->hint, 0);
		else
			local_irq_enable();
		preempt_enable();
	}
	hrtimer_cancel(&timer);
	destroy_hrtimer_on_stack(&timer);
	return error;
}

static long mwait_ioctl(struct file *file, unsigned int request, unsigned long value)
{
	struct parasc_mwait wait;
	struct page *page;
	void *mapped;
	long error;

	if (request != PARASC_IOC_MWAIT)
		return -ENOTTY;
	if (copy_from_user(&wait, (void __user *)value, sizeof(wait)))
		return -EFAULT;
	if (wait.flags || wait.hint > MOST_HINT || wait.word % sizeof(u64))
		return -EINVAL;
	if (get_user_pages_fast(wait.word, 1, 0, &page) != 1)
		return -EFAULT;
	mapped = kmap_local_page(page);
	error = wait_for_store(mapped + offset_in_page(wait.word), &wait);
	kunmap_local(mapped);
	put_page(page);
	return error;
}

static int mwait_open(struct inode *inode, struct file *file)
{
	return boot_cpu_has(X86_FEATURE_MWAIT) ? 0 : -ENODEV;
}

static const struct file_operations mwait_operations = {
	.owner = THIS_MODULE,
	.open = mwait_open,
	.unlocked_ioctl = mwait_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kumiki-mwait",
	.fops = &mwait_operations,
	.mode = 0600,
};

int mwait_init(void)
{
	return misc_register(&device);
}

void mwait_exit(void)
{
	misc_deregister(&device);
}
