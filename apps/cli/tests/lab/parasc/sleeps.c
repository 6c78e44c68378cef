/*
 * Where both sides of a batch sleep: inside the kernel, woken by each other there, or outside at
 * futexes, as an engine's threads do, for which a processing thread leaves PARASC_IOC_PROC. On one
 * cpu whose clock counts instructions the times are instructions:
 *
 *   kumiki lab run --module parasc --cpus 1 --qemu=-icount --qemu=shift=0,sleep=off \
 *       --in sleeps -- ./sleeps 300 5
 *
 * sleeps BATCHES TURNS
 */
#include "raw.h"

#include <linux/futex.h>

#define CALLS 10u

enum way { INSIDE, OUTSIDE, WAYS };

static volatile enum way way;
/* 1: asleep at the futex. */
static uint32_t asker, server;

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void fall_asleep(uint32_t *word)
{
	while (__atomic_load_n(word, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 1, NULL);
}

static void wake_one(uint32_t *word)
{
	if (__atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

static void *serve_either_way(void *unused)
{
	(void)unused;
	while (!*(volatile uint32_t *)&area->terminate) {
		/* Without a look in vain it sleeps there, or leaves. */
		struct parasc_proc proc = proc_of(0, way == INSIDE ? 100 * SECOND : 0);
		int ended = ioctl(device, PARASC_IOC_PROC, &proc);

		CHECK(ended >= 0);
		if (ended == PARASC_CALLS)
			make_of_line(&proc);
		if (is_over(0))
			wake_one(&asker);
		if (way == INSIDE || (ended != PARASC_IDLE && ended != PARASC_SERVED))
			continue;
		__atomic_store_n(&server, 1, __ATOMIC_SEQ_CST);
		if (is_over(0))
			fall_asleep(&server);
		__atomic_store_n(&server, 0, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void make_inside(void)
{
	struct parasc_wait wait = {
		.area = pointer(area), .min = UINT32_MAX, .timeout_ns = UINT64_MAX, .flags = PARASC_CLAIMS_NONE,
	};

	wake(1);
	while (!is_over(0))
		CHECK(ioctl(device, PARASC_IOC_WAIT, &wait) >= 0);
}

static void make_outside(void)
{
	wake_one(&server);
	while (!is_over(0))
		fall_asleep(&asker);
}

static void make_batch(const struct call *calls, int64_t *results)
{
	if (way == OUTSIDE) {
		__atomic_store_n(&asker, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_or(&area->asleep_lines, 1, __ATOMIC_SEQ_CST);
	}
	area->lines[0].words[PARASC_REQUESTS] = pointer(calls);
	area->lines[0].words[PARASC_RESULTS] = pointer(results);
	area->lines[0].words[PARASC_AT_ONCE] = 16;
	atomic_store(word(0), PARASC_STATE(0, 0, CALLS, PARASC_BATCH));
	atomic_fetch_or((_Atomic uint64_t *)&area->open_lines, 1);
	if (way == INSIDE)
		make_inside();
	else
		make_outside();
	__atomic_fetch_and(&area->asleep_lines, ~1ull, __ATOMIC_SEQ_CST);
}

int main(int count, char **words)
{
	int batches = count > 1 ? atoi(words[1]) : 300, turns = count > 2 ? atoi(words[2]) : 1;
	struct call calls[CALLS];
	int64_t results[CALLS];
	pthread_t thread;

	for (unsigned int at = 0; at < CALLS; at++)
		calls[at] = (struct call){ SYS_getppid, 0, { 0 } };
	begin();
	CHECK(!pthread_create(&thread, NULL, serve_either_way, NULL));
	for (int turn = 0; turn < turns * WAYS; turn++) {
		way = turn % WAYS;
		/* Whoever sleeps in the way that was goes over to the other one. */
		area->recalls++;
		CHECK(ioctl(device, PARASC_IOC_WAKE_UP, 1) >= 0);
		wake_one(&server);
		usleep(20000);
		double start = now_ns();

		for (int batch = 0; batch < batches; batch++) {
			memset(results, 0xff, sizeof(results));
			make_batch(calls, results);
			for (unsigned int at = 0; at < CALLS; at++)
				CHECK(results[at] == getppid());
		}
		printf("%s: %.0f ns a batch\n", way == INSIDE ? "inside" : "outside",
		       (now_ns() - start) / batches);
		fflush(stdout);
	}
	told();
	wake_one(&server);
	CHECK(!pthread_join(thread, NULL));
	printf("both ways: as it should\n");
	return 0;
}
