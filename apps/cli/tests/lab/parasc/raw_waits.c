/* Threads that sleep inside: until enough is made, until somebody wakes them, until their memory goes. */
#include "scenes.h"

static atomic_int woken;

static void *wait_for_some(void *of)
{
	struct parasc_wait wait = *(struct parasc_wait *)of;

	CHECK(ioctl(device, PARASC_IOC_WAIT, &wait) == 0);
	woken++;
	return NULL;
}

/* A requesting thread sleeps inside until enough is made; who makes it does not leave. */
void a_wait_ends_when_enough_is_made(void)
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

void who_sleeps_is_woken_by_any_descriptor(void)
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
void who_is_woken_inside_stays_there(void)
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

void memory_that_goes_is_an_error(void)
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
