/* What <kumiki/uapi/parasc.h> says of the module, one scene after the other; the first that does not hold ends it. */
#include "raw.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
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

static void what_is_wrong_is_refused(void)
{
	uint32_t version = 0;

	begin();
	CHECK(!ioctl(device, PARASC_IOC_VERSION, &version) && version == PARASC_VERSION);
#define FAILS(error, request, argument) CHECK(ioctl(device, request, argument) == -1 && errno == (error))
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

static void calls_that_break_a_thread_are_not_made(void)
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

static void closed_inside_is_closed(void)
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

static atomic_int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static atomic_bool all_sent;

static void *interrupt(void *thread)
{
	for (int round = 0; round < 20; round++) {
		usleep(5000);
		pthread_kill(*(pthread_t *)thread, SIGUSR1);
	}
	all_sent = true;
	return NULL;
}

static void interrupted_calls_say_so(void)
{
	struct sigaction action = { .sa_handler = handler };
	struct timespec time = { 0, 3000000 };
	pthread_t self = pthread_self(), other;
	unsigned int cut = 0;

	begin();
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK(!pthread_create(&other, NULL, interrupt, &self));
	while (!all_sent) {
		fill(4, (struct call){ SYS_nanosleep, 2, { pointer(&time), 0 } });
		run(calls, results, 4);
		for (int at = 0; at < 4; at++) {
			CHECK(results[at] == 0 || results[at] == -EINTR);
			cut += results[at] == -EINTR;
		}
	}
	CHECK(!pthread_join(other, NULL));
	CHECK(cut > 0);
}

/* Stopped and let go on once it waits in a call, or with a signal; it answers what a plain call would. */
static int64_t result_beside(void (*beside)(pid_t child, int end), const struct sigaction *action, bool sleeps)
{
	struct timespec time = { 0, 300000000 };
	int64_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char byte;
	int ends[2];

	CHECK(shared != MAP_FAILED && !pipe(ends));
	pid_t child = fork();

	if (!child) {
		begin();
		CHECK(!sigaction(SIGUSR1, action, NULL));
		calls[0] = sleeps ? (struct call){ SYS_nanosleep, 2, { pointer(&time), 0 } } :
				    (struct call){ SYS_read, 3, { ends[0], pointer(&byte), 1 } };
		run(calls, shared, 1);
		exit(0);
	}
	int status;

	*shared = 77;
	usleep(100000);
	beside(child, ends[1]);
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(!close(ends[0]) && !close(ends[1]));
	return *shared;
}

static void stop(pid_t child, int end)
{
	int status;

	CHECK(!kill(child, SIGSTOP) && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	usleep(20000);
	CHECK(!kill(child, SIGCONT));
	usleep(50000);
	/* Who sleeps reads nothing of it. */
	CHECK(write(end, "x", 1) == 1);
}

static void send(pid_t child, int end)
{
	CHECK(!kill(child, SIGUSR1));
	usleep(50000);
	CHECK(write(end, "x", 1) == 1);
}

static void what_the_kernel_makes_again_has_no_error(void)
{
	struct sigaction again = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct sigaction once = { .sa_handler = handler };

	CHECK(result_beside(stop, &again, false) == 1);
	CHECK(result_beside(stop, &once, false) == 1);
	CHECK(result_beside(stop, &again, true) == 0);
	CHECK(result_beside(send, &again, false) == 1);
	CHECK(result_beside(send, &once, false) == -EINTR);
	/* The kernel restarts no such call for a handler, whatever its flags. */
	CHECK(result_beside(send, &again, true) == -EINTR);
}

/* Which interrupt them: then the call is made again, by the thread itself. */
static void requests_do_not_see_signals_of_who_serves(void)
{
	struct sigaction action = { .sa_handler = handler };
	struct timespec time = { 0, 200000000 };
	pthread_t thread;
	int ends[2];
	char bytes[2];

	begin();
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK(!pipe(ends));
	CHECK(!pthread_create(&thread, NULL, serve, NULL));
	calls[0] = (struct call){ SYS_nanosleep, 2, { pointer(&time), 0 } };
	calls[1] = (struct call){ SYS_read, 3, { ends[0], pointer(bytes), 1 } };
	for (int at = 0; at < 2; at++) {
		results[0] = -1;
		offer(0, &calls[at], results, 1, 1);
		while (PARASC_FIRST(atomic_load(word(0))) == 0)
			sched_yield();
		usleep(5000);
		pthread_kill(thread, SIGUSR1);
		while (handled <= at)
			sched_yield();
		if (at)
			CHECK(write(ends[1], "!", 1) == 1);
		await(0);
		CHECK(results[0] == at);
	}
	told();
	CHECK(!pthread_join(thread, NULL));
	/* Blocked ones it returns for if they are named. */
	struct parasc_proc proc = proc_of(0, SECOND / 100);
	sigset_t some;

	area->terminate = 0;
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &some, NULL));
	CHECK(!pthread_kill(pthread_self(), SIGUSR1));
	proc.spin_ns = proc.idle_ns;
	while (ioctl(device, PARASC_IOC_PROC, &proc) != PARASC_IDLE)
		;
	proc.idle_ns = proc.spin_ns = ~0ull;
	proc.signals = 1ull << (SIGUSR1 - 1);
	CHECK(ioctl(device, PARASC_IOC_PROC, &proc) == PARASC_AGAIN);
}

