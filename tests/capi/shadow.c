/*
 * What <kumiki/shadow.h> promises: every function, every error that it names.
 * C99 and C++11 alike. Ends with 0 if all holds; what does not is on stderr.
 * What a machine cannot show is named and passed over.
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

#define LAST_ERROR shadow_last_error
#include "check.h"

#define NOBODY 65534

/* A shadow of the calling thread, on a shared cpu where there is only one. */
static struct shadow *create(void)
{
	struct shadow *shadow = NULL;
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	int error = shadow_create(&shadow, NULL);
	if (error == -ENODEV) {
		options.flags = SHADOW_SHARE;
		error = shadow_create(&shadow, &options);
	}
	if (error < 0) {
		fprintf(stderr, "shadow_create: %d: %s\n", error, shadow_last_error());
		exit(1);
	}
	return shadow;
}

static struct shadow *create_inline(void)
{
	struct shadow *shadow = NULL;
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	options.flags = SHADOW_INLINE;
	CHECK(shadow_create(&shadow, &options) == 0);
	return shadow;
}

/* Runs a test in a child that may change limits, cpus and environment. */
static void in_child(void (*test)(void))
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

static cpu_set_t allowed(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	return set;
}

/* Lets this thread run on its first cpu only; returns another one, or -1. */
static int keep_one_cpu(int *kept)
{
	cpu_set_t before = allowed(), one;
	int cpu, other = -1;
	*kept = -1;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &before))
			continue;
		if (*kept < 0)
			*kept = cpu;
		else
			other = cpu;
	}
	CPU_ZERO(&one);
	CPU_SET(*kept, &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	return other;
}

static void increment(void *number)
{
	++*(long *)number;
}

/* A function that says that it has begun and waits until it may end. */
struct gate {
	sem_t begun, end;
	int ended;
};

static void pass(void *argument)
{
	struct gate *gate = (struct gate *)argument;
	sem_post(&gate->begun);
	while (sem_wait(&gate->end) != 0)
		;
	gate->ended = 1;
}

static void gate_open(struct gate *gate)
{
	CHECK(sem_init(&gate->begun, 0, 0) == 0 && sem_init(&gate->end, 0, 0) == 0);
	gate->ended = 0;
}

static void gate_close(struct gate *gate)
{
	sem_destroy(&gate->begun);
	sem_destroy(&gate->end);
}

/* ---- what works ---- */

static void life(void)
{
	cpu_set_t before = allowed(), during, after;
	struct shadow *shadow = create();
	struct shadow_options bound = SHADOW_OPTIONS_INIT;
	struct shadow_info info;
	during = allowed();
	memset(&info, 0xff, sizeof(info));
	CHECK(shadow_info(shadow, &info) == 0);
	CHECK(info.main_cpu >= 0 && CPU_ISSET(info.main_cpu, &before));
	CHECK(info.helper_cpu >= 0 && CPU_ISSET(info.helper_cpu, &before));
	CHECK(CPU_EQUAL(&before, &during));
	CHECK(info.relation <= SHADOW_REMOTE);
	CHECK((info.relation == SHADOW_SAME) == (info.main_cpu == info.helper_cpu));
	CHECK((info.relation == SHADOW_CACHE) == (info.cache_level > 0));
	CHECK(info.sleep >= SHADOW_SLEEP_UMWAIT && info.sleep <= SHADOW_SLEEP_FUTEX);
	CHECK(info.asymmetric <= 1);
	CHECK(shadow_destroy(shadow) == 0);
	after = allowed();
	CHECK(CPU_EQUAL(&before, &after));

	bound.flags = SHADOW_SHARE | SHADOW_BIND_MAIN;
	CHECK(shadow_create(&shadow, &bound) == 0);
	during = allowed();
	CHECK(shadow_info(shadow, &info) == 0);
	CHECK(CPU_COUNT(&during) == 1 && CPU_ISSET(info.main_cpu, &during));
	CHECK(shadow_destroy(shadow) == 0);
	after = allowed();
	CHECK(CPU_EQUAL(&before, &after));

	shadow = create_inline();
	CHECK(shadow_info(shadow, &info) == 0);
	CHECK(info.main_cpu == -1 && info.helper_cpu == -1);
	CHECK(shadow_destroy(shadow) == 0);
	CHECK(shadow_destroy(NULL) == 0);
}

