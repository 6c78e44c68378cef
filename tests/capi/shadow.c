/*
 * What <kumiki/shadow.h> promises: every function, and forks of processes. Refusals are
 * in shadow_refused.c. C99 and C++11 alike. Ends with 0 if all holds; what does not is on
 * stderr. What a machine cannot show is named and passed over.
 */
#include "shadow_common.h"

static void life(void)
{
	cpu_set_t before = allowed(), during, after;
	struct kumiki_shadow *shadow = create();
	struct kumiki_shadow_options bound = KUMIKI_SHADOW_OPTIONS_INIT;
	struct kumiki_shadow_info info;
	during = allowed();
	memset(&info, 0xff, sizeof(info));
	CHECK(kumiki_shadow_info(shadow, &info) == 0);
	CHECK(info.main_cpu >= 0 && CPU_ISSET(info.main_cpu, &before));
	CHECK(info.helper_cpu >= 0 && CPU_ISSET(info.helper_cpu, &before));
	CHECK(CPU_EQUAL(&before, &during));
	CHECK(info.relation <= KUMIKI_SHADOW_REMOTE);
	CHECK((info.relation == KUMIKI_SHADOW_SAME) == (info.main_cpu == info.helper_cpu));
	CHECK((info.relation == KUMIKI_SHADOW_CACHE) == (info.cache_level > 0));
	CHECK(info.sleep >= KUMIKI_SHADOW_SLEEP_UMWAIT && info.sleep <= KUMIKI_SHADOW_SLEEP_MWAIT);
	CHECK(info.asymmetric <= 1);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
	after = allowed();
	CHECK(CPU_EQUAL(&before, &after));

	bound.flags = KUMIKI_SHADOW_SHARE | KUMIKI_SHADOW_BIND_MAIN;
	CHECK(kumiki_shadow_create(&shadow, &bound) == 0);
	during = allowed();
	CHECK(kumiki_shadow_info(shadow, &info) == 0);
	CHECK(CPU_COUNT(&during) == 1 && CPU_ISSET(info.main_cpu, &during));
	CHECK(kumiki_shadow_destroy(shadow) == 0);
	after = allowed();
	CHECK(CPU_EQUAL(&before, &after));

	shadow = create_inline();
	CHECK(kumiki_shadow_info(shadow, &info) == 0);
	CHECK(info.main_cpu == -1 && info.helper_cpu == -1);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
	CHECK(kumiki_shadow_destroy(NULL) == 0);
}

static void thresholds(void)
{
	static const int64_t thresholds[] = { 0, 1000, INT64_MAX, KUMIKI_SHADOW_INFINITE };
	size_t i;
	for (i = 0; i < sizeof(thresholds) / sizeof(*thresholds); i++) {
		struct kumiki_shadow *shadow = NULL;
		struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
		long number = 1;
		options.threshold_ticks = thresholds[i];
		options.flags = KUMIKI_SHADOW_SHARE;
		CHECK(kumiki_shadow_create(&shadow, &options) == 0);
		CHECK(kumiki_shadow_fork(shadow, increment, &number) == 0);
		CHECK(kumiki_shadow_join(shadow) == 0 && number == 2);
		CHECK(kumiki_shadow_destroy(shadow) == 0);
	}
}

static void chosen_cpus(void)
{
	struct kumiki_shadow *shadow = NULL;
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	struct kumiki_shadow_info info;
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
	options.flags = KUMIKI_SHADOW_SHARE;
	CHECK(kumiki_shadow_create(&shadow, &options) == 0);
	CHECK(kumiki_shadow_info(shadow, &info) == 0);
	CHECK(info.main_cpu == last && info.helper_cpu == first);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
}

static void times_out(void)
{
	struct kumiki_shadow *shadow = create();
	struct gate gate;
	gate_open(&gate);
	CHECK(kumiki_shadow_is_finished(shadow) == 0);
	CHECK(kumiki_shadow_fork(shadow, pass, &gate) == 0);
	/* Begun or not, it is left to the helper. */
	REFUSED(kumiki_shadow_join_timeout(shadow, 0), ETIMEDOUT);
	while (sem_wait(&gate.begun) != 0)
		;
	CHECK(kumiki_shadow_is_finished(shadow) == 0);
	REFUSED(kumiki_shadow_join_timeout(shadow, 0), ETIMEDOUT);
	REFUSED(kumiki_shadow_join_timeout(shadow, 2000000), ETIMEDOUT);
	/* Everything that needs the helper is refused, and nothing waits. */
	REFUSED(kumiki_shadow_fork(shadow, pass, &gate), EBUSY);
	REFUSED(kumiki_shadow_copy(shadow, &gate.ended, "1234", 4, KUMIKI_SHADOW_COPY_AUTO), EBUSY);
	REFUSED(kumiki_shadow_copy_prepare(shadow), EBUSY);
	REFUSED(kumiki_shadow_copy_prepare_timeout(shadow, UINT64_MAX), EBUSY);
	REFUSED(kumiki_shadow_destroy(shadow), EBUSY);
	CHECK(gate.ended == 0);
	sem_post(&gate.end);
	while (kumiki_shadow_is_finished(shadow) == 0)
		sched_yield();
	CHECK(kumiki_shadow_is_finished(shadow) == 1 && gate.ended == 1);
	/* It has ended, and still is to be joined. */
	REFUSED(kumiki_shadow_destroy(shadow), EBUSY);
	CHECK(kumiki_shadow_join_timeout(shadow, 0) == 0);
	CHECK(kumiki_shadow_is_finished(shadow) == 0);
	REFUSED(kumiki_shadow_join(shadow), ESRCH);
	gate_close(&gate);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
}

