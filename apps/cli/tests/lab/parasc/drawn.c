/*
 * Programs drawn by numbers: threads that do to the module and to each other what a number
 * says, by calls, structures and a page that another one of them changes meanwhile. Nobody
 * looks at results: some of it is senseless, most is refused. What is judged: each program ends
 * when it is killed, and what the kernel's log says is for who runs this to look at.
 *
 * drawn FIRST SECONDS: the programs from this number on, each for a moment. A number says what
 * each thread does, but not when: the same one may have to be run often.
 */
#include "raw.h"

#include <dirent.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#define MOST_THREADS 5u
#define CALLS 24u
#define STRUCTURES 3u
#define DESCRIPTORS 40u
#define NOBODY 65534
/* A killed program may take so long to end, on a slow machine. */
#define PATIENCE_S 120

/* What the threads of a program share, and change under each other. */
static struct {
	struct call calls[CALLS];
	int64_t results[CALLS];
	struct parasc_wait waits[STRUCTURES];
	struct parasc_proc procs[STRUCTURES];
	struct parasc_mwait mwaits[STRUCTURES];
	struct timespec moments[STRUCTURES];
	struct io_uring_params ring;
	struct epoll_event event;
	struct itimerspec timer;
	uint32_t word;
	unsigned char bytes[4096];
} own;

static pthread_t threads[MOST_THREADS];
static unsigned int started;
static bool is_root;

static _Thread_local uint64_t state;

/* Splitmix64: numbers that follow each other give programs that have nothing in common. */
static uint64_t next(void)
{
	uint64_t mixed = state += 0x9e3779b97f4a7c15u;

	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
	return mixed ^ mixed >> 31;
}

static uint32_t drawn(uint32_t below)
{
	return next() % below;
}

static int some_descriptor(void)
{
	return drawn(4) ? device + (int)drawn(2) : (int)drawn(DESCRIPTORS);
}

static uint64_t some_number(void)
{
	switch (drawn(4)) {
	case 0:
		return drawn(8);
	case 1:
		return -(uint64_t)drawn(8);
	case 2:
		return 1ull << drawn(64);
	default:
		return next();
	}
}

static uint64_t some_memory(void)
{
	switch (drawn(9)) {
	case 0:
		return pointer(&own.waits[drawn(STRUCTURES)]);
	case 1:
		return pointer(&own.procs[drawn(STRUCTURES)]);
	case 2:
		return pointer(&own.calls[drawn(CALLS)]);
	case 3:
		return pointer(&own.results[drawn(CALLS)]);
	case 4:
		return pointer(&own.moments[drawn(STRUCTURES)]);
	case 5:
		return pointer(area);
	case 6:
		return pointer(&own.word);
	case 7:
		/* Nothing is there. */
		return 4096 * drawn(3);
	default:
		return pointer(&own.bytes[drawn(4096)]);
	}
}

static uint64_t some_argument(void)
{
	switch (drawn(3)) {
	case 0:
		return some_number();
	case 1:
		return some_descriptor();
	default:
		return some_memory();
	}
}

/* For a deadline: mostly soon. */
static uint64_t some_ns(void)
{
	return drawn(30) ? drawn(1000000) : some_number();
}

static uint64_t some_request(uint64_t *structure)
{
	switch (drawn(6)) {
	case 0:
		*structure = pointer(&own.procs[drawn(STRUCTURES)]);
		return PARASC_IOC_PROC;
	case 1:
		*structure = drawn(9);
		return PARASC_IOC_WAKE_UP;
	case 2:
		*structure = pointer(&own.word);
		return drawn(3) ? PARASC_IOC_VERSION : some_number();
	case 3:
		*structure = pointer(&own.mwaits[drawn(STRUCTURES)]);
		return PARASC_IOC_MWAIT;
	default:
		*structure = pointer(&own.waits[drawn(STRUCTURES)]);
		return PARASC_IOC_WAIT;
	}
}

