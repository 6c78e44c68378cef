// SPDX-License-Identifier: GPL-2.0
/* A wait in kernel mode for a store to a word of user memory: MONITOR and MWAIT. */

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <asm/mwait.h>
#include <asm/processor.h>

#include "module.h"
#include "symbols.h"

/*
 * Only C1, by the hint that all processors have it by: which others turn caches off, and how
 * long it takes to leave them, is cpuidle's to know.
 */
#define C1 0
#define C1_LATENCY_NS 2000

/* Another page may take the word's place meanwhile (fork, mremap): so long it is not seen. */
#define ROUND_NS NSEC_PER_MSEC

static atomic_long_t rests;
module_param_cb(rests, &count_operations, &rests, 0444);
MODULE_PARM_DESC(rests, "times that a cpu has rested until a store");

/* How long a cpu may take to come back, by PM QoS; 0 where the kernel has no cpuidle. */
static unsigned long latency_limit;

static bool may_rest(void)
{
	return !latency_limit ||
	       (s64)call_sealed(latency_limit, raw_smp_processor_id(), 0, 0, 0) >= C1_LATENCY_NS;
}

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
 * The page that stores to this word go to: one that has never been written to, or is shared
 * since a fork, is not. What may not be written to only a file's other writers change.
 */
static struct page *page_of(u64 word)
{
	struct page *page;

	if (get_user_pages_fast(word, 1, FOLL_WRITE, &page) == 1)
		return page;
	if (get_user_pages_fast(word, 1, 0, &page) != 1)
		return NULL;
	if (!PageAnon(page) && folio_mapping(page_folio(page)))
		return page;
	put_page(page);
	return NULL;
}

static void monitor(const u64 *word)
{
	if (boot_cpu_has_bug(X86_BUG_CLFLUSH_MONITOR)) {
		mb();
		clflush((void *)word);
		mb();
	}
	__monitor(word, 0, 0);
}

/*
 * The look between MONITOR and MWAIT sees a store before it; one after it ends MWAIT, as any
 * interrupt does, which comes at the earliest when MWAIT has begun (sti's shadow): that of
 * the timer, and those by which a signal and another thread of this cpu come.
 */
static void rest(const u64 *word, u64 value, struct hrtimer *timer, ktime_t end)
{
	preempt_disable();
	/* On the cpu that waits. */
	hrtimer_start(timer, end, HRTIMER_MODE_ABS_PINNED_HARD);
	local_irq_disable();
	monitor(word);
	if (READ_ONCE(*word) == value && !need_resched() && !signal_pending(current) &&
	    hrtimer_active(timer)) {
		atomic_long_inc(&rests);
		__sti_mwait(C1, 0);
	} else {
		local_irq_enable();
	}
	preempt_enable();
}

/* Until the word is another, a signal comes, or `end`: 0, -EINTR, -ETIMEDOUT. */
static int wait_on_page(const u64 *word, u64 value, struct hrtimer *timer, ktime_t end)
{
	while (READ_ONCE(*word) == value) {
		if (signal_pending(current))
			return -EINTR;
		if (ktime_compare(ktime_get(), end) >= 0)
			return -ETIMEDOUT;
		cond_resched();
		if (may_rest())
			rest(word, value, timer, end);
		else
			cpu_relax();
	}
	return 0;
}

static int wait_for_store(const struct parasc_mwait *wait, struct hrtimer *timer)
{
	ktime_t now = ktime_get();
	ktime_t end = ktime_add_ns(now, min_t(u64, wait->timeout_ns, KTIME_MAX / 2));
	ktime_t round;
	struct page *page;
	void *mapped;
	int error;

	do {
		round = ktime_add_ns(now, ROUND_NS);
		if (ktime_compare(end, round) < 0)
			round = end;
		page = page_of(wait->word);
		if (!page)
			return -EFAULT;
		mapped = kmap_local_page(page);
		error = wait_on_page(mapped + offset_in_page(wait->word), wait->value, timer, round);
		kunmap_local(mapped);
		put_page(page);
		now = ktime_get();
	} while (error == -ETIMEDOUT && ktime_compare(now, end) < 0);
	return error;
}

static long mwait_ioctl(struct file *file, unsigned int request, unsigned long value)
{
	struct parasc_mwait wait;
	struct hrtimer timer;
	long error;

	if (request != PARASC_IOC_MWAIT)
		return -ENOTTY;
	if (copy_from_user(&wait, (void __user *)value, sizeof(wait)))
		return -EFAULT;
	if (wait.flags || wait.hint != C1 || wait.word % sizeof(u64))
		return -EINVAL;
	timer_setup_here(&timer);
	error = wait_for_store(&wait, &timer);
	hrtimer_cancel(&timer);
	destroy_hrtimer_on_stack(&timer);
	return error;
}

/* Where the kernel itself does not idle by it (idle=, a processor whose MONITOR misses stores). */
static int mwait_open(struct inode *inode, struct file *file)
{
	if (!boot_cpu_has(X86_FEATURE_MWAIT) || boot_cpu_has_bug(X86_BUG_MONITOR) ||
	    boot_option_idle_override != IDLE_NO_OVERRIDE)
		return -ENODEV;
	return 0;
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
	latency_limit = symbol("cpuidle_governor_latency_req");
	return misc_register(&device);
}

void mwait_exit(void)
{
	misc_deregister(&device);
}
