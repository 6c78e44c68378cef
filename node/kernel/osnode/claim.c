// SPDX-License-Identifier: GPL-2.0
/*
 * In the host: memory that its kernel does not use, taken off line or kept from it when it started, is
 * a holding's. Apart from osnode.ko, which takes memory from the running kernel and has no need of it.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/xarray.h>
#include <asm/e820/api.h>

#include "osnode.h"
#include "symbols.h"

static unsigned long mapped_raw;

/*
 * An entry for each unit. Who claims enters it and then looks whether memory comes on line; who
 * brings it on line says so and then looks here.
 */
static DEFINE_XARRAY(claimed);
static bool onlining;

static int refuse_claimed(struct notifier_block *block, unsigned long event, void *data)
{
	struct memory_notify *change = data;
	unsigned long unit = PFN_PHYS(change->start_pfn) / OSNODE_PIECE_UNIT;
	unsigned long end = PFN_PHYS(change->start_pfn + change->nr_pages) / OSNODE_PIECE_UNIT;

	smp_store_mb(onlining, event == MEM_GOING_ONLINE);
	if (event == MEM_GOING_ONLINE && xa_find(&claimed, &unit, end - 1, XA_PRESENT))
		return notifier_from_errno(-EBUSY);
	return NOTIFY_OK;
}

static struct notifier_block guard = { .notifier_call = refuse_claimed };

static void unclaim(phys_addr_t from, phys_addr_t end)
{
	for (; from < end; from += OSNODE_PIECE_UNIT) {
		xa_erase(&claimed, from / OSNODE_PIECE_UNIT);
		cond_resched();
	}
}

/* RAM by the firmware's word, no page of which this kernel or another holding uses. One caller at a time. */
static int claim(phys_addr_t address, size_t bytes)
{
	phys_addr_t at, end = address + bytes;
	int error = 0;

	for (at = address; at < end && !error; at += OSNODE_PIECE_UNIT)
		error = xa_insert(&claimed, at / OSNODE_PIECE_UNIT, xa_mk_value(1), GFP_KERNEL);
	if (error)
		end = at - OSNODE_PIECE_UNIT; /* somebody else's entry */
	smp_mb(); /* with smp_store_mb() in refuse_claimed() */
	for (at = address; at < end && !error; at += PAGE_SIZE) {
		if (at % OSNODE_PIECE_UNIT == 0)
			cond_resched();
		if (READ_ONCE(onlining) || pfn_to_online_page(PHYS_PFN(at)) ||
		    !(bool)call_sealed(mapped_raw, at, at + PAGE_SIZE, E820_TYPE_RAM, 0))
			error = -EBUSY;
	}
	if (error)
		unclaim(address, end);
	return error;
}

int osnode_claim(phys_addr_t address, size_t bytes, bool yes)
{
	if (yes)
		return claim(address, bytes);
	unclaim(address, address + bytes);
	return 0;
}
EXPORT_SYMBOL_GPL(osnode_claim);

static int __init claim_init(void)
{
	/* Newer kernels export it to KVM alone. */
	mapped_raw = symbol("e820__mapped_raw_any");
	if (!mapped_raw) {
		pr_err("e820__mapped_raw_any is not in this kernel\n");
		return -ENOENT;
	}
	return register_memory_notifier(&guard);
}

static void __exit claim_exit(void)
{
	unregister_memory_notifier(&guard);
}

module_init(claim_init);
module_exit(claim_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: memory for OS nodes that the host's kernel does not use");
MODULE_VERSION("0.1.0");
