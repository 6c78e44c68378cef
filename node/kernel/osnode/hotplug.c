// SPDX-License-Identifier: GPL-2.0
/* In a node: memory that its host gives it while it runs, and takes back. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>

#include "guest.h"

#ifdef CONFIG_MEMORY_HOTREMOVE
static struct osnode_blocks *blocks;

static struct osnode_block *block_at(u64 address)
{
	unsigned int n;

	for (n = 0; n < OSNODE_PIECES; n++)
		if (blocks->block[n].address == address &&
		    READ_ONCE(blocks->block[n].state) != OSNODE_BLOCK_NONE)
			return &blocks->block[n];
	return NULL;
}

/* From before the kernel knows of it, so that the host does not take it back meanwhile. */
static int add(struct osnode_block *block)
{
	u64 address = block->address, bytes = block->bytes;
	int error;

	if (cmpxchg(&block->state, OSNODE_BLOCK_OFF, OSNODE_BLOCK_ON) != OSNODE_BLOCK_OFF)
		return -EPERM;
	error = add_memory_driver_managed(memory_add_physaddr_to_nid(address), address, bytes,
					  "System RAM (kumiki)", MHP_NONE);
	/* It comes on line by the command line's memhp_default_state. */
	if (!error && !pfn_to_online_page(PHYS_PFN(address + bytes - 1)))
		error = remove_memory(address, bytes) ?: -ENOMEM;
	if (error)
		smp_store_release(&block->state, OSNODE_BLOCK_OFF);
	return error;
}

/* All of it or nothing: what lies there moves elsewhere. */
static int remove(struct osnode_block *block)
{
	int error;

	if (READ_ONCE(block->state) != OSNODE_BLOCK_ON)
		return -EPERM;
	error = offline_and_remove_memory(block->address, block->bytes);
	if (!error)
		smp_store_release(&block->state, OSNODE_BLOCK_OFF);
	return error;
}

void hotplug_begin(void *window)
{
	blocks = window + OSNODE_BLOCKS_AT;
	BUILD_BUG_ON(OSNODE_BLOCKS_AT + sizeof(*blocks) > OSNODE_LOG_AT);
	blocks->unit = memory_block_size_bytes();
}

/* One at a time: two would read the same state. */
int hotplug_change(u64 address, bool on)
{
	static DEFINE_MUTEX(one_at_a_time);
	struct osnode_block *block;
	int error = -ENODEV;

	if (mutex_lock_killable(&one_at_a_time))
		return -EINTR;
	block = block_at(address);
	if (block)
		error = on ? add(block) : remove(block);
	mutex_unlock(&one_at_a_time);
	return error;
}
#else
void hotplug_begin(void *window)
{
}

int hotplug_change(u64 address, bool on)
{
	return -EOPNOTSUPP;
}
#endif
