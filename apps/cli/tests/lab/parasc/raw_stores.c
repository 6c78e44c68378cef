/* Waits for a store, by the device of MONITOR. */
#include "scenes.h"

void a_store_ends_a_wait(void)
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
void a_wait_is_for_the_page_that_is_stored_to(void)
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

static long rests(void)
{
	return atol(parameter("rests"));
}

/* What PM QoS asks for holds from the next look on, until who has asked has closed it. */
void no_cpu_rests_that_is_to_come_back_at_once(void)
{
	uint64_t value = 7;
	struct parasc_mwait wait = { pointer(&value), 7, SECOND / 20, 0, 0 };
	int monitor = open(PARASC_MWAIT_DEVICE, O_RDWR), latency = open("/dev/cpu_dma_latency", O_RDWR);
	int32_t at_once = 0;
	long before = rests();

	if (monitor < 0) {
		CHECK(errno == ENODEV);
		printf("no MONITOR here\n");
		return;
	}
	device = monitor;
	FAILS(ETIMEDOUT, PARASC_IOC_MWAIT, &wait);
	CHECK(rests() > before);
	CHECK(latency >= 0 && write(latency, &at_once, sizeof(at_once)) == sizeof(at_once));
	before = rests();
	FAILS(ETIMEDOUT, PARASC_IOC_MWAIT, &wait);
	/* It is seen without, too. */
	stored_to = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	a_store_is_seen(monitor);
	CHECK(rests() == before);
	CHECK(!close(latency));
	FAILS(ETIMEDOUT, PARASC_IOC_MWAIT, &wait);
	CHECK(rests() > before);
}
