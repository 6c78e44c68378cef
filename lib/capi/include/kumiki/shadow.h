/*
 * Shadow threads: fork and join to a helper beside you in one cache line's
 * round trip, and copying memory with both threads.
 *
 *     struct kumiki_shadow *shadow;
 *     int error = kumiki_shadow_create(&shadow, NULL);
 *     if (error < 0)
 *         return fprintf(stderr, "%s\n", kumiki_last_error()), error;
 *     kumiki_shadow_fork(shadow, theirs, &argument);
 *     ours();
 *     kumiki_shadow_join(shadow);
 *     kumiki_shadow_destroy(shadow);
 *
 * The calling thread becomes the main thread: it is bound to its cpu, and a
 * helper thread waits on the hardware thread beside it, or without SMT on the
 * cpu nearest by shared cache. A helper that gets nothing to do for a while
 * sleeps. It is not for many small tasks but for one at a time, at once.
 *
 * RETURN VALUES. Every function returns 0 or a negative errno value, unless it
 * says otherwise; kumiki_last_error() has the sentence to it. Nothing has
 * happened then, unless said otherwise. Every function may return
 *
 *     -EINVAL   a null pointer, or a value that is none of those named here
 *     -EIO      a defect of the library, caught; destroy the shadow
 *
 * and every function that takes a shadow, except kumiki_shadow_info(), may return
 *
 *     -EDEADLK  called by the function that was forked on this very shadow
 *     -EPERM    called by another thread than the one that created the shadow
 *
 * THREADS. A shadow belongs to the thread that created it, and only that one
 * may use it; any number of threads may have shadows of their own. No function
 * may be called by a signal handler.
 *
 * WAITING. kumiki_shadow_join() waits for the forked function, kumiki_shadow_create() until
 * the new thread is on its cpu, kumiki_shadow_destroy() until the idle helper has ended:
 * each has a form with a time limit, since a thread of higher priority may keep the
 * helper from its cpu. So has kumiki_shadow_copy(), but each form waits for the part that
 * the helper has begun, which takes longer if the helper loses its cpu meanwhile:
 * nothing may write to the destination once a call has returned. And so has
 * kumiki_shadow_copy_prepare(), which waits for jobs that do nothing. Nothing else waits.
 *
 * CPUS. The helper is bound to its cpu. The calling thread is not: kumiki_shadow_fork() looks
 * where it is, and moves the helper beside it if the kernel has put it on the helper's
 * cpu, or far away. With KUMIKI_SHADOW_BIND_MAIN or a main_cpu it is bound, too, until its
 * last such shadow is destroyed, and so is what it starts meanwhile, for good: threads
 * and processes inherit the binding (sched_setaffinity(2)). Start them before, or give
 * them their cpus; the same goes for what a forked function starts. A cpu is free if
 * this thread may use it and no shadow of this process sits there: those of other
 * processes are not known, nor is a cgroup's cpu.max looked at. A forked function may
 * create a shadow of its own; where no cpu is free besides, with KUMIKI_SHADOW_SHARE or
 * KUMIKI_SHADOW_INLINE.
 *
 * STACK. A forked function runs on the helper's stack, 2 MiB unless the environment
 * variable RUST_MIN_STACK says otherwise, or on the main thread's.
 *
 * ORDER. What the main thread wrote before kumiki_shadow_fork() is visible to the
 * forked function. What that wrote is visible to the main thread when
 * kumiki_shadow_join(), or kumiki_shadow_join_timeout(), has returned 0, or
 * kumiki_shadow_is_finished() 1. Between fork and join neither sees the other's plain
 * writes in any order: use atomics.
 *
 * FORK(2). The child has the memory of the shadow but not its helper. There
 * functions forked on it run in kumiki_shadow_join(). What the parent had forked and
 * had not ended then cannot be joined (-ESRCH, once). The child may, and need
 * not, destroy the shadow; that leaves the parent's alone.
 *
 * <shadow.h> of the C library is about passwords; this one is included as
 * <kumiki/shadow.h>.
 */
#ifndef KUMIKI_SHADOW_H
#define KUMIKI_SHADOW_H

