/* Calls without end: each offers the next one. Others run on that cpu all the same. */
#include "scenes.h"

#include <sched.h>

/* A line's call writes three numbers: two of them are the word of another line's, or of its own. */
static void chain(unsigned int line, unsigned int next)
{
	static uint32_t nothing;
	uint64_t *words = (uint64_t *)area->lines[line].words;

	words[0] = pointer(word(next));
	words[1] = pointer(word(next)) + sizeof(nothing);
	words[2] = pointer(&nothing);
}

#define OFFER PARASC_STATE(0, 0, 1, SYS_getresuid)

/* The calling thread's alone. */
static void have_numbers(void)
{
	CHECK(!syscall(SYS_setresuid, (uint32_t)OFFER, (uint32_t)(OFFER >> 32), 0));
}

static void *serve_a_chain(void *unused)
{
	(void)unused;
	have_numbers();
	return serve(NULL);
}

static void *make_a_chain(void *of)
{
	struct parasc_wait wait = *(struct parasc_wait *)of;

	have_numbers();
	CHECK(ioctl(device, PARASC_IOC_WAIT, &wait) == 0);
	return NULL;
}

/* Each time somebody else has to have gone. */
static void sleep_often(void)
{
	for (int round = 0; round < 50; round++)
		usleep(1000);
}

void calls_without_end_let_others_run(void)
{
	struct parasc_wait wait;
	pthread_t thread;
	cpu_set_t first;

	begin();
	alarm(100);
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	CHECK(!sched_setaffinity(0, sizeof(first), &first));
	/* Two lines in turns, by who serves. */
	chain(0, 1);
	chain(1, 0);
	CHECK(!pthread_create(&thread, NULL, serve_a_chain, NULL));
	atomic_store(word(0), OFFER);
	area->open_lines = 3;
	wake(1);
	sleep_often();
	/* It goes on, wherever it is just now. */
	while (is_over(0) == is_over(1))
		sched_yield();
	told();
	CHECK(!pthread_join(thread, NULL));
	/* One line again and again, by its own thread. */
	chain(2, 2);
	atomic_store(word(2), OFFER);
	wait = (struct parasc_wait){ .area = pointer(area), .line = 2 };
	CHECK(!pthread_create(&thread, NULL, make_a_chain, &wait));
	sleep_often();
	while (atomic_load(word(2)) != OFFER)
		sched_yield();
	chain(2, 3);
	CHECK(!pthread_join(thread, NULL));
	CHECK(atomic_load(word(3)) == OFFER);
}
