/*
 * What <kumiki/parasc.h> promises: every function, the errors that it names.
 * C99 and C++11 alike. Ends with 0 if all holds; what does not is on stderr.
 */
#ifndef _GNU_SOURCE /* g++ defines it */
#define _GNU_SOURCE /* syscall(2) */
#endif
#include <kumiki/parasc.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static struct parasc_engine *create(const struct parasc_config *config)
{
	struct parasc_engine *engine = NULL;
	if (parasc_create(&engine, config) < 0) {
		fprintf(stderr, "parasc_create: %s\n", kumiki_last_error());
		exit(1);
	}
	return engine;
}

/* One whose only processing threads are those of this program. */
static struct parasc_engine *create_without_threads(void)
{
	struct parasc_config config = PARASC_CONFIG_INIT;
	config.flags = PARASC_NO_THREADS;
	return create(&config);
}

static uint64_t place(struct parasc_engine *engine, long sysnum)
{
	uint64_t ticket = 0;
	CHECK(parasc_request(engine, sysnum, 0, NULL, &ticket) == 0);
	CHECK(ticket != 0);
	return ticket;
}

static int64_t collected(struct parasc_engine *engine, uint64_t ticket)
{
	int64_t ret_val = INT64_MIN;
	CHECK(parasc_collect(engine, ticket, &ret_val) == 1);
	return ret_val;
}

/* ---- what works ---- */

#define BYTES 32
#define MOST 700 /* more than a lane has slots */

/* Batches of reads at many places of a file, and of calls that fail. */
static void batches(const struct parasc_config *config)
{
	static const size_t sizes[] = { 0, 1, 2, 5, 50, 300, MOST };
	static char bytes[MOST][BYTES];
	static struct parasc_call calls[MOST];
	static int64_t ret_vals[MOST];
	struct parasc_engine *engine = create(config);
	struct parasc_requester *requester = NULL;
	FILE *file = tmpfile();
	size_t round, size, i;
	int fd;
	if (!CHECK(file != NULL))
		return;
	fd = fileno(file);
	for (i = 0; i < MOST * BYTES / 2 + 7; i++)
		fputc((int)(i % 251), file);
	fflush(file);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	for (round = 0; round < 30; round++) {
		for (size = 0; size < sizeof(sizes) / sizeof(*sizes); size++) {
			size_t n = sizes[size];
			memset(bytes, 0xee, sizeof(bytes));
			for (i = 0; i < n; i++) {
				memset(&calls[i], 0, sizeof(calls[i]));
				calls[i].sysnum = SYS_pread64;
				calls[i].args_num = 4;
				/* Every seventh has a bad descriptor. */
				calls[i].args[0] = i % 7 == 6 ? (uint64_t)-1 : (uint64_t)fd;
				calls[i].args[1] = (uintptr_t)bytes[i];
				calls[i].args[2] = BYTES;
				calls[i].args[3] = i * BYTES;
				ret_vals[i] = INT64_MIN;
			}
			CHECK(parasc_run(requester, n > 0 ? calls : NULL, n > 0 ? ret_vals : NULL, n) == 0);
			for (i = 0; i < n; i++) {
				char plain[BYTES];
				ssize_t got;
				memset(plain, 0xee, sizeof(plain));
				got = pread(i % 7 == 6 ? -1 : fd, plain, BYTES, (off_t)(i * BYTES));
				if (!CHECK(ret_vals[i] == (got < 0 ? -errno : got)) ||
				    !CHECK(memcmp(plain, bytes[i], BYTES) == 0))
					break;
			}
		}
	}
	fclose(file);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_requester_destroy(NULL) == 0);
	CHECK(parasc_destroy(engine) == 0);
	CHECK(parasc_destroy(NULL) == 0);
}

static void *process(void *engine)
{
	CHECK(parasc_proc((struct parasc_engine *)engine) == 0);
	return NULL;
}

