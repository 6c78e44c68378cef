/*
 * Two major versions of libkumiki in one program: this file is the program, linked with one, and
 * (-DPLUGIN) what it opens, linked with the other. Each uses the library of its own in turns.
 */
#define _GNU_SOURCE /* dladdr(3), syscall(2) */
#include <kumiki/parasc.h>
#include <kumiki/shadow.h>
#include <kumiki/spawn.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define CALLS 64

extern char **environ;

static void increase(void *number)
{
	++*(int *)number;
}

static void forks(void)
{
	/* A machine of one cpu has them, too. */
	struct kumiki_shadow_options options = KUMIKI_SHADOW_OPTIONS_INIT;
	struct kumiki_shadow *shadow = NULL;
	int number = 0, i;
	options.flags = KUMIKI_SHADOW_SHARE;
	if (!CHECK(kumiki_shadow_create(&shadow, &options) == 0))
		return;
	for (i = 0; i < 100; i++) {
		CHECK(kumiki_shadow_fork(shadow, increase, &number) == 0);
		CHECK(kumiki_shadow_join(shadow) == 0);
	}
	CHECK(number == 100);
	/* The text is that of who refused. */
	REFUSED(kumiki_shadow_join(shadow), ESRCH);
	CHECK(kumiki_shadow_destroy(shadow) == 0);
}

static void calls(void)
{
	static __thread struct kumiki_parasc_call calls[CALLS];
	static __thread int64_t ret_vals[CALLS];
	struct kumiki_parasc_engine *engine = NULL;
	struct kumiki_parasc_requester *requester = NULL;
	size_t i;
	for (i = 0; i < CALLS; i++)
		calls[i].sysnum = SYS_getppid;
	if (!CHECK(kumiki_parasc_create(&engine, NULL) == 0))
		return;
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	CHECK(kumiki_parasc_run(requester, calls, ret_vals, CALLS) == 0);
	for (i = 0; i < CALLS; i++)
		CHECK(ret_vals[i] == getppid());
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static void child(int by_server)
{
	char sh[] = "sh", c[] = "-c", script[] = "exit 7";
	char *argv[] = { sh, c, script, NULL };
	kumiki_spawnattr_t attr;
	pid_t pid = -1;
	int status = -1;
	CHECK(kumiki_spawnattr_init(&attr) == 0);
	CHECK(kumiki_spawnattr_setbyserver(&attr, by_server) == 0);
	CHECK(kumiki_spawnp(&pid, "sh", NULL, &attr, argv, environ) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHECK(kumiki_spawnattr_destroy(&attr) == 0);
}

/* Uses every part; the file that the library was loaded from. */
static const char *use(void)
{
	Dl_info at;
	memset(&at, 0, sizeof at);
	forks();
	calls();
	child(0);
	child(1);
	CHECK(dladdr((void *)(uintptr_t)kumiki_shadow_fork, &at) != 0);
	return at.dli_fname;
}

#ifdef PLUGIN

const char *plugin_uses(int *failed)
{
	const char *file = use();
	*failed = failures;
	return file;
}

#else

typedef const char *uses(int *failed);

static void *plugin_in_thread(void *plugin)
{
	int failed = 0, round;
	for (round = 0; round < 5; round++) {
		(*(uses *)(uintptr_t)plugin)(&failed);
		CHECK(failed == 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	void *opened = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void *plugin = opened ? dlsym(opened, "plugin_uses") : NULL;
	const char *ours, *theirs;
	pthread_t thread;
	int failed = 0, round;
	alarm(PATIENCE);
	if (!CHECK(plugin != NULL)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	ours = use();
	theirs = (*(uses *)(uintptr_t)plugin)(&failed);
	CHECK(failed == 0);
	printf("%s\n%s\n", ours, theirs);
	CHECK(strcmp(ours, theirs) != 0);
	/* At once. */
	CHECK(pthread_create(&thread, NULL, plugin_in_thread, plugin) == 0);
	for (round = 0; round < 5; round++)
		use();
	CHECK(pthread_join(thread, NULL) == 0);
	return failures != 0;
}

#endif
