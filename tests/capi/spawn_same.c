/*
 * What posix_spawn(3) does at its edges, in the functions' own names: compiled for the C library
 * and, by peers/retarget.h, for Kumiki, it prints the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#ifdef KUMIKI_RETARGET_H
#define addchdir kumiki_spawn_file_actions_addchdir
#define addfchdir kumiki_spawn_file_actions_addfchdir
#define addclosefrom kumiki_spawn_file_actions_addclosefrom
#define addtcsetpgrp kumiki_spawn_file_actions_addtcsetpgrp
#else
#define addchdir posix_spawn_file_actions_addchdir_np
#define addfchdir posix_spawn_file_actions_addfchdir_np
#define addclosefrom posix_spawn_file_actions_addclosefrom_np
#define addtcsetpgrp posix_spawn_file_actions_addtcsetpgrp_np
#endif

/* What a child is started with; its actions and attributes are taken where they are said. */
static posix_spawn_file_actions_t actions;
static posix_spawnattr_t attr;
static char *shell[] = { (char *)"sh", (char *)"-c", NULL, NULL };

static void begin(void)
{
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
}

/* Tells of a start and of the child's end. */
static void tell(const char *what, int error, pid_t pid)
{
	int status = 0;
	printf("%s: %s", what, error == 0 ? "started" : strerror(error));
	if (error == 0) {
		if (waitpid(pid, &status, 0) != pid)
			printf(", not to be waited for");
		printf(", %s %d", WIFEXITED(status) ? "ended with" : "ended by",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	}
	printf("\n");
	fflush(stdout);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	begin();
}

/* A shell with these commands. */
static void run(const char *what, const char *commands)
{
	pid_t pid = -1;
	int error;
	shell[2] = (char *)commands;
	fflush(stdout);
	error = posix_spawn(&pid, "/bin/sh", &actions, &attr, shell, environ);
	tell(what, error, pid);
}

static void signals(void)
{
	sigset_t all, one;
	sigfillset(&all);
	sigemptyset(&one);
	sigaddset(&one, SIGTERM);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attr, &all);
	run("all signals at their defaults", "kill -USR1 $$");
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* But for the C library's own 32 and 33, which its children ignore. */
	run("ignored ones stay",
	    "set $(grep SigIgn /proc/self/status) && printf '%x\\n' $((0x$2 & ~0x180000000))");
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attr, &one);
	run("a mask", "grep SigBlk /proc/self/status");
	sigprocmask(SIG_BLOCK, &one, NULL);
	run("the caller's mask", "grep SigBlk /proc/self/status");
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
}

static void strings(void)
{
	char *odd[] = { (char *)"A=1", (char *)"nothing", (char *)"A=2", (char *)"", (char *)"=x", NULL };
	char *cat[] = { (char *)"cat", (char *)"/proc/self/environ", NULL }, *none[] = { NULL };
	char *count[] = { (char *)"", (char *)"/proc/self/cmdline", NULL };
	pid_t pid = -1;
	int error;
	fflush(stdout);
	error = posix_spawn(&pid, "/bin/cat", NULL, NULL, cat, odd);
	tell("\nodd variables", error, pid);
	error = posix_spawn(&pid, "/bin/cat", NULL, NULL, cat, NULL);
	tell("\nno variables", error, pid);
	error = posix_spawn(&pid, "/bin/cat", NULL, NULL, cat, none);
	tell("\nan empty list of them", error, pid);
	error = posix_spawn(&pid, "/bin/cat", NULL, NULL, count, environ);
	tell("\nan empty name", error, pid);
	/* With "" as its name it says so in its message, and fails. */
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	error = posix_spawn(&pid, "/bin/false", &actions, NULL, none, environ);
	tell("no arguments", error, pid);
}

static void scripts(void)
{
	char path[] = "spawn-same-XXXXXX", *argv[] = { (char *)"name", NULL };
	const char *text = "#!/bin/sh\necho \"$0\"\n", *bare = "echo \"$0\"\n";
	pid_t pid = -1;
	int error, file = mkstemp(path);
	if (file < 0 || write(file, text, strlen(text)) < 0 || fchmod(file, 0700) != 0)
		exit(2);
	close(file);
	/* One name for both programs. */
	if (rename(path, "spawn-same-script") != 0)
		exit(2);
	error = posix_spawn(&pid, "spawn-same-script", NULL, NULL, argv, environ);
	tell("a script by its path", error, pid);
	error = posix_spawn(&pid, "./spawn-same-script", NULL, NULL, argv, environ);
	tell("a script by ./", error, pid);
	setenv("PATH", ":/bin:/usr/bin", 1);
	error = posix_spawnp(&pid, "spawn-same-script", NULL, NULL, argv, environ);
	tell("a script by PATH's empty folder", error, pid);
	setenv("PATH", "/nonexistent:./:/bin:/usr/bin", 1);
	error = posix_spawnp(&pid, "spawn-same-script", NULL, NULL, argv, environ);
	tell("a script by PATH", error, pid);
	setenv("PATH", "/bin:/usr/bin", 1);
	error = posix_spawnp(&pid, "spawn-same-script", NULL, NULL, argv, environ);
	tell("a script that PATH has not", error, pid);
	file = open("spawn-same-script", O_WRONLY | O_TRUNC);
	if (file < 0 || write(file, bare, strlen(bare)) < 0)
		exit(2);
	close(file);
	error = posix_spawnp(&pid, "./spawn-same-script", NULL, NULL, argv, environ);
	tell("a script without its program", error, pid);
	error = posix_spawnp(&pid, "", NULL, NULL, argv, environ);
	tell("an empty name", error, pid);
	error = posix_spawn(&pid, "/etc", NULL, NULL, argv, environ);
	tell("a folder", error, pid);
	unlink("spawn-same-script");
}

