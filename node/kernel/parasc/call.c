// SPDX-License-Identifier: GPL-2.0
/* Calls: copied in, checked, made, their results copied out. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/entry-common.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <asm/syscall.h>

#include "calls.h"
#include "module.h"
#include "symbols.h"

/* So many are copied in, and their results out, at once: a window to user memory costs as much as they do. */
#define AT_ONCE 8

/* struct parasc_call of <kumiki/parasc.h>. */
struct request {
	u16 sysnum;
	u16 args_num;
	u64 args[PARASC_MAX_ARGS];
};

/* The function that has the calls' numbers compiled in, or sys_call_table. */
static const sys_call_ptr_t *table;
static unsigned long dispatch;
static unsigned long run_task_work;

static int show_called(char *buffer, const struct kernel_param *parameter)
{
	return sysfs_emit(buffer, "%s\n", dispatch ? "x64_sys_call" : "sys_call_table");
}

static const struct kernel_param_ops called_operations = { .get = show_called };
module_param_cb(called, &called_operations, NULL, 0444);
MODULE_PARM_DESC(called, "symbol of the kernel by which calls are made");

int calls_init(void)
{
	BUILD_BUG_ON(sizeof(struct request) != 56);
	BUILD_BUG_ON(NR_syscalls > PARASC_NUMBERS);
	table = (void *)symbol("sys_call_table");
	dispatch = symbol("x64_sys_call");
	run_task_work = symbol("task_work_run");
	if ((table || dispatch) && run_task_work)
		return 0;
	pr_err("%s is not in this kernel\n",
	       run_task_work ? "sys_call_table (CONFIG_KALLSYMS_ALL)" : "task_work_run");
	return -ENOENT;
}

static __always_inline bool is_in(const u64 *set, u32 number)
{
	return set[number / 64] >> (number % 64) & 1;
}

/*
 * A filter, a tracer or audit looks at this thread's calls, at once if another thread has
 * set it (SECCOMP_FILTER_FLAG_TSYNC), or it has a signal to see to.
 */
static __always_inline bool has_other_work(void)
{
	return READ_ONCE(current_thread_info()->syscall_work) & SYSCALL_WORK_ENTER ||
	       signal_pending(current);
}

/*
 * Signals that wait there, without their lock: who sends one writes plainly, and one that is not
 * seen now is at the next look.
 */
static unsigned long sent(const struct sigpending *pending)
{
	return data_race(READ_ONCE(pending->signal.sig[0]));
}

/*
 * What there is to do on the way to user space before it goes on: a close's rest, limits of memory
 * and of disks. The flag says no more than that there is something; most often it is the number of
 * the cpu for the C library (rseq), after each sleep, of which user space is told when it runs again.
 */
static bool owes_work(void)
{
	bool owes = test_thread_flag(TIF_NOTIFY_RESUME) && task_work_pending(current);

#ifdef CONFIG_MEMCG
	owes |= current->memcg_nr_pages_over_high > 0;
#endif
#if defined(CONFIG_BLK_CGROUP) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	owes |= current->throttle_disk != NULL;
#elif defined(CONFIG_BLK_CGROUP)
	owes |= current->throttle_queue != NULL;
#endif
	return owes;
}

/* Whether it is to return from its stay, between two calls. */
bool must_leave(const struct stay *stay)
{
	return has_other_work() || (stay->serves && owes_work()) ||
	       (stay->signals & (sent(&current->pending) | sent(&current->signal->shared_pending)));
}

/* The rest of these numbers are no calls' to give. */
static __always_inline bool is_interrupted(long ret)
{
	return ret == -ERESTARTSYS || ret == -ERESTARTNOINTR || ret == -ERESTARTNOHAND ||
	       ret == -ERESTART_RESTARTBLOCK;
}

/* Whether a signal that waits has a handler, if `any` also one that has calls made again. */
static bool a_handler_interrupts(bool any)
{
	const struct k_sigaction *action = current->sighand->action;
	bool found = false;
	sigset_t waiting;
	int n;

	spin_lock_irq(&current->sighand->siglock);
	sigorsets(&waiting, &current->pending.signal, &current->signal->shared_pending.signal);
	sigandnsets(&waiting, &waiting, &current->blocked);
	for (n = 1; n <= _NSIG; n++, action++) {
		if (!sigismember(&waiting, n) || action->sa.sa_handler == SIG_DFL ||
		    action->sa.sa_handler == SIG_IGN)
			continue;
		found |= any || !(action->sa.sa_flags & SA_RESTART);
	}
	spin_unlock_irq(&current->sighand->siglock);
	return found;
}

/*
 * What a call that was interrupted answers, or 0: it is for its thread to make again, as the kernel
 * would after a stop, a freeze, or a handler with SA_RESTART. One with a time limit begins it anew.
 */
static noinline long interrupted(const struct stay *stay, long ret)
{
	/* Who has asked for it knows nothing of a processing thread's signals. */
	if (stay->serves || ret == -ERESTARTNOINTR)
		return 0;
	return a_handler_interrupts(ret != -ERESTARTSYS) ? -EINTR : 0;
}

