/* What the programs of these tests share: an area, descriptors, threads that serve. */
#ifndef RAW_H
#define RAW_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "parasc.h"

/* struct parasc_call of <kumiki/parasc.h>. */
struct call {
	uint16_t sysnum;
	uint16_t args_num;
	uint64_t args[6];
};

#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition)) {                                                   \
			fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__, \
				#condition, errno, strerror(errno));                  \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

#define MOST 65535u
#define SECOND 1000000000ull

static struct parasc_area *area;
static int device = -1;

static inline void begin(void)
{
	area = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED);
	area->magic = PARASC_MAGIC;
	area->version = PARASC_VERSION;
	device = open(PARASC_DEVICE, O_RDWR | O_CLOEXEC);
	CHECK(device >= 0);
}

static inline _Atomic uint64_t *word(unsigned int line)
{
	return (_Atomic uint64_t *)&area->lines[line].state;
}

static inline uint64_t pointer(const volatile void *memory)
{
	return (uint64_t)(uintptr_t)memory;
}

/* After an offer: wakes who sleeps, if anybody does. */
static inline void wake(unsigned int threads)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (*(volatile uint32_t *)&area->sleepers)
		CHECK(ioctl(device, PARASC_IOC_WAKE_UP, threads) >= 0);
}

/* Offers a batch, claimed by at most so many at once. */
static inline void offer(unsigned int line, const struct call *calls, int64_t *results,
			 unsigned int count, unsigned int most)
{
	area->lines[line].words[PARASC_REQUESTS] = pointer(calls);
	area->lines[line].words[PARASC_RESULTS] = pointer(results);
	area->lines[line].words[PARASC_AT_ONCE] = most;
	atomic_store(word(line), PARASC_STATE(0, 0, count, PARASC_BATCH));
	atomic_fetch_or((_Atomic uint64_t *)&area->open_lines, 1ull << line);
	wake(64);
}

static inline void offer_one(unsigned int line, const struct call *call)
{
	memcpy(area->lines[line].words, call->args, sizeof(call->args));
	atomic_store(word(line), PARASC_STATE(0, 0, 1, call->sysnum));
	atomic_fetch_or((_Atomic uint64_t *)&area->open_lines, 1ull << line);
	wake(64);
}

static inline bool is_over(unsigned int line)
{
	uint64_t state = atomic_load(word(line));

	return PARASC_MADE(state) == PARASC_LAST(state) && PARASC_FIRST(state) == PARASC_LAST(state);
}

static inline void await(unsigned int line)
{
	while (!is_over(line))
		sched_yield();
}

static inline struct parasc_proc proc_of(uint64_t spin_ns, uint64_t idle_ns)
{
	return (struct parasc_proc){
		.area = pointer(area), .length = 4096, .spin_ns = spin_ns, .idle_ns = idle_ns, .share = 2,
		.recalls = *(volatile uint32_t *)&area->recalls,
	};
}

/* Makes calls that the module has handed back, by plain system calls, first of all. */
static inline void make(const struct parasc_calls *calls)
{
	const struct call *call = (const struct call *)(uintptr_t)calls->requests;
	int64_t *result = (int64_t *)(uintptr_t)calls->results;

	for (unsigned int at = calls->first; at < calls->last; at++) {
		const uint64_t *arg = call[at].args;
		long ret = syscall(call[at].sysnum, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);

		result[at] = ret == -1 ? -errno : ret;
	}
}

/* The same of a processing thread, which then says that they are made. */
static inline void make_of_line(const struct parasc_proc *proc)
{
	_Atomic uint64_t *state = word(proc->line);
	struct parasc_line *line = &area->lines[proc->line];

	if (PARASC_CALL(atomic_load(state)) != PARASC_BATCH) {
		struct call call = { .sysnum = PARASC_CALL(atomic_load(state)) };
		struct parasc_calls one = { pointer(&call), pointer(&line->ret_val), 0, 1 };

		memcpy(call.args, line->words, sizeof(call.args));
		make(&one);
		atomic_fetch_add(state, 1);
		return;
	}
	make(&proc->calls);
	atomic_fetch_add(state, proc->made + proc->calls.last - proc->calls.first);
}

/* Serves as an engine's thread does, until it is told to end. */
static inline void *serve(void *until)
{
	(void)until;
	for (;;) {
		struct parasc_proc proc = proc_of(SECOND / 1000, SECOND * 100);
		int ended = ioctl(device, PARASC_IOC_PROC, &proc);

		if (ended == PARASC_CALLS)
			make_of_line(&proc);
		else if (ended == PARASC_TOLD && *(volatile uint32_t *)&area->terminate)
			return NULL;
		else if (ended < 0)
			return (void *)(intptr_t)errno;
	}
}

static inline void told(void)
{
	*(volatile uint32_t *)&area->terminate = 1;
	CHECK(ioctl(device, PARASC_IOC_WAKE_UP, 64) >= 0);
}

/* Has the calls made by one entry. Returns how many the module has handed back. */
static inline unsigned int run(const struct call *calls, int64_t *results, unsigned int count)
{
	struct parasc_wait wait = { .calls = { pointer(calls), pointer(results), 0, count } };
	unsigned int back = 0;
	int ended;

	while ((ended = ioctl(device, PARASC_IOC_WAIT, &wait)) == PARASC_CALLS) {
		struct parasc_calls one = wait.calls;

		one.last = one.first + 1;
		make(&one);
		back++;
		wait.calls.first++;
	}
	CHECK(ended == 0);
	return back;
}

#endif