static long enter(long request, void *argument, long fd)
{
	fill(1, (struct call){ SYS_ioctl, 3, { fd, request, pointer(argument) } });
	run(calls, results, 1);
	return results[0];
}

/* A call may be this module's own: then the thread makes it from outside, and no stack grows. */
static void the_way_back_into_the_module_is_from_outside(void)
{
	struct parasc_wait wait;
	struct parasc_proc proc;
	uint32_t version = 0;
	int other, ends[2];

	begin();
	other = dup(device);
	/* A WAIT whose call is that WAIT: once from outside, where it is handed back again. */
	wait = (struct parasc_wait){ .calls = { pointer(calls), pointer(results + 1), 0, 1 } };
	CHECK(enter(PARASC_IOC_WAIT, &wait, device) == PARASC_CALLS);
	CHECK(enter(PARASC_IOC_WAIT | 1l << 40, &wait, other) == PARASC_CALLS);
	/* One in one in one. */
	struct parasc_wait nested[40] = { 0 };
	struct call each[40];

	for (int at = 0; at < 39; at++) {
		each[at] = (struct call){ SYS_ioctl, 3, { device, PARASC_IOC_WAIT, pointer(&nested[at + 1]) } };
		nested[at].calls = (struct parasc_calls){ pointer(&each[at]), pointer(results), 0, 1 };
	}
	for (int at = 0; at < 39; at++)
		CHECK(ioctl(device, PARASC_IOC_WAIT, &nested[at]) == PARASC_CALLS);
	proc = proc_of(0, 0);
	CHECK(enter(PARASC_IOC_PROC, &proc, device) == PARASC_IDLE);
	CHECK(enter(PARASC_IOC_VERSION, &version, device) == 0 && version == PARASC_VERSION);
	CHECK(enter(PARASC_IOC_WAKE_UP, NULL, other) == 0);
	/* The same for a thread that serves. */
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, serve, NULL));
	wait = (struct parasc_wait){ .calls = { pointer(calls), pointer(results + 1), 0, 1 } };
	fill(2, (struct call){ SYS_ioctl, 3, { device, PARASC_IOC_WAIT, pointer(&wait) } });
	offer(2, calls, results, 1, 1);
	await(2);
	CHECK(results[0] == PARASC_CALLS);
	told();
	CHECK(!pthread_join(thread, NULL));
	area->terminate = 0;
	/* Its other device, and what else takes a descriptor. */
	uint64_t value = 7;
	struct parasc_mwait store = { pointer(&value), 8, 1, 0, 0 };
	int monitor = open(PARASC_MWAIT_DEVICE, O_RDWR);

	if (monitor >= 0)
		CHECK(enter(PARASC_IOC_MWAIT, &store, monitor) == 0);
	CHECK(!pipe(ends));
	int epoll = epoll_create1(0), ring = syscall(SYS_io_uring_setup, 4, &(struct io_uring_params){ 0 });
	struct epoll_event event = { .events = EPOLLIN };
	const struct { struct call call; long result; } ways[] = {
		{ { SYS_read, 3, { device, pointer(results + 9), 8 } }, -EINVAL },
		{ { SYS_write, 3, { device, pointer(results + 9), 8 } }, -EINVAL },
		{ { SYS_sendfile, 4, { ends[1], device, 0, 8 } }, -EINVAL },
		{ { SYS_splice, 6, { device, 0, ends[1], 0, 8, 0 } }, -EINVAL },
		{ { SYS_mmap, 6, { 0, 4096, PROT_READ, MAP_SHARED, device, 0 } }, -ENODEV },
		{ { SYS_epoll_ctl, 4, { epoll, EPOLL_CTL_ADD, device, pointer(&event) } }, -EPERM },
		{ { SYS_io_uring_enter, 6, { ring, 0, 0, 0, 0, 0 } }, ring < 0 ? -EBADF : 0 },
		{ { SYS_execve, 3, { pointer("/bin/true"), 0, 0 } }, -EPERM },
		{ { SYS_fork, 0, { 0 } }, -EPERM },
		{ { SYS_close, 1, { other } }, 0 },
	};
	unsigned int count = sizeof(ways) / sizeof(*ways);

	for (unsigned int at = 0; at < count; at++)
		calls[at] = ways[at].call;
	run(calls, results, count);
	for (unsigned int at = 0; at < count; at++) {
		if (results[at] != ways[at].result)
			fprintf(stderr, "way %u: %lld\n", at, (long long)results[at]);
		CHECK(results[at] == ways[at].result);
	}
}

