/*
 * What <kumiki/shadow.h> refuses, and the error that it names for each. C99 and C++11
 * alike. Ends with 0 if all holds; what does not is on stderr. What a machine cannot show
 * is named and passed over.
 */
#include "shadow_common.h"

#define NOBODY 65534

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

static void null_pointers(void)
{
	struct kumiki_shadow *shadow = create();
	struct kumiki_shadow_info info;
	const char *text = kumiki_last_error();
	long number = 0;
	char to;
	REFUSED(kumiki_shadow_create(NULL, NULL), EINVAL);
	/* Who has asked before the call has the new text, too. */
	CHECK(kumiki_last_error() == text);
	REFUSED(kumiki_shadow_create_timeout(NULL, NULL, 0), EINVAL);
	REFUSED(kumiki_shadow_fork(NULL, increment, &number), EINVAL);
	REFUSED(kumiki_shadow_fork(shadow, NULL, &number), EINVAL);
	REFUSED(kumiki_shadow_join(NULL), EINVAL);
	REFUSED(kumiki_shadow_join_timeout(NULL, 0), EINVAL);
	REFUSED(kumiki_shadow_is_finished(NULL), EINVAL);
	REFUSED(kumiki_shadow_info(NULL, &info), EINVAL);
	REFUSED(kumiki_shadow_info(shadow, NULL), EINVAL);
	REFUSED(kumiki_shadow_copy(NULL, &to, "a", 1, KUMIKI_SHADOW_COPY_AUTO), EINVAL);
	REFUSED(kumiki_shadow_copy_timeout(NULL, &to, "a", 1, KUMIKI_SHADOW_COPY_AUTO, 0, NULL), EINVAL);
	REFUSED(kumiki_shadow_copy_prepare(NULL), EINVAL);
	REFUSED(kumiki_shadow_copy_prepare_timeout(NULL, 0), EINVAL);
	/* A refused fork has forked nothing. */
	REFUSED(kumiki_shadow_join(shadow), ESRCH);
	REFUSED(kumiki_shadow_join_timeout(shadow, 0), ESRCH);
	CHECK(number == 0);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
}

static void refused_options(struct kumiki_shadow_options options, int error)
{
	struct kumiki_shadow *const untouched = (struct kumiki_shadow *)&failures;
	struct kumiki_shadow *shadow = untouched;
	cpu_set_t before = allowed(), after;
	REFUSED(kumiki_shadow_create(&shadow, &options), error);
	after = allowed();
	CHECK(shadow == untouched && CPU_EQUAL(&before, &after));
}

static void bad_options(void)
{
	struct kumiki_shadow_options bad = KUMIKI_SHADOW_OPTIONS_INIT;
	const struct kumiki_shadow_options init = KUMIKI_SHADOW_OPTIONS_INIT;
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
	bad.flags = KUMIKI_SHADOW_INLINE;
	bad.helper_cpu = cpu;
	refused_options(bad, EINVAL);
	bad = init;
	bad.flags = KUMIKI_SHADOW_INLINE | KUMIKI_SHADOW_BIND_MAIN;
	refused_options(bad, EINVAL);
	/* More cpus than any kernel knows. */
	bad = init;
	bad.main_cpu = INT32_MAX;
	refused_options(bad, ENXIO);
	bad = init;
	bad.helper_cpu = 99999;
	refused_options(bad, ENXIO);
}

static void cpu_not_allowed(void)
{
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
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
	CHECK(strstr(kumiki_last_error(), "allowed") != NULL);
}

static void one_cpu_allowed(void)
{
	struct kumiki_shadow *shadow = NULL;
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	struct kumiki_shadow_info info;
	int kept;
	keep_one_cpu(&kept);
	refused_options(options, ENODEV);
	CHECK(strstr(kumiki_last_error(), "no cpu is free") != NULL);
	/* In words of both languages. */
	CHECK(strstr(kumiki_last_error(), "::") == NULL);
	/* The two ways out. */
	options.flags = KUMIKI_SHADOW_SHARE;
	CHECK(kumiki_shadow_create(&shadow, &options) == 0);
	CHECK(kumiki_shadow_info(shadow, &info) == 0);
	CHECK(info.relation == KUMIKI_SHADOW_SAME && info.helper_cpu == kept);
	forks_and_joins(shadow);
	forks_and_joins(create_inline());
}