static void two_processing_threads(void)
{
	struct parasc_engine *engine = create_without_threads();
	struct parasc_requester *requester = NULL;
	struct parasc_call calls[40];
	int64_t ret_vals[40];
	uint64_t tickets[100];
	pthread_t threads[2];
	int64_t ret_val = 42;
	int i, round;
	/* Nobody is there yet. */
	tickets[0] = place(engine, SYS_getppid);
	CHECK(parasc_wait(engine, 1, 0) == 0);
	CHECK(parasc_wait(engine, 1, 2000000) == 0);
	CHECK(parasc_collect(engine, tickets[0], &ret_val) == 0 && ret_val == 42);
	for (i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, process, engine) == 0);
	CHECK(parasc_wake_up(engine) == 0);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 1);
	CHECK(collected(engine, tickets[0]) == getppid());
	REFUSED(parasc_collect(engine, tickets[0], &ret_val), ENOENT);
	for (round = 0; round < 50; round++) {
		for (i = 0; i < 100; i++)
			tickets[i] = place(engine, i % 2 == 0 ? SYS_getppid : SYS_getpid);
		CHECK(parasc_wait(engine, 30, PARASC_FOREVER) >= 30);
		CHECK(parasc_wait(engine, 100, PARASC_FOREVER) == 100);
		/* No more will come. */
		CHECK(parasc_wait(engine, 101, 1000000) == 100);
		for (i = 99; i >= 0; i--)
			CHECK(collected(engine, tickets[i]) == (i % 2 == 0 ? getppid() : getpid()));
	}
	CHECK(parasc_wait(engine, 0, PARASC_FOREVER) == 0);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	memset(calls, 0, sizeof(calls));
	for (i = 0; i < 40; i++)
		calls[i].sysnum = SYS_getppid;
	CHECK(parasc_run(requester, calls, ret_vals, 40) == 0);
	for (i = 0; i < 40; i++)
		CHECK(ret_vals[i] == getppid());
	CHECK(parasc_terminate(engine) == 0);
	for (i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	REFUSED(parasc_request(engine, SYS_getppid, 0, NULL, tickets), ESHUTDOWN);
	/* A requester lives on, also past its engine. */
	CHECK(parasc_destroy(engine) == 0);
	CHECK(parasc_run(requester, calls, ret_vals, 40) == 0 && ret_vals[39] == getppid());
	CHECK(parasc_requester_destroy(requester) == 0);
}

static void *name_and_process(void *engine)
{
	CHECK(pthread_setname_np(pthread_self(), "of the program") == 0);
	return process(engine);
}

