/* What <kumiki/uapi/parasc.h> says of the module, one scene after the other; the first that does not hold ends it. */
#include "raw.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

static struct call calls[MOST];
static int64_t results[MOST];

static void fill(unsigned int count, struct call call)
{
	for (unsigned int at = 0; at < count; at++) {
		calls[at] = call;
		results[at] = -1;
	}
}

/* Whether all of them gave this. */
static bool all_are(unsigned int count, int64_t result)
{
	for (unsigned int at = 0; at < count; at++)
		if (results[at] != result) {
			fprintf(stderr, "result %u: %lld\n", at, (long long)results[at]);
			return false;
		}
	return true;
}

static void one_call_by_a_thread_inside(void)
{
	struct call call = { SYS_getppid, 0, { 0 } };
	pthread_t thread;
	void *ended;

	begin();
	CHECK(!pthread_create(&thread, NULL, serve, NULL));
	for (int round = 0; round < 1000; round++) {
		area->lines[3].ret_val = -1;
		offer_one(3, &call);
		await(3);
		CHECK(area->lines[3].ret_val == getppid());
	}
	told();
	CHECK(!pthread_join(thread, &ended) && !ended);
}

static void a_batch_by_one_entry(void)
{
	begin();
	fill(300, (struct call){ SYS_getppid, 0, { 0 } });
	CHECK(run(calls, results, 300) == 0 && all_are(300, getppid()));
	/* And of a line, from its end, all at once. */
	struct parasc_wait wait = { .area = pointer(area), .line = 61 };

	fill(300, (struct call){ SYS_getuid, 0, { 0 } });
	offer(61, calls, results, 300, 32);
	CHECK(ioctl(device, PARASC_IOC_WAIT, &wait) == 0);
	CHECK(is_over(61) && all_are(300, getuid()));
	wait.share = 2;
	offer(61, calls, results, 7, 32);
	CHECK(ioctl(device, PARASC_IOC_WAIT, &wait) == 0 && is_over(61));
}

static const struct {
	const char *name;
	void (*scene)(void);
} scenes[] = {
	{ "one call by a thread inside", one_call_by_a_thread_inside },
	{ "a batch by one entry", a_batch_by_one_entry },
};

/* Each in a process of its own, which must not be there after it. */
int main(void)
{
	for (size_t at = 0; at < sizeof(scenes) / sizeof(*scenes); at++) {
		pid_t child = fork();
		int status;

		if (!child) {
			alarm(60);
			scenes[at].scene();
			exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		printf("%s: %s\n", scenes[at].name, status ? "not so" : "as it should");
		fflush(stdout);
		if (status) {
			fprintf(stderr, "status %#x\n", status);
			return 1;
		}
	}
	return 0;
}
