/*
 * What <kumiki/parasc.h> promises: every function, the errors that it names; how an engine
 * ends is in parasc_ends.c, what is refused in parasc_refused.c. C99 and C++11 alike. Ends
 * with 0 if all holds; what does not is on stderr.
 */
#include "parasc_common.h"

#define BYTES 32
#define MOST 700 /* more than a lane has slots */

/* Batches of reads at many places of a file, and of calls that fail. */
static void batches(const struct kumiki_parasc_config *config)
{
	static const size_t sizes[] = { 0, 1, 2, 5, 50, 300, MOST };
	static char bytes[MOST][BYTES];
	static struct kumiki_parasc_call calls[MOST];
	static int64_t ret_vals[MOST];
	struct kumiki_parasc_engine *engine = create(config);
	struct kumiki_parasc_requester *requester = NULL;
	FILE *file = tmpfile();
	size_t round, size, i;
	int fd;
	if (!CHECK(file != NULL))
		return;
	fd = fileno(file);
	for (i = 0; i < MOST * BYTES / 2 + 7; i++)
		fputc((int)(i % 251), file);
	fflush(file);
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
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
			CHECK(kumiki_parasc_run(requester, n > 0 ? calls : NULL, n > 0 ? ret_vals : NULL, n) == 0);
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
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_requester_destroy(NULL) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
	CHECK(kumiki_parasc_destroy(NULL) == 0);
}