static void created_in_time(void)
{
	struct kumiki_shadow *const untouched = (struct kumiki_shadow *)&failures;
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	cpu_set_t before = allowed(), after;
	int i, late = 0;
	options.flags = KUMIKI_SHADOW_SHARE;
	for (i = 0; i < 50; i++) {
		struct kumiki_shadow *shadow = untouched;
		int error = kumiki_shadow_create_timeout(&shadow, &options, 0);
		CHECK(error == 0 || (error == -ETIMEDOUT && shadow == untouched));
		if (error == 0)
			CHECK(kumiki_shadow_destroy_timeout(shadow, 0) == 0);
		else
			late++;
		after = allowed();
		CHECK(CPU_EQUAL(&before, &after));
	}
	/* No thread starts in no time. */
	CHECK(late > 0);
	for (i = 0; i < 2; i++) {
		struct kumiki_shadow *shadow = NULL;
		long number = 1;
		options.flags = i == 0 ? KUMIKI_SHADOW_SHARE : KUMIKI_SHADOW_INLINE;
		CHECK(kumiki_shadow_create_timeout(&shadow, &options, UINT64_MAX) == 0);
		CHECK(kumiki_shadow_fork(shadow, increment, &number) == 0);
		REFUSED(kumiki_shadow_destroy_timeout(shadow, UINT64_MAX), EBUSY);
		CHECK(kumiki_shadow_join(shadow) == 0 && number == 2);
		CHECK(kumiki_shadow_destroy_timeout(shadow, UINT64_MAX) == 0);
	}
	CHECK(kumiki_shadow_destroy_timeout(NULL, 0) == 0);
}

/* Before all copies: what is known is known to the process. */
static void prepared_in_time(void)
{
	struct kumiki_shadow *shadow = create();
	REFUSED(kumiki_shadow_copy_prepare_timeout(shadow, 0), ETIMEDOUT);
	CHECK(strstr(kumiki_last_error(), "0 of 104 measurements") != NULL);
	/* Too short for the pages alone. */
	REFUSED(kumiki_shadow_copy_prepare_timeout(shadow, 20000), ETIMEDOUT);
	REFUSED(kumiki_shadow_copy_prepare_timeout(shadow, 0), ETIMEDOUT);
	CHECK(strstr(kumiki_last_error(), " of 104 measurements") != NULL);
	CHECK(kumiki_shadow_copy_prepare_timeout(shadow, UINT64_MAX) == 0);
	/* There is nothing left to do. */
	CHECK(kumiki_shadow_copy_prepare_timeout(shadow, 0) == 0);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
}

