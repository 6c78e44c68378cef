/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parallel system calls inside the kernel: what the parts of the module share.
 *
 *   device.c   who may enter, and from which address space
 *   proc.c     a processing thread's stay: looks, serves, sleeps, leaves
 *   wait.c     a requesting thread that makes its own calls with one entry, and waits
 *   line.c     claims: the swaps of a line's word
 *   call.c     calls: copied in, checked, made, their results copied out
 *   mwait.c    the other device: a wait in kernel mode for a store to a word
 *
 * User memory is believed never: each field is copied once, then checked, then used; and
 * what a claim says is read after it. What the module does not make (a filter or tracer
 * looks on, the thread has a signal, the call is for its own thread) it hands back,
 * claimed, to its thread, which makes it by a plain system call: nothing passes by a
 * filter, and nothing is lost.
 */
#ifndef PARASC_MODULE_H
#define PARASC_MODULE_H

#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include <parasc.h>

/* An address space that has the device open: who sleeps there is woken by any of its descriptors. */
struct space {
	struct list_head list;
	unsigned int files;
	struct mm_struct *mm;
	wait_queue_head_t sleepers; /* in PARASC_IOC_PROC */
	wait_queue_head_t waiters; /* in PARASC_IOC_WAIT */
};

/* Calls that are the caller's to make. */
struct calls {
	u64 requests, results; /* addresses in user memory */
	u32 first, last; /* those that are left */
};

/* How the making of calls ended, beside an error. */
enum ended {
	MADE, /* all of them */
	BACK, /* some are left, for the thread to make by itself */
};

/* What a thread has entered with. */
struct stay {
	bool serves; /* others' calls */
	u64 signals; /* returns for these, too */
	bool any_thread; /* makes gettid, which answers for whoever makes it */
	unsigned long made; /* calls */
};

/* How a look at a line's calls is to be shared. */
struct claim {
	struct parasc_line __user *line;
	u32 share; /* half of one part in so many of what is left; 0: all of it */
	u64 state; /* the word as it was swapped in */
	struct calls calls; /* what was claimed */
	u32 made; /* of what was claimed, and the word does not say so yet */
};

int calls_init(void);
int calls_make(struct stay *stay, struct calls *calls);
int call_make_one(struct stay *stay, struct parasc_line __user *line, u32 number);
bool must_leave(const struct stay *stay);

int line_claim_first(struct claim *claim);
int line_claim_last(struct claim *claim);
int line_take(struct parasc_line __user *line, u64 state);
int count_in(u32 __user *word, u32 by);

long proc_serve(struct space *space, struct parasc_proc *proc);
long proc_wake_up(struct space *space, u32 threads);
long wait_make(struct space *space, struct parasc_wait *wait);
void wait_wake(struct space *space, u32 line, u64 state);
void wait_wake_all(struct space *space);

int mwait_init(void);
void mwait_exit(void);

extern unsigned int widen_ns;
extern atomic_long_t calls_made;
extern const struct kernel_param_ops count_operations;

#endif
