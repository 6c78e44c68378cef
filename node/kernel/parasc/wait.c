// SPDX-License-Identifier: GPL-2.0
/* A requesting thread that makes its own calls with one entry, and waits for others'. */

#include <linux/freezer.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "module.h"

#define MOST_SHARE 4096
#define MOST_CALLS (1u << 24)

/* A thread that sleeps until so many calls of a line are made. */
struct waiter {
	struct wait_queue_entry entry;
	u32 line, min;
};

/* What a line's word says to those who wait for it. */
struct word {
	u32 line;
	u64 state;
};

static bool is_reached(u64 state, u32 min)
{
	bool over = PARASC_MADE(state) == PARASC_LAST(state) &&
		    PARASC_FIRST(state) == PARASC_LAST(state);

	return over || PARASC_MADE(state) >= min;
}

/* Of a word that is another line's, or that is not what is waited for, it does not wake. */
static int wake_if_reached(struct wait_queue_entry *entry, unsigned int mode, int sync, void *key)
{
	const struct waiter *waiter = container_of(entry, struct waiter, entry);
	const struct word *word = key;

	if (word && (word->line != waiter->line || !is_reached(word->state, waiter->min)))
		return 0;
	return woken_wake_function(entry, mode, sync, NULL);
}

/* By who has swapped the word in, or has made its store seen: partner is the barrier of count_in(). */
void wait_wake(struct space *space, u32 line, u64 state)
{
	struct word word = { line, state };

	if (unlikely(waitqueue_active(&space->waiters)))
		__wake_up(&space->waiters, TASK_NORMAL, 0, &word);
}

/* They look by themselves. */
void wait_wake_all(struct space *space)
{
	__wake_up(&space->waiters, TASK_NORMAL, 0, NULL);
}

static int check(const struct parasc_wait *wait)
{
	struct parasc_area __user *area = u64_to_user_ptr(wait->area);
	u32 magic, version;

	if (wait->calls.first > wait->calls.last || wait->calls.last > MOST_CALLS ||
	    wait->share > MOST_SHARE || wait->line >= PARASC_MAX_LINES || wait->area % PAGE_SIZE ||
	    wait->flags & ~PARASC_CLAIMS_NONE || (wait->min && !wait->area))
		return -EINVAL;
	if (!wait->area)
		return 0;
	if (get_user(magic, &area->magic) || get_user(version, &area->version))
		return -EFAULT;
	return magic == PARASC_MAGIC && version == PARASC_VERSION ? 0 : -EINVAL;
}

static int make_own(struct stay *stay, struct parasc_wait *wait)
{
	struct calls calls = { wait->calls.requests, wait->calls.results, wait->calls.first,
			       wait->calls.last };
	int ended = calls_make(stay, &calls);

	wait->calls.first = calls.first;
	return ended;
}

static int make_last(struct stay *stay, struct parasc_wait *wait)
{
	struct parasc_area __user *area = u64_to_user_ptr(wait->area);
	struct claim claim = { .line = &area->lines[wait->line], .share = wait->share };
	int ended;

	/* Others may offer in its line for ever. */
	for (; !must_leave(stay); cond_resched()) {
		ended = line_claim_last(&claim);
		if (ended <= 0)
			return ended;
		if (PARASC_CALL(claim.state) == PARASC_BATCH) {
			ended = calls_make(stay, &claim.calls);
		} else {
			ended = call_make_one(stay, claim.line, PARASC_CALL(claim.state));
			claim.calls.first += ended == MADE;
		}
		if (ended != MADE) {
			wait->calls = (struct parasc_calls){ claim.calls.requests, claim.calls.results,
							     claim.calls.first, claim.calls.last };
			return ended;
		}
	}
	return BACK;
}

/* Looks, and sleeps until the next look is worth while. What is left of the time it leaves for the entry after a signal. */
static int wait_in_queue(struct waiter *waiter, u64 __user *word, u64 *timeout_ns)
{
	bool limited = *timeout_ns < (u64)LONG_MAX / 2;
	u64 end = ktime_get_ns() + *timeout_ns, now;
	long left = MAX_SCHEDULE_TIMEOUT;
	u64 state;

	for (;;) {
		if (get_user(state, word))
			return -EFAULT;
		if (is_reached(state, waiter->min))
			return 0;
		if (limited) {
			now = ktime_get_ns();
			*timeout_ns = end - min(now, end);
			if (!*timeout_ns)
				return -ETIMEDOUT;
			left = nsecs_to_jiffies(*timeout_ns) + 1;
		}
		if (signal_pending(current))
			return -ERESTARTSYS;
		wait_woken(&waiter->entry, TASK_INTERRUPTIBLE | TASK_FREEZABLE, left);
	}
}

static int wait_until_made(struct space *space, struct parasc_wait *wait)
{
	struct parasc_area __user *area = u64_to_user_ptr(wait->area);
	struct waiter waiter = {
		.entry = { .private = current, .func = wake_if_reached },
		.line = wait->line,
		.min = wait->min,
	};
	int error;

	INIT_LIST_HEAD(&waiter.entry.entry);
	add_wait_queue(&space->waiters, &waiter.entry);
	error = count_in(&area->waiters, 1);
	if (!error) {
		error = wait_in_queue(&waiter, &area->lines[wait->line].state, &wait->timeout_ns);
		error = count_in(&area->waiters, -1) ?: error;
	}
	remove_wait_queue(&space->waiters, &waiter.entry);
	return error;
}

long wait_make(struct space *space, struct parasc_wait *wait)
{
	struct stay stay = {};
	int ended = check(wait);

	if (!ended)
		ended = make_own(&stay, wait);
	if (ended == MADE && wait->area && !(wait->flags & PARASC_CLAIMS_NONE))
		ended = make_last(&stay, wait);
	atomic_long_add(stay.made, &calls_made);
	if (ended == MADE && wait->min)
		ended = wait_until_made(space, wait);
	return ended == BACK ? PARASC_CALLS : ended;
}
