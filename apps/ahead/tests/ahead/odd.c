/* A program that walks a folder, the one it is in if none is named, twice, and does something odd between or while it does. It prints what it saw. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int closes_all, checks_lowest, checks_errno;
static long files, folders, bytes, wrong, highest;

static void walk(const char *path, int depth)
{
	struct dirent *entry;
	char below[4096];
	DIR *folder;

	errno = 1234;
	folder = opendir(path);
	if (!folder) {
		printf("%s: %s\n", path, strerror(errno));
		return;
	}
	if (checks_errno && errno != 1234)
		wrong++;
	while ((entry = readdir(folder))) {
		struct stat found;
		char block[256];
		int open_file, lowest = -1;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		errno = 1234;
		if (lstat(below, &found)) {
			printf("%s: %s\n", below, strerror(errno));
			continue;
		}
		if (checks_errno && errno != 1234)
			wrong++;
		if (S_ISDIR(found.st_mode)) {
			folders++;
			if (depth < 8)
				walk(below, depth + 1);
			continue;
		}
		if (checks_lowest) {
			/* What open gives next is the lowest number that is free. */
			lowest = dup(0);
			close(lowest);
		}
		errno = 1234;
		open_file = open(below, O_RDONLY);
		if (checks_errno && errno != 1234)
			wrong++;
		if (checks_lowest && open_file != lowest)
			wrong++;
		if (open_file > highest)
			highest = open_file;
		files++;
		bytes += read(open_file, block, sizeof(block));
		close(open_file);
	}
	closedir(folder);
	if (closes_all)
		syscall(SYS_close_range, 3, ~0U, 0);
}

static void tell(const char *who)
{
	printf("%s: %ld files, %ld folders, %ld bytes, %ld wrong, descriptors to %ld\n", who, files, folders, bytes,
	       wrong, highest);
	fflush(stdout);
	files = folders = bytes = 0;
}

static void *last_thread(void *none)
{
	(void)none;
	usleep(20000);
	walk(".", 0);
	tell("the last thread");
	return NULL;
}

/* As walk, by scandir. */
static void scan(const char *path, int depth)
{
	struct dirent **names;
	int at, count = scandir(path, &names, NULL, alphasort);

	if (count < 0)
		printf("%s: %s\n", path, strerror(errno));
	for (at = 0; at < count; at++) {
		struct stat found;
		char below[4096];

		snprintf(below, sizeof(below), "%s/%s", path, names[at]->d_name);
		if (names[at]->d_name[0] != '.' && !lstat(below, &found)) {
			if (S_ISDIR(found.st_mode)) {
				folders++;
				if (depth < 8)
					scan(below, depth + 1);
			} else {
				files++;
				bytes += found.st_size;
			}
		}
		free(names[at]);
	}
	if (count >= 0)
		free(names);
}

static volatile long begun, cleaned;

static void clean(void *none)
{
	(void)none;
	cleaned++;
}