#include <stddef.h>
#include <stdint.h>

#include <kumiki/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A main thread and its helper. */
struct kumiki_shadow;

/*
 * What a shadow is to be like. Start from KUMIKI_SHADOW_OPTIONS_INIT, which is what a
 * null pointer means, too.
 */
struct kumiki_shadow_options {
	/* The cpu to bind the calling thread to; -1: where it runs, not bound. */
	int32_t main_cpu;
	/* The helper's cpu, where it stays; -1: the nearest that no shadow uses. */
	int32_t helper_cpu;
	/* KUMIKI_SHADOW_SHARE, KUMIKI_SHADOW_INLINE, KUMIKI_SHADOW_BIND_MAIN; other bits are refused. */
	uint32_t flags;
	/* 0; anything else is refused. */
	uint32_t reserved;
	/*
	 * For how long either side spins before it sleeps, in ticks of the time
	 * stamp counter (nanoseconds where that cannot be trusted), 0 or more; or
	 * KUMIKI_SHADOW_ADAPTIVE, KUMIKI_SHADOW_INFINITE.
	 */
	int64_t threshold_ticks;
};

/* Allows a cpu on which another shadow, or the main thread itself, sits. */
#define KUMIKI_SHADOW_SHARE UINT32_C(1)
/*
 * No helper: functions run in kumiki_shadow_join(), in the calling thread, which is
 * bound to nothing. For machines with one cpu, and to compare.
 */
#define KUMIKI_SHADOW_INLINE UINT32_C(2)
/* Binds the calling thread to the cpu where it runs, see CPUS above. */
#define KUMIKI_SHADOW_BIND_MAIN UINT32_C(4)

/* Spins for as long as has been worth it of late, some microseconds. */
#define KUMIKI_SHADOW_ADAPTIVE INT64_C(-1)
/* Never sleeps. */
#define KUMIKI_SHADOW_INFINITE INT64_C(-2)

#define KUMIKI_SHADOW_OPTIONS_INIT { -1, -1, 0, 0, KUMIKI_SHADOW_ADAPTIVE }

/* What two cpus share; the smaller is the nearer. */
enum kumiki_shadow_relation {
	KUMIKI_SHADOW_SAME = 0,    /* they are one */
	KUMIKI_SHADOW_SIBLING = 1, /* hardware threads of one core */
	KUMIKI_SHADOW_CACHE = 2,   /* two cores with a common cache */
	KUMIKI_SHADOW_NODE = 3,    /* the NUMA node, no cache */
	KUMIKI_SHADOW_PACKAGE = 4, /* the package, not the node */
	KUMIKI_SHADOW_REMOTE = 5   /* nothing, or nothing is known */
};

/* How a wait ends that spinning did not end. */
enum kumiki_shadow_sleep {
	KUMIKI_SHADOW_SLEEP_AUTO = 0,   /* nothing chosen yet */
	KUMIKI_SHADOW_SLEEP_UMWAIT = 1, /* UMONITOR and UMWAIT, Intel */
	KUMIKI_SHADOW_SLEEP_MWAITX = 2, /* MONITORX and MWAITX, AMD */
	KUMIKI_SHADOW_SLEEP_FUTEX = 3,  /* futex(2) */
	KUMIKI_SHADOW_SLEEP_MWAIT = 4   /* MONITOR and MWAIT, by the kernel module */
};

/* Where a shadow sits and how it waits. */
struct kumiki_shadow_info {
	/* The main thread's cpu; -1 with KUMIKI_SHADOW_INLINE. */
	int32_t main_cpu;
	/* The helper's cpu; -1 with KUMIKI_SHADOW_INLINE. */
	int32_t helper_cpu;
	/* What the two share, an enum kumiki_shadow_relation. */
	uint32_t relation;
	/* The level of the common cache, with KUMIKI_SHADOW_CACHE; else 0. */
	uint32_t cache_level;
	/* An enum kumiki_shadow_sleep. */
	uint32_t sleep;
	/*
	 * 1 if a fork needs no memory fence (private expedited membarrier(2) is
	 * allowed), else 0.
	 */
	uint32_t asymmetric;
};

