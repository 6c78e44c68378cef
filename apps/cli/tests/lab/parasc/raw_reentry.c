/* Ways back into the module from a call that it makes, and an io_uring with its device. */
#include "scenes.h"

#include <linux/io_uring.h>
#include <sys/epoll.h>

static long enter(long request, void *argument, long fd)
{
	fill(1, (struct call){ SYS_ioctl, 3, { fd, request, pointer(argument) } });
	run(calls, results, 1);
	return results[0];
}

/* A call may be this module's own: then the thread makes it from outside, and no stack grows. */
void the_way_back_into_the_module_is_from_outside(void)
{
	struct parasc_wait wait;
	struct parasc_proc proc;
	uint32_t version = 0;
	int other, next, ends[2];

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

	/* The descriptor that comes next. */
	next = dup(device);
	CHECK(next >= 0 && !close(next));
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
		{ { SYS_dup, 1, { device } }, next },
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
	/* The descriptor that a request has made is one as any other. */
	CHECK(enter(PARASC_IOC_WAKE_UP, NULL, next) == 0);
	wait = (struct parasc_wait){ .calls = { pointer(calls), pointer(results + 1), 0, 1 } };
	CHECK(enter(PARASC_IOC_WAIT, &wait, next) == PARASC_CALLS && !close(next));
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
void an_io_uring_does_nothing_with_the_device(void)
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
