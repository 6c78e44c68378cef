/* Calls by a thread inside and by one entry, and requests that are refused. */
#include "scenes.h"

void one_call_by_a_thread_inside(void)
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

void a_batch_by_one_entry(void)
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

/* Where the kernel has such a function: a table would be an indirect call that a user chooses. */
void calls_are_made_by_the_kernel_s_own_branches(void)
{
	FILE *symbols = fopen("/proc/kallsyms", "r");
	char line[512], name[256];
	bool has = false;

	CHECK(symbols);
	while (fgets(line, sizeof(line), symbols))
		has |= sscanf(line, "%*s %*s %255s", name) == 1 && !strcmp(name, "x64_sys_call");
	CHECK(!fclose(symbols));
	printf("%s: ", parameter("called"));
	CHECK(!strcmp(parameter("called"), has ? "x64_sys_call" : "sys_call_table"));
}

void what_is_wrong_is_refused(void)
{
	uint32_t version = 0;

	begin();
	CHECK(!ioctl(device, PARASC_IOC_VERSION, &version) && version == PARASC_VERSION);
	FAILS(ENOTTY, _IO(PARASC_IOC_TYPE, 9), 0);
	FAILS(EFAULT, PARASC_IOC_PROC, (void *)8);
	FAILS(EFAULT, PARASC_IOC_WAIT, (void *)8);
	FAILS(EFAULT, PARASC_IOC_VERSION, (void *)8);
	FAILS(EINVAL, PARASC_IOC_WAKE_UP, -1L);
	/* One wrong field of each request at a time. */
#define WRONG(type, request, good, error, ...)                   \
	do {                                                     \
		type wrong = good;                               \
		__VA_ARGS__;                                     \
		FAILS(error, request, &wrong);                   \
	} while (0)
#define WRONG_PROC(error, ...) \
	WRONG(struct parasc_proc, PARASC_IOC_PROC, proc_of(0, 0), error, __VA_ARGS__)
	WRONG_PROC(EINVAL, wrong.flags = 2);
	WRONG_PROC(EINVAL, wrong.reserved = 1);
	WRONG_PROC(EINVAL, wrong.share = 0);
	WRONG_PROC(EINVAL, wrong.share = 4097);
	WRONG_PROC(EINVAL, wrong.length = 8192);
	WRONG_PROC(EINVAL, wrong.area += 64);
	WRONG_PROC(EFAULT, wrong.area = 0);
	WRONG_PROC(EFAULT, wrong.area = ~4095ull);
	WRONG_PROC(EFAULT, wrong.area = 1ull << 62);
	struct parasc_wait wait = { .area = pointer(area), .share = 2 };
#define WRONG_WAIT(error, ...) WRONG(struct parasc_wait, PARASC_IOC_WAIT, wait, error, __VA_ARGS__)
	WRONG_WAIT(EINVAL, wrong.line = PARASC_MAX_LINES);
	WRONG_WAIT(EINVAL, wrong.share = 4097);
	WRONG_WAIT(EINVAL, wrong.area += 64);
	WRONG_WAIT(EINVAL, wrong.calls.first = 1);
	WRONG_WAIT(EINVAL, wrong.calls.last = 1 << 30);
	WRONG_WAIT(EFAULT, wrong.area = ~4095ull);
	WRONG_WAIT(EFAULT, wrong.calls.requests = 8; wrong.calls.last = 3);
	WRONG_WAIT(EFAULT, wrong.calls.requests = ~0ull; wrong.calls.last = 3);
	fill(3, (struct call){ SYS_getppid, 0, { 0 } });
	WRONG_WAIT(EFAULT, wrong.calls = ((struct parasc_calls){ pointer(calls), 8, 0, 3 }));
	/* What a line says is believed no more. */
	offer(0, (struct call *)8, results, 10, 4);
	WRONG_WAIT(EFAULT, (void)0);
	offer(0, calls, (int64_t *)~7ull, 3, 4);
	WRONG_PROC(EFAULT, (void)0);
	atomic_store(word(0), PARASC_STATE(9, 70, 60, PARASC_BATCH));
	CHECK(ioctl(device, PARASC_IOC_WAIT, &wait) == 0);
	area->magic++;
	WRONG_PROC(EINVAL, (void)0);
	WRONG_WAIT(EINVAL, (void)0);
	area->magic--;
	area->version++;
	WRONG_PROC(EINVAL, (void)0);
	/* Of a child, which has the descriptor. */
	pid_t child = fork();

	if (!child) {
		FAILS(EPERM, PARASC_IOC_WAIT, &wait);
		FAILS(EPERM, PARASC_IOC_WAKE_UP, 1);
		exit(0);
	}
	int status;

	CHECK(waitpid(child, &status, 0) == child && !status);
}

void calls_that_break_a_thread_are_not_made(void)
{
	static const long refused[] = {
		SYS_exit, SYS_exit_group, SYS_fork, SYS_vfork, SYS_clone, SYS_clone3, SYS_execve,
		SYS_execveat, SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_pause, SYS_setuid, SYS_prctl,
		SYS_arch_prctl, SYS_seccomp, SYS_ptrace, SYS_setns, SYS_unshare, SYS_rseq, SYS_iopl,
		SYS_capset, SYS_personality, SYS_restart_syscall,
	};
	unsigned int count = sizeof(refused) / sizeof(*refused);

	begin();
	for (unsigned int at = 0; at < count; at++)
		calls[at] = (struct call){ refused[at], 6, { 0 } };
	CHECK(run(calls, results, count) == 0 && all_are(count, -EPERM));
	/* Numbers that no kernel has, and what is behind its table. */
	for (unsigned int at = 0; at < 600; at++)
		calls[at] = (struct call){ at < 300 ? 600 + at : 65535 - at, 6, { 0 } };
	CHECK(run(calls, results, 600) == 0 && all_are(600, -ENOSYS));
	/* What is for the thread itself it makes itself. */
	fill(5, (struct call){ SYS_gettid, 0, { 0 } });
	CHECK(run(calls, results, 5) == 5 && all_are(5, gettid()));
}

void closed_inside_is_closed(void)
{
	int ends[2];

	begin();
	CHECK(!pipe(ends));
	char byte;

	calls[0] = (struct call){ SYS_close, 1, { ends[1] } };
	calls[1] = (struct call){ SYS_read, 3, { ends[0], pointer(&byte), 1 } };
	CHECK(run(calls, results, 2) == 0 && results[0] == 0 && results[1] == 0);
	/* And the device itself, of a process that has one thread. */
	calls[0] = (struct call){ SYS_close, 1, { device } };
	calls[1] = (struct call){ SYS_getppid, 0, { 0 } };
	CHECK(run(calls, results, 2) == 0 && results[0] == 0 && results[1] == getppid());
	CHECK(close(device) == -1 && errno == EBADF);
}
