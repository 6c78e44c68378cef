/*
 * posix_spawn(3) whose cost does not grow with the process that calls it, with the
 * attributes that it lacks.
 *
 * The calling thread makes the child without a fork; where that becomes another user or has
 * namespaces of its own a spawn server does, a process of some kilobytes that makes children
 * of the calling process. The caller waits for them by waitpid(2) and gets their SIGCHLD
 * as usual. Nothing of the caller runs in the child, so there is no hook; what hooks are
 * written for is an attribute here.
 *
 *     kumiki_spawnattr_t attr;
 *     struct rlimit files = { 1024, 1024 };
 *     char *argv[] = { "worker", NULL };
 *     pid_t pid;
 *     kumiki_spawnattr_init(&attr);
 *     kumiki_spawnattr_setflags(&attr, KUMIKI_SPAWN_SETSID);
 *     kumiki_spawnattr_setlimit(&attr, RLIMIT_NOFILE, &files);
 *     kumiki_spawnattr_setuid(&attr, 65534);
 *     if (kumiki_spawnp(&pid, "worker", NULL, &attr, argv, environ) != 0)
 *         fprintf(stderr, "%s\n", kumiki_last_error());
 *     kumiki_spawnattr_destroy(&attr);
 *     waitpid(pid, NULL, 0);
 *
 * A function here has the shape of the one of <spawn.h> without "kumiki_", or with
 * "posix_" in its place, and does the same, unless it is said otherwise.
 *
 * RETURN VALUES. 0, or an errno value (not negated, as posix_spawn's): then nothing has
 * been started, no child is left, and kumiki_last_error() has the sentence to it.
 * kumiki_spawn() and kumiki_spawnp() may return what the kernel refuses a call of the
 * child's with (ENOENT, EACCES, ENOEXEC, EPERM of a user or a limit, ...), and
 *
 *     EINVAL     a null pointer, attributes or actions that were not initialised or are
 *                destroyed, a signal or number that does not exist
 *     EBADF      a file action on a descriptor that is not open
 *     E2BIG      more strings than the kernel takes
 *     EAGAIN     a limit of processes
 *     EIO        the spawn server was killed each time that it was asked, or a defect
 *
 * DIFFERENCES from posix_spawn(3):
 *
 *     - By a server (another user, namespaces of its own) file actions find those of the
 *       caller's descriptors that have no FD_CLOEXEC, and those that an action names.
 *     - A program that somebody has open for writing (ETXTBSY) is tried eight times, for
 *       an eighth of a second in all: a child that another thread is just making may have
 *       the file open until it executes its own program.
 *     - A process that waits for any child has its spawn server, if it has one, as one that
 *       never ends.
 *
 * What a child has from whom otherwise, and who dies when: docs/design/spawn.md.
 *
 * THREADS. Any threads may start programs at the same time, and are not cancelled here
 * (pthread_cancel(3)). Attributes and actions are for
 * one thread at a time while they are changed. No function may be called by a signal
 * handler. A child of fork(2) may use all of it; it starts a server of its own.
 */
#ifndef KUMIKI_SPAWN_H
#define KUMIKI_SPAWN_H

#include <sched.h> /* struct sched_param */
#include <spawn.h> /* sigset_t, wherever <signal.h> has none */
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <kumiki/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Attributes. Only the functions here touch what is inside. */
typedef struct kumiki_spawnattr {
	void *inner;
} kumiki_spawnattr_t;

/* File actions. Only the functions here touch what is inside. */
typedef struct kumiki_spawn_file_actions {
	void *inner;
} kumiki_spawn_file_actions_t;

/* Flags of attributes, with the values of POSIX_SPAWN_... */
#define KUMIKI_SPAWN_RESETIDS 0x01
#define KUMIKI_SPAWN_SETPGROUP 0x02
#define KUMIKI_SPAWN_SETSIGDEF 0x04
#define KUMIKI_SPAWN_SETSIGMASK 0x08
#define KUMIKI_SPAWN_SETSCHEDPARAM 0x10
#define KUMIKI_SPAWN_SETSCHEDULER 0x20
#define KUMIKI_SPAWN_USEVFORK 0x40 /* says nothing */
#define KUMIKI_SPAWN_SETSID 0x80
#define KUMIKI_SPAWN_SETCGROUP 0x100 /* says nothing: a cgroup that was set holds */
/* No descriptor of the caller but 0, 1, 2 and what the file actions make. */
#define KUMIKI_SPAWN_CLOEXEC_DEFAULT 0x4000

/*
 * Starts the program at path and stores its process id, unless pid is a null pointer.
 */
int kumiki_spawn(pid_t *pid, const char *path, const kumiki_spawn_file_actions_t *actions,
                 const kumiki_spawnattr_t *attr, char *const argv[], char *const envp[]);

