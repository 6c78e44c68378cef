// SPDX-License-Identifier: GPL-2.0
/* A requesting thread that makes its own calls with one entry. */

#include <linux/uaccess.h>

#include "module.h"

#define MOST_SHARE 4096
#define MOST_CALLS (1u << 24)

static int check(const struct parasc_wait *wait)
{
	struct parasc_area __user *area = u64_to_user_ptr(wait->area);
	u32 magic, version;

	if (wait->calls.first > wait->calls.last || wait->calls.last > MOST_CALLS ||
	    wait->share > MOST_SHARE || wait->line >= PARASC_MAX_LINES || wait->area % PAGE_SIZE)
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

	while (!must_leave(stay)) {
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

long wait_make(struct parasc_wait *wait)
{
	struct stay stay = {};
	int ended = check(wait);

	if (!ended)
		ended = make_own(&stay, wait);
	if (ended == MADE && wait->area)
		ended = make_last(&stay, wait);
	atomic_long_add(stay.made, &calls_made);
	return ended == BACK ? PARASC_CALLS : ended;
}