static void copies(struct kumiki_shadow *shadow)
{
	static const size_t lengths[] = { 1, 63, 64, 65, 4095, 4096, 65537, 3 << 20 };
	size_t room = (3 << 20) + 64, i, j, at;
	unsigned char *from = (unsigned char *)malloc(room), *to = (unsigned char *)malloc(room);
	int method;
	CHECK(from != NULL && to != NULL);
	for (i = 0; i < room; i++)
		from[i] = (unsigned char)(i * 7 + i / 251);
	CHECK(kumiki_shadow_copy_prepare(shadow) == 0);
	CHECK(kumiki_shadow_copy_prepare(shadow) == 0);
	for (method = KUMIKI_SHADOW_COPY_AUTO; method <= KUMIKI_SHADOW_COPY_COLD; method++) {
		enum kumiki_shadow_copy_method how = (enum kumiki_shadow_copy_method)method;
		CHECK(kumiki_shadow_copy(shadow, NULL, NULL, 0, how) == 0);
		for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
			size_t length = lengths[i];
			for (at = 0; at < 2; at++) {
				memset(to, 0xa5, room);
				CHECK(kumiki_shadow_copy(shadow, to + 16 + at, from + 3, length, how) == 0);
				CHECK(memcmp(to + 16 + at, from + 3, length) == 0);
				for (j = 0; j < 16; j++)
					CHECK(to[j] == 0xa5 && to[16 + at + length + j] == 0xa5);
			}
		}
	}
	for (method = KUMIKI_SHADOW_COPY_AUTO; method <= KUMIKI_SHADOW_COPY_COLD; method++) {
		enum kumiki_shadow_copy_method how = (enum kumiki_shadow_copy_method)method;
		size_t copied = 1;
		memset(to, 0xa5, room);
		REFUSED(kumiki_shadow_copy_timeout(shadow, to, from, room, how, 0, &copied), ETIMEDOUT);
		CHECK(copied == 0 && to[0] == 0xa5);
		CHECK(kumiki_shadow_copy_timeout(shadow, to, from, room, how, UINT64_MAX, &copied) == 0);
		CHECK(copied == room && memcmp(to, from, room) == 0);
		REFUSED(kumiki_shadow_copy_timeout(shadow, to, to, 1, how, UINT64_MAX, &copied), EINVAL);
		CHECK(copied == room);
		CHECK(kumiki_shadow_copy_timeout(shadow, to, from, 1, how, UINT64_MAX, NULL) == 0);
	}
	/* Neighbours are no overlap; one byte in common is. */
	CHECK(kumiki_shadow_copy(shadow, to, to + 64, 64, KUMIKI_SHADOW_COPY_SPLIT) == 0);
	REFUSED(kumiki_shadow_copy(shadow, to, to + 63, 64, KUMIKI_SHADOW_COPY_SPLIT), EINVAL);
	REFUSED(kumiki_shadow_copy(shadow, to + 63, to, 64, KUMIKI_SHADOW_COPY_AUTO), EINVAL);
	REFUSED(kumiki_shadow_copy(shadow, to, to, 1, KUMIKI_SHADOW_COPY_PREFETCH), EINVAL);
	REFUSED(kumiki_shadow_copy(shadow, NULL, from, 1, KUMIKI_SHADOW_COPY_AUTO), EINVAL);
	REFUSED(kumiki_shadow_copy(shadow, to, NULL, 1, KUMIKI_SHADOW_COPY_AUTO), EINVAL);
	REFUSED(kumiki_shadow_copy(shadow, to, from, SIZE_MAX, KUMIKI_SHADOW_COPY_AUTO), EINVAL);
	REFUSED(kumiki_shadow_copy(shadow, to, from, 1, (enum kumiki_shadow_copy_method)7), EINVAL);
	free(from);
	free(to);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
}

/* The helper leaves a cpu onto which its main thread was moved. */
static void main_moves(void)
{
	cpu_set_t before = allowed(), one;
	struct kumiki_shadow *shadow = create();
	struct kumiki_shadow_info info, now;
	long number = 0;
	CHECK(kumiki_shadow_info(shadow, &info) == 0);
	CPU_ZERO(&one);
	CPU_SET(info.helper_cpu, &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	CHECK(kumiki_shadow_fork(shadow, increment, &number) == 0 && kumiki_shadow_join(shadow) == 0);
	CHECK(number == 1 && kumiki_shadow_info(shadow, &now) == 0);
	CHECK(now.main_cpu == info.helper_cpu);
	CHECK(now.helper_cpu != now.main_cpu || CPU_COUNT(&before) == 1);
	CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
}

static struct kumiki_shadow *inherited;

static void in_child_of_fork(void)
{
	long number = 0;
	REFUSED(kumiki_shadow_destroy(inherited), EBUSY);
	REFUSED(kumiki_shadow_join(inherited), ESRCH);
	REFUSED(kumiki_shadow_join(inherited), ESRCH);
	CHECK(kumiki_shadow_fork(inherited, increment, &number) == 0);
	CHECK(kumiki_shadow_is_finished(inherited) == 0);
	CHECK(kumiki_shadow_join_timeout(inherited, 0) == 0 && number == 1);
	CHECK(kumiki_shadow_destroy(inherited) == 0);
}

static void in_child_with_what_had_ended(void)
{
	CHECK(kumiki_shadow_is_finished(inherited) == 1);
	CHECK(kumiki_shadow_join(inherited) == 0);
	CHECK(kumiki_shadow_destroy(inherited) == 0);
}

static void fork_of_processes(void)
{
	struct gate gate;
	inherited = create();
	gate_open(&gate);
	CHECK(kumiki_shadow_fork(inherited, pass, &gate) == 0);
	while (sem_wait(&gate.begun) != 0)
		;
	in_child(in_child_of_fork);
	sem_post(&gate.end);
	while (kumiki_shadow_is_finished(inherited) == 0)
		sched_yield();
	in_child(in_child_with_what_had_ended);
	CHECK(kumiki_shadow_join(inherited) == 0 && gate.ended == 1);
	gate_close(&gate);
	forks_and_joins(inherited);
}

int main(void)
{
	alarm(PATIENCE);
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	/* First: its helper shall find nothing else of this process. */
	main_moves();
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
	fork_of_processes();
	if (failures != 0)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