/* The same; without a slash in file it is searched for in the caller's PATH. */
int kumiki_spawnp(pid_t *pid, const char *file, const kumiki_spawn_file_actions_t *actions,
                  const kumiki_spawnattr_t *attr, char *const argv[], char *const envp[]);

/*
 * The same, as pidfd_spawn(3): they store a pidfd of the process, which exec closes, in place of
 * its id.
 */
int kumiki_pidfd_spawn(int *pidfd, const char *path,
                       const kumiki_spawn_file_actions_t *actions,
                       const kumiki_spawnattr_t *attr, char *const argv[], char *const envp[]);
int kumiki_pidfd_spawnp(int *pidfd, const char *file,
                        const kumiki_spawn_file_actions_t *actions,
                        const kumiki_spawnattr_t *attr, char *const argv[],
                        char *const envp[]);

/*
 * Starts the process's spawn server, if there is none yet. The first program that needs
 * one does so, too: this is for who wants it before the process is large.
 */
int kumiki_spawn_start_server(void);

/*
 * ---- file actions ----
 *
 * Carried out by the child, on descriptors and a working folder of its own, in the order in
 * which they were added, after the attributes: as the user that it is by then. The caller's
 * own descriptors, its record locks and its terminal stay as they are. A number that no
 * descriptor can have (sysconf(_SC_OPEN_MAX)) is refused with EBADF when it is added, but for
 * addfchdir, as by the C library.
 */

int kumiki_spawn_file_actions_init(kumiki_spawn_file_actions_t *actions);
int kumiki_spawn_file_actions_destroy(kumiki_spawn_file_actions_t *actions);
int kumiki_spawn_file_actions_addopen(kumiki_spawn_file_actions_t *actions, int fd,
                                      const char *path, int flags, mode_t mode);
int kumiki_spawn_file_actions_addclose(kumiki_spawn_file_actions_t *actions, int fd);
int kumiki_spawn_file_actions_adddup2(kumiki_spawn_file_actions_t *actions, int fd,
                                      int new_fd);
/* As the C library's _np functions of these names. */
int kumiki_spawn_file_actions_addchdir(kumiki_spawn_file_actions_t *actions,
                                       const char *path);
int kumiki_spawn_file_actions_addfchdir(kumiki_spawn_file_actions_t *actions, int fd);
int kumiki_spawn_file_actions_addclosefrom(kumiki_spawn_file_actions_t *actions, int first);
int kumiki_spawn_file_actions_addtcsetpgrp(kumiki_spawn_file_actions_t *actions, int terminal);

/*
 * ---- attributes of posix_spawn ----
 */

int kumiki_spawnattr_init(kumiki_spawnattr_t *attr);
int kumiki_spawnattr_destroy(kumiki_spawnattr_t *attr);
/* EINVAL for a flag that is not above. */
int kumiki_spawnattr_setflags(kumiki_spawnattr_t *attr, short flags);
int kumiki_spawnattr_getflags(const kumiki_spawnattr_t *attr, short *flags);
int kumiki_spawnattr_setpgroup(kumiki_spawnattr_t *attr, pid_t group);
int kumiki_spawnattr_getpgroup(const kumiki_spawnattr_t *attr, pid_t *group);
int kumiki_spawnattr_setsigmask(kumiki_spawnattr_t *attr, const sigset_t *signals);
int kumiki_spawnattr_getsigmask(const kumiki_spawnattr_t *attr, sigset_t *signals);
int kumiki_spawnattr_setsigdefault(kumiki_spawnattr_t *attr, const sigset_t *signals);
int kumiki_spawnattr_getsigdefault(const kumiki_spawnattr_t *attr, sigset_t *signals);
/* SCHED_BATCH and SCHED_IDLE, too. */
int kumiki_spawnattr_setschedpolicy(kumiki_spawnattr_t *attr, int policy);
int kumiki_spawnattr_getschedpolicy(const kumiki_spawnattr_t *attr, int *policy);
int kumiki_spawnattr_setschedparam(kumiki_spawnattr_t *attr, const struct sched_param *param);
int kumiki_spawnattr_getschedparam(const kumiki_spawnattr_t *attr, struct sched_param *param);

/*
 * ---- attributes that it lacks ----
 *
 * Each holds from then on, without a flag. The child sets them in an order in which none
 * forbids another: a session and limits first, groups and user after them, the working
 * folder as that user. Descriptors are kept as numbers, and must be open when a program is
 * started.
 */

