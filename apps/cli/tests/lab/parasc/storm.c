/*
 * Storms: signals, tracers, filters, ends of processes and memory that goes, at random
 * moments while threads make calls inside the kernel. Whatever comes, each call is made
 * once and answers as it would without the module; what the kernel makes of the rest its
 * log tells.
 *
 * storm [SECONDS of each scene]
 */
#include "raw.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#define CALLS 60u
#define REQUESTERS 2u
#define SERVERS 2u
/* What a filter answers for getppid. */
#define FILTERED 99

static double seconds = 3;
static uint32_t seed;
/* What the module counted before the scene. */
static unsigned long made_before;

static uint32_t drawn(uint32_t below)
{
	static _Thread_local uint32_t state;

	state = state ? state : seed + gettid();
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % below;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + 1e-9 * time.tv_nsec;
}

static unsigned long made_inside(void)
{
	unsigned long made = 0;
	FILE *file = fopen("/sys/module/parasc/parameters/calls_made", "r");

	CHECK(file && fscanf(file, "%lu", &made) == 1);
	fclose(file);
	return made;
}

/* Whether a scene has had its time, and something to be judged by, however slow it is here. */
static bool is_enough(double end)
{
	return now() >= end && made_inside() > made_before;
}

/* Of a requesting thread: what it offers, and what came of it. */
struct requester {
	struct call calls[CALLS];
	int64_t results[CALLS];
	struct timespec moment;
	uint64_t one;
	int counter;
	_Atomic uint64_t wanted;
	atomic_ulong refused; /* entries */
	unsigned int line;
};

static struct requester requesters[REQUESTERS];
static pthread_t requesting[REQUESTERS], serving[SERVERS];
static pid_t parent;
static atomic_bool over;
/* Number of filtered calls, and whether the filter is there for certain. */
static atomic_uint filtered;
static atomic_bool is_filtered;

/* Claims from the end as the library does, for whom the module does not let in. */
static void make_last(struct requester *own)
{
	_Atomic uint64_t *state = word(own->line);
	uint64_t old = atomic_load(state);

	while (PARASC_FIRST(old) < PARASC_LAST(old)) {
		uint64_t new = PARASC_STATE(PARASC_MADE(old), PARASC_FIRST(old), PARASC_LAST(old) - 1,
					    PARASC_CALL(old));

		if (!atomic_compare_exchange_weak(state, &old, new))
			continue;
		struct parasc_calls one = { pointer(own->calls), pointer(own->results),
					    PARASC_LAST(new), PARASC_LAST(old) };

		make(&one);
		old = atomic_load(state);
	}
}

static void fill(struct requester *own, unsigned int count)
{
	for (unsigned int at = 0; at < count; at++) {
		struct call *call = &own->calls[at];

		own->results[at] = INT64_MIN;
		switch (drawn(8)) {
		default:
			*call = (struct call){ SYS_write, 3, { own->counter, pointer(&own->one), 8 } };
			own->wanted++;
			break;
		case 0:
			*call = (struct call){ SYS_getppid, 0, { 0 } };
			break;
		case 1:
			*call = (struct call){ SYS_nanosleep, 2, { pointer(&own->moment), 0 } };
			break;
		case 2:
			*call = (struct call){ SYS_write, 3, { own->counter, 8, 8 } };
			break;
		case 3:
			*call = (struct call){ SYS_gettid, 0, { 0 } };
			break;
		}
	}
}

static void judge(struct requester *own, unsigned int count, bool was_filtered)
{
	for (unsigned int at = 0; at < count; at++) {
		int64_t result = own->results[at];
		bool is_bad = own->calls[at].args[1] == 8;

		switch (own->calls[at].sysnum) {
		case SYS_write:
			CHECK(result == (is_bad ? -EFAULT : 8));
			break;
		case SYS_nanosleep:
			CHECK(result == 0 || result == -EINTR);
			break;
		case SYS_gettid:
			CHECK(result > 0);
			break;
		default:
			filtered += result == -FILTERED;
			CHECK(result == -FILTERED || (result == parent && !was_filtered));
		}
	}
}

