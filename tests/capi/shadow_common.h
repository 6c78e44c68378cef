/*
 * What the programs on <kumiki/shadow.h> share: a shadow, a child, a job that waits.
 */
#ifndef _GNU_SOURCE /* g++ defines it */
#define _GNU_SOURCE /* sched_setaffinity(2) */
#endif
#include <kumiki/shadow.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* A shadow of the calling thread, on a shared cpu where there is only one. */
static inline struct kumiki_shadow *create(void)
{
	struct kumiki_shadow *shadow = NULL;
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	int error = kumiki_shadow_create(&shadow, NULL);
	if (error == -ENODEV) {
		options.flags = KUMIKI_SHADOW_SHARE;
		error = kumiki_shadow_create(&shadow, &options);
	}
	if (error < 0) {
		fprintf(stderr, "kumiki_shadow_create: %d: %s\n", error, kumiki_last_error());
		exit(1);
	}
	return shadow;
}

static inline struct kumiki_shadow *create_inline(void)
{
	struct kumiki_shadow *shadow = NULL;
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	options.flags = KUMIKI_SHADOW_INLINE;
	CHECK(kumiki_shadow_create(&shadow, &options) == 0);
	return shadow;
}

/* Runs a test in a child that may change limits, cpus and environment. */
static inline void in_child(void (*test)(void))
{
	int status = -1;
	pid_t child;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		failures = 0;
		alarm(PATIENCE); /* is not inherited */
		test();
		fflush(NULL);
		_exit(failures != 0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(status == 0);
}

static inline cpu_set_t allowed(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	return set;
}

static inline void increment(void *number)
{
	++*(long *)number;
}

/* A function that says that it has begun and waits until it may end. */
struct gate {
	sem_t begun, end;
	int ended;
};

static inline void pass(void *argument)
{
	struct gate *gate = (struct gate *)argument;
	sem_post(&gate->begun);
	while (sem_wait(&gate->end) != 0)
		;
	gate->ended = 1;
}

static inline void gate_open(struct gate *gate)
{
	CHECK(sem_init(&gate->begun, 0, 0) == 0 && sem_init(&gate->end, 0, 0) == 0);
	gate->ended = 0;
}

static inline void gate_close(struct gate *gate)
{
	sem_destroy(&gate->begun);
	sem_destroy(&gate->end);
}

static inline void forks_and_joins(struct kumiki_shadow *shadow)
{
	long number = 0, i;
	for (i = 0; i < 20000; i++) {
		number = 2 * i;
		CHECK(kumiki_shadow_fork(shadow, increment, &number) == 0);
		if (!CHECK(kumiki_shadow_join(shadow) == 0 && number == 2 * i + 1))
			break;
	}
	for (i = 0; i < 3; i++) {
		struct timespec pause = { 0, 20000000 }; /* the helper falls asleep */
		nanosleep(&pause, NULL);
		number = i;
		CHECK(kumiki_shadow_fork(shadow, increment, &number) == 0);
		CHECK(kumiki_shadow_join_timeout(shadow, UINT64_MAX) == 0 && number == i + 1);
	}
	CHECK(kumiki_shadow_destroy(shadow) == 0);
}