/* Whether the thread of this number is one of those. */
static int is_of_the_program(int64_t tid)
{
	char path[64], name[32] = "";
	FILE *file;
	snprintf(path, sizeof(path), "/proc/self/task/%ld/comm", (long)tid);
	file = fopen(path, "r");
	if (file != NULL) {
		CHECK(fgets(name, sizeof(name), file) != NULL);
		fclose(file);
	}
	return strcmp(name, "of the program\n") == 0;
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The paper's set-up: the program's threads serve, and no others. */
static void threads_of_the_program_serve_batches(int own)
{
	struct parasc_config config = PARASC_CONFIG_INIT;
	struct timespec pause = { 0, 2000000 };
	struct parasc_engine *engine;
	struct parasc_requester *requester = NULL;
	static struct parasc_call calls[300];
	static int64_t ret_vals[300];
	pthread_t threads[8];
	int64_t me = syscall(SYS_gettid);
	int i, theirs = 0, shorter = 0;
	config.flags = PARASC_NO_THREADS | PARASC_WRONG_THREAD_ANSWERS;
	engine = create(&config);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	for (i = 0; i < own; i++)
		CHECK(pthread_create(&threads[i], NULL, name_and_process, engine) == 0);
	memset(calls, 0, sizeof(calls));
	for (i = 0; i < 300; i++)
		calls[i].sysnum = SYS_gettid;
	/* Until one has made some, as long as the test may take: with a single cpu none does. */
	while (theirs == 0 && sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		CHECK(parasc_run(requester, calls, ret_vals, 300) == 0);
		for (i = 0; i < 300; i++) {
			int its = ret_vals[i] != me;
			theirs += its;
			if (its && !CHECK(is_of_the_program(ret_vals[i])))
				break;
		}
	}
	/* Until some have slept at the same time, whoever else is on the machine. */
	for (i = 0; i < 12; i++) {
		calls[i].sysnum = SYS_nanosleep;
		calls[i].args_num = 2;
		calls[i].args[0] = (uintptr_t)&pause;
	}
	while (!shorter) {
		double start = seconds();
		CHECK(parasc_run(requester, calls, ret_vals, 12) == 0);
		shorter = seconds() - start < 12 * 0.002;
		for (i = 0; i < 12; i++)
			CHECK(ret_vals[i] == 0);
	}
	CHECK(parasc_terminate(engine) == 0);
	for (i = 0; i < own; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

static void threads_of_the_engine(void)
{
	struct parasc_engine *engine = create(NULL);
	uint64_t tickets[8], args[2];
	struct timespec pause = { 0, 1000000 };
	int i;
	args[0] = (uintptr_t)&pause;
	args[1] = 0;
	for (i = 0; i < 8; i++)
		CHECK(parasc_request(engine, SYS_nanosleep, 2, args, &tickets[i]) == 0);
	CHECK(parasc_wait(engine, 8, PARASC_FOREVER) == 8);
	for (i = 0; i < 8; i++)
		CHECK(collected(engine, tickets[i]) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

/* ---- ends ---- */

static void terminated_with_requests(void)
{
	struct parasc_engine *engine = create_without_threads();
	uint64_t tickets[3];
	int i;
	for (i = 0; i < 3; i++)
		tickets[i] = place(engine, SYS_getppid);
	CHECK(parasc_terminate(engine) == 0);
	CHECK(parasc_proc(engine) == 0);
	/* Waits for no more than can come. */
	CHECK(parasc_wait(engine, 10, PARASC_FOREVER) == 3);
	for (i = 0; i < 3; i++)
		CHECK(collected(engine, tickets[i]) == -ECANCELED);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

static char byte;

/* One that is executed, in a read that has nothing to read, and one that waits. */
static void destroyed_in_flight(struct parasc_engine *engine, int with_thread)
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
		CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 1);
		CHECK(collected(engine, ticket) == getppid());
	}
	args[0] = (uint64_t)ends[0];
	args[1] = (uintptr_t)&byte;
	args[2] = 1;
	for (i = 0; i < 3; i++)
		CHECK(parasc_request(engine, SYS_read, 3, args, &ticket) == 0);
	CHECK(parasc_wait(engine, 1, 5000000) == 0);
	CHECK(parasc_destroy(engine) == 0);
	/* Ends the reads; who was in one lets go of the engine. */
	close(ends[1]);
	if (with_thread)
		CHECK(pthread_join(thread, NULL) == 0);
	close(ends[0]);
}

static void *wait_for_ever(void *engine)
{
	CHECK(parasc_wait((struct parasc_engine *)engine, 1, PARASC_FOREVER) == 0);
	return NULL;
}

static void destroyed_under_a_wait(void)
{
	struct parasc_engine *engine = create_without_threads();
	struct timespec pause = { 0, 20000000 };
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, wait_for_ever, engine) == 0);
	/* It is in there by then; if not, terminated is what it finds. */
	nanosleep(&pause, NULL);
	CHECK(parasc_terminate(engine) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

static void cancelled(void)
{
	struct parasc_engine *engine = create_without_threads();
	pthread_t first, second;
	uint64_t ticket;
	void *result = NULL;
	int i;
	for (i = 0; i < 5; i++) {
		CHECK(pthread_create(&first, NULL, process, engine) == 0);
		ticket = place(engine, SYS_getppid);
		CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 1);
		CHECK(collected(engine, ticket) == getppid());
		CHECK(pthread_cancel(first) == 0);
		CHECK(pthread_join(first, &result) == 0 && result == PTHREAD_CANCELED);
	}
	/* What nobody has begun is another's. */
	ticket = place(engine, SYS_getppid);
	CHECK(pthread_create(&second, NULL, process, engine) == 0);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 1);
	CHECK(collected(engine, ticket) == getppid());
	CHECK(parasc_destroy(engine) == 0);
	CHECK(pthread_join(second, NULL) == 0);
}

/* Is cancelled all the time, and must not find that in a call of the library. */
static void *run_cancelled(void *config)
{
	struct parasc_engine *engine = create((const struct parasc_config *)config);
	struct parasc_requester *requester = NULL;
	struct parasc_call calls[2];
	int64_t ret_vals[2];
	int i;
	memset(calls, 0, sizeof(calls));
	calls[0].sysnum = calls[1].sysnum = SYS_getppid;
	CHECK(pthread_cancel(pthread_self()) == 0);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	for (i = 0; i < 20; i++) {
		size_t n = 1 + (size_t)(i % 2);
		ret_vals[0] = ret_vals[n - 1] = 7;
		CHECK(parasc_run(requester, calls, ret_vals, n) == 0);
		CHECK(ret_vals[0] == getppid() && ret_vals[n - 1] == getppid());
	}
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);
	return NULL;
}