/* One batch: offered, helped with by an entry, or plainly where there is none. */
static void make_batch(struct requester *own)
{
	unsigned int count = 1 + drawn(CALLS);
	struct parasc_wait wait = { .area = pointer(area), .line = own->line, .share = 1 + drawn(4) };
	bool was_filtered = is_filtered;
	int ended;

	fill(own, count);
	offer(own->line, own->calls, own->results, count, 1 + drawn(9));
	do {
		ended = ioctl(device, PARASC_IOC_WAIT, &wait);
		CHECK(ended >= 0 || errno == EPERM);
		if (ended == PARASC_CALLS)
			make(&wait.calls);
		wait.calls = (struct parasc_calls){ 0 };
	} while (ended == PARASC_CALLS);
	if (ended < 0) {
		own->refused++;
		make_last(own);
	}
	await(own->line);
	judge(own, count, was_filtered);
}

static void *request(void *argument)
{
	struct requester *own = argument;

	/* As on a busy machine, at different moments. */
	usleep(drawn(50000));
	while (!over)
		make_batch(own);
	return NULL;
}

/* Comes again after a tracer, as an engine's threads do not: what it tests is the module. */
static void *serve_again(void *unused)
{
	(void)unused;
	while (!*(volatile uint32_t *)&area->terminate) {
		if (serve(NULL) == (void *)(intptr_t)EPERM)
			usleep(1000);
	}
	return NULL;
}

static void handle(int signal)
{
	(void)signal;
}

static void start(void)
{
	parent = getppid();
	begin();
	for (unsigned int n = 0; n < SERVERS; n++)
		CHECK(!pthread_create(&serving[n], NULL, serve_again, NULL));
	for (unsigned int n = 0; n < REQUESTERS; n++) {
		struct requester *own = &requesters[n];

		own->line = n * 7;
		own->one = 1;
		own->moment = (struct timespec){ 0, 50000 };
		own->counter = eventfd(0, EFD_CLOEXEC);
		CHECK(own->counter >= 0);
		CHECK(!pthread_create(&requesting[n], NULL, request, own));
	}
}

/* Ends it, and looks whether each call was made, and once. */
static void finish(void)
{
	for (unsigned int n = 0; n < REQUESTERS; n++)
		while (!requesters[n].wanted)
			usleep(1000);
	over = true;
	for (unsigned int n = 0; n < REQUESTERS; n++)
		CHECK(!pthread_join(requesting[n], NULL));
	told();
	for (unsigned int n = 0; n < SERVERS; n++)
		CHECK(!pthread_join(serving[n], NULL));
	for (unsigned int n = 0; n < REQUESTERS; n++) {
		uint64_t sum = 0;

		CHECK(read(requesters[n].counter, &sum, 8) == 8);
		if (sum != requesters[n].wanted)
			fprintf(stderr, "%llu made of %llu\n", (unsigned long long)sum,
				(unsigned long long)requesters[n].wanted);
		CHECK(sum == requesters[n].wanted);
	}
}

/* One of the process's threads that request or serve. */
static pthread_t some_thread(void)
{
	unsigned int at = drawn(REQUESTERS + SERVERS);

	return at < REQUESTERS ? requesting[at] : serving[at - REQUESTERS];
}

static void in_signals(void)
{
	struct sigaction cut = { .sa_handler = handle };
	struct sigaction restart = { .sa_handler = handle, .sa_flags = SA_RESTART };
	double end = now() + seconds;
	pid_t child;

	CHECK(!sigaction(SIGUSR1, &cut, NULL) && !sigaction(SIGUSR2, &restart, NULL));
	start();
	child = fork();
	if (!child) {
		/* Stops the whole of it at times. */
		while (getppid() != 1 && now() < end) {
			usleep(2000 + drawn(20000));
			kill(getppid(), SIGSTOP);
			usleep(drawn(3000));
			kill(getppid(), SIGCONT);
		}
		_exit(0);
	}
	while (!is_enough(end)) {
		pthread_kill(some_thread(), drawn(2) ? SIGUSR1 : SIGUSR2);
		usleep(drawn(500));
	}
	CHECK(waitpid(child, NULL, 0) == child);
	finish();
}

/* A thread of a process, or 0 if it has ended. */
static pid_t some_task(pid_t process)
{
	char path[64];
	pid_t found = 0;
	unsigned int seen = 0;
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.' && drawn(++seen) == 0)
			found = atoi(entry->d_name);
	if (tasks)
		closedir(tasks);
	return found;
}

