/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The layout that node/kernel/uapi/parasc.h promises, in numbers: what a program, the
 * library and the module that were built at different times agree on. A change
 * here needs a new PARASC_VERSION. Compiles or does not; there is nothing to run.
 */
#include <stddef.h>

#include "parasc.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, offset) \
	_Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define IS(name, value) _Static_assert((name) == (value), #name)

SIZE(struct parasc_line, 64);
AT(struct parasc_line, state, 0);
AT(struct parasc_line, words, 8);
AT(struct parasc_line, ret_val, 56);

SIZE(struct parasc_area, 4096);
AT(struct parasc_area, terminate, 0);
AT(struct parasc_area, magic, 4);
AT(struct parasc_area, version, 8);
AT(struct parasc_area, recalls, 12);
AT(struct parasc_area, sleepers, 16);
AT(struct parasc_area, waiters, 20);
AT(struct parasc_area, open_lines, 64);
AT(struct parasc_area, other_lines, 72);
AT(struct parasc_area, asleep_lines, 80);
AT(struct parasc_area, lines, 128);

SIZE(struct parasc_calls, 24);
AT(struct parasc_calls, requests, 0);
AT(struct parasc_calls, results, 8);
AT(struct parasc_calls, first, 16);
AT(struct parasc_calls, last, 20);

SIZE(struct parasc_proc, 88);
AT(struct parasc_proc, area, 0);
AT(struct parasc_proc, length, 8);
AT(struct parasc_proc, spin_ns, 16);
AT(struct parasc_proc, idle_ns, 24);
AT(struct parasc_proc, flags, 32);
AT(struct parasc_proc, share, 36);
AT(struct parasc_proc, recalls, 40);
AT(struct parasc_proc, line, 44);
AT(struct parasc_proc, calls, 48);
AT(struct parasc_proc, made, 72);
AT(struct parasc_proc, reserved, 76);
AT(struct parasc_proc, signals, 80);

SIZE(struct parasc_wait, 56);
AT(struct parasc_wait, area, 0);
AT(struct parasc_wait, line, 8);
AT(struct parasc_wait, share, 12);
AT(struct parasc_wait, calls, 16);
AT(struct parasc_wait, timeout_ns, 40);
AT(struct parasc_wait, min, 48);
AT(struct parasc_wait, flags, 52);

SIZE(struct parasc_mwait, 32);
AT(struct parasc_mwait, word, 0);
AT(struct parasc_mwait, value, 8);
AT(struct parasc_mwait, timeout_ns, 16);
AT(struct parasc_mwait, hint, 24);
AT(struct parasc_mwait, flags, 28);

IS(PARASC_MAGIC, 0x63617270);
IS(PARASC_VERSION, 7);
IS(PARASC_MAX_ARGS, 6);
IS(PARASC_MAX_LINES, 62);
IS(PARASC_BATCH, 0xffff);
IS(PARASC_REQUESTS, 0);
IS(PARASC_RESULTS, 1);
IS(PARASC_AT_ONCE, 2);
IS(PARASC_STATE(1, 2, 3, 4), 0x0004000300020001);
IS(PARASC_IOC_VERSION, 0x8004bd00);
IS(PARASC_IOC_PROC, 0xc058bd01);
IS(PARASC_IOC_WAIT, 0xc038bd02);
IS(PARASC_IOC_WAKE_UP, 0xbd03);
IS(PARASC_IOC_MWAIT, 0x4020bd10);
