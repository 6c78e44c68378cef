/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR Apache-2.0 OR MIT */
/*
 * Parallel system calls: the memory that requesting and processing threads share.
 *
 *   parasc_area, a page of 4096 bytes
 *   +---------------------------------------+
 *   | 128 bytes; first word: termination    |
 *   +---------------------------------------+
 *   | slot 0 ... slot 61, 64 bytes each:    |
 *   | one for each requesting thread        |
 *   +---------------------------------------+
 *
 * Source: Nakamura, "Parallelising system calls by shared memory", 2018,
 * section 3.2 and table 1. All words are in the machine's byte order.
 *
 * A slot changes its owner by its status, and by nothing else:
 *
 *   from        to          by                                  order
 *   FREE, SUCCESS/ERROR  REQUEST  the thread whose slot it is      release
 *   REQUEST     PROCESSING  who executes it, or ends the area
 *                           (-ECANCELED), compare and swap         acquire
 *   PROCESSING  SUCCESS/ERROR  the same                            release
 *
 * The thread that wins the swap from REQUEST to PROCESSING executes the call,
 * once.
 *
 * A slot holds a single request that its thread hands over. A batch is no part of
 * the area: the requesting thread offers its calls where they stand in the process's
 * memory. Nor are requests that any thread has placed, which wait in a queue.
 */
#ifndef KUMIKI_UAPI_PARASC_H
#define KUMIKI_UAPI_PARASC_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PARASC_MAGIC 0x63617270u /* "prac" */
#define PARASC_VERSION 3

#define PARASC_MAX_ARGS 6
#define PARASC_MAX_SLOTS 62

enum parasc_status {
	PARASC_FREE = 0,
	PARASC_REQUESTING = 1, /* the paper's: while a request is written */
	PARASC_REQUEST = 2,
	PARASC_PROCESSING = 3,
	PARASC_SUCCESS = 4,
	PARASC_ERROR = 5,
};

/* One system call. */
struct parasc_slot {
	__u32 status; /* enum parasc_status */
	__u16 sysnum; /* number of the system call, of this machine's table */
	__u16 args_num; /* 0..PARASC_MAX_ARGS; the module answers more with -EINVAL */
	__u64 args[PARASC_MAX_ARGS];
	__s64 ret_val; /* what the call returned: a result or -errno */
};

struct parasc_area {
	__u32 terminate; /* not 0: processing threads return */
	__u32 magic;
	__u32 version;
	__u32 reserved0[13];
	__u64 open_slots; /* bit i: slot i may hold a request */
	__u64 reserved1[7];
	struct parasc_slot slots[PARASC_MAX_SLOTS];
};

/*
 * The kernel module. A thread that opens the device and enters PARASC_IOC_PROC
 * is a processing thread: it executes requests of the slots in `open_slots` with
 * its own memory, files, credentials and limits, until the termination flag is set
 * or there has been no request for `idle_ns`. Both are a return of 0, and the thread does its
 * waiting itself. The module sets a slot's status and wakes no thread; a
 * requesting thread that sleeps looks again by itself.
 *
 * The process checks a request before it places it, but any of its threads may
 * write to the area: the module believes nothing that it reads there.
 *
 * The module refuses a thread under seccomp (-EPERM): the filter would not see
 * the calls. An area that is not one is -EINVAL, an unknown request -ENOTTY.
 * Requests that would break the thread (exec, exit, fork, ...) are answered in
 * their slots with -EPERM.
 */
#define PARASC_DEVICE "/dev/kumiki-parasc"

struct parasc_proc {
	__u64 area; /* address of struct parasc_area */
	__u64 length; /* of the whole area, bytes */
	__u64 idle_ns; /* return after so long without a request */
	__u64 flags; /* 0; anything else is -EINVAL */
};

#define PARASC_IOC_TYPE 0xbd
/* Gives PARASC_VERSION of the module. Never changes itself. */
#define PARASC_IOC_VERSION _IOR(PARASC_IOC_TYPE, 0, __u32)
#define PARASC_IOC_PROC _IOW(PARASC_IOC_TYPE, 1, struct parasc_proc)

#endif /* KUMIKI_UAPI_PARASC_H */