static void cancelled_in_a_batch(void)
{
	struct parasc_config config = PARASC_CONFIG_INIT;
	int round;
	for (round = 0; round < 2; round++) {
		pthread_t thread;
		void *result = PTHREAD_CANCELED;
		config.flags = round == 0 ? 0 : PARASC_NO_HELP;
		CHECK(pthread_create(&thread, NULL, run_cancelled, &config) == 0);
		CHECK(pthread_join(thread, &result) == 0 && result == NULL);
	}
}

/* Runs a test in a child of fork(2), which must end well. */
static void in_child(void (*test)(struct parasc_engine *, struct parasc_requester *),
                     struct parasc_engine *engine, struct parasc_requester *requester)
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

static void use(struct parasc_engine *engine, struct parasc_requester *requester)
{
	struct parasc_call calls[100];
	int64_t ret_vals[100];
	uint64_t ticket;
	int i;
	memset(calls, 0, sizeof(calls));
	for (i = 0; i < 100; i++)
		calls[i].sysnum = SYS_getpid;
	for (i = 0; i < 10; i++)
		CHECK(parasc_run(requester, calls, ret_vals, 100) == 0);
	for (i = 0; i < 100; i++)
		CHECK(ret_vals[i] == getpid());
	ticket = place(engine, SYS_getppid);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 1);
	CHECK(collected(engine, ticket) == getppid());
}

