/* Who looks at calls sees what it would see without the module. */
#include "scenes.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

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
void a_filter_sees_what_it_would_see_without(void)
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

void a_tracer_sees_what_it_would_see_without(void)
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