/* Looks on for some steps. */
static void trace(pid_t task)
{
	int status, steps = drawn(12);

	if (ptrace(PTRACE_SEIZE, task, 0, PTRACE_O_TRACESYSGOOD))
		return;
	if (ptrace(PTRACE_INTERRUPT, task, 0, 0))
		return;
	while (waitpid(task, &status, __WALL) == task && WIFSTOPPED(status)) {
		/* What is for the program itself is handed on; a trap is the tracer's. */
		int signal = WSTOPSIG(status) & 0x7f;

		signal = signal == SIGTRAP ? 0 : signal;
		if (steps-- <= 0) {
			ptrace(PTRACE_DETACH, task, 0, signal);
			return;
		}
		if (ptrace(PTRACE_SYSCALL, task, 0, signal))
			return;
		/* Where it is in no call it stops at once or not at all. */
		if (drawn(4) == 0)
			ptrace(PTRACE_INTERRUPT, task, 0, 0);
	}
}

static void under_tracers(void)
{
	double end = now() + seconds;
	pid_t child = fork();
	int status;

	if (!child) {
		alarm(500);
		start();
		while (!is_enough(end) || !(requesters[0].refused + requesters[1].refused))
			usleep(1000);
		finish();
		exit(0);
	}
	while (!waitpid(child, &status, WNOHANG)) {
		pid_t task = some_task(child);

		/* Its first thread's end is this process's to wait for. */
		if (task && task != child)
			trace(task);
		usleep(drawn(2000));
	}
	CHECK(status == 0);
}

static struct sock_filter no_getppid[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | FILTERED),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

/* For all threads, from this one. */
static void under_a_filter(void)
{
	struct sock_fprog program = { sizeof(no_getppid) / sizeof(*no_getppid), no_getppid };

	start();
	usleep(drawn(20000));
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
	is_filtered = true;
	usleep(drawn(20000));
	/* However slow it is here. */
	while (!filtered)
		usleep(1000);
	finish();
}

static void *execute(void *unused)
{
	(void)unused;
	usleep(drawn(20000));
	execl("/bin/true", "true", NULL);
	return NULL;
}

/* What a child of fork finds: the descriptor is not its own. */
static void fork_some(void)
{
	for (unsigned int n = 0; n < 3; n++) {
		pid_t child = fork();

		if (!child) {
			struct parasc_wait wait = { .area = pointer(area) };
			struct parasc_proc proc = proc_of(0, 0);

			_exit(!(ioctl(device, PARASC_IOC_WAIT, &wait) == -1 && errno == EPERM &&
				ioctl(device, PARASC_IOC_PROC, &proc) == -1 && errno == EPERM));
		}
		int status;

		CHECK(waitpid(child, &status, 0) == child && status == 0);
		usleep(drawn(5000));
	}
}

/* The way is drawn by who waits for it, which knows what is to come of it. */
enum way { KILLED, EXITS, EXECUTES, THREAD_EXECUTES, FAULTS, WAYS };

static volatile int *nowhere;

static void end_by(enum way way)
{
	pthread_t thread;

	start();
	if (drawn(2))
		fork_some();
	usleep(drawn(20000));
	switch (way) {
	case KILLED:
		kill(getpid(), SIGKILL);
		break;
	case EXITS:
		_exit(0);
	case EXECUTES:
		execl("/bin/true", "true", NULL);
		break;
	case THREAD_EXECUTES:
		CHECK(!pthread_create(&thread, NULL, execute, NULL));
		break;
	default:
		*nowhere = 1;
	}
	pause();
}

static void until_it_ends(void)
{
	enum way way = drawn(WAYS);
	pid_t child = fork();
	int status, signal = 0;

	if (!child) {
		alarm(250);
		end_by(way);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status))
		signal = WTERMSIG(status);
	CHECK(signal == (way == KILLED ? SIGKILL : way == FAULTS ? SIGSEGV : 0));
	CHECK(signal || WEXITSTATUS(status) == 0);
}

