/*
 * What ends or stops a process ends or stops its threads inside the module, wherever they are.
 *
 *   ends [MS]   and none may take longer than so many milliseconds: for a quiet machine
 */
#include "raw.h"

#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

/* Nothing for so long is a hang. */
#define PATIENCE (20 * SECOND)

static struct call call;
static int64_t result;
static char bytes[256];

/* Of the process that is tried, for the one that tries. */
static struct {
	atomic_int thread;
	atomic_bool goes_on; /* what its main thread is to do it may do */
} *shared;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

static bool comes(bool (*what)(pid_t), pid_t pid)
{
	for (uint64_t end = now() + PATIENCE; now() < end; usleep(500))
		if (what(pid))
			return true;
	return what(pid);
}

/* Where a thread is when it is to end. */

static void process(uint64_t spin_ns)
{
	for (;;) {
		struct parasc_proc proc = proc_of(spin_ns, ~0ull);

		if (ioctl(device, PARASC_IOC_PROC, &proc) == PARASC_CALLS)
			make_of_line(&proc);
	}
}

static void sleeping(void)
{
	process(0);
}

static void looking(void)
{
	process(~0ull);
}

static void in_a_call(void)
{
	offer(0, &call, &result, 1, 1);
	process(0);
}

static void in_a_read(void)
{
	int ends[2];

	CHECK(!pipe(ends));
	call = (struct call){ SYS_read, 3, { ends[0], pointer(bytes), 1 } };
	in_a_call();
}

/* It takes signals off the thread's own list while it sleeps. */
static void in_a_read_of_signals(void)
{
	sigset_t some;

	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	CHECK(!pthread_sigmask(SIG_BLOCK, &some, NULL));
	call = (struct call){ SYS_read, 3, { signalfd(-1, &some, 0), pointer(bytes), sizeof(bytes) } };
	in_a_call();
}

static void in_a_sleep(void)
{
	static struct timespec time = { 1000, 0 };

	call = (struct call){ SYS_nanosleep, 2, { pointer(&time), 0 } };
	in_a_call();
}

static void by_one_entry(void)
{
	struct parasc_wait wait = { .calls = { pointer(&call), pointer(&result), 0, 1 } };
	int ends[2];

	CHECK(!pipe(ends));
	call = (struct call){ SYS_read, 3, { ends[0], pointer(bytes), 1 } };
	for (;;)
		ioctl(device, PARASC_IOC_WAIT, &wait);
}

static void waiting(void)
{
	struct parasc_wait wait = { .area = pointer(area), .min = 1, .timeout_ns = ~0ull };

	atomic_store(word(0), PARASC_STATE(0, 1, 1, PARASC_BATCH));
	for (;;)
		ioctl(device, PARASC_IOC_WAIT, &wait);
}

static void waiting_for_a_store(void)
{
	struct parasc_mwait wait = { pointer(&result), 0, ~0ull, 0, 0 };
	int monitor = open(PARASC_MWAIT_DEVICE, O_RDWR);

	for (;;)
		if (monitor < 0)
			pause(); /* no MONITOR here */
		else
			ioctl(monitor, PARASC_IOC_MWAIT, &wait);
}

static const struct {
	const char *name;
	void (*go)(void);
	char state; /* by which it is seen to be there */
} places[] = {
	{ "asleep", sleeping, 'S' },
	{ "looking", looking, 'R' },
	{ "in a read", in_a_read, 'S' },
	{ "in a read of signals", in_a_read_of_signals, 'S' },
	{ "in a sleep", in_a_sleep, 'S' },
	{ "in a read by one entry", by_one_entry, 'S' },
	{ "waiting", waiting, 'S' },
	{ "waiting for a store", waiting_for_a_store, 0 },
};

/* What ends or stops it. */

/* Time at which that began. */
static uint64_t begun;