/* In a child, where parasc_proc() returns at once. */
static void use_and_destroy(struct parasc_engine *engine, struct parasc_requester *requester)
{
	use(engine, requester);
	CHECK(parasc_proc(engine) == 0);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

static void forked(void)
{
	struct parasc_engine *engine = create(NULL);
	struct parasc_requester *requester = NULL;
	CHECK(parasc_requester_create(engine, &requester) == 0);
	use(engine, requester);
	in_child(use_and_destroy, engine, requester);
	in_child(use, engine, requester);
	use(engine, requester);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

/* ---- what is refused ---- */

static void refused_calls(void)
{
	const uint16_t list[] = { SYS_getppid };
	struct parasc_config config = PARASC_CONFIG_INIT;
	struct parasc_engine *engine = create(NULL);
	struct parasc_requester *requester = NULL;
	struct parasc_call calls[3];
	int64_t ret_vals[3] = { 7, 7, 7 };
	uint64_t args[7] = { 0 }, ticket = 7;
	int ends[2];
	CHECK(pipe(ends) == 0);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	CHECK(parasc_refusal(SYS_exit) != NULL && strstr(parasc_refusal(SYS_exit), "exit") != NULL);
	CHECK(parasc_refusal(SYS_execve) != NULL && parasc_refusal(SYS_gettid) != NULL);
	CHECK(parasc_refusal(SYS_exit) == parasc_refusal(SYS_exit));
	CHECK(parasc_refusal(SYS_read) == NULL && parasc_refusal(-1) == NULL);
	/* Of x32: execve on old kernels. */
	CHECK(parasc_refusal(520) != NULL);
	CHECK(parasc_refusal(65535) == NULL && parasc_refusal(65536 + SYS_exit) == NULL);
	REFUSED(parasc_request(engine, SYS_exit, 1, args, &ticket), EPERM);
	CHECK(strstr(kumiki_last_error(), parasc_refusal(SYS_exit)) != NULL);
	/* Refused with these arguments only. */
	CHECK(parasc_refusal(SYS_sched_setaffinity) == NULL);
	REFUSED(parasc_request(engine, SYS_sched_setaffinity, 3, args, &ticket), EPERM);
	REFUSED(parasc_request(engine, -1, 0, NULL, &ticket), EINVAL);
	REFUSED(parasc_request(engine, 65536 + SYS_getppid, 0, NULL, &ticket), EINVAL);
	REFUSED(parasc_request(engine, SYS_getppid, 7, args, &ticket), EINVAL);
	REFUSED(parasc_request(engine, SYS_getppid, UINT32_MAX, NULL, &ticket), EINVAL);
	CHECK(ticket == 7);
	/* Nothing of a batch is made. */
	memset(calls, 0, sizeof(calls));
	calls[0].sysnum = calls[2].sysnum = SYS_close;
	calls[0].args_num = calls[2].args_num = 1;
	calls[0].args[0] = (uint64_t)ends[0];
	calls[2].args[0] = (uint64_t)ends[1];
	calls[1].sysnum = SYS_exit_group;
	REFUSED(parasc_run(requester, calls, ret_vals, 3), EPERM);
	CHECK(strstr(kumiki_last_error(), "request 1") != NULL);
	REFUSED(parasc_run(requester, calls + 1, ret_vals, 1), EPERM);
	calls[1].sysnum = SYS_getppid;
	calls[1].args_num = 0xffff;
	REFUSED(parasc_run(requester, calls, ret_vals, 3), EINVAL);
	REFUSED(parasc_run(requester, calls + 1, ret_vals, 1), EINVAL);
	CHECK(ret_vals[0] == 7 && ret_vals[1] == 7 && ret_vals[2] == 7);
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	/* A number that no kernel has goes there. */
	calls[1].sysnum = 65535;
	calls[1].args_num = 0;
	CHECK(parasc_run(requester, calls + 1, ret_vals, 1) == 0 && ret_vals[0] == -ENOSYS);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);

	config.allowed = list;
	config.allowed_num = 1;
	config.requesters = 1;
	engine = create(&config);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	{
		struct parasc_requester *other = NULL;
		REFUSED(parasc_requester_create(engine, &other), EBUSY);
		CHECK(other == NULL);
	}
	calls[0].sysnum = SYS_getppid;
	calls[0].args_num = 0;
	calls[1].sysnum = SYS_getpid;
	CHECK(parasc_run(requester, calls, ret_vals, 1) == 0 && ret_vals[0] == getppid());
	REFUSED(parasc_run(requester, calls, ret_vals, 2), EPERM);
	REFUSED(parasc_request(engine, SYS_getpid, 0, NULL, &ticket), EPERM);
	CHECK(strstr(kumiki_last_error(), "allow-list") != NULL);
	/* In words of both languages. */
	CHECK(strstr(kumiki_last_error(), "::") == NULL);
	CHECK(strstr(kumiki_last_error(), "batch") == NULL);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

static void full(void)
{
	struct parasc_config config = PARASC_CONFIG_INIT;
	struct parasc_engine *engine;
	uint64_t ticket, first = 0;
	int placed = 0, error;
	config.flags = PARASC_NO_THREADS;
	config.slots = 4;
	engine = create(&config);
	while ((error = parasc_request(engine, SYS_getppid, 0, NULL, &ticket)) == 0) {
		first = first == 0 ? ticket : first;
		placed++;
	}
	CHECK(error == -EAGAIN && placed >= 4 && placed <= 8);
	REFUSED(parasc_request(engine, SYS_getppid, 0, NULL, &ticket), EAGAIN);
	REFUSED(parasc_wait(engine, 9, PARASC_FOREVER), EINVAL);
	CHECK(parasc_terminate(engine) == 0);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == placed);
	CHECK(collected(engine, first) == -ECANCELED);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == placed - 1);
	CHECK(parasc_destroy(engine) == 0);
}

static void garbage_tickets(void)
{
	struct parasc_engine *engine = create(NULL), *other = create(NULL);
	uint64_t ticket = place(engine, SYS_getppid), bit;
	uint64_t foreign = place(other, SYS_getppid);
	int64_t ret_val = 7;
	CHECK(foreign != ticket);
	REFUSED(parasc_collect(engine, foreign, &ret_val), ENOENT);
	REFUSED(parasc_collect(other, ticket, &ret_val), ENOENT);
	CHECK(parasc_destroy(other) == 0);
	REFUSED(parasc_collect(engine, 0, &ret_val), ENOENT);
	REFUSED(parasc_collect(engine, UINT64_MAX, &ret_val), ENOENT);
	for (bit = 1; bit != 0; bit <<= 1)
		REFUSED(parasc_collect(engine, ticket ^ bit, &ret_val), ENOENT);
	CHECK(ret_val == 7);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 1);
	CHECK(collected(engine, ticket) == getppid());
	CHECK(parasc_destroy(engine) == 0);
}