/*
 * How the two threads divide a copy. Which is best when is in the paper (Hori
 * et al., Fig. 9-12); KUMIKI_SHADOW_COPY_AUTO finds out.
 */
enum kumiki_shadow_copy_method {
	/*
	 * One thread for what is small or already in a cache, both for the rest,
	 * and past the caches when it would not fit there anyway. At first the copies
	 * of a process are memcpy's, and those of 1 MiB or more spend a fortieth of
	 * their time on measuring this machine, some hundred copies: see
	 * kumiki_shadow_copy_prepare().
	 */
	KUMIKI_SHADOW_COPY_AUTO = 0,
	/* The main thread copies, the helper runs ahead and fetches the lines. */
	KUMIKI_SHADOW_COPY_PREFETCH = 1,
	/* Each copies every second block of so many bytes. */
	KUMIKI_SHADOW_COPY_BLOCK_256 = 2,
	KUMIKI_SHADOW_COPY_BLOCK_1024 = 3,
	KUMIKI_SHADOW_COPY_BLOCK_4096 = 4,
	/* Each copies one half. */
	KUMIKI_SHADOW_COPY_SPLIT = 5,
	/*
	 * Both past the caches, the main thread alone below 128 KiB and where waking
	 * the helper would take longer: for memory that is known to be in no cache, and
	 * a destination that nobody reads soon. Bytes in a cache take several times as long.
	 * Measures as KUMIKI_SHADOW_COPY_AUTO does, and wakes no helper until that is done.
	 */
	KUMIKI_SHADOW_COPY_COLD = 6
};

/*
 * Starts a helper beside the calling thread, and stores the shadow in *shadow. A null pointer for options means KUMIKI_SHADOW_OPTIONS_INIT.
 * On failure *shadow is untouched and the thread's cpus are what they were.
 *
 *     -EINVAL  also: both cpus the same without KUMIKI_SHADOW_SHARE, or one named with
 *              KUMIKI_SHADOW_INLINE, or KUMIKI_SHADOW_BIND_MAIN; or the environment variable KUMIKI_WAIT is not
 *              auto, umwait, mwaitx, mwait or futex
 *     -ENXIO   a cpu that was asked for is offline, or not among those that
 *              this thread may use (taskset, the cgroup's cpuset)
 *     -ENODEV  no cpu is free: this thread may use only one, or other shadows
 *              have the rest or the one that was asked for; see KUMIKI_SHADOW_SHARE,
 *              KUMIKI_SHADOW_INLINE
 *     -EAGAIN  the kernel gave no thread (RLIMIT_NPROC, RLIMIT_AS, the
 *              cgroup's pids.max)
 *     -ENOTSUP this machine lacks the way to sleep that KUMIKI_WAIT names
 *     other    what the kernel has answered to a call that
 *              kumiki_last_error() names
 */
int kumiki_shadow_create(struct kumiki_shadow **shadow, const struct kumiki_shadow_options *options);

/*
 * The same, but the helper is waited for until timeout_ns nanoseconds are over.
 * Not counted are the milliseconds, once in a process, in which the cost of a sleep
 * is measured.
 *
 *     -ETIMEDOUT  the helper has not come to its cpu; it will end when it does
 *     others      as kumiki_shadow_create()
 */
int kumiki_shadow_create_timeout(struct kumiki_shadow **shadow, const struct kumiki_shadow_options *options,
                          uint64_t timeout_ns);

/*
 * Hands function(argument) to the helper and returns at once. Only a helper
 * that sleeps costs a system call.
 *
 * The function runs once: in the helper, or, if the helper has not begun when
 * it is joined without a limit, in the main thread. It must return: no longjmp(), no
 * pthread_exit(), and an exception that leaves it ends the program.
 *
 *     -EBUSY   the function forked before was not joined
 */
int kumiki_shadow_fork(struct kumiki_shadow *shadow, void (*function)(void *argument), void *argument);