static char state_of(pid_t process, pid_t thread)
{
	char path[64], text[512] = { 0 };

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, thread);
	int file = open(path, O_RDONLY);

	if (file < 0)
		return 0;
	CHECK(read(file, text, sizeof(text) - 1) >= 0);
	close(file);
	char *end = strrchr(text, ')');

	return end ? end[2] : 0;
}

static int status;

static bool has_changed(pid_t pid)
{
	return waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL) == pid;
}

static bool is_stopped(pid_t pid)
{
	return state_of(pid, shared->thread) == 'T';
}

static bool is_frozen(pid_t pid)
{
	char text[256] = { 0 };
	int file = open("/sys/fs/cgroup/ends/cgroup.events", O_RDONLY);

	(void)pid;
	CHECK(file >= 0 && read(file, text, sizeof(text) - 1) > 0);
	close(file);
	return strstr(text, "frozen 1");
}

static void is_killed(pid_t pid)
{
	CHECK(comes(has_changed, pid) && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void by_kill(pid_t pid)
{
	CHECK(!kill(pid, SIGKILL));
	is_killed(pid);
}

static void by_term(pid_t pid)
{
	CHECK(!kill(pid, SIGTERM));
	CHECK(comes(has_changed, pid) && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void by_stop(pid_t pid)
{
	for (int round = 0; round < 2; round++) {
		CHECK(!kill(pid, SIGSTOP));
		CHECK(comes(has_changed, pid) && WIFSTOPPED(status));
		CHECK(comes(is_stopped, pid));
		CHECK(!kill(pid, SIGCONT));
		CHECK(comes(has_changed, pid) && WIFCONTINUED(status));
		usleep(5000);
	}
	by_kill(pid);
}

static void by_attach(pid_t pid)
{
	pid_t thread = shared->thread;

	CHECK(!ptrace(PTRACE_ATTACH, thread, 0, 0));
	CHECK(comes(has_changed, thread) && WIFSTOPPED(status));
	CHECK(!ptrace(PTRACE_DETACH, thread, 0, 0));
	by_kill(pid);
}

static void set(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	CHECK(file >= 0 && write(file, text, strlen(text)) > 0);
	close(file);
}

static void into_group(pid_t pid)
{
	char text[16];

	mkdir("/sys/fs/cgroup/ends", 0700);
	snprintf(text, sizeof(text), "%d", pid);
	set("/sys/fs/cgroup/ends/cgroup.procs", text);
}

static void by_group_kill(pid_t pid)
{
	into_group(pid);
	set("/sys/fs/cgroup/ends/cgroup.kill", "1");
	is_killed(pid);
}

static void by_group_freeze(pid_t pid)
{
	into_group(pid);
	set("/sys/fs/cgroup/ends/cgroup.freeze", "1");
	CHECK(comes(is_frozen, pid));
	set("/sys/fs/cgroup/ends/cgroup.freeze", "0");
	by_kill(pid);
}

/* Times that the group was out of memory. */
static long wants(void)
{
	char text[512] = { 0 };
	int file = open("/sys/fs/cgroup/ends/memory.events", O_RDONLY);

	CHECK(file >= 0 && read(file, text, sizeof(text) - 1) > 0);
	close(file);
	char *found = strstr(text, "\noom ");

	CHECK(found);
	return atol(found + strlen("\noom "));
}

static long wanted_before;

static bool has_too_little(pid_t pid)
{
	(void)pid;
	return wants() > wanted_before;
}

/* The kernel's killer for want of memory: of the group that has too little. Until it has, the process fills it. */
static void by_want_of_memory(pid_t pid)
{
	set("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	into_group(pid);
	set("/sys/fs/cgroup/ends/memory.max", "16M");
	wanted_before = wants();
	shared->goes_on = true;
	CHECK(comes(has_too_little, pid));
	begun = now();
	is_killed(pid);
	set("/sys/fs/cgroup/ends/memory.max", "max");
}

static void by_its_main_thread(pid_t pid)
{
	shared->goes_on = true;
	CHECK(comes(has_changed, pid));
}

static void by_exit(pid_t pid)
{
	by_its_main_thread(pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void by_exec(pid_t pid)
{
	by_its_main_thread(pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void by_core(pid_t pid)
{
	by_its_main_thread(pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void main_exits(void)
{
	_exit(7);
}

static void main_executes(void)
{
	execl("/bin/true", "true", NULL);
}

static void main_dumps(void)
{
	struct rlimit most = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_CORE, &most);
	abort();
}

static void main_wants_memory(void)
{
	mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

/* The C library asks each thread, and waits for it. */
static void main_sets_its_user(void)
{
	CHECK(!setuid(getuid()) && !setgid(getgid()));
	_exit(7);
}

static pthread_t other;

static void main_cancels(void)
{
	void *ended;

	CHECK(!pthread_cancel(other) && !pthread_join(other, &ended) && ended == PTHREAD_CANCELED);
	_exit(7);
}

static const struct {
	const char *name;
	void (*ends)(pid_t);
	void (*main)(void); /* what its main thread does, of a process of two threads */
} ways[] = {
	{ "kill", by_kill, NULL },
	{ "term", by_term, NULL },
	{ "stop", by_stop, NULL },
	{ "attach", by_attach, NULL },
	{ "cgroup.kill", by_group_kill, NULL },
	{ "cgroup.freeze", by_group_freeze, NULL },
	{ "want of memory", by_want_of_memory, main_wants_memory },
	{ "exit", by_exit, main_exits },
	{ "exec", by_exec, main_executes },
	{ "core", by_core, main_dumps },
	{ "setuid", by_exit, main_sets_its_user },
	{ "pthread_cancel", by_exit, main_cancels },
};

static void *go(void *place)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	shared->thread = gettid();
	places[(size_t)place].go();
	return NULL;
}

static void child(size_t place, size_t way, bool alone)
{
	begin();
	if (alone)
		go((void *)place);
	CHECK(!pthread_create(&other, NULL, go, (void *)place));
	while (!shared->goes_on)
		usleep(1000);
	ways[way].main();
	_exit(1);
}

static pid_t tried;

static bool is_there(pid_t place)
{
	char wanted = places[place].state;

	return shared->thread && (!wanted || state_of(tried, shared->thread) == wanted);
}

static uint64_t try(size_t place, size_t way, bool alone)
{
	shared->thread = 0;
	shared->goes_on = false;
	tried = fork();
	CHECK(tried >= 0);
	if (!tried)
		child(place, way, alone);
	CHECK(comes(is_there, place));
	/* It is on its way, or has come there: both end. */
	usleep(3000);
	CHECK(comes(is_there, place));
	begun = now();
	ways[way].ends(tried);
	return (now() - begun) / 1000000;
}

int main(int count, char **words)
{
	uint64_t longest = 0, limit = count > 1 ? strtoull(words[1], NULL, 10) : PATIENCE;
	unsigned int late = 0;

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* Not where others have mounted it. */
	if (access("/sys/fs/cgroup/cgroup.procs", F_OK))
		CHECK(!mount("none", "/sys/fs/cgroup", "cgroup2", 0, NULL));
	for (size_t place = 0; place < sizeof(places) / sizeof(*places); place++)
		for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++)
			for (int alone = 0; alone < 2; alone++) {
				if (alone && ways[way].main)
					continue;
				printf("%s, %s: ", places[place].name, ways[way].name);
				fflush(stdout);
				uint64_t took = try(place, way, alone);

				printf("%llu ms\n", (unsigned long long)took);
				longest = took > longest ? took : longest;
				late += took > limit;
			}
	printf("the longest took %llu ms\n", (unsigned long long)longest);
	if (late) {
		printf("%u took longer than %llu ms: not so\n", late, (unsigned long long)limit);
		return 1;
	}
	printf("all ended or stopped: as it should\n");
	return 0;
}
