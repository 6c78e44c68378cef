/* Signals of who asks and of who serves: what is interrupted says so, and what the kernel makes again has no error. */
#include "scenes.h"

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

void interrupted_calls_say_so(void)
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

void what_the_kernel_makes_again_has_no_error(void)
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
void requests_do_not_see_signals_of_who_serves(void)
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