/*
 * Waits for the end of the forked function, without limit.
 *
 *     -ESRCH   there is nothing to join: nothing was forked since the last
 *              join, or it was by the parent before fork(2), and had not
 *              ended then
 *     -EIO     also: the function is a Rust one and has panicked; it is joined
 */
int kumiki_shadow_join(struct kumiki_shadow *shadow);

/*
 * The same, for timeout_ns nanoseconds at most. 0 does not wait. The function is
 * left to the helper, whether begun or not; without a helper (KUMIKI_SHADOW_INLINE, or
 * in a child of fork(2)) it runs here now, however long it takes.
 *
 *     -ETIMEDOUT  it has not ended; join again, whenever
 *     others      as kumiki_shadow_join()
 */
int kumiki_shadow_join_timeout(struct kumiki_shadow *shadow, uint64_t timeout_ns);

/*
 * 1 if the forked function has ended and a join would not wait; 0 if it has
 * not, or if there is none. Without a helper (KUMIKI_SHADOW_INLINE, or in a child of
 * fork(2)) a function ends in its join and not before.
 */
int kumiki_shadow_is_finished(struct kumiki_shadow *shadow);

/*
 * Ends the helper, gives the calling thread its former cpus back if this is the
 * last shadow that has bound it, and frees it. Never waits for a forked function. A null pointer is fine.
 *
 *     -EBUSY   a forked function was not joined: join it first, with a time
 *              limit if it may run for ever. The shadow stays as it was.
 */
int kumiki_shadow_destroy(struct kumiki_shadow *shadow);

/*
 * The same, but the helper's end is waited for until timeout_ns nanoseconds are
 * over; then it comes later, by itself.
 */
int kumiki_shadow_destroy_timeout(struct kumiki_shadow *shadow, uint64_t timeout_ns);

/*
 * Stores in *info where the shadow sits: the main thread, if it is not bound, where it
 * was when it last forked from another cpu than before. Any thread may ask; others than
 * the owner get what that was told last.
 */
int kumiki_shadow_info(const struct kumiki_shadow *shadow, struct kumiki_shadow_info *info);

/*
 * Copies length bytes as memcpy() does, with both threads; returns when all
 * are copied. With length 0 the pointers are not looked at.
 *
 *     -EINVAL  also: the two overlap, where memcpy() would be undefined; or
 *              length is more than an address space holds
 *     -EBUSY   a forked function was not joined: the helper is not free
 */
int kumiki_shadow_copy(struct kumiki_shadow *shadow, void *to, const void *from, size_t length,
                enum kumiki_shadow_copy_method method);

/*
 * The same in stretches of 8 MiB, the first one first, of which none begins when
 * timeout_ns nanoseconds are over. One that has begun is waited for. *copied,
 * unless copied is null, gets how many bytes, the first ones, are copied then: all
 * of them with 0, and nothing is stored with other errors than this one.
 * KUMIKI_SHADOW_COPY_AUTO measures nothing after the limit.
 *
 *     -ETIMEDOUT  not all are copied: to go on, continue after *copied bytes
 */
int kumiki_shadow_copy_timeout(struct kumiki_shadow *shadow, void *to, const void *from, size_t length,
                        enum kumiki_shadow_copy_method method, uint64_t timeout_ns,
                        size_t *copied);

/*
 * Measures at once what KUMIKI_SHADOW_COPY_AUTO needs to know of this machine, so that no
 * copy of this process has to: takes half a millisecond, some 40 if the helper's cpu
 * is busy, and nothing if that was done before.
 *
 *     -EBUSY   a forked function was not joined: the helper is not free
 */
int kumiki_shadow_copy_prepare(struct kumiki_shadow *shadow);

/*
 * The same, but no step of it begins when timeout_ns nanoseconds are over. A step is
 * a fork and join of nothing, or takes the main thread some microseconds; one that
 * has begun is waited for.
 *
 *     -ETIMEDOUT  not all was measured. What was is kept: try again, or leave the rest
 *                 to copies
 *     others      as kumiki_shadow_copy_prepare()
 */
int kumiki_shadow_copy_prepare_timeout(struct kumiki_shadow *shadow, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif /* KUMIKI_SHADOW_H */
