// SPDX-License-Identifier: GPL-2.0
/* Claims: swaps of a line's word, and what is read after them. */

#include <linux/delay.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "module.h"

/* Swaps that fail in a row before others on this cpu are looked after. */
#define TRIES 64
/* Of a count, before it is let be. */
#define MOST_TRIES 10000

/* As many calls as a claim takes of what is nobody's. */
static __always_inline u32 part(u64 state, u32 share, u64 most)
{
	u32 first = PARASC_FIRST(state), last = PARASC_LAST(state);
	u32 left = last > first ? last - first : 0;

	if (!share)
		return left;
	return min_t(u32, max_t(u32, min_t(u64, left / (2 * share), most), 1), left);
}

/* Between what is looked at and what is done upon it a test gives others time: no lock is held. */
static void widen(void)
{
	if (unlikely(widen_ns))
		ndelay(min(widen_ns, 100000u));
}

/* Opens the window to a line's memory again, if it was closed to wait. */
#define WIDENED(line)								\
({										\
	bool __open = true;							\
										\
	if (unlikely(widen_ns)) {						\
		user_access_end();						\
		widen();							\
		__open = user_access_begin(line, sizeof(*(line)));		\
	}									\
	__open;									\
})

/*
 * Claims calls: a processing thread the next ones of a batch, and says by the same swap that
 * what it has claimed before is made; the requesting thread the last ones, a single call
 * among them. Returns 1 if there are some, else 0.
 */
static __always_inline int claim_calls(struct claim *claim, bool last)
{
	struct parasc_line __user *line = claim->line;
	u64 old, new, most;
	u32 chunk, tries;

	for (;;) {
		if (!user_access_begin(line, sizeof(*line)))
			return -EFAULT;
		unsafe_get_user(old, &line->state, fault);
		unsafe_get_user(most, &line->words[PARASC_AT_ONCE], fault);
		if (!WIDENED(line))
			return -EFAULT;
		for (tries = 0; tries < TRIES; tries++) {
			chunk = last || PARASC_CALL(old) == PARASC_BATCH ?
				part(old, claim->share, most) : 0;
			if (!chunk && !claim->made) {
				user_access_end();
				return 0;
			}
			new = PARASC_STATE((PARASC_MADE(old) + claim->made) & 0xffff,
					   PARASC_FIRST(old) + (last ? 0 : chunk),
					   PARASC_LAST(old) - (last ? chunk : 0), PARASC_CALL(old));
			if (unsafe_try_cmpxchg_user(&line->state, &old, new, fault))
				goto claimed;
		}
		user_access_end();
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;
	}
claimed:
	claim->state = new;
	claim->made = 0;
	claim->calls.first = last ? PARASC_LAST(new) : PARASC_FIRST(old);
	claim->calls.last = last ? PARASC_LAST(old) : PARASC_FIRST(new);
	if (chunk) {
		if (!WIDENED(line))
			return -EFAULT;
		/* After the swap: it is of that offer. */
		unsafe_get_user(claim->calls.requests, &line->words[PARASC_REQUESTS], fault);
		unsafe_get_user(claim->calls.results, &line->words[PARASC_RESULTS], fault);
	}
	user_access_end();
	return chunk > 0;
fault:
	user_access_end();
	return -EFAULT;
}

int line_claim_first(struct claim *claim)
{
	return claim_calls(claim, false);
}

int line_claim_last(struct claim *claim)
{
	return claim_calls(claim, true);
}

/* Claims the single call that the word `state` shows: 1 for one caller only. */
int line_take(struct parasc_line __user *line, u64 state)
{
	u64 new = PARASC_STATE(PARASC_MADE(state), PARASC_LAST(state), PARASC_LAST(state),
			       PARASC_CALL(state));
	bool taken;

	widen();
	if (!user_access_begin(line, sizeof(*line)))
		return -EFAULT;
	taken = unsafe_try_cmpxchg_user(&line->state, &state, new, fault);
	user_access_end();
	widen();
	return taken;
fault:
	user_access_end();
	return -EFAULT;
}

/* Counts one that sleeps, or no more, so that others know whether to wake any: a full barrier. */
int count_in(u32 __user *word, u32 by)
{
	u32 old, tries;

	if (!user_access_begin(word, sizeof(*word)))
		return -EFAULT;
	unsafe_get_user(old, word, fault);
	/* A thread that writes there all the time hurts its own process only. */
	for (tries = 0; tries < MOST_TRIES; tries++)
		if (unsafe_try_cmpxchg_user(word, &old, old + by, fault))
			break;
	user_access_end();
	return 0;
fault:
	user_access_end();
	return -EFAULT;
}