/* Real, effective and saved user; without setgroups a root's supplementary groups go. */
int kumiki_spawnattr_setuid(kumiki_spawnattr_t *attr, uid_t uid);
/* Real, effective and saved group. */
int kumiki_spawnattr_setgid(kumiki_spawnattr_t *attr, gid_t gid);
/* Supplementary groups: so many. */
int kumiki_spawnattr_setgroups(kumiki_spawnattr_t *attr, size_t count, const gid_t *groups);
/* umask(2). */
int kumiki_spawnattr_setumask(kumiki_spawnattr_t *attr, mode_t mask);
/* The nice value itself, from -20 to 19 (else EINVAL), not an increment. */
int kumiki_spawnattr_setnice(kumiki_spawnattr_t *attr, int nice);
/* A limit of setrlimit(2), RLIMIT_...; may be called once for each. */
int kumiki_spawnattr_setlimit(kumiki_spawnattr_t *attr, int resource,
                              const struct rlimit *limit);
/* Begins in a cgroup: a descriptor of its folder in a cgroup2 file system. */
int kumiki_spawnattr_setcgroup(kumiki_spawnattr_t *attr, int folder);
/* That descriptor, -1 if there is none. */
int kumiki_spawnattr_getcgroup(const kumiki_spawnattr_t *attr, int *folder);
/* Begins in namespaces of its own: CLONE_NEWNS, CLONE_NEWPID, ... of <sched.h>. */
int kumiki_spawnattr_setnamespaces(kumiki_spawnattr_t *attr, uint64_t flags);
/*
 * A range of the users, or groups, of its user namespace, which it gets by this: count of
 * them, of which the first is inside there and outside to the caller. Who lacks CAP_SETUID, or
 * CAP_SETGID, may map itself only, and then drops no groups (user_namespaces(7)).
 */
typedef struct kumiki_spawn_id_range {
	uint32_t inside;
	uint32_t outside;
	uint32_t count;
} kumiki_spawn_id_range_t;
/* So many ranges, in place of former ones. */
int kumiki_spawnattr_setuidmap(kumiki_spawnattr_t *attr, size_t count,
                               const kumiki_spawn_id_range_t *ranges);
int kumiki_spawnattr_setgidmap(kumiki_spawnattr_t *attr, size_t count,
                               const kumiki_spawn_id_range_t *ranges);
/* Runs on these cpus: so many numbers. */
int kumiki_spawnattr_setaffinity(kumiki_spawnattr_t *attr, size_t count,
                                 const unsigned int *cpus);
/* A terminal becomes the one of its session, which is a new one. */
int kumiki_spawnattr_setterminal(kumiki_spawnattr_t *attr, int terminal);
/* A signal that it gets when its parent ends (PR_SET_PDEATHSIG). */
int kumiki_spawnattr_setdeathsignal(kumiki_spawnattr_t *attr, int signal);
/* Signals that it ignores, beside those that the caller does. */
int kumiki_spawnattr_setsigignore(kumiki_spawnattr_t *attr, const sigset_t *signals);
/*
 * Unless 0 the spawn server makes it, also where the calling thread could: that takes longer,
 * but less of it is the caller's own processor time.
 */
int kumiki_spawnattr_setbyserver(kumiki_spawnattr_t *attr, int by_server);

/*
 * ---- a child and all that comes of it ----
 *
 *     kumiki_spawn_tree_t tree;
 *     kumiki_spawn_tree_init(&tree);
 *     kumiki_spawnattr_settree(&attr, &tree);
 *     kumiki_spawnp(&pid, "make", NULL, &attr, argv, environ);
 *     ... it takes too long:
 *     kumiki_spawn_tree_kill(&tree);
 *     waitpid(pid, NULL, 0);
 *     kumiki_spawn_tree_destroy(&tree);
 */

/* Of one child at a time. Only the functions here touch what is inside. */
typedef struct kumiki_spawn_tree {
	void *inner;
} kumiki_spawn_tree_t;

int kumiki_spawn_tree_init(kumiki_spawn_tree_t *tree);
/*
 * The child begins in a cgroup of its own, within the caller's or the one that was set, where the
 * caller may make one (cgroup.kill, Linux 5.14), else in a process group of its own, which a
 * process can leave; then no other group may be set (EINVAL). A null pointer: in none. The tree
 * is there as long as the attributes are used.
 */
int kumiki_spawnattr_settree(kumiki_spawnattr_t *attr, const kumiki_spawn_tree_t *tree);
/*
 * Ends by SIGKILL all that the last child started in it has become. By a process group that is
 * possible until the child has been waited for; then it does nothing.
 */
int kumiki_spawn_tree_kill(const kumiki_spawn_tree_t *tree);
/* What runs goes on, in the cgroup around. */
int kumiki_spawn_tree_destroy(kumiki_spawn_tree_t *tree);

#ifdef __cplusplus
}
#endif

#endif