/* Of functions that only say something. */
static void said(void)
{
	int most = (int)sysconf(_SC_OPEN_MAX), flag;
	for (flag = 1; flag <= 0x40; flag <<= 1)
		printf("flag %#x: %d\n", flag, posix_spawnattr_setflags(&attr, (short)flag));
	printf("flag 0x200: %d\n", posix_spawnattr_setflags(&attr, 0x200));
	printf("all flags: %d\n", posix_spawnattr_setflags(&attr, -1));
	printf("addopen: %d %d\n", posix_spawn_file_actions_addopen(&actions, most, "/", 0, 0),
	       posix_spawn_file_actions_addopen(&actions, -1, "/", 0, 0));
	printf("addclose: %d %d\n", posix_spawn_file_actions_addclose(&actions, most),
	       posix_spawn_file_actions_addclose(&actions, -1));
	printf("adddup2: %d %d %d %d\n", posix_spawn_file_actions_adddup2(&actions, most, 1),
	       posix_spawn_file_actions_adddup2(&actions, 1, most),
	       posix_spawn_file_actions_adddup2(&actions, -1, 1),
	       posix_spawn_file_actions_adddup2(&actions, 1, -1));
	printf("addclosefrom: %d %d\n", addclosefrom(&actions, most), addclosefrom(&actions, -1));
	printf("addtcsetpgrp: %d %d\n", addtcsetpgrp(&actions, most), addtcsetpgrp(&actions, -1));
	run("none of those is left", "exit 3");
	printf("addfchdir: %d\n", addfchdir(&actions, most));
	run("a folder that cannot be open", "exit 3");
	printf("addfchdir: %d\n", addfchdir(&actions, -1));
	run("a folder below 0", "exit 3");
}

static void descriptors(void)
{
	posix_spawn_file_actions_addclose(&actions, 77);
	run("closing what is not open", "exit 4");
	posix_spawn_file_actions_addclose(&actions, 1);
	posix_spawn_file_actions_adddup2(&actions, 1, 5);
	run("copying what was closed", "exit 4");
	addclosefrom(&actions, 3);
	posix_spawn_file_actions_adddup2(&actions, 7, 1);
	run("copying what was closed from 3 on", "exit 4");
	posix_spawn_file_actions_addopen(&actions, 9, "/etc/passwd", O_RDONLY | O_CLOEXEC, 0);
	posix_spawn_file_actions_adddup2(&actions, 9, 9);
	run("a copy to itself", "readlink /proc/$$/fd/9");
	addchdir(&actions, "/usr");
	addchdir(&actions, "bin");
	run("two folders", "pwd");
	addchdir(&actions, "/etc/passwd");
	run("a folder that is none", "exit 4");
	addtcsetpgrp(&actions, 0);
	run("no terminal", "exit 4");
}

static void groups(void)
{
	struct sched_param param = { 0 }, high = { 5 };
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSCHEDULER);
	printf("round robin: %d\n", posix_spawnattr_setschedpolicy(&attr, SCHED_RR));
	posix_spawnattr_setschedparam(&attr, &high);
	run("round robin", "set $(cat /proc/$$/stat) && echo ${40} ${41}");
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSCHEDPARAM);
	posix_spawnattr_setschedparam(&attr, &param);
	run("its priority alone", "set $(cat /proc/$$/stat) && echo ${41}");
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSCHEDPARAM);
	posix_spawnattr_setschedparam(&attr, &high);
	run("a priority that its policy has not", "exit 5");
	printf("no policy: %d %d\n", posix_spawnattr_setschedpolicy(&attr, 77),
	       posix_spawnattr_setschedpolicy(&attr, -1));
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	run("a group of its own", "set $(cat /proc/$$/stat) && test $5 = $$");
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setpgroup(&attr, 1 << 22);
	run("a group that does not exist", "exit 5");
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSID);
	run("a group of who leads a session", "exit 5");
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_RESETIDS);
	run("ids as they are", "test $(id -u) = $(id -ru)");
	if (geteuid() == 0 && seteuid(65534) == 0) {
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_RESETIDS);
		run("the real ids", "id -u; id -ru");
		run("the effective ids", "id -u; id -ru");
		if (seteuid(0) != 0)
			exit(2);
	}
}

int main(void)
{
	alarm(300);
	begin();
	signals();
	strings();
	scripts();
	said();
	descriptors();
	groups();
	return 0;
}
