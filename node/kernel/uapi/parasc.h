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
 * words[PARASC_AT_ONCE] how many calls to claim at once, at most. The others say which
 * threads outside of the kernel it is for.
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
#define PARASC_VERSION 7

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
	__u32 recalls; /* changes: processing threads inside the kernel return */
	__u32 sleepers; /* so many of these sleep there */
	__u32 waiters; /* so many requesting threads sleep in PARASC_IOC_WAIT */
	__u32 reserved0[10];
	__u64 open_lines; /* bit i: there may be an offer in line i */
	__u64 other_lines; /* bit i: not for threads inside the kernel */
	__u64 asleep_lines; /* bit i: the requesting thread of line i waits to be woken */
	__u64 reserved1[5];
	struct parasc_line lines[PARASC_MAX_LINES];
};

/*
 * The kernel module. A descriptor of the device belongs to the address space that has
 * opened it; another one's request is -EPERM, as is a request to make calls of a thread
 * that a seccomp filter, a tracer or audit looks at: they would not see them. An area that
 * is not one is -EINVAL, an unknown request -ENOTTY.
 *
 * PARASC_IOC_PROC  the thread is a processing thread inside the kernel. It makes calls of
 *     the lines in `open_lines` that are not in `other_lines`, with its own memory, files,
 *     credentials, limits and blocked signals.
 * PARASC_IOC_WAIT  the requesting thread makes calls of its own with one entry: those of
 *     `calls`, and then those of its line, from the end, until there is nothing to claim.
 *     With `min` it then sleeps until so many of the line's are made by others, or all of
 *     the offer: threads in PARASC_IOC_PROC wake it without leaving.
 * PARASC_IOC_WAKE_UP  wakes up to so many threads of this address space that sleep in
 *     PARASC_IOC_PROC, and returns how many sleep; and all that sleep in PARASC_IOC_WAIT,
 *     which look again. Threads outside that make calls of a line ask for it, if `waiters`
 *     is not 0 after a full barrier.
 *
 * Both return with calls that they have claimed and not made where the thread has to look
 * after itself: it has a signal, it is to stop, a filter or a tracer has come, or the call
 * is for its own thread, or an ioctl of this module. The thread makes `calls` by plain system
 * calls. A call that would break the thread (exec, exit, fork) is answered -EPERM. A call
 * that a signal has interrupted is answered -EINTR in PARASC_IOC_WAIT; in PARASC_IOC_PROC,
 * where it is another thread's, it is handed back to be made again, its time anew.
 *
 * The process checks a request before it offers it, but any of its threads may
 * write to the area: the module believes nothing that it reads there.
 */
#define PARASC_DEVICE "/dev/kumiki-parasc"

/* Calls that are the thread's to make: first <= i < last. */
struct parasc_calls {
	__u64 requests; /* address of call 0, a struct parasc_call */
	__u64 results; /* address of its result, an __s64 */
	__u32 first;
	__u32 last;
};

/* Makes gettid too, which answers for the processing thread: for measurements. */
#define PARASC_ANY_THREAD 1u

/* Why PARASC_IOC_PROC has returned. */
#define PARASC_IDLE 0 /* there has been nothing to claim for `idle_ns` */
#define PARASC_TOLD 1 /* the termination flag is set, or `recalls` is another */
#define PARASC_AGAIN 2 /* the thread has a signal or some such: it comes again after it */
#define PARASC_OVER 3 /* an offer of `line` is over, whose bit is set in `asleep_lines` */
#define PARASC_CALLS 4 /* `calls` of `line` are claimed; of the same claim `made` are made */
#define PARASC_SERVED 5 /* as PARASC_IDLE, after it has made some */

struct parasc_proc {
	__u64 area; /* address of struct parasc_area */
	__u64 length; /* of the whole area, bytes */
	__u64 spin_ns; /* looks for so long without a call to make, and then sleeps */
	__u64 idle_ns; /* returns after so long without a call to make */
	__u32 flags; /* PARASC_ANY_THREAD; anything else is -EINVAL */
	__u32 share; /* claims half of one part in so many of what is left; 1 to 4096 */
	__u32 recalls; /* what the area says */
	__u32 line; /* out */
	struct parasc_calls calls; /* out; of a single call 0 to 1, the rest is in the line */
	__u32 made; /* out */
	__u32 reserved; /* 0 */
	__u64 signals; /* returns for these between two offers, though they are blocked; bit n - 1 */
};

/* PARASC_IOC_WAIT returns 0: all made that were to be claimed; PARASC_CALLS: `calls` are left. */
struct parasc_wait {
	__u64 area; /* address of struct parasc_area; 0: `calls` only */
	__u32 line;
	__u32 share; /* as of struct parasc_proc; 0: all that is left */
	struct parasc_calls calls; /* in: nobody else's; out: those left of these or of the line */
	__u64 timeout_ns; /* of the sleep, then -ETIMEDOUT; after a signal: what is left */
	__u32 min; /* 0: does not sleep; 1: until any call of the line is made */
	__u32 flags; /* PARASC_CLAIMS_NONE; anything else is -EINVAL */
};

/* Leaves the line's calls to others. */
#define PARASC_CLAIMS_NONE 1u

#define PARASC_IOC_TYPE 0xbd
/* Gives PARASC_VERSION of the module. Never changes itself. */
#define PARASC_IOC_VERSION _IOR(PARASC_IOC_TYPE, 0, __u32)
#define PARASC_IOC_PROC _IOWR(PARASC_IOC_TYPE, 1, struct parasc_proc)
#define PARASC_IOC_WAIT _IOWR(PARASC_IOC_TYPE, 2, struct parasc_wait)
#define PARASC_IOC_WAKE_UP _IO(PARASC_IOC_TYPE, 3)

/*
 * The same module's other device: waits in kernel mode (MONITOR, MWAIT) for a store to a
 * word. Opening it is -ENODEV where the processor shows no MONITOR, or the kernel does not
 * idle by it. A word that may not be written to, and is of no file, is -EFAULT. A store to
 * another page that has taken the word's place (fork, mremap) is seen within a millisecond.
 */
#define PARASC_MWAIT_DEVICE "/dev/kumiki-mwait"

struct parasc_mwait {
	__u64 word; /* address of a __u64 */
	__u64 value; /* returns 0 as soon as the word is another */
	__u64 timeout_ns; /* after so long -ETIMEDOUT */
	__u32 hint; /* MWAIT's: 0, C1; anything else is -EINVAL */
	__u32 flags; /* 0; anything else is -EINVAL */
};

#define PARASC_IOC_MWAIT _IOW(PARASC_IOC_TYPE, 16, struct parasc_mwait)

#endif /* KUMIKI_UAPI_PARASC_H */