static void two_processing_threads(void)
{
	struct kumiki_parasc_engine *engine = create_without_threads();
	struct kumiki_parasc_requester *requester = NULL;
	struct kumiki_parasc_call calls[40];
	int64_t ret_vals[40];
	uint64_t tickets[100];
	pthread_t threads[2];
	int64_t ret_val = 42;
	int i, round;
	/* Nobody is there yet. */
	tickets[0] = place(engine, SYS_getppid);
	CHECK(kumiki_parasc_wait(engine, 1, 0) == 0);
	CHECK(kumiki_parasc_wait(engine, 1, 2000000) == 0);
	CHECK(kumiki_parasc_collect(engine, tickets[0], &ret_val) == 0 && ret_val == 42);
	for (i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, process, engine) == 0);
	CHECK(kumiki_parasc_wake_up(engine) == 0);
	CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == 1);
	CHECK(collected(engine, tickets[0]) == getppid());
	REFUSED(kumiki_parasc_collect(engine, tickets[0], &ret_val), ENOENT);
	for (round = 0; round < 50; round++) {
		for (i = 0; i < 100; i++)
			tickets[i] = place(engine, i % 2 == 0 ? SYS_getppid : SYS_getpid);
		CHECK(kumiki_parasc_wait(engine, 30, KUMIKI_PARASC_FOREVER) >= 30);
		CHECK(kumiki_parasc_wait(engine, 100, KUMIKI_PARASC_FOREVER) == 100);
		/* No more will come. */
		CHECK(kumiki_parasc_wait(engine, 101, 1000000) == 100);
		for (i = 99; i >= 0; i--)
			CHECK(collected(engine, tickets[i]) == (i % 2 == 0 ? getppid() : getpid()));
	}
	CHECK(kumiki_parasc_wait(engine, 0, KUMIKI_PARASC_FOREVER) == 0);
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	memset(calls, 0, sizeof(calls));
	for (i = 0; i < 40; i++)
		calls[i].sysnum = SYS_getppid;
	CHECK(kumiki_parasc_run(requester, calls, ret_vals, 40) == 0);
	for (i = 0; i < 40; i++)
		CHECK(ret_vals[i] == getppid());
	CHECK(kumiki_parasc_terminate(engine) == 0);
	for (i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	REFUSED(kumiki_parasc_request(engine, SYS_getppid, 0, NULL, tickets), ESHUTDOWN);
	/* A requester lives on, also past its engine. */
	CHECK(kumiki_parasc_destroy(engine) == 0);
	CHECK(kumiki_parasc_run(requester, calls, ret_vals, 40) == 0 && ret_vals[39] == getppid());
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
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
	struct kumiki_parasc_config config = KUMIKI_PARASC_CONFIG_INIT;
	struct timespec pause = { 0, 2000000 };
	struct kumiki_parasc_engine *engine;
	struct kumiki_parasc_requester *requester = NULL;
	static struct kumiki_parasc_call calls[300];
	static int64_t ret_vals[300];
	pthread_t threads[8];
	int64_t me = syscall(SYS_gettid);
	int i, theirs = 0, shorter = 0;
	config.flags = KUMIKI_PARASC_NO_THREADS | KUMIKI_PARASC_WRONG_THREAD_ANSWERS;
	engine = create(&config);
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	for (i = 0; i < own; i++)
		CHECK(pthread_create(&threads[i], NULL, name_and_process, engine) == 0);
	memset(calls, 0, sizeof(calls));
	for (i = 0; i < 300; i++)
		calls[i].sysnum = SYS_gettid;
	/* Until one has made some, as long as the test may take: with a single cpu none does. */
	while (theirs == 0 && sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		CHECK(kumiki_parasc_run(requester, calls, ret_vals, 300) == 0);
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
		CHECK(kumiki_parasc_run(requester, calls, ret_vals, 12) == 0);
		shorter = seconds() - start < 12 * 0.002;
		for (i = 0; i < 12; i++)
			CHECK(ret_vals[i] == 0);
	}
	CHECK(kumiki_parasc_terminate(engine) == 0);
	for (i = 0; i < own; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static void threads_of_the_engine(void)
{
	struct kumiki_parasc_engine *engine = create(NULL);
	uint64_t tickets[8], args[2];
	struct timespec pause = { 0, 1000000 };
	int i;
	args[0] = (uintptr_t)&pause;
	args[1] = 0;
	for (i = 0; i < 8; i++)
		CHECK(kumiki_parasc_request(engine, SYS_nanosleep, 2, args, &tickets[i]) == 0);
	CHECK(kumiki_parasc_wait(engine, 8, KUMIKI_PARASC_FOREVER) == 8);
	for (i = 0; i < 8; i++)
		CHECK(collected(engine, tickets[i]) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

/* An event loop: calls are tried, and what would sleep is placed and told of. */
static void tried_and_told(void)
{
	struct kumiki_parasc_engine *engine = create(NULL);
	int told = kumiki_parasc_completion_fd(engine);
	struct pollfd polled;
	uint64_t args[6] = { 0 }, ticket = 0, count = 0;
	int64_t ret_val = INT64_MIN;
	char byte = 0;
	int sockets[2];
	FILE *file = tmpfile();
	CHECK(told >= 0 && kumiki_parasc_completion_fd(engine) == told);
	if (!CHECK(file != NULL))
		return;
	CHECK(fputs("cached", file) >= 0 && fflush(file) == 0);
	args[0] = (uint64_t)fileno(file);
	args[1] = (uintptr_t)&byte;
	args[2] = 1;
	args[3] = 2;
	CHECK(kumiki_parasc_try(SYS_pread64, 4, args, &ret_val) == 1 && ret_val == 1 && byte == 'c');
	args[0] = (uint64_t)-1;
	CHECK(kumiki_parasc_try(SYS_pread64, 4, args, &ret_val) == 1 && ret_val == -EBADF);
	REFUSED(kumiki_parasc_try(SYS_fsync, 1, args, &ret_val), ENOTSUP);
	REFUSED(kumiki_parasc_try(-1, 0, NULL, &ret_val), EINVAL);
	REFUSED(kumiki_parasc_try(SYS_getppid, 0, NULL, NULL), EINVAL);
	fclose(file);

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
	memset(args, 0, sizeof(args));
	args[0] = (uint64_t)sockets[0];
	args[1] = (uintptr_t)&byte;
	args[2] = 1;
	ret_val = INT64_MIN;
	CHECK(kumiki_parasc_try(SYS_recvfrom, 6, args, &ret_val) == 0 && ret_val == INT64_MIN);
	polled.fd = told;
	polled.events = POLLIN;
	CHECK(poll(&polled, 1, 0) == 0);
	CHECK(kumiki_parasc_request(engine, SYS_recvfrom, 6, args, &ticket) == 0);
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
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

int main(void)
{
	struct kumiki_parasc_config config = KUMIKI_PARASC_CONFIG_INIT;
	alarm(PATIENCE);
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	batches(NULL);
	config.backend = KUMIKI_PARASC_BACKEND_USER;
	batches(&config);
	config.flags = KUMIKI_PARASC_NO_HELP;
	batches(&config);
	config.flags = KUMIKI_PARASC_NO_THREADS;
	batches(&config);
	two_processing_threads();
	threads_of_the_program_serve_batches(1);
	threads_of_the_program_serve_batches(3);
	threads_of_the_program_serve_batches(8);
	threads_of_the_engine();
	tried_and_told();
	if (failures != 0)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
