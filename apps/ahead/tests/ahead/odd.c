/* A program that walks a folder, the one it is in if none is named, twice, and does something odd between or while it does. It prints what it saw. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
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

/* As walk, by fts. */
static void read_tree(char *path, int options)
{
	char *paths[] = { path, NULL };
	FTS *tree = fts_open(paths, FTS_PHYSICAL | options, NULL);
	FTSENT *entry;

	if (!tree) {
		printf("fts_open: %s\n", strerror(errno));
		return;
	}
	while ((entry = fts_read(tree))) {
		if (entry->fts_info == FTS_F) {
			files++;
			bytes += entry->fts_statp->st_size;
		} else if (entry->fts_info == FTS_D && entry->fts_level > 0) {
			folders++;
		} else if (entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR || entry->fts_info == FTS_NS) {
			wrong++;
		}
	}
	fts_close(tree);
}

static int within;

static int see_old(const char *path, const struct stat *found, int kind)
{
	(void)path;
	if (kind == FTW_F) {
		files++;
		bytes += found->st_size;
	} else if (kind == FTW_D) {
		folders++;
	} else {
		wrong++;
	}
	return 0;
}

static int see_new(const char *path, const struct stat *found, int kind, struct FTW *place)
{
	if (kind == FTW_F) {
		files++;
		bytes += found->st_size;
	} else if ((kind == FTW_D || kind == FTW_DP) && place->level > 0) {
		folders++;
		/* A walk within a walk. */
		if (within && ftw(path, see_old, 4))
			wrong++;
	}
	return 0;
}

/* As walk, by what stands behind the C library: calls by number, and names as the kernel gives them. */
static void read_names(const char *path, int depth, int is_by_number)
{
	struct {
		unsigned long inode, next;
		unsigned short length;
		unsigned char kind;
		char name[];
	} *entry;
	char below[4096], buffer[1024] __attribute__((aligned(8)));
	long at, length;
	int folder = open(path, O_RDONLY | O_DIRECTORY);

	for (;;) {
		length = is_by_number ? syscall(SYS_getdents64, folder, buffer, sizeof(buffer)) :
					getdents64(folder, buffer, sizeof(buffer));
		if (length <= 0)
			break;
		for (at = 0; at < length; at += entry->length) {
			struct statx found;
			struct stat same;

			entry = (void *)(buffer + at);
			if (entry->name[0] == '.')
				continue;
			snprintf(below, sizeof(below), "%s/%s", path, entry->name);
			if (is_by_number && syscall(SYS_statx, AT_FDCWD, below, 0, STATX_BASIC_STATS, &found))
				wrong++;
			if (!is_by_number) {
				wrong += stat(below, &same) != 0;
				found.stx_mode = same.st_mode;
				found.stx_size = same.st_size;
			}
			if (S_ISDIR(found.stx_mode)) {
				folders++;
				if (depth < 8)
					read_names(below, depth + 1, is_by_number);
			} else {
				files++;
				bytes += found.stx_size;
			}
		}
	}
	close(folder);
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

/* Runs this program again under a filter by which one call is refused. */
static int refuse_openat2(char *program, char *root)
{
	struct sock_filter text[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog whole = { sizeof(text) / sizeof(*text), text };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0))
		printf("seccomp: %s\n", strerror(errno));
	execl(program, program, "refused", root, (char *)NULL);
	return 9;
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
	if (!strncmp(deed, "tree-", 5)) {
		within = !strcmp(deed, "tree-within");
		if (!strcmp(deed, "tree-fts"))
			read_tree(words[2], 0);
		else if (!strcmp(deed, "tree-fts-here"))
			read_tree(words[2], FTS_NOCHDIR);
		else if (!strcmp(deed, "tree-ftw"))
			ftw(root, see_old, 4);
		else if (!strcmp(deed, "tree-nftw") || within)
			nftw(root, see_new, 4, FTW_PHYS);
		else if (!strcmp(deed, "tree-nftw-chdir"))
			nftw(root, see_new, 4, FTW_PHYS | FTW_CHDIR);
		else if (!strcmp(deed, "tree-nftw-depth"))
			nftw(root, see_new, 4, FTW_PHYS | FTW_DEPTH);
		else if (!strcmp(deed, "tree-numbers")) {
			DIR *other = opendir("/");

			closedir(other);
			read_names(root, 0, 1);
		} else {
			read_names(root, 0, 0);
		}
		tell(deed);
		return 3;
	}
	if (!strcmp(deed, "refuse-openat2"))
		return refuse_openat2(words[0], words[2]);
	if (!strcmp(deed, "refused"))
		printf("openat2: %s\n", syscall(SYS_openat2, -1, NULL, NULL, 0) ? strerror(errno) : "done");
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
