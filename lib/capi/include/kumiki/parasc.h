/*
 * Parallel system calls: requests in shared memory, which other threads, the
 * processing threads, execute while the requesting thread goes on.
 *
 * A batch, the fast way: blocks until all calls have been made, by the calling
 * thread and by others, whichever has proved faster.
 *
 *     struct kumiki_parasc_engine *engine;
 *     struct kumiki_parasc_requester *requester;
 *     struct kumiki_parasc_call calls[2] = {
 *         { SYS_fsync, 1, { fd } },
 *         { SYS_pread64, 4, { other, (uintptr_t)buffer, sizeof(buffer), 0 } },
 *     };
 *     int64_t ret_vals[2];
 *     if (kumiki_parasc_create(&engine, NULL) < 0 ||
 *         kumiki_parasc_requester_create(engine, &requester) < 0 ||
 *         kumiki_parasc_run(requester, calls, ret_vals, 2) < 0)
 *         fprintf(stderr, "%s\n", kumiki_last_error());
 *
 * Single requests, the paper's way: place them, go on, wait, collect.
 *
 *     uint64_t ticket, args[1] = { fd };
 *     int64_t ret_val;
 *     kumiki_parasc_request(engine, SYS_fsync, 1, args, &ticket);
 *     something_else();
 *     kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER);
 *     kumiki_parasc_collect(engine, ticket, &ret_val);
 *
 * Source of the names: Nakamura, "Parallelising system calls by shared memory",
 * 2018. The layout of the shared memory itself (lines, statuses, table 1) is in
 * node/kernel/uapi/parasc.h of Kumiki's source; no program needs it to use this.
 *
 * RETURN VALUES. Every function returns 0 or a negative errno value, unless it
 * says otherwise; kumiki_last_error() has the sentence to it. Nothing has
 * happened then, unless said otherwise. Every function may return
 *
 *     -EINVAL   a null pointer, or a value that is none of those named here
 *     -EIO      a defect of the library, caught; destroy the engine (one caught
 *               in kumiki_parasc_proc() ends the program)
 *
 * What a system call answers is in ret_val instead: its result, or -errno,
 * unchanged, EINTR and short results included.
 *
 * WHICH CALLS. Any system call of this machine's table but those that would hit
 * the wrong thread or break it (exit, fork, exec, set*id, signal masks, ...):
 * -EPERM, with the reason; see kumiki_parasc_refusal(). The calls of a batch, and
 * requests, are made in no order, at the same time or one after the other: one that
 * waits for another of its batch, as a read from a pipe for the write that fills
 * it, may wait for ever. What the arguments point to must be there until the result
 * is. What means the calling thread and does not show in number and arguments is up
 * to the program: /proc/thread-self, a read of a signalfd, memory under a protection
 * key, an ioctl of a KVM virtual cpu.
 *
 * THREADS. Any threads may use an engine at the same time. A requester belongs
 * to the thread that created it. Processing threads start when they are wanted
 * and end by themselves, unless KUMIKI_PARASC_NO_THREADS. All signals but SIGSYS are
 * blocked in them: no handler interrupts their calls, and where a call would
 * raise SIGPIPE or SIGXFSZ there is only its error. They have the credentials,
 * namespaces, seccomp filter and Landlock domain of the thread that was the first to
 * need them, as they were then. No function may be called by a signal handler.
 * pthread_cancel() takes effect in kumiki_parasc_proc(), between two calls, and in no other
 * function.
 *
 * CALLS THAT NOBODY HAS ASKED FOR. Memory is mapped; threads are started and bound, and
 * their signals blocked; they sleep and wake, have the kernel order memory
 * (membarrier(2)), look at clocks, ask which cpus they may use, prctl(2) for their seccomp
 * mode, and stat(2) whether the process has other threads (/proc/self/task), and read how
 * cpus are related (below /sys).
 * Before a batch of fsync(2) or fdatasync(2), sync_file_range(2) is made on the same
 * descriptors, and its EIO, ENOSPC or EDQUOT is the answer of a call that has found
 * nothing left to write: not if the allow-list lacks it, nor under a seccomp filter.
 *
 * FORK(2). The child has a copy of the engine and none of its threads. There the
 * calling thread makes all calls itself; results of what the parent had placed
 * do not come, and its slots stay taken: where the parent had filled all slots,
 * kumiki_parasc_request() fails in the child with -EAGAIN for good, and the child
 * needs an engine of its own. It may, and need not, destroy its copy; that leaves
 * the parent's alone.
 */
