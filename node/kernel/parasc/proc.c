// SPDX-License-Identifier: GPL-2.0
/* A processing thread's stay: it looks, serves, sleeps and leaves. */

#include <linux/freezer.h>
#include <linux/ktime.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "module.h"

/* Looks between two looks at the clock. */
#define LOOKS 32
#define MOST_SHARE 4096
/* Jiffies of a sleep between two looks for blocked signals. */
#define LOOK_FOR_SIGNALS max(HZ / 100, 1)

/* What was seen of the area. */
struct view {
	bool told; /* to return */
	int line; /* one that has something to claim, or -1 */
	u64 state; /* its word */
};

/* One window to it all; lines from `after` on come first, so that each has its turn. */
static int look(const struct parasc_proc *proc, u32 after, struct view *view)
{
	struct parasc_area __user *area = u64_to_user_ptr(proc->area);
	u64 open, others, lines, state;
	u32 terminate, recalls;
	int line, half;

	view->line = -1;
	if (!user_access_begin(area, sizeof(*area)))
		return -EFAULT;
	unsafe_get_user(terminate, &area->terminate, fault);
	unsafe_get_user(recalls, &area->recalls, fault);
	unsafe_get_user(open, &area->open_lines, fault);
	unsafe_get_user(others, &area->other_lines, fault);
	view->told = terminate || recalls != proc->recalls;
	open &= ~others & GENMASK_ULL(PARASC_MAX_LINES - 1, 0);
	for (half = 0; half < 2; half++) {
		lines = open & (half ? ~(~0ull << after) : ~0ull << after);
		for (; lines; lines &= lines - 1) {
			line = __builtin_ctzll(lines);
			/* By no index: a check of its bounds is a call, with the window open. */
			unsafe_get_user(state, &(area->lines + line)->state, fault);
			if (PARASC_FIRST(state) < PARASC_LAST(state)) {
				view->line = line;
				view->state = state;
				goto seen;
			}
		}
	}
seen:
	user_access_end();
	return 0;
fault:
	user_access_end();
	return -EFAULT;
}

/* How a line's service ended beside an error: with this reason to return, or with none. */
#define STAYS (-1L)

/* The requesting thread may sleep, and then this one has to wake it. */
static long over(struct space *space, struct parasc_proc *proc, u64 state, u32 line)
{
	struct parasc_area __user *area = u64_to_user_ptr(proc->area);
	u64 asleep;

	/* One that sleeps in PARASC_IOC_WAIT is woken from here. */
	wait_wake(space, line, state);
	if (PARASC_MADE(state) != PARASC_LAST(state) || PARASC_FIRST(state) != PARASC_LAST(state))
		return STAYS;
	if (get_user(asleep, &area->asleep_lines))
		return -EFAULT;
	if (!(asleep >> line & 1))
		return STAYS;
	proc->line = line;
	return PARASC_OVER;
}

static long serve_one(struct stay *stay, struct space *space, struct parasc_proc *proc,
		      const struct view *view)
{
	struct parasc_area __user *area = u64_to_user_ptr(proc->area);
	struct parasc_line __user *line = &area->lines[view->line];
	u32 last = PARASC_LAST(view->state);
	u64 made = PARASC_STATE(last, last, last, PARASC_CALL(view->state));
	int ended = line_take(line, view->state);

	if (ended <= 0)
		return ended ?: STAYS;
	ended = call_make_one(stay, line, PARASC_CALL(view->state));
	if (ended < 0)
		return ended;
	if (ended == BACK) {
		proc->line = view->line;
		proc->calls = (struct parasc_calls){ .last = 1 };
		proc->made = 0;
		return PARASC_CALLS;
	}
	/* Nobody else can swap it: there is nothing to claim. */
	if (put_user(made, &line->state))
		return -EFAULT;
	smp_mb(); /* with the fence after which a requesting thread that sleeps looks */
	return over(space, proc, made, view->line);
}

static long serve_batch(struct stay *stay, struct space *space, struct parasc_proc *proc, u32 line)
{
	struct parasc_area __user *area = u64_to_user_ptr(proc->area);
	struct claim claim = { .line = &area->lines[line], .share = proc->share };
	bool any = false;
	int ended;
	u32 first;

	for (;;) {
		ended = line_claim_first(&claim);
		if (ended <= 0)
			break;
		/* That swap has said what the last one's calls are: made. */
		if (any)
			wait_wake(space, line, claim.state);
		any = true;
		first = claim.calls.first;
		ended = calls_make(stay, &claim.calls);
		if (ended < 0)
			return ended;
		claim.made = claim.calls.first - first;
		if (ended == BACK) {
			proc->line = line;
			proc->calls = (struct parasc_calls){ claim.calls.requests, claim.calls.results,
							     claim.calls.first, claim.calls.last };
			proc->made = claim.made;
			return PARASC_CALLS;
		}
		/* Others' lines are looked at, and this thread's own signals, between two offers. */
		cond_resched();
	}
	/* The word as this thread left it: what it has made was the last of it, or others are at it. */
	return ended ?: any ? over(space, proc, claim.state, line) : STAYS;
}

