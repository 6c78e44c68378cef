/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The layout that kernel/uapi/parasc.h promises, in numbers: what a program, the
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
AT(struct parasc_area, open_lines, 64);
AT(struct parasc_area, lines, 128);

SIZE(struct parasc_proc, 32);
AT(struct parasc_proc, area, 0);
AT(struct parasc_proc, length, 8);
AT(struct parasc_proc, idle_ns, 16);
AT(struct parasc_proc, flags, 24);

IS(PARASC_MAGIC, 0x63617270);
IS(PARASC_VERSION, 4);
IS(PARASC_MAX_ARGS, 6);
IS(PARASC_MAX_LINES, 62);
IS(PARASC_BATCH, 0xffff);
IS(PARASC_REQUESTS, 0);
IS(PARASC_RESULTS, 1);
IS(PARASC_AT_ONCE, 2);
IS(PARASC_STATE(1, 2, 3, 4), 0x0004000300020001);
IS(PARASC_IOC_VERSION, 0x8004bd00);
IS(PARASC_IOC_PROC, 0x4020bd01);