/* What an io_uring answers to one operation, asked for by a request of the module; -ENOSYS: there is none. */
static int by_ring(struct io_uring_sqe operation)
{
	struct io_uring_params params = { 0 };
	int ring = syscall(SYS_io_uring_setup, 4, &params), access = PROT_READ | PROT_WRITE, result;

	if (ring < 0)
		return -ENOSYS;
	CHECK(params.features & IORING_FEAT_SINGLE_MMAP);
	char *rings = mmap(NULL, 4096, access, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	struct io_uring_sqe *queue = mmap(NULL, 4096, access, MAP_SHARED, ring, IORING_OFF_SQES);

	CHECK(rings != MAP_FAILED && queue != MAP_FAILED);
	queue[0] = operation;
	((uint32_t *)(rings + params.sq_off.array))[0] = 0;
	atomic_store((_Atomic uint32_t *)(rings + params.sq_off.tail), 1);
	fill(1, (struct call){ SYS_io_uring_enter, 6, { ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0 } });
	run(calls, results, 1);
	CHECK(results[0] == 1);
	/* A signal of its own may have ended the wait. */
	while (!atomic_load((_Atomic uint32_t *)(rings + params.cq_off.tail)))
		CHECK(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) >= 0 || errno == EINTR);
	result = ((struct io_uring_cqe *)(rings + params.cq_off.cqes))->res;
	CHECK(!munmap(rings, 4096) && !munmap(queue, 4096) && !close(ring));
	return result;
}

/* An io_uring has no way in that a plain call has not: by who asks, and by a thread of its own. */
static void an_io_uring_does_nothing_with_the_device(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct parasc_proc proc;
	char bytes[8];

	begin();
	proc = proc_of(0, 0);
	const struct { struct io_uring_sqe operation; int result; } ways[] = {
		{ { .opcode = IORING_OP_READ, .addr = pointer(bytes), .len = 8 }, -EINVAL },
		{ { .opcode = IORING_OP_WRITE, .addr = pointer(bytes), .len = 8 }, -EINVAL },
		{ { .opcode = IORING_OP_FSYNC }, -EINVAL },
		{ { .opcode = IORING_OP_SEND, .addr = pointer(bytes), .len = 8 }, -ENOTSOCK },
		/* A file without poll(2) is always ready. */
		{ { .opcode = IORING_OP_POLL_ADD, .poll32_events = EPOLLIN }, EPOLLIN },
		/* What stands where an ioctl would: the module takes none. */
		{ { .opcode = IORING_OP_URING_CMD, .cmd_op = PARASC_IOC_PROC, .addr = pointer(&proc) }, -EOPNOTSUPP },
		{ { .opcode = IORING_OP_EPOLL_CTL, .len = EPOLL_CTL_ADD, .addr = pointer(&event) }, -EPERM },
		{ { .opcode = IORING_OP_CLOSE }, 0 },
	};

	for (size_t at = 0; at < 2 * sizeof(ways) / sizeof(*ways); at++) {
		struct io_uring_sqe operation = ways[at / 2].operation;
		int other = dup(device);

		operation.fd = other;
		operation.flags = at % 2 ? IOSQE_ASYNC : 0;
		if (operation.opcode == IORING_OP_EPOLL_CTL) {
			operation.fd = epoll_create1(0);
			operation.off = other;
		}
		int result = by_ring(operation);

		if (result == -ENOSYS) {
			printf("no io_uring here\n");
			return;
		}
		if (result != ways[at / 2].result)
			fprintf(stderr, "operation %u: %d\n", operation.opcode, result);
		CHECK(result == ways[at / 2].result);
		CHECK(close(other) == (operation.opcode == IORING_OP_CLOSE ? -1 : 0));
	}
	/* The descriptor that is left serves. */
	fill(3, (struct call){ SYS_getppid, 0, { 0 } });
	CHECK(run(calls, results, 3) == 0 && all_are(3, getppid()));
}