/* Sleeps until it is woken, if there is nothing to do once it is counted. */
static int sleep(struct space *space, struct parasc_proc *proc, u64 ns)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	struct parasc_area __user *area = u64_to_user_ptr(proc->area);
	long timeout = ns < (u64)LONG_MAX / 2 ? nsecs_to_jiffies(ns) + 1 : MAX_SCHEDULE_TIMEOUT;
	struct view view;
	int error;

	/* Signals that it blocks and is to return for wake nobody: it looks for them now and then. */
	if (proc->signals)
		timeout = min_t(long, timeout, LOOK_FOR_SIGNALS);

	add_wait_queue_exclusive(&space->sleepers, &wait);
	/* A full barrier: partner is the fence of who looks at the count after an offer. */
	error = count_in(&area->sleepers, 1);
	if (!error) {
		error = look(proc, 0, &view);
		if (!error && !view.told && view.line < 0)
			wait_woken(&wait, TASK_INTERRUPTIBLE | TASK_FREEZABLE, timeout);
		error = count_in(&area->sleepers, -1) ?: error;
	}
	remove_wait_queue(&space->sleepers, &wait);
	return error;
}

long proc_wake_up(struct space *space, u32 threads)
{
	long asleep = 0;
	struct wait_queue_entry *wait;
	unsigned long flags;

	spin_lock_irqsave(&space->sleepers.lock, flags);
	list_for_each_entry(wait, &space->sleepers.head, entry)
		asleep++;
	spin_unlock_irqrestore(&space->sleepers.lock, flags);
	if (asleep && threads)
		wake_up_interruptible_nr(&space->sleepers, threads);
	wait_wake_all(space);
	return asleep;
}

static long stay_and_serve(struct stay *stay, struct space *space, struct parasc_proc *proc)
{
	u64 since = ktime_get_ns(), now;
	u32 after = 0, looks = 0;
	bool served = false;
	struct view view;
	long ended;

	for (;;) {
		ended = look(proc, after, &view);
		if (ended)
			return ended;
		if (view.told)
			return PARASC_TOLD;
		if (view.line >= 0) {
			ended = PARASC_CALL(view.state) == PARASC_BATCH ?
				serve_batch(stay, space, proc, view.line) :
				serve_one(stay, space, proc, &view);
			if (ended != STAYS)
				return ended;
			if (must_leave(stay))
				return PARASC_AGAIN;
			/* There may be something in some line for ever. */
			cond_resched_tasks_rcu_qs();
			after = view.line + 1;
			served = true;
			looks = 0;
			since = 0;
			continue;
		}
		after = 0;
		now = 0;
		if (looks++ % LOOKS == 0) {
			now = ktime_get_ns();
			since = since ?: now;
			if (now - since >= max(proc->idle_ns, proc->spin_ns))
				return served ? PARASC_SERVED : PARASC_IDLE;
		}
		if (must_leave(stay))
			return PARASC_AGAIN;
		cond_resched_tasks_rcu_qs();
		cpu_relax();
		if (!now || now - since < proc->spin_ns)
			continue;
		ended = sleep(space, proc, proc->idle_ns - (now - since));
		if (ended)
			return ended;
		/* A sleep that has come to its end is one of being idle: the clock tells. */
		looks = 0;
	}
}

static int check(const struct parasc_proc *proc)
{
	struct parasc_area __user *area = u64_to_user_ptr(proc->area);
	u32 magic, version;

	if (proc->flags & ~PARASC_ANY_THREAD || proc->reserved || proc->area % PAGE_SIZE ||
	    proc->length != sizeof(*area) || !proc->share || proc->share > MOST_SHARE)
		return -EINVAL;
	if (get_user(magic, &area->magic) || get_user(version, &area->version))
		return -EFAULT;
	return magic == PARASC_MAGIC && version == PARASC_VERSION ? 0 : -EINVAL;
}

long proc_serve(struct space *space, struct parasc_proc *proc)
{
	struct stay stay = {
		.serves = true,
		.signals = proc->signals,
		.any_thread = proc->flags & PARASC_ANY_THREAD,
	};
	long ended = check(proc);

	BUILD_BUG_ON(sizeof(struct parasc_area) != 4096);
	if (ended)
		return ended;
	/*
	 * Signals are as the thread has them: one that blocks them here also keeps out what ends
	 * or stops it, and what its C library asks each thread by.
	 */
	ended = stay_and_serve(&stay, space, proc);
	atomic_long_add(stay.made, &calls_made);
	return ended;
}
