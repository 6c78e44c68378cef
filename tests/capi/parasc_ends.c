/*
 * Ends that <kumiki/parasc.h> promises: of an engine with requests, under a wait, of threads
 * that are cancelled, and in a child of fork(2). C99 and C++11 alike.
 */
#include "parasc_common.h"

static void terminated_with_requests(void)
{
	struct kumiki_parasc_engine *engine = create_without_threads();
	uint64_t tickets[3];
	int i;
	for (i = 0; i < 3; i++)
		tickets[i] = place(engine, SYS_getppid);
	CHECK(kumiki_parasc_terminate(engine) == 0);
	CHECK(kumiki_parasc_proc(engine) == 0);
	/* Waits for no more than can come. */
	CHECK(kumiki_parasc_wait(engine, 10, KUMIKI_PARASC_FOREVER) == 3);
	for (i = 0; i < 3; i++)
		CHECK(collected(engine, tickets[i]) == -ECANCELED);
	CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static char byte;

/* One that is executed, in a read that has nothing to read, and one that waits. */
static void destroyed_in_flight(struct kumiki_parasc_engine *engine, int with_thread)
{
	int ends[2], i;
	uint64_t args[3], ticket;
	pthread_t thread;
	CHECK(pipe(ends) == 0);
	if (with_thread) {
		CHECK(pthread_create(&thread, NULL, process, engine) == 0);
		/* There is no other thread: once it has answered it is in there, as it must
		 * be before the engine is destroyed. */
		ticket = place(engine, SYS_getppid);
		CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == 1);
		CHECK(collected(engine, ticket) == getppid());
	}
	args[0] = (uint64_t)ends[0];
	args[1] = (uintptr_t)&byte;
	args[2] = 1;
	for (i = 0; i < 3; i++)
		CHECK(kumiki_parasc_request(engine, SYS_read, 3, args, &ticket) == 0);
	CHECK(kumiki_parasc_wait(engine, 1, 5000000) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
	/* Ends the reads; who was in one lets go of the engine. */
	close(ends[1]);
	if (with_thread)
		CHECK(pthread_join(thread, NULL) == 0);
	close(ends[0]);
}

static void *wait_for_ever(void *engine)
{
	CHECK(kumiki_parasc_wait((struct kumiki_parasc_engine *)engine, 1, KUMIKI_PARASC_FOREVER) == 0);
	return NULL;
}

static void destroyed_under_a_wait(void)
{
	struct kumiki_parasc_engine *engine = create_without_threads();
	struct timespec pause = { 0, 20000000 };
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, wait_for_ever, engine) == 0);
	/* It is in there by then; if not, terminated is what it finds. */
	nanosleep(&pause, NULL);
	CHECK(kumiki_parasc_terminate(engine) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static void cancelled(void)
{
	struct kumiki_parasc_engine *engine = create_without_threads();
	pthread_t first, second;
	uint64_t ticket;
	void *result = NULL;
	int i;
	for (i = 0; i < 5; i++) {
		CHECK(pthread_create(&first, NULL, process, engine) == 0);
		ticket = place(engine, SYS_getppid);
		CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == 1);
		CHECK(collected(engine, ticket) == getppid());
		CHECK(pthread_cancel(first) == 0);
		CHECK(pthread_join(first, &result) == 0 && result == PTHREAD_CANCELED);
	}
	/* What nobody has begun is another's. */
	ticket = place(engine, SYS_getppid);
	CHECK(pthread_create(&second, NULL, process, engine) == 0);
	CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == 1);
	CHECK(collected(engine, ticket) == getppid());
	CHECK(kumiki_parasc_destroy(engine) == 0);
	CHECK(pthread_join(second, NULL) == 0);
}

/* Is cancelled all the time, and must not find that in a call of the library. */
static void *run_cancelled(void *config)
{
	struct kumiki_parasc_engine *engine = create((const struct kumiki_parasc_config *)config);
	struct kumiki_parasc_requester *requester = NULL;
	struct kumiki_parasc_call calls[2];
	int64_t ret_vals[2];
	int i;
	memset(calls, 0, sizeof(calls));
	calls[0].sysnum = calls[1].sysnum = SYS_getppid;
	CHECK(pthread_cancel(pthread_self()) == 0);
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	for (i = 0; i < 20; i++) {
		size_t n = 1 + (size_t)(i % 2);
		ret_vals[0] = ret_vals[n - 1] = 7;
		CHECK(kumiki_parasc_run(requester, calls, ret_vals, n) == 0);
		CHECK(ret_vals[0] == getppid() && ret_vals[n - 1] == getppid());
	}
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
	return NULL;
}

static void cancelled_in_a_batch(void)
{
	struct kumiki_parasc_config config = KUMIKI_PARASC_CONFIG_INIT;
	int round;
	for (round = 0; round < 2; round++) {
		pthread_t thread;
		void *result = PTHREAD_CANCELED;
		config.flags = round == 0 ? 0 : KUMIKI_PARASC_NO_HELP;
		CHECK(pthread_create(&thread, NULL, run_cancelled, &config) == 0);
		CHECK(pthread_join(thread, &result) == 0 && result == NULL);
	}
}

/* Runs a test in a child of fork(2), which must end well. */
static void in_child(void (*test)(struct kumiki_parasc_engine *, struct kumiki_parasc_requester *),
                     struct kumiki_parasc_engine *engine, struct kumiki_parasc_requester *requester)
{
	int status = -1;
	pid_t child;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		failures = 0;
		alarm(PATIENCE); /* is not inherited */
		test(engine, requester);
		fflush(NULL);
		_exit(failures != 0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(status == 0);
}

static void use(struct kumiki_parasc_engine *engine, struct kumiki_parasc_requester *requester)
{
	struct kumiki_parasc_call calls[100];
	int64_t ret_vals[100];
	uint64_t ticket;
	int i;
	memset(calls, 0, sizeof(calls));
	for (i = 0; i < 100; i++)
		calls[i].sysnum = SYS_getpid;
	for (i = 0; i < 10; i++)
		CHECK(kumiki_parasc_run(requester, calls, ret_vals, 100) == 0);
	for (i = 0; i < 100; i++)
		CHECK(ret_vals[i] == getpid());
	ticket = place(engine, SYS_getppid);
	CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == 1);
	CHECK(collected(engine, ticket) == getppid());
}

/* In a child, where kumiki_parasc_proc() returns at once. */
static void use_and_destroy(struct kumiki_parasc_engine *engine, struct kumiki_parasc_requester *requester)
{
	use(engine, requester);
	CHECK(kumiki_parasc_proc(engine) == 0);
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static void forked(void)
{
	struct kumiki_parasc_engine *engine = create(NULL);
	struct kumiki_parasc_requester *requester = NULL;
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	use(engine, requester);
	in_child(use_and_destroy, engine, requester);
	in_child(use, engine, requester);
	use(engine, requester);
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

int main(void)
{
	alarm(PATIENCE);
	terminated_with_requests();
	destroyed_in_flight(create_without_threads(), 1);
	destroyed_in_flight(create_without_threads(), 0);
	destroyed_in_flight(create(NULL), 0);
	destroyed_under_a_wait();
	cancelled();
	cancelled_in_a_batch();
	forked();
	if (failures != 0)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