static void forks_and_joins(struct shadow *shadow)
{
	long number = 0, i;
	for (i = 0; i < 20000; i++) {
		number = 2 * i;
		CHECK(shadow_fork(shadow, increment, &number) == 0);
		if (!CHECK(shadow_join(shadow) == 0 && number == 2 * i + 1))
			break;
	}
	for (i = 0; i < 3; i++) {
		struct timespec pause = { 0, 20000000 }; /* the helper falls asleep */
		nanosleep(&pause, NULL);
		number = i;
		CHECK(shadow_fork(shadow, increment, &number) == 0);
		CHECK(shadow_join_timeout(shadow, UINT64_MAX) == 0 && number == i + 1);
	}
	CHECK(shadow_destroy(shadow) == 0);
}

static void thresholds(void)
{
	static const int64_t thresholds[] = { 0, 1000, INT64_MAX, SHADOW_INFINITE };
	size_t i;
	for (i = 0; i < sizeof(thresholds) / sizeof(*thresholds); i++) {
		struct shadow *shadow = NULL;
		struct shadow_options options = SHADOW_OPTIONS_INIT;
		long number = 1;
		options.threshold_ticks = thresholds[i];
		options.flags = SHADOW_SHARE;
		CHECK(shadow_create(&shadow, &options) == 0);
		CHECK(shadow_fork(shadow, increment, &number) == 0);
		CHECK(shadow_join(shadow) == 0 && number == 2);
		CHECK(shadow_destroy(shadow) == 0);
	}
}

static void chosen_cpus(void)
{
	struct shadow *shadow = NULL;
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	struct shadow_info info;
	cpu_set_t before = allowed();
	int cpu, first = -1, last = -1;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &before)) {
			first = first < 0 ? cpu : first;
			last = cpu;
		}
	}
	options.main_cpu = last;
	options.helper_cpu = first;
	options.flags = SHADOW_SHARE;
	CHECK(shadow_create(&shadow, &options) == 0);
	CHECK(shadow_info(shadow, &info) == 0);
	CHECK(info.main_cpu == last && info.helper_cpu == first);
	CHECK(shadow_destroy(shadow) == 0);
}

static void times_out(void)
{
	struct shadow *shadow = create();
	struct gate gate;
	gate_open(&gate);
	CHECK(shadow_is_finished(shadow) == 0);
	CHECK(shadow_fork(shadow, pass, &gate) == 0);
	/* Begun or not, it is left to the helper. */
	REFUSED(shadow_join_timeout(shadow, 0), ETIMEDOUT);
	while (sem_wait(&gate.begun) != 0)
		;
	CHECK(shadow_is_finished(shadow) == 0);
	REFUSED(shadow_join_timeout(shadow, 0), ETIMEDOUT);
	REFUSED(shadow_join_timeout(shadow, 2000000), ETIMEDOUT);
	/* Everything that needs the helper is refused, and nothing waits. */
	REFUSED(shadow_fork(shadow, pass, &gate), EBUSY);
	REFUSED(shadow_copy(shadow, &gate.ended, "1234", 4, SHADOW_COPY_AUTO), EBUSY);
	REFUSED(shadow_copy_prepare(shadow), EBUSY);
	REFUSED(shadow_copy_prepare_timeout(shadow, UINT64_MAX), EBUSY);
	REFUSED(shadow_destroy(shadow), EBUSY);
	CHECK(gate.ended == 0);
	sem_post(&gate.end);
	while (shadow_is_finished(shadow) == 0)
		sched_yield();
	CHECK(shadow_is_finished(shadow) == 1 && gate.ended == 1);
	/* It has ended, and still is to be joined. */
	REFUSED(shadow_destroy(shadow), EBUSY);
	CHECK(shadow_join_timeout(shadow, 0) == 0);
	CHECK(shadow_is_finished(shadow) == 0);
	REFUSED(shadow_join(shadow), ESRCH);
	gate_close(&gate);
	CHECK(shadow_destroy(shadow) == 0);
}