/* A call that means something to what is tried here. */
static struct call some_meant_call(void)
{
	uint64_t to, request, moment = pointer(&own.moments[drawn(STRUCTURES)]), page = pointer(area);
	uint64_t fd = some_descriptor(), byte = pointer(&own.bytes[drawn(4000)]);

	switch (drawn(28)) {
	default:
		request = some_request(&to);
		return (struct call){ SYS_ioctl, 3, { fd, request, to } };
	case 0:
		return (struct call){ SYS_getppid, 0, { 0 } };
	case 1:
		return (struct call){ SYS_gettid, 0, { 0 } };
	case 2:
		return (struct call){ SYS_read, 3, { fd, byte, drawn(64) } };
	case 3:
		return (struct call){ SYS_write, 3, { fd, byte, drawn(64) } };
	case 4:
		return (struct call){ SYS_close, 1, { 3 + drawn(DESCRIPTORS) } };
	case 5:
		return (struct call){ SYS_dup, 1, { fd } };
	case 6:
		return (struct call){ SYS_nanosleep, 2, { moment, 0 } };
	case 7:
		return (struct call){ SYS_ppoll, 5, { byte, drawn(3), moment, byte, 8 } };
	case 8:
		return (struct call){ SYS_futex, 4, { pointer(&own.word), drawn(2), drawn(3), moment } };
	case 9:
		return (struct call){ SYS_munmap, 2, { page, 4096 } };
	case 10:
		return (struct call){ SYS_mprotect, 3, { page, 4096, drawn(4) } };
	case 11:
		return (struct call){ SYS_madvise, 3, { page, 4096, drawn(24) } };
	case 12:
		return (struct call){ SYS_mmap, 6, { page, 4096, 3, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
						     (uint64_t)-1, 0 } };
	case 13:
		return (struct call){ SYS_mremap, 5, { page, 4096, 8192, MREMAP_MAYMOVE, 0 } };
	case 14:
		return (struct call){ SYS_tgkill, 3, { getpid(), gettid(), drawn(2) ? SIGUSR1 : SIGUSR2 } };
	case 15:
		return (struct call){ SYS_rt_sigprocmask, 4, { drawn(3), byte, 0, 8 } };
	case 16:
		return (struct call){ SYS_io_uring_setup, 2, { 4, pointer(&own.ring) } };
	case 17:
		return (struct call){ SYS_io_uring_enter, 6, { fd, drawn(3), drawn(2), drawn(4), 0, 0 } };
	case 18:
		return (struct call){ SYS_epoll_create1, 1, { 0 } };
	case 19:
		return (struct call){ SYS_epoll_ctl, 4, { drawn(DESCRIPTORS), EPOLL_CTL_ADD, fd,
							  pointer(&own.event) } };
	case 20:
		return (struct call){ SYS_exit, 1, { 0 } };
	case 21:
		return (struct call){ SYS_timerfd_settime, 4, { fd, 0, pointer(&own.timer), 0 } };
	}
}

static struct call some_call(void)
{
	if (drawn(6) || is_root)
		return some_meant_call();
	/* Whatever there is: nobody's rights keep it harmless to others. */
	return (struct call){ drawn(20) ? drawn(470) : drawn(65536), drawn(9),
			      { some_argument(), some_argument(), some_argument(), some_argument(),
				some_argument(), some_argument() } };
}

static struct parasc_calls some_calls(void)
{
	struct parasc_calls calls = {
		pointer(own.calls), pointer(own.results), drawn(4), drawn(CALLS),
	};

	if (drawn(12) == 0)
		calls.requests = some_memory();
	if (drawn(12) == 0)
		calls.results = some_memory();
	if (drawn(30) == 0)
		calls.last = some_number();
	return calls;
}