static atomic_int woken;

static void *wait_for_some(void *of)
{
	struct parasc_wait wait = *(struct parasc_wait *)of;

	CHECK(ioctl(device, PARASC_IOC_WAIT, &wait) == 0);
	woken++;
	return NULL;
}

/* A requesting thread sleeps inside until enough is made; who makes it does not leave. */
static void a_wait_ends_when_enough_is_made(void)
{
	struct parasc_wait wait;
	struct parasc_proc proc;
	pthread_t serving, waiting;
	char bytes[4];
	int ends[2];

	begin();
	CHECK(!pipe(ends));
	wait = (struct parasc_wait){
		.area = pointer(area), .line = 4, .min = 2, .timeout_ns = ~0ull, .flags = PARASC_CLAIMS_NONE,
	};
	struct parasc_wait wrong = wait;

	wrong.flags = 2;
	FAILS(EINVAL, PARASC_IOC_WAIT, &wrong);
	wrong = wait, wrong.area = 0;
	FAILS(EINVAL, PARASC_IOC_WAIT, &wrong);
	/* Nobody is there to make any. */
	fill(3, (struct call){ SYS_read, 3, { ends[0], pointer(bytes), 1 } });
	offer(4, calls, results, 3, 1);
	wrong = wait, wrong.timeout_ns = SECOND / 100;
	FAILS(ETIMEDOUT, PARASC_IOC_WAIT, &wrong);
	CHECK(area->waiters == 0);
	CHECK(!pthread_create(&serving, NULL, serve, NULL));
	CHECK(!pthread_create(&waiting, NULL, wait_for_some, &wait));
	while (!*(volatile uint32_t *)&area->waiters)
		usleep(1000);
	/* One is not enough. */
	CHECK(write(ends[1], "1", 1) == 1);
	while (PARASC_MADE(atomic_load(word(4))) < 1)
		sched_yield();
	usleep(20000);
	CHECK(!woken && area->waiters == 1);
	CHECK(write(ends[1], "2", 1) == 1);
	CHECK(!pthread_join(waiting, NULL));
	CHECK(PARASC_MADE(atomic_load(word(4))) == 2 && area->waiters == 0);
	/* All of them, of which there are fewer than it asks for; a single call. */
	wait.min = 9;
	CHECK(!pthread_create(&waiting, NULL, wait_for_some, &wait));
	CHECK(write(ends[1], "3", 1) == 1);
	CHECK(!pthread_join(waiting, NULL));
	CHECK(is_over(4));
	for (int round = 0; round < 300; round++) {
		struct call call = { SYS_getppid, 0, { 0 } };

		area->lines[4].ret_val = -1;
		offer_one(4, &call);
		wrong = wait, wrong.min = 1;
		CHECK(ioctl(device, PARASC_IOC_WAIT, &wrong) == 0);
		CHECK(is_over(4) && area->lines[4].ret_val == getppid());
	}
	told();
	CHECK(!pthread_join(serving, NULL));
	/* Who makes it outside of the module wakes by WAKE_UP. */
	area->terminate = 0;
	offer(4, calls, results, 1, 1);
	woken = 0;
	wait.min = 1;
	CHECK(!pthread_create(&waiting, NULL, wait_for_some, &wait));
	while (!*(volatile uint32_t *)&area->waiters)
		usleep(1000);
	CHECK(ioctl(device, PARASC_IOC_WAKE_UP, 0) == 0);
	usleep(20000);
	CHECK(!woken);
	atomic_store(word(4), PARASC_STATE(1, 1, 1, PARASC_BATCH));
	CHECK(ioctl(device, PARASC_IOC_WAKE_UP, 0) == 0);
	CHECK(!pthread_join(waiting, NULL));
	/* A signal's handler runs meanwhile, and the wait goes on: here to its end. */
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

	CHECK(!sigaction(SIGALRM, &action, NULL));
	atomic_store(word(4), PARASC_STATE(0, 0, 1, PARASC_BATCH));
	ualarm(20000, 0);
	wait.timeout_ns = SECOND / 10;
	FAILS(ETIMEDOUT, PARASC_IOC_WAIT, &wait);
	CHECK(handled == 1);
	/* Each of many takes nothing from the time, and adds nothing to it. */
	wait.timeout_ns = SECOND / 10;
	ualarm(1000, 1000);
	FAILS(ETIMEDOUT, PARASC_IOC_WAIT, &wait);
	ualarm(0, 0);
	CHECK(handled > 10);
	/* gettid by who serves, where that is asked for. */
	proc = proc_of(0, 0);
	proc.flags = PARASC_ANY_THREAD;
	fill(1, (struct call){ SYS_gettid, 0, { 0 } });
	offer(4, calls, results, 1, 1);
	CHECK(ioctl(device, PARASC_IOC_PROC, &proc) >= 0 && is_over(4) && results[0] == gettid());
}