static void created_in_time(void)
{
	struct shadow *const untouched = (struct shadow *)&failures;
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	cpu_set_t before = allowed(), after;
	int i, late = 0;
	options.flags = SHADOW_SHARE;
	for (i = 0; i < 50; i++) {
		struct shadow *shadow = untouched;
		int error = shadow_create_timeout(&shadow, &options, 0);
		CHECK(error == 0 || (error == -ETIMEDOUT && shadow == untouched));
		if (error == 0)
			CHECK(shadow_destroy_timeout(shadow, 0) == 0);
		else
			late++;
		after = allowed();
		CHECK(CPU_EQUAL(&before, &after));
	}
	/* No thread starts in no time. */
	CHECK(late > 0);
	for (i = 0; i < 2; i++) {
		struct shadow *shadow = NULL;
		long number = 1;
		options.flags = i == 0 ? SHADOW_SHARE : SHADOW_INLINE;
		CHECK(shadow_create_timeout(&shadow, &options, UINT64_MAX) == 0);
		CHECK(shadow_fork(shadow, increment, &number) == 0);
		REFUSED(shadow_destroy_timeout(shadow, UINT64_MAX), EBUSY);
		CHECK(shadow_join(shadow) == 0 && number == 2);
		CHECK(shadow_destroy_timeout(shadow, UINT64_MAX) == 0);
	}
	CHECK(shadow_destroy_timeout(NULL, 0) == 0);
}

/* Before all copies: what is known is known to the process. */
static void prepared_in_time(void)
{
	struct shadow *shadow = create();
	REFUSED(shadow_copy_prepare_timeout(shadow, 0), ETIMEDOUT);
	CHECK(strstr(shadow_last_error(), "0 of 104 measurements") != NULL);
	/* Too short for the pages alone. */
	REFUSED(shadow_copy_prepare_timeout(shadow, 20000), ETIMEDOUT);
	REFUSED(shadow_copy_prepare_timeout(shadow, 0), ETIMEDOUT);
	CHECK(strstr(shadow_last_error(), " of 104 measurements") != NULL);
	CHECK(shadow_copy_prepare_timeout(shadow, UINT64_MAX) == 0);
	/* There is nothing left to do. */
	CHECK(shadow_copy_prepare_timeout(shadow, 0) == 0);
	CHECK(shadow_destroy(shadow) == 0);
}

static void copies(struct shadow *shadow)
{
	static const size_t lengths[] = { 1, 63, 64, 65, 4095, 4096, 65537, 3 << 20 };
	size_t room = (3 << 20) + 64, i, j, at;
	unsigned char *from = (unsigned char *)malloc(room), *to = (unsigned char *)malloc(room);
	int method;
	CHECK(from != NULL && to != NULL);
	for (i = 0; i < room; i++)
		from[i] = (unsigned char)(i * 7 + i / 251);
	CHECK(shadow_copy_prepare(shadow) == 0);
	CHECK(shadow_copy_prepare(shadow) == 0);
	for (method = SHADOW_COPY_AUTO; method <= SHADOW_COPY_SPLIT; method++) {
		enum shadow_copy_method how = (enum shadow_copy_method)method;
		CHECK(shadow_copy(shadow, NULL, NULL, 0, how) == 0);
		for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
			size_t length = lengths[i];
			for (at = 0; at < 2; at++) {
				memset(to, 0xa5, room);
				CHECK(shadow_copy(shadow, to + 16 + at, from + 3, length, how) == 0);
				CHECK(memcmp(to + 16 + at, from + 3, length) == 0);
				for (j = 0; j < 16; j++)
					CHECK(to[j] == 0xa5 && to[16 + at + length + j] == 0xa5);
			}
		}
	}
	for (method = SHADOW_COPY_AUTO; method <= SHADOW_COPY_SPLIT; method++) {
		enum shadow_copy_method how = (enum shadow_copy_method)method;
		size_t copied = 1;
		memset(to, 0xa5, room);
		REFUSED(shadow_copy_timeout(shadow, to, from, room, how, 0, &copied), ETIMEDOUT);
		CHECK(copied == 0 && to[0] == 0xa5);
		CHECK(shadow_copy_timeout(shadow, to, from, room, how, UINT64_MAX, &copied) == 0);
		CHECK(copied == room && memcmp(to, from, room) == 0);
		REFUSED(shadow_copy_timeout(shadow, to, to, 1, how, UINT64_MAX, &copied), EINVAL);
		CHECK(copied == room);
		CHECK(shadow_copy_timeout(shadow, to, from, 1, how, UINT64_MAX, NULL) == 0);
	}
	/* Neighbours are no overlap; one byte in common is. */
	CHECK(shadow_copy(shadow, to, to + 64, 64, SHADOW_COPY_SPLIT) == 0);
	REFUSED(shadow_copy(shadow, to, to + 63, 64, SHADOW_COPY_SPLIT), EINVAL);
	REFUSED(shadow_copy(shadow, to + 63, to, 64, SHADOW_COPY_AUTO), EINVAL);
	REFUSED(shadow_copy(shadow, to, to, 1, SHADOW_COPY_PREFETCH), EINVAL);
	REFUSED(shadow_copy(shadow, NULL, from, 1, SHADOW_COPY_AUTO), EINVAL);
	REFUSED(shadow_copy(shadow, to, NULL, 1, SHADOW_COPY_AUTO), EINVAL);
	REFUSED(shadow_copy(shadow, to, from, SIZE_MAX, SHADOW_COPY_AUTO), EINVAL);
	REFUSED(shadow_copy(shadow, to, from, 1, (enum shadow_copy_method)7), EINVAL);
	free(from);
	free(to);
	CHECK(shadow_destroy(shadow) == 0);
}