static void draw_structures(unsigned int at)
{
	struct parasc_proc proc = {
		.area = pointer(area), .length = 4096, .spin_ns = drawn(200000), .idle_ns = some_ns(),
		.flags = drawn(2), .share = 1 + drawn(4), .recalls = *(volatile uint32_t *)&area->recalls,
		.signals = drawn(3) ? 0 : some_number(),
	};
	struct parasc_wait wait = {
		.area = drawn(4) ? pointer(area) : 0, .line = drawn(3), .share = drawn(4),
		.timeout_ns = some_ns(), .min = drawn(3) ? 0 : 1 + drawn(CALLS), .flags = drawn(4) == 0,
	};
	struct parasc_mwait mwait = {
		.word = drawn(6) ? pointer(&own.bytes[8 * drawn(500)]) : some_memory(),
		.timeout_ns = drawn(3000000),
	};

	if (drawn(2))
		wait.calls = some_calls();
	/* One wrong word at times, of any. */
	if (drawn(10) == 0)
		((uint64_t *)&proc)[drawn(sizeof(proc) / 8)] = some_argument();
	if (drawn(10) == 0)
		((uint64_t *)&wait)[drawn(sizeof(wait) / 8)] = some_argument();
	own.procs[at] = proc;
	own.waits[at] = wait;
	own.mwaits[at] = mwait;
	own.moments[at] = (struct timespec){ drawn(60) == 0, drawn(500000) };
}

/* A batch or a single call, as a library would offer it. */
static void offer_some(bool single)
{
	unsigned int line = drawn(3);
	uint32_t number = single ? own.calls[drawn(CALLS)].sysnum : PARASC_BATCH;
	uint64_t *words = (uint64_t *)area->lines[line].words;

	if (single) {
		memcpy(words, own.calls[drawn(CALLS)].args, sizeof(own.calls[0].args));
	} else {
		words[PARASC_REQUESTS] = pointer(own.calls);
		words[PARASC_RESULTS] = pointer(own.results);
		words[PARASC_AT_ONCE] = 1 + drawn(9);
	}
	atomic_store(word(line), PARASC_STATE(0, 0, single ? 1 : 1 + drawn(CALLS - 1), number));
	atomic_fetch_or((_Atomic uint64_t *)&area->open_lines, 1ull << line);
	ioctl(device, PARASC_IOC_WAKE_UP, 1 + drawn(4));
}

/* Words that no library would write: at times in a page that is not there. */
static void scribble(void)
{
	unsigned int line = drawn(3);

	switch (drawn(5)) {
	case 0:
		((volatile uint64_t *)area)[drawn(64)] = some_argument();
		break;
	case 1:
		area->lines[line].words[drawn(6)] = some_argument();
		break;
	case 2:
		area->lines[line].state = PARASC_STATE(drawn(3), drawn(CALLS), drawn(CALLS), PARASC_BATCH);
		break;
	default:
		area->recalls++;
		area->terminate = drawn(6) == 0;
	}
}

static void give_page(void)
{
	int shared = drawn(4) ? MAP_PRIVATE : MAP_SHARED;

	if (mmap(area, 4096, PROT_READ | PROT_WRITE, MAP_FIXED | shared | MAP_ANONYMOUS, -1, 0) != area)
		_exit(3);
	area->magic = PARASC_MAGIC;
	area->version = PARASC_VERSION;
}

/* Whoever touches the page waits there, and is never answered. */
static void page_waits(void)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | (is_root ? 0 : UFFD_USER_MODE_ONLY));
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { pointer(area), 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		return;
	madvise(area, 4096, MADV_DONTNEED);
	usleep(drawn(5000));
	if (drawn(3))
		close(fd);
}

static void filter_all(void)
{
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog program = { 1, allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, drawn(2) ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program);
}