/* Its threads need it as it was: gives it back, and goes on. */
static void give_back(int signal)
{
	static const size_t page = 4096;

	(void)signal;
	if (mmap(area, page, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	    area)
		_exit(3);
	area->magic = PARASC_MAGIC;
	area->version = PARASC_VERSION;
}

/* Nobody's results are looked at: what is tried is that the kernel survives it. */
static void *request_blindly(void *argument)
{
	struct requester *own = argument;

	for (;;) {
		struct parasc_wait wait = { .area = pointer(area), .line = own->line, .share = 2 };

		fill(own, CALLS);
		area->lines[own->line].words[PARASC_REQUESTS] = pointer(own->calls);
		area->lines[own->line].words[PARASC_RESULTS] = drawn(9) ? pointer(own->results) : 8;
		area->lines[own->line].words[PARASC_AT_ONCE] = drawn(9);
		atomic_store(word(own->line), PARASC_STATE(drawn(3), drawn(3), drawn(CALLS), PARASC_BATCH));
		area->open_lines = 1ull << own->line;
		if (ioctl(device, PARASC_IOC_WAIT, &wait) == PARASC_CALLS)
			ioctl(device, PARASC_IOC_WAIT, &wait);
		if (*(volatile uint32_t *)&area->sleepers)
			ioctl(device, PARASC_IOC_WAKE_UP, 9);
	}
	return NULL;
}

static void *serve_blindly(void *unused)
{
	(void)unused;
	for (;;) {
		struct parasc_proc proc = proc_of(10000, SECOND / 100);

		ioctl(device, PARASC_IOC_PROC, &proc);
	}
	return NULL;
}

static void on_memory_that_goes(void)
{
	/* It may be gone again before it is given back. */
	struct sigaction action = { .sa_handler = give_back, .sa_flags = SA_NODEFER };
	pthread_t thread;

	CHECK(!sigaction(SIGSEGV, &action, NULL) && !sigaction(SIGBUS, &action, NULL));
	begin();
	for (unsigned int n = 0; n < SERVERS; n++)
		CHECK(!pthread_create(&thread, NULL, serve_blindly, NULL));
	struct requester *own = &requesters[0];

	own->counter = eventfd(0, EFD_NONBLOCK);
	CHECK(!pthread_create(&thread, NULL, request_blindly, own));
	for (unsigned int round = 0; round < 200; round++) {
		usleep(drawn(300));
		switch (drawn(4)) {
		case 0:
			munmap(area, 4096);
			break;
		case 1:
			mprotect(area, 4096, PROT_NONE);
			break;
		case 2:
			mprotect(area, 4096, PROT_READ);
			break;
		default:
			madvise(area, 4096, MADV_DONTNEED);
		}
		usleep(drawn(200));
		give_back(0);
	}
	_exit(0);
}

static void again(void (*scene)(void))
{
	double end = now() + seconds;

	while (!is_enough(end)) {
		/* Each child goes on at another number. */
		drawn(2);
		pid_t child = fork();
		int status;

		if (!child) {
			alarm(300);
			scene();
			exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		if (status)
			fprintf(stderr, "a child's status %#x\n", status);
		CHECK(status == 0);
	}
}

static void under_filters(void)
{
	again(under_a_filter);
}

static void until_it_ends_often(void)
{
	again(until_it_ends);
}

static void on_memory_that_goes_often(void)
{
	again(on_memory_that_goes);
}

static const struct {
	const char *name;
	void (*scene)(void);
} scenes[] = {
	{ "signals", in_signals },
	{ "tracers", under_tracers },
	{ "filters", under_filters },
	{ "ends", until_it_ends_often },
	{ "memory that goes", on_memory_that_goes_often },
};

int main(int count, char **words)
{
	seconds = count > 1 ? atof(words[1]) : seconds;
	seed = getpid() ^ time(NULL);
	printf("seed %u\n", seed);
	fflush(stdout);
	for (size_t at = 0; at < sizeof(scenes) / sizeof(*scenes); at++) {
		made_before = made_inside();
		pid_t child = fork();
		int status;

		if (!child) {
			alarm(seconds + 600);
			scenes[at].scene();
			exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		printf("%s: %s, %lu calls made inside\n", scenes[at].name,
		       status ? "not so" : "as it should", made_inside() - made_before);
		fflush(stdout);
		if (status) {
			fprintf(stderr, "status %#x\n", status);
			return 1;
		}
	}
	return 0;
}
