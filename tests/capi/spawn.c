/*
 * What <kumiki/spawn.h> promises: every function, the errors that it names.
 * C99 and C++11 alike. Ends with 0 if all holds; what does not is on stderr.
 */
#ifndef _GNU_SOURCE /* g++ defines it */
#define _GNU_SOURCE /* pipe2(2), sched_getaffinity(2) */
#endif
#include <kumiki/spawn.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern char **environ;

/* P_PIDFD of waitid(2), which older headers have not. */
#define P_PIDFD_ 3

/* posix_spawn's errors are above 0. */
#define FAILS(call, error) REFUSED(-(call), error)

#define SCRIPT_BYTES 4096

static int status_of(pid_t pid)
{
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The end of a shell's script that is started so; its output, cut, in text. */
static int script(const kumiki_spawn_file_actions_t *actions, const kumiki_spawnattr_t *attr,
                  const char *commands)
{
	char shell[] = "sh", dash[] = "-c", text[SCRIPT_BYTES];
	char *argv[] = { shell, dash, text, NULL };
	pid_t pid = -1;
	int error;
	snprintf(text, sizeof text, "%s", commands);
	error = kumiki_spawnp(&pid, "sh", actions, attr, argv, environ);
	if (error != 0) {
		fprintf(stderr, "%s: %s\n", commands, kumiki_last_error());
		return -error;
	}
	return status_of(pid);
}

static int with_attributes(const kumiki_spawnattr_t *attr, const char *commands)
{
	return script(NULL, attr, commands);
}

/* Whether the mask of a child that is started so ends with these digits. */
static int is_blocked(const kumiki_spawnattr_t *attr, const char *digits)
{
	/* Not by a shell, which may have a mask of its own. */
	char grep[] = "grep", quiet[] = "-q", pattern[64], file[] = "/proc/self/status";
	char *argv[] = { grep, quiet, pattern, file, NULL };
	pid_t pid = -1;
	snprintf(pattern, sizeof pattern, "SigBlk:.*%s$", digits);
	CHECK(kumiki_spawnp(&pid, "grep", NULL, attr, argv, environ) == 0);
	return status_of(pid) == 0;
}

/* ---- starting ---- */

static void programs(void)
{
	char name[] = "name", value[] = "VALUE=1=2", empty[] = "EMPTY=";
	char *none[] = { NULL }, *argv[] = { name, NULL };
	char *envp[] = { value, empty, NULL };
	char shell[] = "sh", dash[] = "-c", text[] = "test \"$VALUE$EMPTY\" = 1=2 && exit 7";
	char *said[] = { shell, dash, text, NULL };
	pid_t pid = -1;
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	CHECK(kumiki_spawn_start_server() == 0);
	CHECK(kumiki_spawn(&pid, "/bin/sh", NULL, NULL, said, envp) == 0);
	CHECK(pid > 0 && status_of(pid) == 7);
	CHECK(kumiki_spawnp(NULL, "true", NULL, NULL, argv, none) == 0);
	CHECK(wait(NULL) > 0);
	FAILS(kumiki_spawn(&pid, "/no/such/program", NULL, NULL, argv, none), ENOENT);
	FAILS(kumiki_spawn(&pid, "sh", NULL, NULL, argv, none), ENOENT);
	FAILS(kumiki_spawnp(&pid, "no-such-program-anywhere", NULL, NULL, argv, none), ENOENT);
	FAILS(kumiki_spawn(&pid, "/", NULL, NULL, argv, none), EACCES);
	FAILS(kumiki_spawn(&pid, NULL, NULL, NULL, argv, none), EINVAL);
	FAILS(kumiki_spawn(&pid, "/bin/sh", NULL, NULL, NULL, none), EINVAL);
}

/* ---- file actions ---- */

static void actions(void)
{
	kumiki_spawn_file_actions_t actions;
	char path[] = "/tmp/kumiki-spawn-XXXXXX", text[SCRIPT_BYTES], said[64] = "";
	int file = mkstemp(path), root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(file >= 0 && root >= 0);
	CHECK(kumiki_spawn_file_actions_init(&actions) == 0);
	CHECK(kumiki_spawn_file_actions_addopen(&actions, 1, path, O_WRONLY, 0) == 0);
	CHECK(kumiki_spawn_file_actions_adddup2(&actions, 1, 9) == 0);
	CHECK(kumiki_spawn_file_actions_addclose(&actions, 0) == 0);
	CHECK(kumiki_spawn_file_actions_addclosefrom(&actions, 10) == 0);
	CHECK(kumiki_spawn_file_actions_addfchdir(&actions, root) == 0);
	CHECK(kumiki_spawn_file_actions_addchdir(&actions, "usr/bin") == 0);
	CHECK(kumiki_spawn_file_actions_addopen(&actions, 5, "env", O_RDONLY, 0) == 0);
	/* Inherited, but for what the actions close. */
	CHECK(dup2(root, 7) == 7 && dup2(root, 11) == 11);
	snprintf(text, sizeof text,
	         "cd -P . && printf '%%s ' \"$PWD\" >&9 && ls /proc/self/fd > /dev/null && "
	         "for n in 0 5 7 9 11; do test -e /proc/$$/fd/$n && printf '%%s ' $n; done; exit 0");
	CHECK(script(&actions, NULL, text) == 0);
	CHECK(pread(file, said, sizeof said - 1, 0) > 0);
	if (!CHECK(strcmp(said, "/usr/bin 5 7 9 ") == 0))
		fprintf(stderr, "it said: %s\n", said);
	CHECK(close(7) == 0 && close(11) == 0);

	FAILS(kumiki_spawn_file_actions_addclose(&actions, -1), EBADF);
	FAILS(kumiki_spawn_file_actions_addopen(&actions, 1, NULL, 0, 0), EINVAL);
	CHECK(kumiki_spawn_file_actions_adddup2(&actions, 1000, 1) == 0);
	CHECK(script(&actions, NULL, "exit 0") == -EBADF);
	CHECK(kumiki_spawn_file_actions_destroy(&actions) == 0);
	FAILS(kumiki_spawn_file_actions_addclose(&actions, 1), EINVAL);
	CHECK(script(&actions, NULL, "exit 0") == -EINVAL);

	/* A folder that no path leads to any more. */
	char folder[] = "/tmp/kumiki-spawn-XXXXXX";
	CHECK(mkdtemp(folder) != NULL);
	int gone = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(gone >= 0 && rmdir(folder) == 0);
	CHECK(kumiki_spawn_file_actions_init(&actions) == 0);
	CHECK(kumiki_spawn_file_actions_addfchdir(&actions, gone) == 0);
	CHECK(script(&actions, NULL, "case $(readlink /proc/$$/cwd) in *deleted*) exit 7; esac") == 7);
	CHECK(kumiki_spawn_file_actions_addfchdir(&actions, file) == 0);
	CHECK(script(&actions, NULL, "exit 0") == -ENOTDIR);
	CHECK(kumiki_spawn_file_actions_destroy(&actions) == 0);
	CHECK(close(gone) == 0);

	CHECK(kumiki_spawn_file_actions_init(&actions) == 0);
	CHECK(kumiki_spawn_file_actions_addopen(&actions, 1, "/no/such/file", O_RDONLY, 0) == 0);
	CHECK(script(&actions, NULL, "exit 0") == -ENOENT);
	CHECK(kumiki_spawn_file_actions_destroy(&actions) == 0);
	CHECK(close(file) == 0 && close(root) == 0 && unlink(path) == 0);
}

/* ---- attributes ---- */

static void posix_attributes(void)
{
	kumiki_spawnattr_t attr;
	sigset_t signals, told;
	short flags = -1;
	pid_t group = -1;
	CHECK(kumiki_spawnattr_init(&attr) == 0);
	CHECK(kumiki_spawnattr_getflags(&attr, &flags) == 0 && flags == 0);
	FAILS(kumiki_spawnattr_setflags(&attr, 0x200), EINVAL);
	CHECK(kumiki_spawnattr_setflags(&attr, KUMIKI_SPAWN_SETPGROUP) == 0);
	CHECK(kumiki_spawnattr_setpgroup(&attr, 0) == 0);
	CHECK(kumiki_spawnattr_getpgroup(&attr, &group) == 0 && group == 0);
	CHECK(with_attributes(&attr, "set $(cat /proc/$$/stat) && test $5 = $$") == 0);
	CHECK(kumiki_spawnattr_setflags(&attr, KUMIKI_SPAWN_SETSID | KUMIKI_SPAWN_RESETIDS) == 0);
	CHECK(kumiki_spawnattr_getflags(&attr, &flags) == 0);
	CHECK(flags == (KUMIKI_SPAWN_SETSID | KUMIKI_SPAWN_RESETIDS));
	CHECK(with_attributes(&attr, "set $(cat /proc/$$/stat) && test $6 = $$") == 0);

	/* The caller's mask and what it ignores, unless said. */
	CHECK(sigemptyset(&signals) == 0 && sigaddset(&signals, SIGUSR2) == 0);
	CHECK(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
	CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
	CHECK(is_blocked(NULL, "0800"));
	CHECK(with_attributes(NULL, "kill -USR1 $$; exit 5") == 5);
	flags = KUMIKI_SPAWN_SETSIGMASK | KUMIKI_SPAWN_SETSIGDEF;
	CHECK(kumiki_spawnattr_setflags(&attr, flags) == 0);
	CHECK(sigemptyset(&signals) == 0 && sigaddset(&signals, SIGUSR1) == 0);
	CHECK(kumiki_spawnattr_setsigdefault(&attr, &signals) == 0);
	CHECK(kumiki_spawnattr_getsigdefault(&attr, &told) == 0);
	CHECK(sigismember(&told, SIGUSR1) == 1 && sigismember(&told, SIGUSR2) == 0);
	CHECK(with_attributes(&attr, "kill -USR1 $$; exit 5") == -1);
	CHECK(is_blocked(&attr, "0000"));
	CHECK(kumiki_spawnattr_setsigmask(&attr, &signals) == 0);
	CHECK(kumiki_spawnattr_getsigmask(&attr, &told) == 0);
	CHECK(sigismember(&told, SIGUSR1) == 1 && sigismember(&told, SIGUSR2) == 0);
	CHECK(is_blocked(&attr, "0200"));
	FAILS(kumiki_spawnattr_getflags(&attr, NULL), EINVAL);
	FAILS(kumiki_spawnattr_setsigmask(&attr, NULL), EINVAL);
	CHECK(kumiki_spawnattr_destroy(&attr) == 0);
	FAILS(kumiki_spawnattr_setflags(&attr, 0), EINVAL);
	CHECK(with_attributes(&attr, "exit 0") == -EINVAL);
	CHECK(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
}

static void further_attributes(void)
{
	kumiki_spawnattr_t attr;
	struct rlimit files = { 40, 50 };
	unsigned int cpu = 0, too_large = 1u << 30;
	char text[SCRIPT_BYTES];
	cpu_set_t cpus;
	sigset_t signals;
	CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
	while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &cpus))
		cpu++;
	CHECK(kumiki_spawnattr_init(&attr) == 0);
	CHECK(kumiki_spawnattr_setumask(&attr, 0027) == 0);
	CHECK(kumiki_spawnattr_setnice(&attr, 1000) == EINVAL);
	CHECK(kumiki_spawnattr_setnice(&attr, 7) == 0);
	CHECK(kumiki_spawnattr_setlimit(&attr, RLIMIT_NOFILE, &files) == 0);
	CHECK(kumiki_spawnattr_setaffinity(&attr, 1, &cpu) == 0);
	CHECK(sigemptyset(&signals) == 0 && sigaddset(&signals, SIGHUP) == 0);
	CHECK(kumiki_spawnattr_setsigignore(&attr, &signals) == 0);
	CHECK(kumiki_spawnattr_setflags(&attr, KUMIKI_SPAWN_CLOEXEC_DEFAULT) == 0);
	CHECK(dup2(2, 30) == 30);
	snprintf(text, sizeof text,
	         "test $(umask) = 0027 && test $(nice) = 7 && test $(ulimit -Sn) = 40 && "
	         "test $(ulimit -Hn) = 50 && kill -HUP $$ && test ! -e /proc/$$/fd/30 && "
	         "grep -q \"^Cpus_allowed_list:.%u$\" /proc/self/status", cpu);
	CHECK(with_attributes(&attr, text) == 0);
	CHECK(close(30) == 0);
	FAILS(kumiki_spawnattr_setlimit(&attr, 1000, &files), EINVAL);
	FAILS(kumiki_spawnattr_setlimit(&attr, RLIMIT_NOFILE, NULL), EINVAL);
	FAILS(kumiki_spawnattr_setaffinity(&attr, 1, &too_large), EINVAL);
	FAILS(kumiki_spawnattr_setaffinity(&attr, 1, NULL), EINVAL);
	FAILS(kumiki_spawnattr_setnamespaces(&attr, 1), EINVAL);
	FAILS(kumiki_spawnattr_setuidmap(&attr, 1, NULL), EINVAL);
	CHECK(kumiki_spawnattr_setdeathsignal(&attr, 999) == 0);
	CHECK(with_attributes(&attr, "exit 0") == -EINVAL);
	CHECK(kumiki_spawnattr_setdeathsignal(&attr, SIGTERM) == 0);
	CHECK(with_attributes(&attr, "exit 0") == 0);
	FAILS(kumiki_spawnattr_setcgroup(&attr, -1), EBADF);
	FAILS(kumiki_spawnattr_setterminal(&attr, -1), EBADF);
	CHECK(kumiki_spawnattr_setcgroup(&attr, 1000) == 0);
	CHECK(with_attributes(&attr, "exit 0") == -EBADF);
	CHECK(kumiki_spawnattr_destroy(&attr) == 0);
}

/* Ids of a user namespace of its own. */
static void maps(void)
{
	kumiki_spawnattr_t attr;
	kumiki_spawn_id_range_t user = { 7, getuid(), 1 }, group = { 9, getgid(), 1 };
	CHECK(kumiki_spawnattr_init(&attr) == 0);
	CHECK(kumiki_spawnattr_setnamespaces(&attr, CLONE_NEWUSER) == 0);
	if (with_attributes(&attr, "exit 0") == -EPERM) {
		fprintf(stderr, "skipped: no new user namespaces here\n");
	} else {
		CHECK(kumiki_spawnattr_setuidmap(&attr, 1, &user) == 0);
		CHECK(kumiki_spawnattr_setgidmap(&attr, 1, &group) == 0);
		CHECK(with_attributes(&attr, "test $(id -u) = 7 && test $(id -g) = 9") == 0);
		user.count = 0;
		CHECK(kumiki_spawnattr_setuidmap(&attr, 1, &user) == 0);
		CHECK(with_attributes(&attr, "exit 0") == -EINVAL);
	}
	CHECK(kumiki_spawnattr_destroy(&attr) == 0);
}

/* What only root may. */
static void other_users(void)
{
	kumiki_spawnattr_t attr;
	gid_t groups[] = { 100, 101 };
	if (geteuid() != 0) {
		fprintf(stderr, "skipped: only root has children of other users\n");
		return;
	}
	CHECK(kumiki_spawnattr_init(&attr) == 0);
	CHECK(kumiki_spawnattr_setuid(&attr, 65534) == 0);
	CHECK(kumiki_spawnattr_setgid(&attr, 65533) == 0);
	CHECK(with_attributes(&attr, "test \"$(id -u) $(id -G)\" = '65534 65533'") == 0);
	CHECK(kumiki_spawnattr_setgroups(&attr, 2, groups) == 0);
	CHECK(with_attributes(&attr, "test \"$(id -G)\" = '65533 100 101'") == 0);
	CHECK(kumiki_spawnattr_setgroups(&attr, 0, NULL) == 0);
	CHECK(with_attributes(&attr, "test \"$(id -G)\" = 65533") == 0);
	FAILS(kumiki_spawnattr_setgroups(&attr, 1, NULL), EINVAL);
	CHECK(kumiki_spawnattr_destroy(&attr) == 0);

	CHECK(kumiki_spawnattr_init(&attr) == 0);
	CHECK(kumiki_spawnattr_setnamespaces(&attr, CLONE_NEWUTS) == 0);
	if (with_attributes(&attr, "exit 0") == -EPERM)
		fprintf(stderr, "skipped: no new namespaces here\n");
	else
		CHECK(with_attributes(&attr, "test $(readlink /proc/self/ns/uts) != "
		                             "$(readlink /proc/$PPID/ns/uts)") == 0);
	CHECK(kumiki_spawnattr_destroy(&attr) == 0);
}

/* All that comes of a child ends with it. */
static void trees(void)
{
	kumiki_spawnattr_t attr;
	kumiki_spawn_tree_t tree;
	char shell[] = "sh", dash[] = "-c", text[] = "sleep 1000 & sleep 1000", byte;
	char *argv[] = { shell, dash, text, NULL };
	int ends[2], pidfd = -1, status = -1;
	pid_t pid = -1;
	kumiki_spawn_file_actions_t actions;
	CHECK(pipe(ends) == 0 && fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0);
	CHECK(kumiki_spawn_tree_init(&tree) == 0 && kumiki_spawnattr_init(&attr) == 0);
	CHECK(kumiki_spawnattr_settree(&attr, &tree) == 0);
	CHECK(kumiki_spawn_tree_kill(&tree) == 0);
	CHECK(kumiki_spawnp(&pid, "sh", NULL, &attr, argv, environ) == 0);
	CHECK(close(ends[1]) == 0);
	CHECK(kumiki_spawn_tree_kill(&tree) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	/* The last one that had the other end is gone. */
	CHECK(read(ends[0], &byte, 1) == 0);
	CHECK(close(ends[0]) == 0);
	CHECK(kumiki_spawnattr_setpgroup(&attr, getpgrp()) == 0);
	CHECK(kumiki_spawnattr_setflags(&attr, KUMIKI_SPAWN_SETPGROUP) == 0);
	CHECK(with_attributes(&attr, "exit 0") == -EINVAL);
	CHECK(kumiki_spawnattr_settree(&attr, NULL) == 0);
	CHECK(with_attributes(&attr, "exit 3") == 3);
	CHECK(kumiki_spawn_tree_destroy(&tree) == 0 && kumiki_spawnattr_destroy(&attr) == 0);
	FAILS(kumiki_spawn_tree_kill(&tree), EINVAL);
	FAILS(kumiki_spawn_tree_init(NULL), EINVAL);

	/* A pidfd in place of the number. */
	CHECK(kumiki_spawn_file_actions_init(&actions) == 0);
	argv[2] = strcpy(text, "exit 6");
	int error = kumiki_pidfd_spawnp(&pidfd, "sh", &actions, NULL, argv, environ);
	if (error == ENOSYS) {
		fprintf(stderr, "skipped: no pidfds here, as in valgrind\n");
	} else {
		siginfo_t how;
		CHECK(error == 0 && pidfd >= 0 && fcntl(pidfd, F_GETFD) == FD_CLOEXEC);
		CHECK(waitid((idtype_t)P_PIDFD_, (id_t)pidfd, &how, WEXITED) == 0);
		CHECK(how.si_code == CLD_EXITED && how.si_status == 6);
		CHECK(close(pidfd) == 0);
	}
	FAILS(kumiki_pidfd_spawn(&pidfd, "/no/such/program", NULL, NULL, argv, environ), ENOENT);
	CHECK(kumiki_spawn_file_actions_destroy(&actions) == 0);
}

/* A terminal of its own: what it writes to /dev/tty comes out there. */
static void terminal(void)
{
	kumiki_spawnattr_t attr;
	char said[16] = "";
	int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), theirs;
	if (ours < 0 || grantpt(ours) != 0 || unlockpt(ours) != 0) {
		fprintf(stderr, "skipped: no terminals here\n");
		return;
	}
	theirs = open(ptsname(ours), O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(theirs >= 0);
	CHECK(kumiki_spawnattr_init(&attr) == 0);
	CHECK(kumiki_spawnattr_setterminal(&attr, theirs) == 0);
	CHECK(with_attributes(&attr, "printf hello > /dev/tty") == 0);
	CHECK(read(ours, said, sizeof said - 1) == 5 && strcmp(said, "hello") == 0);
	CHECK(kumiki_spawnattr_destroy(&attr) == 0);
	CHECK(close(ours) == 0 && close(theirs) == 0);
}

int main(void)
{
	alarm(PATIENCE);
	programs();
	actions();
	posix_attributes();
	further_attributes();
	maps();
	other_users();
	terminal();
	trees();
	FAILS(kumiki_spawnattr_init(NULL), EINVAL);
	FAILS(kumiki_spawn_file_actions_init(NULL), EINVAL);
	return failures != 0;
}