#ifndef KUMIKI_PARASC_H
#define KUMIKI_PARASC_H

#include <stddef.h>
#include <stdint.h>

#include <kumiki/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request area and its threads. */
struct kumiki_parasc_engine;
/* A thread's own lane in the area, for batches. */
struct kumiki_parasc_requester;

/*
 * No processing thread but those that the program sends into kumiki_parasc_proc(), which then
 * serve batches and requests alike. While one is in there, a thread of the engine's
 * looks whether it dies, and answers what it leaves. See kumiki_parasc_create() for how a
 * sleep is measured.
 */
#define KUMIKI_PARASC_NO_THREADS UINT32_C(1)
/*
 * kumiki_parasc_run() leaves all calls to other threads. Slower; keeps the calls'
 * traces out of the caller's caches.
 */
#define KUMIKI_PARASC_NO_HELP UINT32_C(2)
/*
 * Also make calls that only read something of the calling thread, as gettid(2):
 * the answer is another thread's. For measurements.
 */
#define KUMIKI_PARASC_WRONG_THREAD_ANSWERS UINT32_C(4)

/* Who makes the calls beside the requesting thread. */
enum kumiki_parasc_backend {
	/* What suits almost everybody: threads only. */
	KUMIKI_PARASC_BACKEND_AUTO = 0,
	/*
	 * Threads only: the seccomp filter that the caller had when the threads were
	 * started sees each call. One that a thread sets for itself later does not
	 * see its requests: set it before, or for all threads
	 * (SECCOMP_FILTER_FLAG_TSYNC).
	 */
	KUMIKI_PARASC_BACKEND_USER = 1,
	/* Threads inside of the kernel module. */
	KUMIKI_PARASC_BACKEND_KERNEL = 3
};

/*
 * What an engine is to be like. Start from KUMIKI_PARASC_CONFIG_INIT, which is what a
 * null pointer means, too.
 */
struct kumiki_parasc_config {
	/* Requesters at the same time, 1 to 61. */
	uint32_t requesters;
	/*
	 * Slots for requests, 2 to 4096: those that are outstanding or not collected
	 * take one each. They bound no batch.
	 */
	uint32_t slots;
	/* Threads for calls that sleep, beside one for each cpu; 0 to 64. */
	uint32_t threads;
	/* KUMIKI_PARASC_NO_THREADS and the others; unknown bits are refused. */
	uint32_t flags;
	/* enum kumiki_parasc_backend */
	uint32_t backend;
	/* 0; anything else is refused. */
	uint32_t reserved;
	/* After how many nanoseconds without work a thread ends. */
	uint64_t retire_ns;
	/*
	 * The numbers, 0 to 511, of the only calls that may be made, if not all that
	 * are not refused anyway; a null pointer and 0: no such list. Copied.
	 */
	const uint16_t *allowed;
	uint64_t allowed_num;
};

#define KUMIKI_PARASC_CONFIG_INIT \
	{ 16, 512, 64, 0, KUMIKI_PARASC_BACKEND_AUTO, 0, UINT64_C(10000000000), NULL, 0 }

/* One call of a batch. */
struct kumiki_parasc_call {
	/* Number of the system call, SYS_... of <sys/syscall.h>. */
	uint16_t sysnum;
	/* How many arguments count, 0 to 6. */
	uint16_t args_num;
	uint64_t args[6];
};

/* A timeout_ns without end. */
#define KUMIKI_PARASC_FOREVER UINT64_MAX