static void who_sleeps_is_woken_by_any_descriptor(void)
{
	struct parasc_proc proc;
	pthread_t thread;

	begin();
	proc = proc_of(0, SECOND / 20);
	/* It comes back for other reasons, too. */
	while (ioctl(device, PARASC_IOC_PROC, &proc) == PARASC_AGAIN)
		;
	CHECK(area->sleepers == 0);
	CHECK(!pthread_create(&thread, NULL, serve, NULL));
	int other = open(PARASC_DEVICE, O_RDWR);

	for (int round = 0; round < 5; round++) {
		while (!*(volatile uint32_t *)&area->sleepers)
			usleep(1000);
		area->lines[0].ret_val = -1;
		/* Without its own look whether somebody sleeps. */
		atomic_store(word(0), PARASC_STATE(0, 0, 1, SYS_getuid));
		area->open_lines = 1;
		CHECK(ioctl(other, PARASC_IOC_WAKE_UP, 1) == 1);
		await(0);
		CHECK(area->lines[0].ret_val == getuid());
	}
	while (!*(volatile uint32_t *)&area->sleepers)
		usleep(1000);
	/* In use it stays. */
	CHECK(system("rmmod parasc 2> /dev/null") != 0);
	told();
	CHECK(!pthread_join(thread, NULL) && area->sleepers == 0);
}

static atomic_int returns;

static void *serve_and_count(void *unused)
{
	(void)unused;
	while (!*(volatile uint32_t *)&area->terminate) {
		struct parasc_proc proc = proc_of(0, SECOND * 100);

		CHECK(ioctl(device, PARASC_IOC_PROC, &proc) >= 0);
		returns++;
	}
	return NULL;
}

/* Each switch to it leaves work for the way out (rseq), which is none to leave for. */
static void who_is_woken_inside_stays_there(void)
{
	pthread_t thread;

	begin();
	CHECK(!pthread_create(&thread, NULL, serve_and_count, NULL));
	for (int round = 0; round < 100; round++) {
		struct call call = { SYS_getuid, 0, { 0 } };

		while (!*(volatile uint32_t *)&area->sleepers)
			usleep(1000);
		area->lines[0].ret_val = -1;
		offer_one(0, &call);
		await(0);
		CHECK(area->lines[0].ret_val == getuid());
	}
	/* Now and then there is something to leave for. */
	CHECK(returns < 10);
	told();
	CHECK(!pthread_join(thread, NULL));
}

static void memory_that_goes_is_an_error(void)
{
	pthread_t thread;
	void *ended;

	begin();
	CHECK(!pthread_create(&thread, NULL, serve, NULL));
	usleep(20000);
	CHECK(!munmap(area, 4096));
	area = (void *)8;
	/* It may sleep. */
	ioctl(device, PARASC_IOC_WAKE_UP, 1);
	CHECK(!pthread_join(thread, &ended) && ended == (void *)(intptr_t)EFAULT);
	begin();
	int64_t *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct parasc_wait wait = { .calls = { pointer(calls), pointer(page), 0, 100 } };

	fill(100, (struct call){ SYS_getppid, 0, { 0 } });
	CHECK(ioctl(device, PARASC_IOC_WAIT, &wait) == -1 && errno == EFAULT);
}