static void null_pointers(void)
{
	struct parasc_engine *engine = create(NULL);
	struct parasc_requester *requester = NULL;
	struct parasc_call call;
	uint64_t ticket = 7;
	int64_t ret_val = 7;
	memset(&call, 0, sizeof(call));
	call.sysnum = SYS_getppid;
	REFUSED(parasc_create(NULL, NULL), EINVAL);
	REFUSED(parasc_terminate(NULL), EINVAL);
	REFUSED(parasc_proc(NULL), EINVAL);
	REFUSED(parasc_wake_up(NULL), EINVAL);
	REFUSED(parasc_wait(NULL, 0, 0), EINVAL);
	REFUSED(parasc_request(NULL, SYS_getppid, 0, NULL, &ticket), EINVAL);
	REFUSED(parasc_request(engine, SYS_read, 3, NULL, &ticket), EINVAL);
	REFUSED(parasc_request(engine, SYS_getppid, 0, NULL, NULL), EINVAL);
	REFUSED(parasc_collect(NULL, 1, &ret_val), EINVAL);
	REFUSED(parasc_collect(engine, 1, NULL), EINVAL);
	REFUSED(parasc_requester_create(NULL, &requester), EINVAL);
	REFUSED(parasc_requester_create(engine, NULL), EINVAL);
	CHECK(requester == NULL && ticket == 7);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	REFUSED(parasc_run(NULL, &call, &ret_val, 1), EINVAL);
	REFUSED(parasc_run(requester, NULL, &ret_val, 1), EINVAL);
	REFUSED(parasc_run(requester, &call, NULL, 1), EINVAL);
	REFUSED(parasc_run(requester, &call, &ret_val, SIZE_MAX), EINVAL);
	CHECK(ret_val == 7);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

static void refused_config(struct parasc_config config, int error)
{
	struct parasc_engine *const untouched = (struct parasc_engine *)&failures;
	struct parasc_engine *engine = untouched;
	REFUSED(parasc_create(&engine, &config), error);
	CHECK(engine == untouched);
}

static void bad_configs(void)
{
	const struct parasc_config init = PARASC_CONFIG_INIT;
	struct parasc_config bad = init;
	uint16_t high = 65535;
	bad.flags = UINT32_C(1) << 31;
	refused_config(bad, EINVAL);
	bad = init;
	bad.reserved = 1;
	refused_config(bad, EINVAL);
	bad = init;
	bad.requesters = 0;
	refused_config(bad, EINVAL);
	bad.requesters = UINT32_MAX;
	refused_config(bad, EINVAL);
	bad = init;
	bad.slots = 4097;
	refused_config(bad, EINVAL);
	bad = init;
	bad.threads = 65;
	refused_config(bad, EINVAL);
	bad = init;
	bad.backend = 4;
	refused_config(bad, EINVAL);
	bad = init;
	bad.allowed_num = 1;
	refused_config(bad, EINVAL);
	bad.allowed = &high;
	refused_config(bad, EINVAL);
	CHECK(strstr(kumiki_last_error(), "0 to 511") != NULL);
	bad.allowed_num = UINT64_MAX;
	refused_config(bad, EINVAL);
	bad = init;
	bad.backend = PARASC_BACKEND_KERNEL;
	if (access("/dev/kumiki-parasc", F_OK) != 0)
		refused_config(bad, ENOTSUP);
}

static void *use_elsewhere(void *requester)
{
	struct parasc_call call;
	int64_t ret_val = 7;
	memset(&call, 0, sizeof(call));
	call.sysnum = SYS_getppid;
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	REFUSED(parasc_run((struct parasc_requester *)requester, &call, &ret_val, 1), EPERM);
	CHECK(ret_val == 7);
	CHECK(parasc_requester_destroy((struct parasc_requester *)requester) == 0);
	return NULL;
}

static void use_by_another_thread(void)
{
	struct parasc_engine *engine = create(NULL);
	struct parasc_requester *requester = NULL;
	pthread_t thread;
	CHECK(parasc_requester_create(engine, &requester) == 0);
	CHECK(pthread_create(&thread, NULL, use_elsewhere, requester) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

/* An event loop: calls are tried, and what would sleep is placed and told of. */
static void tried_and_told(void)
{
	struct parasc_engine *engine = create(NULL);
	int told = parasc_completion_fd(engine);
	struct pollfd polled;
	uint64_t args[6] = { 0 }, ticket = 0, count = 0;
	int64_t ret_val = INT64_MIN;
	char byte = 0;
	int sockets[2];
	FILE *file = tmpfile();
	CHECK(told >= 0 && parasc_completion_fd(engine) == told);
	if (!CHECK(file != NULL))
		return;
	CHECK(fputs("cached", file) >= 0 && fflush(file) == 0);
	args[0] = (uint64_t)fileno(file);
	args[1] = (uintptr_t)&byte;
	args[2] = 1;
	args[3] = 2;
	CHECK(parasc_try(SYS_pread64, 4, args, &ret_val) == 1 && ret_val == 1 && byte == 'c');
	args[0] = (uint64_t)-1;
	CHECK(parasc_try(SYS_pread64, 4, args, &ret_val) == 1 && ret_val == -EBADF);
	REFUSED(parasc_try(SYS_fsync, 1, args, &ret_val), ENOTSUP);
	REFUSED(parasc_try(-1, 0, NULL, &ret_val), EINVAL);
	REFUSED(parasc_try(SYS_getppid, 0, NULL, NULL), EINVAL);
	fclose(file);

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
	memset(args, 0, sizeof(args));
	args[0] = (uint64_t)sockets[0];
	args[1] = (uintptr_t)&byte;
	args[2] = 1;
	ret_val = INT64_MIN;
	CHECK(parasc_try(SYS_recvfrom, 6, args, &ret_val) == 0 && ret_val == INT64_MIN);
	polled.fd = told;
	polled.events = POLLIN;
	CHECK(poll(&polled, 1, 0) == 0);
	CHECK(parasc_request(engine, SYS_recvfrom, 6, args, &ticket) == 0);
	CHECK(poll(&polled, 1, 20) == 0);
	CHECK(write(sockets[1], "!", 1) == 1);
	CHECK(poll(&polled, 1, PATIENCE * 1000) == 1);
	CHECK(read(told, &count, sizeof(count)) == sizeof(count) && count == 1);
	CHECK(collected(engine, ticket) == 1 && byte == '!');
	CHECK(read(told, &count, sizeof(count)) == -1 && errno == EAGAIN);
	/* Calls that are soon over are told of, too. */
	ticket = place(engine, SYS_getppid);
	CHECK(poll(&polled, 1, PATIENCE * 1000) == 1);
	CHECK(collected(engine, ticket) == getppid());
	close(sockets[0]);
	close(sockets[1]);
	CHECK(parasc_destroy(engine) == 0);
}

int main(void)
{
	struct parasc_config config = PARASC_CONFIG_INIT;
	alarm(PATIENCE);
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	batches(NULL);
	config.backend = PARASC_BACKEND_USER;
	batches(&config);
	config.flags = PARASC_NO_HELP;
	batches(&config);
	config.flags = PARASC_NO_THREADS;
	batches(&config);
	two_processing_threads();
	threads_of_the_program_serve_batches(1);
	threads_of_the_program_serve_batches(3);
	threads_of_the_program_serve_batches(8);
	threads_of_the_engine();
	terminated_with_requests();
	destroyed_in_flight(create_without_threads(), 1);
	destroyed_in_flight(create_without_threads(), 0);
	destroyed_in_flight(create(NULL), 0);
	destroyed_under_a_wait();
	cancelled();
	cancelled_in_a_batch();
	forked();
	refused_calls();
	full();
	garbage_tickets();
	null_pointers();
	tried_and_told();
	bad_configs();
	use_by_another_thread();
	if (failures != 0)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