/* What would be done on the way to user space: a closed pipe's reader waits for it. */
static noinline void do_task_work(void)
{
	if (test_thread_flag(TIF_NOTIFY_SIGNAL))
		clear_notify_signal();
	call_sealed(run_task_work, 0, 0, 0, 0);
}

/* Makes a call, unless it is for its thread to make: BACK. */
static __always_inline enum ended make(const struct stay *stay, const struct request *request,
				       s64 *result)
{
	u32 number = request->sysnum;
	struct pt_regs regs;
	long ret;

	if (unlikely(has_other_work()))
		return BACK;
	if (unlikely(number >= NR_syscalls)) {
		*result = -ENOSYS;
		return MADE;
	}
	number = array_index_nospec(number, NR_syscalls);
	if (unlikely(is_in(parasc_own_calls, number)) &&
	    !(stay->any_thread && number == __NR_gettid))
		return BACK;
	/* This module itself: it is entered from user space only, so its stack does not grow. */
	if (unlikely(number == __NR_ioctl) && _IOC_TYPE(request->args[1]) == PARASC_IOC_TYPE)
		return BACK;
	if (unlikely(is_in(parasc_refused_calls, number))) {
		*result = -EPERM;
		return MADE;
	}
	/* A call looks at no other ones. */
	regs.di = request->args[0];
	regs.si = request->args[1];
	regs.dx = request->args[2];
	regs.r10 = request->args[3];
	regs.r8 = request->args[4];
	regs.r9 = request->args[5];
	/* Its branches are compiled in: a table is an indirect call that a user chooses. */
	if (likely(dispatch))
		ret = call_sealed(dispatch, (unsigned long)&regs, number, 0, 0);
	else
		ret = table[number](&regs);
	if (unlikely(is_interrupted(ret))) {
		ret = interrupted(stay, ret);
		if (!ret)
			return BACK;
	}
	if (unlikely(task_work_pending(current)))
		do_task_work();
	*result = ret;
	return MADE;
}

/* An argument that does not count is 0. */
#define ARG(request, user, n, fault)						\
do {										\
	(request)->args[n] = 0;							\
	if ((request)->args_num > (n))						\
		unsafe_get_user((request)->args[n], &(user)->args[n], fault);	\
} while (0)

static __always_inline int copy_in(u64 from, struct request *request, u32 count)
{
	const struct request __user *user = u64_to_user_ptr(from);
	u32 n;

	if (!user_access_begin(user, count * sizeof(*user)))
		return -EFAULT;
	for (n = 0; n < count; n++, user++, request++) {
		unsafe_get_user(request->sysnum, &user->sysnum, fault);
		unsafe_get_user(request->args_num, &user->args_num, fault);
		ARG(request, user, 0, fault);
		ARG(request, user, 1, fault);
		ARG(request, user, 2, fault);
		ARG(request, user, 3, fault);
		ARG(request, user, 4, fault);
		ARG(request, user, 5, fault);
	}
	user_access_end();
	return 0;
fault:
	user_access_end();
	return -EFAULT;
}

static __always_inline int copy_out(u64 to, const s64 *result, u32 count)
{
	s64 __user *user = u64_to_user_ptr(to);
	u32 n;

	if (!user_access_begin(user, count * sizeof(*user)))
		return -EFAULT;
	for (n = 0; n < count; n++)
		unsafe_put_user(result[n], &user[n], fault);
	user_access_end();
	return 0;
fault:
	user_access_end();
	return -EFAULT;
}

/* Makes the calls that are left, and takes off what it has made, whether its results could be written or not. */
int calls_make(struct stay *stay, struct calls *calls)
{
	struct request request[AT_ONCE];
	s64 result[AT_ONCE];
	u32 count, made;
	u64 results;

	while (calls->first < calls->last) {
		count = min_t(u32, calls->last - calls->first, AT_ONCE);
		if (copy_in(calls->requests + calls->first * sizeof(*request), request, count))
			return -EFAULT;
		for (made = 0; made < count; made++)
			if (make(stay, &request[made], &result[made]) == BACK)
				break;
		results = calls->results + calls->first * sizeof(*result);
		calls->first += made;
		stay->made += made;
		if (copy_out(results, result, made))
			return -EFAULT;
		if (made < count)
			return BACK;
		cond_resched();
	}
	return MADE;
}

/* Makes the single call of this number whose arguments are in the line. */
int call_make_one(struct stay *stay, struct parasc_line __user *line, u32 number)
{
	struct request request = { .sysnum = number, .args_num = PARASC_MAX_ARGS };
	const u64 __user *word = line->words;
	u64 *arg = request.args;
	enum ended ended;
	s64 result;

	if (!user_access_begin(line, sizeof(*line)))
		return -EFAULT;
	/* By no index: a check of its bounds is a call, with the window open. */
	for (; arg < request.args + PARASC_MAX_ARGS; arg++, word++)
		unsafe_get_user(*arg, word, fault);
	user_access_end();
	ended = make(stay, &request, &result);
	stay->made += ended == MADE;
	if (ended == MADE && put_user(result, &line->ret_val))
		return -EFAULT;
	return ended;
fault:
	user_access_end();
	return -EFAULT;
}