/* Another process looks on, or tries the descriptor and the memory as they are after fork. */
static void another_process(void)
{
	pid_t parent = getpid(), child = fork();
	int status;

	if (child < 0)
		return;
	if (!child) {
		if (drawn(2) && !ptrace(PTRACE_SEIZE, parent, 0, 0)) {
			ptrace(PTRACE_INTERRUPT, parent, 0, 0);
			waitpid(parent, &status, __WALL);
			usleep(drawn(2000));
			ptrace(PTRACE_DETACH, parent, 0, 0);
		}
		for (unsigned int n = 0; n < 4; n++) {
			uint64_t to, request = some_request(&to);

			if (drawn(3) == 0)
				device = open(PARASC_DEVICE, O_RDWR);
			ioctl(some_descriptor(), request, to);
		}
		_exit(0);
	}
	usleep(drawn(3000));
	waitpid(child, &status, drawn(2) ? WNOHANG : 0);
}

static void act(void)
{
	unsigned int at = drawn(STRUCTURES);

	switch (drawn(64)) {
	default:
		draw_structures(at);
		ioctl(drawn(8) ? device : some_descriptor(), PARASC_IOC_WAIT, &own.waits[at]);
		break;
	case 20 ... 33:
		draw_structures(at);
		ioctl(drawn(8) ? device : some_descriptor(), PARASC_IOC_PROC, &own.procs[at]);
		break;
	case 34 ... 36:
		ioctl(device, PARASC_IOC_WAKE_UP, drawn(5));
		break;
	case 37 ... 43:
		for (unsigned int n = 0; n < 5; n++)
			own.calls[drawn(CALLS)] = some_call();
		break;
	case 44 ... 50:
		offer_some(drawn(6) == 0);
		break;
	case 51 ... 53:
		scribble();
		break;
	case 54 ... 55:
		pthread_kill(threads[drawn(started)], drawn(2) ? SIGUSR1 : SIGUSR2);
		break;
	case 56:
		munmap(area, 4096);
		usleep(drawn(500));
		give_page();
		break;
	case 57:
		mprotect(area, 4096, drawn(2));
		usleep(drawn(500));
		give_page();
		break;
	case 58:
		close(some_descriptor());
		if (open(PARASC_DEVICE, O_RDWR) < 0)
			close(3 + drawn(DESCRIPTORS));
		break;
	case 59:
		ioctl(device + 1, PARASC_IOC_MWAIT, &own.mwaits[at]);
		break;
	case 60:
		another_process();
		break;
	case 61:
		if (drawn(8) == 0)
			page_waits();
		break;
	case 62:
		if (drawn(16) == 0)
			filter_all();
		break;
	case 63:
		if (drawn(40) == 0)
			execl("/bin/true", "true", NULL);
	}
}

/* Each thread's own number is that of its program and its place. */
static void *run_thread(void *place)
{
	state += (uintptr_t)place << 32;
	for (;;)
		act();
	return NULL;
}

static void *begin_thread(void *number)
{
	state = ((uint64_t *)number)[0];
	return run_thread((void *)(uintptr_t)((uint64_t *)number)[1]);
}

static void handle(int signal)
{
	(void)signal;
}

/* The page is gone, or is another thread's doing: gives it back. */
static void on_fault(int signal)
{
	(void)signal;
	give_page();
}