/*
 * Makes an engine and stores it in *engine. A null pointer for config means
 * KUMIKI_PARASC_CONFIG_INIT. Its threads start later, when they are wanted, and run on the
 * cpus that the calling thread may use, or if that is bound to one cpu, on those of
 * the process's first thread.
 *
 * The first engine of a process has what a sleep costs here measured: by two
 * threads that live for some milliseconds, with all signals but SIGSYS blocked. One
 * of them may still be ending when this returns. With KUMIKI_PARASC_NO_THREADS this is
 * left to the first kumiki_parasc_requester_create() or kumiki_parasc_proc().
 *
 *     -ENOTSUP  the backend is not to be had here, or this machine lacks the way
 *               to sleep that KUMIKI_WAIT names
 *     other     what the kernel has answered to a call that
 *               kumiki_last_error() names, -ENOMEM among them
 */
int kumiki_parasc_create(struct kumiki_parasc_engine **engine, const struct kumiki_parasc_config *config);

/*
 * Ends the engine as kumiki_parasc_terminate() does, and frees it; a null pointer is
 * fine. Waits for its threads for some 200 ms at most: one that is inside a call
 * ends when that returns, and what the call's arguments point to must be there
 * until then. To know, terminate, wait and collect before.
 *
 * Threads that are in kumiki_parasc_proc() or kumiki_parasc_wait() return and need not be
 * awaited before; no other call may use the engine any more, nor may one begin:
 * that a thread was started for it does not say that it is in there, that it has
 * answered a request does. Requesters live on, make all calls themselves, and are
 * to be destroyed, too.
 */
int kumiki_parasc_destroy(struct kumiki_parasc_engine *engine);

/*
 * Sets the termination flag: kumiki_parasc_proc() returns, other threads end, requests
 * that nobody has begun are answered with -ECANCELED, and no more are taken.
 * Does not wait.
 */
int kumiki_parasc_terminate(struct kumiki_parasc_engine *engine);

/*
 * Makes the calling thread a processing thread until the termination flag is
 * set.
 *
 * It serves batches beside the engine's own threads, if there are any. As many threads as
 * have a cpu to spare spin for the next batch, for as long as two sleeps cost; all others
 * sleep until they are called, for calls that sleep.
 *
 * Its signals are handled at calls and while it waits, and blocked in between: a handler
 * that interrupts a call makes that answer -EINTR. The thread may be cancelled here (deferred cancellation, the
 * default), which takes effect between two calls, or end itself in a handler;
 * the request that it was at is then answered with -EOWNERDEAD.
 *
 * In a child of fork(2) it returns at once.
 */
int kumiki_parasc_proc(struct kumiki_parasc_engine *engine);

/*
 * Tells processing threads to look for requests that wait, and wakes one for each
 * kind of calls; for those that are soon over one on each other cpu, as many as there
 * are of these. In the paper programs write to the area on their own
 * and announce it by this; here kumiki_parasc_request() does what is needed by itself, and
 * no program has to call it. It does no harm.
 */
int kumiki_parasc_wake_up(struct kumiki_parasc_engine *engine);

/*
 * Waits until min_complete results of requests are there to be collected, for
 * timeout_ns nanoseconds at most (0 does not wait). Returns how many there are,
 * of whichever thread's requests, also if there are fewer. After termination it
 * waits only for what is being executed. Who waits for all of them with KUMIKI_PARASC_FOREVER
 * makes calls that nobody has begun, one thread at a time.
 *
 *     -EINVAL  also: min_complete is more than requests have slots (struct kumiki_parasc_config)
 */
int kumiki_parasc_wait(struct kumiki_parasc_engine *engine, size_t min_complete, uint64_t timeout_ns);

/*
 * Places a request for any processing thread, stores in *ticket (never 0) what
 * to collect the result with, and returns at once: as long as there is a thread
 * to be had, and not in a child of fork(2), where the call is made in here.
 * With args_num 0 args is not looked at.
 *
 *     -EINVAL     also: sysnum is not in 0 to 65535, args_num not in 0 to 6
 *     -EPERM      the call is refused (kumiki_parasc_refusal()), or not on the allow-list
 *     -EAGAIN     all slots hold requests or results: collect some
 *     -ESHUTDOWN  the termination flag is set
 */
int kumiki_parasc_request(struct kumiki_parasc_engine *engine, long sysnum, unsigned int args_num,
                   const uint64_t *args, uint64_t *ticket);

