/* An ordinary program in C, beside the bare ones of *.s:
 *
 *   ordinary                ends at once
 *   ordinary fork           forks as often as it is told, as fork.s
 *   ordinary exec COUNTER   becomes itself again while the counter goes down, as
 *                           exec.s; fd 2 is the file that outlives the exec
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMANDS, ANSWERS, NOTEBOOK };
enum { COUNTER_DIGITS = 10 };

struct stamp {
    struct timespec clock;
    struct rusage self, children;
};

/* As answer.rs reads it. */
static struct answer {
    uint64_t done;
    int64_t at, error;
    struct stamp start, end;
} answer;

static void take_clock(struct stamp *stamp)
{
    clock_gettime(CLOCK_MONOTONIC_RAW, &stamp->clock);
}

static void take_usage(struct stamp *stamp)
{
    getrusage(RUSAGE_SELF, &stamp->self);
    getrusage(RUSAGE_CHILDREN, &stamp->children);
}

static void say(void)
{
    while (write(ANSWERS, &answer, sizeof answer) < 0 && errno == EINTR)
        ;
}

static _Noreturn void fail(long call, long error)
{
    answer.at = call;
    answer.error = error;
    say();
    _exit(1);
}

/* Reads a whole command; fewer bytes mean that the harness has gone. */
static void hear(void *to, size_t bytes)
{
    ssize_t got;
    do
        got = read(COMMANDS, to, bytes);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)bytes)
        _exit(0);
}

/* Dies with the harness, and has ordinary pages only. */
static void settle(void)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
        fail(SYS_prctl, -errno);
}

/* The call of fork(3), by which a failure is told. */
#ifdef SYS_fork
#define FORK SYS_fork
#else
#define FORK SYS_clone
#endif

static void fork_and_wait(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child < 0)
        fail(FORK, -errno);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail(SYS_wait4, -errno);
    if (status)
        fail(SYS_wait4, status);
}

static _Noreturn void forking(void)
{
    settle();
    for (;;) {
        uint64_t count;
        say();
        hear(&count, sizeof count);
        answer.done = 0;
        take_usage(&answer.start);
        take_clock(&answer.start);
        for (; answer.done < count; answer.done++)
            fork_and_wait();
        take_clock(&answer.end);
        take_usage(&answer.end);
    }
}

static _Noreturn void execing(char *self, char *counter)
{
    char next[24];
    while (atol(counter) == 0) {
        take_clock(&answer.end);
        take_usage(&answer.end);
        settle();
        if (pread(NOTEBOOK, &answer.start, sizeof answer.start, 0) < 0)
            fail(SYS_pread64, -errno);
        say();
        hear(counter, COUNTER_DIGITS);
        take_usage(&answer.start);
        take_clock(&answer.start);
        if (pwrite(NOTEBOOK, &answer.start, sizeof answer.start, 0) < 0)
            fail(SYS_pwrite64, -errno);
    }
    snprintf(next, sizeof next, "%0*ld", COUNTER_DIGITS, atol(counter) - 1);
    execv(self, (char *[]){self, "exec", next, NULL});
    fail(SYS_execve, -errno);
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "fork"))
        forking();
    if (count == 3 && !strcmp(arguments[1], "exec"))
        execing(arguments[0], arguments[2]);
    return 0;
}