static void run_program(uint64_t number)
{
	static uint64_t of_threads[MOST_THREADS][2];
	struct sigaction cut = { .sa_handler = handle };
	struct sigaction restart = { .sa_handler = handle, .sa_flags = SA_RESTART };
	struct sigaction fault = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	struct rlimit memory = { 256 << 20, 256 << 20 }, files = { DESCRIPTORS, DESCRIPTORS };
	struct rlimit bytes = { 1 << 20, 1 << 20 }, cores = { 0, 0 };
	int pair[2], nowhere = open("/dev/null", O_RDWR);

	/* A descriptor that it draws may be the one that says how all went. */
	CHECK(nowhere >= 0 && dup2(nowhere, STDIN_FILENO) >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0);
	close(nowhere);
	state = number;
	is_root = drawn(4) == 0;
	setrlimit(RLIMIT_AS, &memory);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_FSIZE, &bytes);
	setrlimit(RLIMIT_CORE, &cores);
	if (!is_root)
		CHECK(!setgid(NOBODY) && !setuid(NOBODY));
	sigaction(SIGUSR1, &cut, NULL);
	sigaction(SIGUSR2, &restart, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	begin();
	/* Beside it, as some_descriptor() has it; an empty file where there is no MONITOR. */
	if (open(PARASC_MWAIT_DEVICE, O_RDWR) < 0)
		eventfd(0, EFD_NONBLOCK);
	eventfd(0, 0);
	timerfd_create(CLOCK_MONOTONIC, 0);
	CHECK(!pipe(pair) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	own.timer.it_value.tv_nsec = own.timer.it_interval.tv_nsec = 300000;
	for (unsigned int n = 0; n < CALLS; n++)
		own.calls[n] = some_call();
	for (unsigned int n = 0; n < STRUCTURES; n++)
		draw_structures(n);
	threads[0] = pthread_self();
	started = 1;
	for (unsigned int n = drawn(MOST_THREADS); n > 0; n--) {
		of_threads[n][0] = number;
		of_threads[n][1] = n;
		if (!pthread_create(&threads[started], NULL, begin_thread, of_threads[n]))
			started++;
	}
	run_thread(NULL);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void show(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (length > 0)
		fprintf(stderr, "%s:\n%.*s\n", path, (int)length, text);
	if (fd >= 0)
		close(fd);
}

/* What a process that has not ended is at. */
static void show_threads(pid_t process)
{
	static const char *const files[] = { "status", "syscall", "stack" };
	char path[600];
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	DIR *tasks = opendir(path);

	while (tasks && (entry = readdir(tasks)))
		for (size_t at = 0; entry->d_name[0] != '.' && at < 3; at++) {
			snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", process, entry->d_name, files[at]);
			show(path);
		}
}

/* In a namespace of its own, so that whatever it has started ends with it. */
static pid_t begin_process(uint64_t number)
{
	pid_t child = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);

	CHECK(child >= 0);
	if (!child)
		run_program(number);
	return child;
}

static void run_number(uint64_t number)
{
	pid_t child = begin_process(number);
	int status;

	state = ~number;
	/* What sleeps for ever is waked at times. */
	for (double end = now() + 0.001 * (20 + drawn(280)); now() < end; usleep(drawn(6000)))
		kill(child, drawn(2) ? SIGUSR1 : SIGUSR2);
	if (drawn(4) == 0) {
		kill(child, SIGSTOP);
		usleep(drawn(20000));
		if (drawn(2))
			kill(child, SIGCONT);
	}
	kill(child, SIGKILL);
	for (double end = now() + PATIENCE_S; waitpid(child, &status, WNOHANG) == 0; usleep(500)) {
		if (now() > end) {
			fprintf(stderr, "not so: program %" PRIu64 " does not end\n", number);
			show_threads(child);
			exit(1);
		}
	}
}

static unsigned long made_inside(void)
{
	unsigned long made = 0;
	FILE *file = fopen("/sys/module/parasc/parameters/calls_made", "r");

	CHECK(file && fscanf(file, "%lu", &made) == 1);
	fclose(file);
	return made;
}

int main(int count, char **words)
{
	CHECK(count == 3);
	uint64_t first = strtoull(words[1], NULL, 10), number = first;
	double end = now() + atof(words[2]);
	unsigned long before = made_inside();
	FILE *log = fopen("/dev/kmsg", "w");

	CHECK(log && !chmod(PARASC_DEVICE, 0666));
	if (access(PARASC_MWAIT_DEVICE, F_OK) == 0)
		CHECK(!chmod(PARASC_MWAIT_DEVICE, 0666));
	do {
		/* Where a kernel's last words are. */
		fprintf(log, "program %" PRIu64 "\n", number);
		fflush(log);
		run_number(number++);
	} while (now() < end);
	printf("programs %" PRIu64 " to %" PRIu64 ": as it should, %lu calls made inside\n", first, number - 1,
	       made_inside() - before);
	return 0;
}