/*
 * 1 if the request has been answered: the result is in *ret_val, and the ticket
 * is used up. 0 if it has not, and *ret_val is untouched. Any thread may do it.
 *
 * Beside what the call itself returns, *ret_val may be -ECANCELED (the
 * termination flag was set before it began; it was not executed) or -EOWNERDEAD
 * (the thread that executed it has died; it may have been).
 *
 *     -ENOENT  no such ticket: it was collected before, or never given, or is of
 *              another engine (as far as can be told: of four billion requests in one
 *              slot two have the same ticket)
 */
int kumiki_parasc_collect(struct kumiki_parasc_engine *engine, uint64_t ticket, int64_t *ret_val);

/*
 * A descriptor for event loops, the same one each time: an eventfd(2) that is readable when
 * requests of kumiki_parasc_request() have been answered since it was last read (8 bytes; it does
 * not wait). Then collect. It tells of those placed after the first call of this, and is
 * closed with the engine: do not close it.
 *
 *     other    what the kernel has answered to eventfd2
 */
int kumiki_parasc_completion_fd(struct kumiki_parasc_engine *engine);

/*
 * Makes a call at once if it need not sleep, on the calling thread; no engine is needed.
 * 1 if it was made: *ret_val is what it has returned, or -errno. 0 if it would sleep, or
 * if it is not known whether: *ret_val is untouched, a buffer that the call fills may
 * have been written to; place it by kumiki_parasc_request(), or make it where a thread may
 * sleep.
 *
 * read, pread64 and preadv2 are tried with RWF_NOWAIT, pwrite64 and pwritev2 too; openat
 * and openat2 with RESOLVE_CACHED if they have O_NONBLOCK, O_DIRECTORY or O_PATH and make
 * no file; calls that send to or receive from a socket with MSG_DONTWAIT; accept4 on a
 * socket with O_NONBLOCK; statx of a descriptor.
 *
 * At an offset, what gives a part only counts as not made. read (and preadv2 at the file's
 * own position) moves that position and cannot take it back: of a file of which only the
 * beginning is in memory it gives that part, as made, where read(2) would have gone on to
 * the disk. Ask for the rest, or read at offsets.
 *
 *     -EINVAL   also: sysnum is not in 0 to 65535, args_num not in 0 to 6
 *     -ENOTSUP  the call has no form that cannot sleep; kumiki_last_error() says why
 */
int kumiki_parasc_try(long sysnum, unsigned int args_num, const uint64_t *args, int64_t *ret_val);

/*
 * Makes a requester for the calling thread, and stores it in *requester.
 *
 *     -EBUSY   the engine has as many as it was configured for
 */
int kumiki_parasc_requester_create(struct kumiki_parasc_engine *engine, struct kumiki_parasc_requester **requester);

/*
 * Frees it; a null pointer is fine. Any thread may do so, when no kumiki_parasc_run()
 * of it is under way.
 */
int kumiki_parasc_requester_destroy(struct kumiki_parasc_requester *requester);

/*
 * Makes n calls, in any order, and returns when all have been made: ret_vals[i]
 * is what calls[i] has returned, or -errno. The two must not overlap. With n 0
 * the pointers are not looked at.
 *
 * After a failure none of the calls has been made.
 *
 *     -EINVAL  also: an args_num is not in 0 to 6
 *     -EPERM   one of the calls is refused (kumiki_last_error() says which and
 *              why), or not on the allow-list; or another thread than the one
 *              that created the requester has called
 */
int kumiki_parasc_run(struct kumiki_parasc_requester *requester, const struct kumiki_parasc_call *calls,
               int64_t *ret_vals, size_t n);

/*
 * Why a system call is refused whatever its arguments are, one sentence that
 * stays valid for ever; a null pointer if it is not. Some calls are refused with
 * some arguments only: then kumiki_parasc_request() and kumiki_parasc_run() say so.
 */
const char *kumiki_parasc_refusal(long sysnum);

#ifdef __cplusplus
}
#endif

#endif /* KUMIKI_PARASC_H */