static void no_thread_to_be_had(void)
{
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	struct rlimit none = { 0, 0 };
	/* The limit does not hold for root. */
	if (geteuid() == 0 && setuid(NOBODY) != 0) {
		printf("passed over: RLIMIT_NPROC: root cannot become somebody else here\n");
		return;
	}
	options.flags = KUMIKI_SHADOW_SHARE;
	CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
	refused_options(options, EAGAIN);
	CHECK(strstr(kumiki_last_error(), "RLIMIT_NPROC") != NULL);
	forks_and_joins(create_inline());
}

static void no_such_sleep(void)
{
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	options.flags = KUMIKI_SHADOW_SHARE;
	CHECK(setenv("KUMIKI_WAIT", "snoring", 1) == 0);
	refused_options(options, EINVAL);
	CHECK(strstr(kumiki_last_error(), "snoring") != NULL);
}

/* UMWAIT is Intel's, MWAITX AMD's: no machine has both. */
static int refused_sleeps;

static void try_sleep(const char *sleep)
{
	struct kumiki_shadow *shadow = NULL;
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	int error;
	options.flags = KUMIKI_SHADOW_SHARE;
	CHECK(setenv("KUMIKI_WAIT", sleep, 1) == 0);
	error = kumiki_shadow_create(&shadow, &options);
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
	struct kumiki_shadow *shadow = (struct kumiki_shadow *)argument;
	long number = 0;
	char to;
	answers[0] = kumiki_shadow_fork(shadow, increment, &number);
	answers[1] = kumiki_shadow_join(shadow);
	answers[2] = kumiki_shadow_join_timeout(shadow, 0);
	answers[3] = kumiki_shadow_is_finished(shadow);
	answers[4] = kumiki_shadow_copy(shadow, &to, "a", 1, KUMIKI_SHADOW_COPY_AUTO);
	answers[5] = kumiki_shadow_destroy(shadow);
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
	struct kumiki_shadow *outer, *inner;
};

static void use_outer(void *argument)
{
	use(((struct through *)argument)->outer);
}

/* Joins on another shadow, whose function uses the outer one. */
static void through_inner(void *argument)
{
	struct through *through = (struct through *)argument;
	CHECK(kumiki_shadow_fork(through->inner, use_outer, through) == 0);
	CHECK(kumiki_shadow_join(through->inner) == 0);
}

static void use_from_inside(void)
{
	struct kumiki_shadow *shadow = create();
	struct through through;
	int i;
	/* In the helper, and, if it comes late, in the main thread. */
	for (i = 0; i < 100; i++) {
		CHECK(kumiki_shadow_fork(shadow, use, shadow) == 0);
		if (i % 2 == 0) {
			while (kumiki_shadow_is_finished(shadow) == 0)
				sched_yield();
		}
		CHECK(kumiki_shadow_join(shadow) == 0);
		all_answered(EDEADLK);
	}
	/* In the main thread for sure. */
	through.outer = create_inline();
	through.inner = create_inline();
	CHECK(kumiki_shadow_fork(through.outer, use, through.outer) == 0);
	CHECK(kumiki_shadow_join(through.outer) == 0);
	all_answered(EDEADLK);
	CHECK(kumiki_shadow_fork(through.outer, through_inner, &through) == 0);
	CHECK(kumiki_shadow_join(through.outer) == 0);
	all_answered(EDEADLK);
	/* All of them live on. */
	CHECK(kumiki_shadow_destroy(through.inner) == 0);
	forks_and_joins(through.outer);
	forks_and_joins(shadow);
}

static void *use_elsewhere(void *argument)
{
	struct kumiki_shadow_info info;
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	use(argument);
	CHECK(strstr(kumiki_last_error(), "thread") != NULL);
	CHECK(kumiki_shadow_info((struct kumiki_shadow *)argument, &info) == 0);
	return NULL;
}

static void use_by_another_thread(void)
{
	struct kumiki_shadow *shadow = create();
	char text[512];
	pthread_t thread;
	REFUSED(kumiki_shadow_join(shadow), ESRCH);
	snprintf(text, sizeof(text), "%s", kumiki_last_error());
	CHECK(pthread_create(&thread, NULL, use_elsewhere, shadow) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	all_answered(EPERM);
	/* The other thread's failures, and what succeeds here, change no text. */
	forks_and_joins(shadow);
	CHECK(strcmp(text, kumiki_last_error()) == 0);
}

int main(void)
{
	alarm(PATIENCE);
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	/* Children first: they shall come without anything of this process. */
	in_child(cpu_not_allowed);
	in_child(one_cpu_allowed);
	in_child(no_thread_to_be_had);
	in_child(no_such_sleep);
	in_child(lacking_sleep);
	null_pointers();
	bad_options();
	use_from_inside();
	use_by_another_thread();
	if (failures != 0)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
