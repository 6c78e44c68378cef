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

SIZE(struct parasc_slot, 64);
AT(struct parasc_slot, status, 0);
AT(struct parasc_slot, sysnum, 4);
AT(struct parasc_slot, args_num, 6);
AT(struct parasc_slot, args, 8);
AT(struct parasc_slot, ret_val, 56);

SIZE(struct parasc_area, 4096);
AT(struct parasc_area, terminate, 0);
AT(struct parasc_area, magic, 4);
AT(struct parasc_area, version, 8);
AT(struct parasc_area, open_slots, 64);
AT(struct parasc_area, slots, 128);

SIZE(struct parasc_proc, 32);
AT(struct parasc_proc, area, 0);
AT(struct parasc_proc, length, 8);
AT(struct parasc_proc, idle_ns, 16);
AT(struct parasc_proc, flags, 24);

IS(PARASC_MAGIC, 0x63617270);
IS(PARASC_VERSION, 3);
IS(PARASC_MAX_ARGS, 6);
IS(PARASC_MAX_SLOTS, 62);
IS(PARASC_FREE, 0);
IS(PARASC_REQUESTING, 1);
IS(PARASC_REQUEST, 2);
IS(PARASC_PROCESSING, 3);
IS(PARASC_SUCCESS, 4);
IS(PARASC_ERROR, 5);
IS(PARASC_IOC_VERSION, 0x8004bd00);
IS(PARASC_IOC_PROC, 0x4020bd01);