/* ---- what is refused ---- */

static void null_pointers(void)
{
	struct shadow *shadow = create();
	struct shadow_info info;
	const char *text = shadow_last_error();
	long number = 0;
	char to;
	REFUSED(shadow_create(NULL, NULL), EINVAL);
	/* Who has asked before the call has the new text, too. */
	CHECK(shadow_last_error() == text);
	REFUSED(shadow_create_timeout(NULL, NULL, 0), EINVAL);
	REFUSED(shadow_fork(NULL, increment, &number), EINVAL);
	REFUSED(shadow_fork(shadow, NULL, &number), EINVAL);
	REFUSED(shadow_join(NULL), EINVAL);
	REFUSED(shadow_join_timeout(NULL, 0), EINVAL);
	REFUSED(shadow_is_finished(NULL), EINVAL);
	REFUSED(shadow_info(NULL, &info), EINVAL);
	REFUSED(shadow_info(shadow, NULL), EINVAL);
	REFUSED(shadow_copy(NULL, &to, "a", 1, SHADOW_COPY_AUTO), EINVAL);
	REFUSED(shadow_copy_timeout(NULL, &to, "a", 1, SHADOW_COPY_AUTO, 0, NULL), EINVAL);
	REFUSED(shadow_copy_prepare(NULL), EINVAL);
	REFUSED(shadow_copy_prepare_timeout(NULL, 0), EINVAL);
	/* A refused fork has forked nothing. */
	REFUSED(shadow_join(shadow), ESRCH);
	REFUSED(shadow_join_timeout(shadow, 0), ESRCH);
	CHECK(number == 0);
	CHECK(shadow_destroy(shadow) == 0);
}

static void refused_options(struct shadow_options options, int error)
{
	struct shadow *const untouched = (struct shadow *)&failures;
	struct shadow *shadow = untouched;
	cpu_set_t before = allowed(), after;
	REFUSED(shadow_create(&shadow, &options), error);
	after = allowed();
	CHECK(shadow == untouched && CPU_EQUAL(&before, &after));
}

static void bad_options(void)
{
	struct shadow_options bad = SHADOW_OPTIONS_INIT;
	const struct shadow_options init = SHADOW_OPTIONS_INIT;
	cpu_set_t before = allowed();
	int cpu = 0;
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	bad.flags = UINT32_C(1) << 31;
	refused_options(bad, EINVAL);
	bad = init;
	bad.reserved = 1;
	refused_options(bad, EINVAL);
	bad = init;
	bad.threshold_ticks = -3;
	refused_options(bad, EINVAL);
	bad = init;
	bad.main_cpu = -2;
	refused_options(bad, EINVAL);
	bad = init;
	bad.main_cpu = bad.helper_cpu = cpu;
	refused_options(bad, EINVAL);
	bad = init;
	bad.flags = SHADOW_INLINE;
	bad.helper_cpu = cpu;
	refused_options(bad, EINVAL);
	bad = init;
	bad.flags = SHADOW_INLINE | SHADOW_BIND_MAIN;
	refused_options(bad, EINVAL);
	/* More cpus than any kernel knows. */
	bad = init;
	bad.main_cpu = INT32_MAX;
	refused_options(bad, ENXIO);
	bad = init;
	bad.helper_cpu = 99999;
	refused_options(bad, ENXIO);
}