static struct sock_filter forbidden[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 99),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static void *forbid(void *unused)
{
	struct sock_fprog program = { sizeof(forbidden) / sizeof(*forbidden), forbidden };

	(void)unused;
	usleep(10000);
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
	return NULL;
}

/* Set by another thread in the midst of a batch, and of a processing thread's stay. */
static void a_filter_sees_what_it_would_see_without(void)
{
	struct parasc_wait wait;
	pthread_t serving, forbidding;
	unsigned int seen = 0;
	void *ended;
	int left, error;

	begin();
	CHECK(!pthread_create(&serving, NULL, serve, NULL));
	CHECK(!pthread_create(&forbidding, NULL, forbid, NULL));
	do {
		fill(MOST, (struct call){ SYS_getppid, 0, { 0 } });
		wait = (struct parasc_wait){ .calls = { pointer(calls), pointer(results), 0, MOST } };
		left = ioctl(device, PARASC_IOC_WAIT, &wait);
		error = errno;
		/* Refused, or stopped in the midst of it. */
		if (left == PARASC_CALLS || left == -1)
			make(&wait.calls);
		for (unsigned int at = 0; at < MOST; at++) {
			CHECK(results[at] == (seen ? -99 : results[at]));
			CHECK(results[at] == -99 || results[at] == getppid() || seen || left == PARASC_CALLS);
			seen += results[at] == -99;
		}
	} while (left != -1);
	CHECK(error == EPERM && seen);
	CHECK(!pthread_join(forbidding, NULL));
	/* It may sleep. */
	CHECK(ioctl(device, PARASC_IOC_WAKE_UP, 1) >= 0);
	CHECK(!pthread_join(serving, &ended) && ended == (void *)(intptr_t)EPERM);
}

static void a_tracer_sees_what_it_would_see_without(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		begin();
		CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
		raise(SIGSTOP);
		struct parasc_wait wait = { .calls = { pointer(calls), pointer(results), 0, 3 } };

		fill(3, (struct call){ SYS_getppid, 0, { 0 } });
		exit(!(ioctl(device, PARASC_IOC_WAIT, &wait) == -1 && errno == EPERM && results[0] == -1));
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
	while (WIFSTOPPED(status)) {
		CHECK(!ptrace(PTRACE_SYSCALL, child, 0, 0));
		CHECK(waitpid(child, &status, 0) == child);
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Threads that look, that sleep and that are in a call, when all ends. */
static void a_process_ends_with_threads_inside(void)
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
static void none_is_made_twice(void)
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

static void a_store_ends_a_wait(void)
{
	uint64_t value = 7;
	struct parasc_mwait wait = { pointer(&value), 7, SECOND / 50, 0, 0 };
	int monitor = open(PARASC_MWAIT_DEVICE, O_RDWR);

	if (monitor < 0) {
		CHECK(errno == ENODEV);
		printf("no MONITOR here\n");
		return;
	}
	device = monitor;
	FAILS(ETIMEDOUT, PARASC_IOC_MWAIT, &wait);
	/* Whichever byte of it is stored to. */
	value = 7 | 1ull << 63;
	CHECK(ioctl(monitor, PARASC_IOC_MWAIT, &wait) == 0);
	value = 7;
	wait.word = 8;
	FAILS(EFAULT, PARASC_IOC_MWAIT, &wait);
	wait.word = pointer(&value) + 4;
	FAILS(EINVAL, PARASC_IOC_MWAIT, &wait);
	wait.word = pointer(&value);
	wait.flags = 1;
	FAILS(EINVAL, PARASC_IOC_MWAIT, &wait);
	wait.flags = 0;
	wait.hint = 0x10;
	FAILS(EINVAL, PARASC_IOC_MWAIT, &wait);
	FAILS(ENOTTY, PARASC_IOC_WAIT, &wait);
	/* As long as it takes, but for a signal. */
	struct sigaction action = { .sa_handler = handler };

	CHECK(!sigaction(SIGALRM, &action, NULL));
	alarm(1);
	wait.hint = 0;
	wait.timeout_ns = ~0ull;
	FAILS(EINTR, PARASC_IOC_MWAIT, &wait);
	CHECK(handled == 1);
}

static uint64_t *stored_to;

static void *store_soon(void *unused)
{
	(void)unused;
	usleep(200000);
	atomic_store((_Atomic uint64_t *)stored_to, 1);
	return NULL;
}

/* Until another thread has stored to it: by the deadline it would be seen, too, so that is far off. */
static void a_store_is_seen(int monitor)
{
	struct parasc_mwait wait = { pointer(stored_to), 0, 250 * SECOND, 0, 0 };
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, store_soon, NULL));
	CHECK(ioctl(monitor, PARASC_IOC_MWAIT, &wait) == 0);
	CHECK(*stored_to == 1);
	CHECK(!pthread_join(thread, NULL));
}

