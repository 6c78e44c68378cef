/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR Apache-2.0 OR MIT */
/*
 * Parallel system calls: the memory that requesting and processing threads share.
 *
 *   parasc_area, a page of 4096 bytes
 *   +---------------------------------------+
 *   | 128 bytes; first word: termination    |
 *   +---------------------------------------+
 *   | line 0 ... line 61, 64 bytes each:    |
 *   | one for each requesting thread, the   |
 *   | last one for requests placed by hand  |
 *   +---------------------------------------+
 *
 * Source: Nakamura, "Parallelising system calls by shared memory", 2018,
 * section 3.2 and table 1. All words are in the machine's byte order.
 *
 * A line is what its requesting thread offers: one call, or a batch. Whose each call
 * is says one word, of four fields of 16 bits:
 *
 *   made    calls before `first` that have been made
 *   first   calls from the start on that processing threads have claimed
 *   last    calls from here on are the requesting thread's own
 *   call    a system call's number, or PARASC_BATCH
 *
 *        0               first                  last             calls
 *        |-----------------|----------------------|----------------|
 *        claimed by         nobody's yet           the requesting
 *        processing threads >                    < thread's
 *
 * One call: its number is in the word, its arguments are words[0..5], those that do
 * not count 0, and its result is in ret_val. A batch: words[PARASC_REQUESTS] is the
 * address of its requests (struct parasc_call of <kumiki/parasc.h>: __u16 sysnum,
 * __u16 args_num, __u64 args[6]), words[PARASC_RESULTS] that of an __s64 for each,
 * words[PARASC_AT_ONCE] how many calls to claim at once, at most.
 *
 *   change                          by                             order
 *   the other words, then the word  the requesting thread, whose   release
 *   { 0, 0, calls, call }           last offer is over
 *   first grows by a chunk, made    a processing thread, by one    acquire,
 *   by the last chunk               compare and swap               release
 *   last shrinks by a chunk         the requesting thread, by      relaxed
 *                                   compare and swap
 *   last grows by one, after its    whoever places a request by    release
 *   request                         hand, in the last line
 *   made = 1, after ret_val         who has claimed a single call  release
 *   over: made = first = last       the requesting thread looks    acquire
 *
 * Who claims calls by a swap that finds the word as it was makes them, once. The word
 * may be that of a later offer than the one that was looked at, so all other words are
 * read after the swap. They stay until the offer is over.
 *
 * The paper's statuses of a request, by the word of its line, number i of the offer:
 *
 *   FREE            over, and its result has been taken
 *   REQUESTING      over, while the requesting thread writes the other words
 *   REQUEST         first <= i < last
 *   PROCESSING      i < first or last <= i, and not over
 *   SUCCESS, ERROR  over; the result, an error if it is in -4095..-1
 *
 * In the last line a batch grows: requests that any threads have placed by hand. When
 * it is over it may go on at another request, with made = first = last there. Requests
 * that were submitted, or that sleep, wait in a queue of the process, which is no part
 * of the area.
 */
#ifndef KUMIKI_UAPI_PARASC_H
#define KUMIKI_UAPI_PARASC_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PARASC_MAGIC 0x63617270u /* "prac" */
#define PARASC_VERSION 4

#define PARASC_MAX_ARGS 6
#define PARASC_MAX_LINES 62

/* In place of a system call's number: the calls stand elsewhere. */
#define PARASC_BATCH 0xffffu

/* The fields of a line's word. */
#define PARASC_MADE(state) ((state) & 0xffff)
#define PARASC_FIRST(state) ((state) >> 16 & 0xffff)
#define PARASC_LAST(state) ((state) >> 32 & 0xffff)
#define PARASC_CALL(state) ((state) >> 48 & 0xffff)
#define PARASC_STATE(made, first, last, call) \
	((__u64)(made) | (__u64)(first) << 16 | (__u64)(last) << 32 | (__u64)(call) << 48)

/* Which word of a batch's line is what. */
#define PARASC_REQUESTS 0
#define PARASC_RESULTS 1
#define PARASC_AT_ONCE 2

/* What one requesting thread offers. */
struct parasc_line {
	__u64 state;
	__u64 words[PARASC_MAX_ARGS];
	__s64 ret_val; /* of a single call: its result or -errno */
};

struct parasc_area {
	__u32 terminate; /* not 0: processing threads return */
	__u32 magic;
	__u32 version;
	__u32 reserved0[13];
	__u64 open_lines; /* bit i: there may be an offer in line i */
	__u64 reserved1[7];
	struct parasc_line lines[PARASC_MAX_LINES];
};

/*
 * The kernel module, which this version has not. A thread that opens the device and
 * enters PARASC_IOC_PROC is a processing thread: it makes calls of the lines in
 * `open_lines` with its own memory, files, credentials and limits, until the termination
 * flag is set or there has been nothing to claim for `idle_ns`. Both are a return of 0,
 * and the thread does its waiting itself. The module changes words and wakes no thread;
 * a requesting thread that sleeps looks again by itself.
 *
 * The process checks a request before it offers it, but any of its threads may
 * write to the area: the module believes nothing that it reads there.
 *
 * The module refuses a thread under seccomp (-EPERM): the filter would not see
 * the calls. An area that is not one is -EINVAL, an unknown request -ENOTTY.
 * Requests that would break the thread (exec, exit, fork, ...) are answered -EPERM.
 */
#define PARASC_DEVICE "/dev/kumiki-parasc"

struct parasc_proc {
	__u64 area; /* address of struct parasc_area */
	__u64 length; /* of the whole area, bytes */
	__u64 idle_ns; /* return after so long without a call to make */
	__u64 flags; /* 0; anything else is -EINVAL */
};

#define PARASC_IOC_TYPE 0xbd
/* Gives PARASC_VERSION of the module. Never changes itself. */
#define PARASC_IOC_VERSION _IOR(PARASC_IOC_TYPE, 0, __u32)
#define PARASC_IOC_PROC _IOW(PARASC_IOC_TYPE, 1, struct parasc_proc)

#endif /* KUMIKI_UAPI_PARASC_H */