/* The helper leaves a cpu onto which its main thread was moved. */
static void main_moves(void)
{
	cpu_set_t before = allowed(), one;
	struct shadow *shadow = create();
	struct shadow_info info, now;
	long number = 0;
	CHECK(shadow_info(shadow, &info) == 0);
	CPU_ZERO(&one);
	CPU_SET(info.helper_cpu, &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	CHECK(shadow_fork(shadow, increment, &number) == 0 && shadow_join(shadow) == 0);
	CHECK(number == 1 && shadow_info(shadow, &now) == 0);
	CHECK(now.main_cpu == info.helper_cpu);
	CHECK(now.helper_cpu != now.main_cpu || CPU_COUNT(&before) == 1);
	CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
	CHECK(shadow_destroy(shadow) == 0);
}

static void cpu_not_allowed(void)
{
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	int kept, other = keep_one_cpu(&kept);
	if (other < 0) {
		printf("passed over: a cpu that is not allowed: needs a second cpu\n");
		return;
	}
	options.main_cpu = other;
	refused_options(options, ENXIO);
	options.main_cpu = -1;
	options.helper_cpu = other;
	refused_options(options, ENXIO);
	CHECK(strstr(shadow_last_error(), "allowed") != NULL);
}

static void one_cpu_allowed(void)
{
	struct shadow *shadow = NULL;
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	struct shadow_info info;
	int kept;
	keep_one_cpu(&kept);
	refused_options(options, ENODEV);
	CHECK(strstr(shadow_last_error(), "no cpu is free") != NULL);
	/* In words of both languages. */
	CHECK(strstr(shadow_last_error(), "::") == NULL);
	/* The two ways out. */
	options.flags = SHADOW_SHARE;
	CHECK(shadow_create(&shadow, &options) == 0);
	CHECK(shadow_info(shadow, &info) == 0);
	CHECK(info.relation == SHADOW_SAME && info.helper_cpu == kept);
	forks_and_joins(shadow);
	forks_and_joins(create_inline());
}

static void no_thread_to_be_had(void)
{
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	struct rlimit none = { 0, 0 };
	/* The limit does not hold for root. */
	if (geteuid() == 0 && setuid(NOBODY) != 0) {
		printf("passed over: RLIMIT_NPROC: root cannot become somebody else here\n");
		return;
	}
	options.flags = SHADOW_SHARE;
	CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
	refused_options(options, EAGAIN);
	CHECK(strstr(shadow_last_error(), "RLIMIT_NPROC") != NULL);
	forks_and_joins(create_inline());
}

static void no_such_sleep(void)
{
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	options.flags = SHADOW_SHARE;
	CHECK(setenv("KUMIKI_WAIT", "snoring", 1) == 0);
	refused_options(options, EINVAL);
	CHECK(strstr(shadow_last_error(), "snoring") != NULL);
}

/* UMWAIT is Intel's, MWAITX AMD's: no machine has both. */
static int refused_sleeps;

static void try_sleep(const char *sleep)
{
	struct shadow *shadow = NULL;
	struct shadow_options options = SHADOW_OPTIONS_INIT;
	int error;
	options.flags = SHADOW_SHARE;
	CHECK(setenv("KUMIKI_WAIT", sleep, 1) == 0);
	error = shadow_create(&shadow, &options);
	CHECK(error == 0 || error == -ENOTSUP);
	if (error == 0)
		forks_and_joins(shadow);
	else
		refused_sleeps++;
}

static void lacking_sleep(void)
{
	try_sleep("umwait");
	try_sleep("mwaitx");
	CHECK(refused_sleeps >= 1);
}

static int answers[7];

/* Calls everything that takes a shadow, and keeps the answers. */
static void use(void *argument)
{
	struct shadow *shadow = (struct shadow *)argument;
	long number = 0;
	char to;
	answers[0] = shadow_fork(shadow, increment, &number);
	answers[1] = shadow_join(shadow);
	answers[2] = shadow_join_timeout(shadow, 0);
	answers[3] = shadow_is_finished(shadow);
	answers[4] = shadow_copy(shadow, &to, "a", 1, SHADOW_COPY_AUTO);
	answers[5] = shadow_destroy(shadow);
	answers[6] = number != 0;
}

static void all_answered(int error)
{
	int i;
	for (i = 0; i < 6; i++)
		CHECK(answers[i] == -error);
	CHECK(answers[6] == 0);
	memset(answers, 0xff, sizeof(answers));
}

struct through {
	struct shadow *outer, *inner;
};

static void use_outer(void *argument)
{
	use(((struct through *)argument)->outer);
}

/* Joins on another shadow, whose function uses the outer one. */
static void through_inner(void *argument)
{
	struct through *through = (struct through *)argument;
	CHECK(shadow_fork(through->inner, use_outer, through) == 0);
	CHECK(shadow_join(through->inner) == 0);
}

static void use_from_inside(void)
{
	struct shadow *shadow = create();
	struct through through;
	int i;
	/* In the helper, and, if it comes late, in the main thread. */
	for (i = 0; i < 100; i++) {
		CHECK(shadow_fork(shadow, use, shadow) == 0);
		if (i % 2 == 0) {
			while (shadow_is_finished(shadow) == 0)
				sched_yield();
		}
		CHECK(shadow_join(shadow) == 0);
		all_answered(EDEADLK);
	}
	/* In the main thread for sure. */
	through.outer = create_inline();
	through.inner = create_inline();
	CHECK(shadow_fork(through.outer, use, through.outer) == 0);
	CHECK(shadow_join(through.outer) == 0);
	all_answered(EDEADLK);
	CHECK(shadow_fork(through.outer, through_inner, &through) == 0);
	CHECK(shadow_join(through.outer) == 0);
	all_answered(EDEADLK);
	/* All of them live on. */
	CHECK(shadow_destroy(through.inner) == 0);
	forks_and_joins(through.outer);
	forks_and_joins(shadow);
}

static void *use_elsewhere(void *argument)
{
	struct shadow_info info;
	CHECK(strcmp(shadow_last_error(), "") == 0);
	use(argument);
	CHECK(strstr(shadow_last_error(), "thread") != NULL);
	CHECK(shadow_info((struct shadow *)argument, &info) == 0);
	return NULL;
}

static void use_by_another_thread(void)
{
	struct shadow *shadow = create();
	char text[512];
	pthread_t thread;
	REFUSED(shadow_join(shadow), ESRCH);
	snprintf(text, sizeof(text), "%s", shadow_last_error());
	CHECK(pthread_create(&thread, NULL, use_elsewhere, shadow) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	all_answered(EPERM);
	/* The other thread's failures, and what succeeds here, change no text. */
	forks_and_joins(shadow);
	CHECK(strcmp(text, shadow_last_error()) == 0);
}

static struct shadow *inherited;

static void in_child_of_fork(void)
{
	long number = 0;
	REFUSED(shadow_destroy(inherited), EBUSY);
	REFUSED(shadow_join(inherited), ESRCH);
	REFUSED(shadow_join(inherited), ESRCH);
	CHECK(shadow_fork(inherited, increment, &number) == 0);
	CHECK(shadow_is_finished(inherited) == 0);
	CHECK(shadow_join_timeout(inherited, 0) == 0 && number == 1);
	CHECK(shadow_destroy(inherited) == 0);
}

static void in_child_with_what_had_ended(void)
{
	CHECK(shadow_is_finished(inherited) == 1);
	CHECK(shadow_join(inherited) == 0);
	CHECK(shadow_destroy(inherited) == 0);
}

static void fork_of_processes(void)
{
	struct gate gate;
	inherited = create();
	gate_open(&gate);
	CHECK(shadow_fork(inherited, pass, &gate) == 0);
	while (sem_wait(&gate.begun) != 0)
		;
	in_child(in_child_of_fork);
	sem_post(&gate.end);
	while (shadow_is_finished(inherited) == 0)
		sched_yield();
	in_child(in_child_with_what_had_ended);
	CHECK(shadow_join(inherited) == 0 && gate.ended == 1);
	gate_close(&gate);
	forks_and_joins(inherited);
}

int main(void)
{
	alarm(PATIENCE);
	CHECK(strcmp(shadow_last_error(), "") == 0);
	/* Children first: they shall come without anything of this process. */
	main_moves();
	in_child(cpu_not_allowed);
	in_child(one_cpu_allowed);
	in_child(no_thread_to_be_had);
	in_child(no_such_sleep);
	in_child(lacking_sleep);
	life();
	forks_and_joins(create());
	forks_and_joins(create_inline());
	thresholds();
	chosen_cpus();
	times_out();
	created_in_time();
	prepared_in_time();
	copies(create());
	copies(create_inline());
	null_pointers();
	bad_options();
	use_from_inside();
	use_by_another_thread();
	fork_of_processes();
	if (failures != 0)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