/* What is at the address when the store comes may be another page than when the wait began. */
static void a_wait_is_for_the_page_that_is_stored_to(void)
{
	int monitor = open(PARASC_MWAIT_DEVICE, O_RDWR), file = memfd_create("word", 0);

	if (monitor < 0) {
		CHECK(errno == ENODEV);
		printf("no MONITOR here\n");
		return;
	}
	device = monitor;
	/* Never written to. */
	stored_to = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(*stored_to == 0);
	a_store_is_seen(monitor);
	/* A child's, too. */
	*stored_to = 0;
	pid_t child = fork();

	if (!child) {
		pause();
		exit(0);
	}
	a_store_is_seen(monitor);
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
	/* A file's, which may only be read by it; and what nobody can store to. */
	CHECK(!ftruncate(file, 4096));
	struct parasc_mwait wait = { 0, 0, 250 * SECOND, 0, 0 };
	pthread_t thread;

	stored_to = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	wait.word = pointer(mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0));
	CHECK(!pthread_create(&thread, NULL, store_soon, NULL));
	CHECK(ioctl(monitor, PARASC_IOC_MWAIT, &wait) == 0);
	CHECK(!pthread_join(thread, NULL));
	wait.word = pointer(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	FAILS(EFAULT, PARASC_IOC_MWAIT, &wait);
	CHECK(!munmap((void *)(uintptr_t)wait.word, 4096));
	FAILS(EFAULT, PARASC_IOC_MWAIT, &wait);
}

static const struct {
	const char *name;
	void (*scene)(void);
} scenes[] = {
	{ "one call by a thread inside", one_call_by_a_thread_inside },
	{ "a batch by one entry", a_batch_by_one_entry },
	{ "what is wrong is refused", what_is_wrong_is_refused },
	{ "calls that break a thread are not made", calls_that_break_a_thread_are_not_made },
	{ "closed inside is closed", closed_inside_is_closed },
	{ "interrupted calls say so", interrupted_calls_say_so },
	{ "what the kernel makes again has no error", what_the_kernel_makes_again_has_no_error },
	{ "requests do not see signals of who serves", requests_do_not_see_signals_of_who_serves },
	{ "the way back into the module is from outside", the_way_back_into_the_module_is_from_outside },
	{ "an io_uring does nothing with the device", an_io_uring_does_nothing_with_the_device },
	{ "a wait ends when enough is made", a_wait_ends_when_enough_is_made },
	{ "who sleeps is woken by any descriptor", who_sleeps_is_woken_by_any_descriptor },
	{ "who is woken inside stays there", who_is_woken_inside_stays_there },
	{ "memory that goes is an error", memory_that_goes_is_an_error },
	{ "a filter sees what it would see without", a_filter_sees_what_it_would_see_without },
	{ "a tracer sees what it would see without", a_tracer_sees_what_it_would_see_without },
	{ "a process ends with threads inside", a_process_ends_with_threads_inside },
	{ "none is made twice", none_is_made_twice },
	{ "a store ends a wait", a_store_ends_a_wait },
	{ "a wait is for the page that is stored to", a_wait_is_for_the_page_that_is_stored_to },
};

/* Each in a process of its own, which must not be there after it; or those of a name with these words. */
int main(int count, char **words)
{
	for (size_t at = 0; at < sizeof(scenes) / sizeof(*scenes); at++) {
		if (count > 1 && !strstr(scenes[at].name, words[1]))
			continue;
		pid_t child = fork();
		int status;

		if (!child) {
			/* A kernel that looks for its own faults is slow. */
			alarm(300);
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
