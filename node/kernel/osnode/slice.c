// SPDX-License-Identifier: GPL-2.0
/* Room below 1 MiB: a slice a node, or one for several of one cpu, in which a start begins. */

#include <linux/ioport.h>
#include <linux/list.h>
#include <linux/mm.h>

#include "osnode.h"

/* The host keeps the whole first MiB to itself and uses a few pages of it. */
#define FIRST_SLICE 0x10000
#define LOW_END 0x90000

static phys_addr_t real_mode; /* where the host's own part for starts is */

void slices_init(phys_addr_t own)
{
	real_mode = own;
}

/* RAM that the host has set aside, and no page of which it uses. */
static bool slice_is_free(phys_addr_t slice)
{
	struct holding *other;
	phys_addr_t at;

	/* Its own trampoline has at most 64 KiB. */
	if (real_mode < slice + OSNODE_SLICE_BYTES && slice < real_mode + 0x10000)
		return false;
	list_for_each_entry(other, &holdings, list)
		if (other->slice == slice)
			return false;
	for (at = slice; at < slice + OSNODE_SLICE_BYTES; at += PAGE_SIZE)
		if (!page_is_ram(PHYS_PFN(at)) || !PageReserved(pfn_to_page(PHYS_PFN(at))))
			return false;
	return true;
}

/* How many are free, and where the first of them is. Under osnode_lock. */
unsigned int slices_free(phys_addr_t *first)
{
	phys_addr_t slice;
	unsigned int free = 0;

	for (slice = FIRST_SLICE; slice + OSNODE_SLICE_BYTES <= LOW_END; slice += OSNODE_SLICE_BYTES)
		if (slice_is_free(slice) && !free++)
			*first = slice;
	return free;
}

/* Nodes of one cpu share so many: as many of them can start at once. */
#define SHARED_SLICES 4

/* Of those that are shared, the one that the fewest have; `slices`: how many there are. */
static phys_addr_t least_shared(unsigned int *slices)
{
	unsigned int sharers, fewest = UINT_MAX;
	phys_addr_t slice, least = 0;
	struct holding *other;

	for (slice = FIRST_SLICE; slice < LOW_END; slice += OSNODE_SLICE_BYTES) {
		sharers = 0;
		list_for_each_entry(other, &holdings, list)
			sharers += other->shares && other->slice == slice;
		*slices += !!sharers;
		if (sharers && sharers < fewest) {
			fewest = sharers;
			least = slice;
		}
	}
	return least;
}

int slice_choose(struct holding *holding)
{
	unsigned int shared = 0;
	phys_addr_t least = holding->shares ? least_shared(&shared) : 0;

	if (shared < SHARED_SLICES && slices_free(&holding->slice))
		return 0;
	holding->slice = least;
	return least ? 0 : -ENOSPC;
}

/* Until its kernel says that it has come so far: with one cpu it has no use for it after that. */
static bool needs_slice(const struct holding *holding)
{
	struct osnode_window *window = holding->window;

	return holding->low && (holding->state != RUNNING ||
				READ_ONCE(window->lent) != OSNODE_NOT_LENT ||
				READ_ONCE(window->state) < OSNODE_BOOTING);
}

/* For the next start of it. -EBUSY: a node that shares it starts. */
int slice_claim(struct holding *holding)
{
	struct holding *other;

	list_for_each_entry(other, &holdings, list)
		if (other != holding && other->slice && other->slice == holding->slice &&
		    needs_slice(other))
			return -EBUSY;
	holding->low = true;
	return 0;
}