/* Opens files and folders until it is cancelled within one of these calls. */
static void *cancelled_thread(void *none)
{
	char below[64];
	long at;

	(void)none;
	pthread_cleanup_push(clean, NULL);
	for (at = 0;; at++) {
		struct stat found;
		DIR *folder;
		int open_file;

		begun++;
		snprintf(below, sizeof(below), "folder%ld", at % 10);
		folder = opendir(below);
		if (folder)
			closedir(folder);
		snprintf(below, sizeof(below), "folder%ld/file%ld", at % 10, at % 12);
		stat(below, &found);
		open_file = open(below, O_RDONLY);
		if (open_file >= 0)
			close(open_file);
	}
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancel_some(void)
{
	long at, cancelled = 0;

	for (at = 0; at < 40; at++) {
		long before = begun;
		pthread_t thread;
		void *answer;

		if (pthread_create(&thread, NULL, cancelled_thread, NULL))
			continue;
		while (begun == before)
			usleep(100);
		usleep(50 * at);
		pthread_cancel(thread);
		pthread_join(thread, &answer);
		cancelled += answer == PTHREAD_CANCELED;
	}
	/* What they had open. */
	syscall(SYS_close_range, 3, ~0U, 0);
	printf("%ld cancelled, %ld cleaned\n", cancelled, cleaned);
	fflush(stdout);
}

static volatile sig_atomic_t taken_elsewhere, taken;
static pthread_t own;

static void take(int signal)
{
	(void)signal;
	taken++;
	if (!pthread_equal(pthread_self(), own))
		taken_elsewhere++;
}

static void filter(void)
{
	/* All calls that this program makes from here on; another one kills. */
	static const int allowed[] = {
		SYS_openat, SYS_getdents64, SYS_read, SYS_close, SYS_write, SYS_newfstatat, SYS_exit_group, SYS_brk,
		SYS_mmap, SYS_munmap, SYS_fstat,
		/* Of fork and wait. */
		SYS_clone, SYS_wait4, SYS_set_robust_list, SYS_rt_sigprocmask, SYS_gettid,
	};
	struct sock_filter program[2 + 2 * sizeof(allowed) / sizeof(*allowed)];
	struct sock_fprog whole = { 0, program };
	size_t at;

	program[whole.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (at = 0; at < sizeof(allowed) / sizeof(*allowed); at++) {
		program[whole.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[at], 0, 1);
		program[whole.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	program[whole.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* Of all threads. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole))
		printf("seccomp: %s\n", strerror(errno));
}

int main(int count, char **words)
{
	const char *deed = count > 1 ? words[1] : "walk", *root = count > 2 ? words[2] : ".";

	if (!strcmp(deed, "close-all"))
		closes_all = 1;
	if (!strcmp(deed, "lowest"))
		checks_lowest = 1;
	if (!strcmp(deed, "errno"))
		checks_errno = 1;
	if (!strcmp(deed, "signals")) {
		struct sigaction action = { .sa_handler = take, .sa_flags = SA_RESTART };

		own = pthread_self();
		sigaction(SIGUSR1, &action, NULL);
	}
	if (!strcmp(deed, "scan")) {
		scan("nowhere", 0);
		scan(root, 0);
		tell("scanned");
		return 3;
	}
	walk(root, 0);
	tell("first");
	if (!strcmp(deed, "first-thread")) {
		pthread_t thread;

		pthread_create(&thread, NULL, last_thread, NULL);
		pthread_exit(NULL);
	} else if (!strcmp(deed, "cancel")) {
		cancel_some();
	} else if (!strcmp(deed, "fork")) {
		int at, status;

		for (at = 0; at < 3; at++) {
			if (!fork()) {
				walk(".", 0);
				tell("child");
				_exit(at);
			}
			wait(&status);
			printf("ended %d\n", WEXITSTATUS(status));
		}
	} else if (!strcmp(deed, "crowd")) {
		/* As many at a time as a small group of processes has room for. */
		int at, made = 0;

		for (at = 0; at < 6; at++) {
			pid_t child = fork();

			if (!child) {
				usleep(50000);
				_exit(0);
			}
			made += child > 0;
		}
		while (wait(NULL) > 0)
			;
		printf("%d made\n", made);
		fflush(stdout);
	} else if (!strcmp(deed, "vfork")) {
		volatile int at;
		int status;

		for (at = 0; at < 3; at++) {
			if (!vfork()) {
				int null = open("/dev/null", O_RDONLY);

				dup2(null, 0);
				execl("/bin/ls", "ls", "-l", "--time-style=+", "folder1", (char *)NULL);
				_exit(9);
			}
			wait(&status);
			printf("ended %d\n", WEXITSTATUS(status));
			fflush(stdout);
		}
	} else if (!strcmp(deed, "unshare")) {
		/* Refused to a process with threads. */
		printf("unshare: %s\n", unshare(CLONE_NEWUSER) ? strerror(errno) : "done");
	} else if (!strcmp(deed, "filter")) {
		filter();
	} else if (!strcmp(deed, "filter-fork")) {
		int status;

		filter();
		if (!fork()) {
			walk(".", 0);
			tell("child");
			_exit(4);
		}
		wait(&status);
		printf("ended %d\n", status);
	} else if (!strcmp(deed, "idle")) {
		/* Until the test has looked. */
		while (getchar() != EOF)
			;
	} else if (!strcmp(deed, "root")) {
		if (geteuid() == 0) {
			printf("chroot %d\n", chroot("."));
			printf("chdir %d\n", chdir("/folder1"));
			printf("setgid %d, setuid %d\n", setgid(65534), setuid(65534));
			printf("user %d\n", (int)getuid());
		}
		puts(".");
	} else if (!strcmp(deed, "signals")) {
		int at;

		for (at = 0; at < 200; at++) {
			kill(getpid(), SIGUSR1);
			if (at % 20 == 0)
				walk(".", 0);
		}
		printf("taken %d, elsewhere %d\n", (int)taken, (int)taken_elsewhere);
	}
	walk(root, 0);
	tell("then");
	return 3;
}
