/* SPDX-License-Identifier: GPL-2.0 */
/* Made of the table of calls by a test of lib/calls, which compares it: not written by hand. */
#ifndef PARASC_CALLS_H
#define PARASC_CALLS_H

#include <linux/types.h>

#define PARASC_NUMBERS 512

/* Calls that would break the thread that makes them, or change it. */
static const u64 parasc_refused_calls[PARASC_NUMBERS / 64] = {
	0x1f00000401008000,
	0x4cb6062000000000,
	0x0000300060000085,
	0x070040800c002000,
	0x2010000000030000,
	0x000000000001c404,
	0x4008000000000000,
	0x0000000000801000,
};

/* Calls that are for the thread itself to make, by a plain system call. */
static const u64 parasc_own_calls[PARASC_NUMBERS / 64] = {
	0x0000000000004000,
	0xa000000000000000,
	0x0400000000000008,
	0x0000000000080000,
	0x002000000200c000,
	0xfffffffffffe2000,
	0x020004ffffffffff,
	0xffffffffff400800,
};

#endif
