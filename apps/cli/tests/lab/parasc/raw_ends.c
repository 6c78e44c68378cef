/* A process that ends with threads inside, and claims whose moments are made long: none is made twice. */
#include "scenes.h"

#include <sys/eventfd.h>

/* Threads that look, that sleep and that are in a call, when all ends. */
void a_process_ends_with_threads_inside(void)
{
	static const char *const ways[] = { "kill", "exit", "exec" };
	struct timespec second = { 1000, 0 };
	int ends[2], status;

	for (int way = 0; way < 3; way++) {
		CHECK(!pipe(ends));
		pid_t child = fork();

		if (!child) {
			pthread_t thread;

			begin();
			for (int n = 0; n < 3; n++)
				CHECK(!pthread_create(&thread, NULL, serve, NULL));
			fill(1, (struct call){ SYS_nanosleep, 2, { pointer(&second), 0 } });
			offer(0, calls, results, 1, 1);
			while (PARASC_FIRST(atomic_load(word(0))) == 0)
				sched_yield();
			CHECK(write(ends[1], "!", 1) == 1);
			if (ways[way][1] == 'i')
				pause();
			usleep(20000);
			if (way == 1)
				exit(0);
			execl("/bin/true", "true", NULL);
			exit(1);
		}
		char byte;

		CHECK(read(ends[0], &byte, 1) == 1);
		if (way == 0)
			CHECK(!kill(child, SIGKILL));
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(way == 0 ? WTERMSIG(status) == SIGKILL : status == 0);
		close(ends[0]);
		close(ends[1]);
	}
}

static void set_widen(const char *ns)
{
	int file = open("/sys/module/parasc/parameters/widen_ns", O_WRONLY);

	CHECK(file >= 0 && write(file, ns, strlen(ns)) > 0);
	close(file);
}

/* With the moments between a look and its claim, and between that and the look after it, made long. */
void none_is_made_twice(void)
{
	pthread_t thread[2];
	uint64_t one = 1, sum, wanted = 0;
	int counter = eventfd(0, 0);

	begin();
	for (int n = 0; n < 2; n++)
		CHECK(!pthread_create(&thread[n], NULL, serve, NULL));
	for (int round = 0; round < 3000; round++) {
		unsigned int count = 1 + round * 7 % 40;
		struct parasc_wait wait = { .area = pointer(area), .line = 5, .share = 1 + round % 4 };

		if (round == 500)
			set_widen("2000");
		for (unsigned int at = 0; at < count; at++) {
			/* Elsewhere each time, so that a stale look is seen. */
			calls[round % 7 * 50 + at] = (struct call){ SYS_write, 3, { counter, pointer(&one), 8 } };
			results[round % 7 * 50 + at] = -1;
		}
		offer(5, calls + round % 7 * 50, results + round % 7 * 50, count, 1 + round % 9);
		while (ioctl(device, PARASC_IOC_WAIT, &wait) == PARASC_CALLS) {
			make(&wait.calls);
			wait.calls = (struct parasc_calls){ 0 };
		}
		await(5);
		for (unsigned int at = 0; at < count; at++)
			CHECK(results[round % 7 * 50 + at] == 8);
		memset(calls + round % 7 * 50, 0xff, 50 * sizeof(*calls));
		wanted += count;
	}
	set_widen("0");
	CHECK(read(counter, &sum, 8) == 8 && sum == wanted);
	told();
	for (int n = 0; n < 2; n++)
		CHECK(!pthread_join(thread[n], NULL));
}
