//! The rules, call by call.

use std::ops::RangeInclusive;

use kumiki_sys::syscall::MAX_ARGS;
use syscalls::Sysno;

use super::Refusal;
use super::RefusalKind::{self, *};

/// One reason to refuse one call.
pub(super) struct Rule {
    sysnum: u16,
    pub(super) refusal: Refusal,
    /// Tells whether the arguments are such; `None`: all are.
    pub(super) applies: Option<fn(&[u64; MAX_ARGS]) -> bool>,
}

impl Rule {
    pub(super) const fn sysnum(&self) -> u16 {
        self.sysnum
    }
}

const fn always(call: Sysno, kind: RefusalKind, reason: &'static str) -> Rule {
    numbered(call.id() as u16, call.name(), kind, reason)
}

/// A call that the table of names lacks.
const fn numbered(
    sysnum: u16,
    name: &'static str,
    kind: RefusalKind,
    reason: &'static str,
) -> Rule {
    Rule { sysnum, refusal: Refusal { name, kind, when: None, reason }, applies: None }
}

const fn with(
    call: Sysno,
    kind: RefusalKind,
    when: &'static str,
    applies: fn(&[u64; MAX_ARGS]) -> bool,
    reason: &'static str,
) -> Rule {
    let refusal = Refusal { name: call.name(), kind, when: Some(when), reason };
    Rule { sysnum: call.id() as u16, refusal, applies: Some(applies) }
}

/// A call whose first argument is the thread, and that is refused for thread 0.
const fn of_pid_0(call: Sysno, kind: RefusalKind, reason: &'static str) -> Rule {
    with(call, kind, PID_0, |args| int(args[0]) == 0, reason)
}

/// An argument of the C type `int` or `unsigned int`: the kernel looks at the
/// lower half only.
const fn int(arg: u64) -> i32 {
    arg as i32
}

/// The clock of the calling thread's processor time: by its name, or as the
/// clock of thread 0 (`pid_for_clock`, kernel/time/posix-cpu-timers.c).
fn own_cpu_clock(clock: u64) -> bool {
    matches!(int(clock), libc::CLOCK_THREAD_CPUTIME_ID | -4..=-2)
}

const OWN_CLOCK: &str = "the clock of the calling thread's cpu time";
const PID_0: &str = "pid 0 (the calling thread)";
const A_MASK: &str = "a signal mask, or a pointer to where one may be";
const MASK: &str = "would wait with the processing thread's signals unblocked, and handlers would \
                    run there; leave the mask out";
const CREDENTIALS: &str = "changes the credentials of the calling thread alone, not the process's";
const KEYRINGS: &str = "starts from the keyrings of the calling thread, and may give it new ones";

// include/uapi/linux/: close_range.h, fcntl.h, futex.h, io_uring.h, ioprio.h,
// mempolicy.h, perf_event.h, pidfd.h.
const PIDFD_SELF_THREAD: i32 = -10000;
const PIDFD_SIGNAL_GROUPS: i32 = 1 << 1 | 1 << 2;
const IORING_ENTER_REGISTERED_RING: u64 = 1 << 4;
const IORING_REGISTER_USE_REGISTERED_RING: u64 = 1 << 31;
const IORING_REGISTER_ENABLE_RINGS: i32 = 12;
const IORING_REGISTER_IOWQ_AFF: i32 = 17;
const IORING_UNREGISTER_IOWQ_AFF: i32 = 18;
const IORING_REGISTER_IOWQ_MAX_WORKERS: i32 = 19;
const IORING_REGISTER_RING_FDS: i32 = 20;
const IORING_UNREGISTER_RING_FDS: i32 = 21;
const IOPRIO_WHO_PROCESS: i32 = 1;
const FUTEX_LOCK_PI2: i32 = 13;
const CLOSE_RANGE_UNSHARE: u64 = 1 << 1;
const MPOL_F_ADDR: u64 = 1 << 1;
const PERF_FLAG_PID_CGROUP: u64 = 1 << 2;
const F_SETDELEG: i32 = 1024 + 16;

/// The numbers by which kernels before 5.4 make calls of x32, a table of its own
/// since (arch/x86/entry/syscalls/syscall_64.tbl). Below 512 stands every rule.
pub(super) const X32_NUMBERS: RangeInclusive<u16> = 512..=547;
/// Among them 513 is rt_sigreturn, 520 execve, 545 execveat.
pub(super) static X32: Refusal = Refusal {
    name: "a call of x32 (512 to 547)",
    kind: EndsOrReplacesThread,
    when: None,
    reason: "may be execve or rt_sigreturn, on kernels before 5.4, and does not exist on others",
};

/// The rules. Those of one call stand together, the worst first: the first that
/// applies is the answer.
pub(super) const RULES: &[Rule] = &[
    // The thread's end.
    always(Sysno::execve, EndsOrReplacesThread, "replaces the program and ends every other thread"),
    always(
        Sysno::execveat,
        EndsOrReplacesThread,
        "replaces the program and ends every other thread",
    ),
    always(Sysno::exit, EndsOrReplacesThread, "ends the processing thread, not the one that asks"),
    always(
        Sysno::exit_group,
        EndsOrReplacesThread,
        "ends the process with requests under way; end it yourself",
    ),
    // Copies of the thread.
    always(
        Sysno::fork,
        CopiesThread,
        "leaves a child that goes on in the processing thread's place, not in the caller's",
    ),
    always(
        Sysno::vfork,
        CopiesThread,
        "leaves a child that runs on the processing thread's stack, in its loop",
    ),
    always(
        Sysno::clone,
        CopiesThread,
        "leaves a child that goes on in the processing thread's place, not in the caller's",
    ),
    always(
        Sysno::clone3,
        CopiesThread,
        "leaves a child that goes on in the processing thread's place, not in the caller's",
    ),
    // Registers and stack.
    always(
        Sysno::rt_sigreturn,
        NeedsRegistersOrStack,
        "takes all registers from the caller's stack, where no signal has left any",
    ),
    always(
        Sysno::restart_syscall,
        NeedsRegistersOrStack,
        "goes on with what a signal has interrupted in the calling thread",
    ),
    always(
        Sysno::uretprobe,
        NeedsRegistersOrStack,
        "is the kernel's own trampoline; from elsewhere it kills the process",
    ),
    always(
        Sysno::uprobe,
        NeedsRegistersOrStack,
        "is the kernel's own trampoline; from elsewhere it kills the process",
    ),
    // Signals.
    with(
        Sysno::rt_sigprocmask,
        ChangesSignalsOfThread,
        "a new mask",
        |args| args[1] != 0,
        "changes the signal mask of the calling thread: the processing thread would run handlers",
    ),
    with(
        Sysno::rt_sigprocmask,
        AnswersForWrongThread,
        "no new mask",
        |args| args[1] == 0,
        "gives the signal mask of the calling thread",
    ),
    always(
        Sysno::rt_sigsuspend,
        ChangesSignalsOfThread,
        "waits with another signal mask for a signal to the calling thread",
    ),
    with(
        Sysno::sigaltstack,
        ChangesSignalsOfThread,
        "a new stack",
        |args| args[0] != 0,
        "sets the stack on which the calling thread handles signals",
    ),
    with(
        Sysno::sigaltstack,
        AnswersForWrongThread,
        "no new stack",
        |args| args[0] == 0,
        "gives the stack on which the calling thread handles signals",
    ),
    with(Sysno::ppoll, ChangesSignalsOfThread, A_MASK, |args| args[3] != 0, MASK),
    with(Sysno::pselect6, ChangesSignalsOfThread, A_MASK, |args| args[5] != 0, MASK),
    with(Sysno::epoll_pwait, ChangesSignalsOfThread, A_MASK, |args| args[4] != 0, MASK),
    with(Sysno::epoll_pwait2, ChangesSignalsOfThread, A_MASK, |args| args[4] != 0, MASK),
    with(Sysno::io_pgetevents, ChangesSignalsOfThread, A_MASK, |args| args[5] != 0, MASK),
    always(
        Sysno::pause,
        WaitsForSignalsOfThread,
        "waits for a signal to the calling thread; the processing thread gets none, so for ever",
    ),
    always(
        Sysno::rt_sigtimedwait,
        WaitsForSignalsOfThread,
        "takes signals to the process and to the calling thread, not those to the one that asks",
    ),
    always(
        Sysno::rt_sigpending,
        AnswersForWrongThread,
        "gives the signals that wait for the calling thread",
    ),
    with(
        Sysno::pidfd_send_signal,
        ActsOnCallingThread,
        "PIDFD_SELF_THREAD",
        // Unless a flag widens it to the process or its group.
        |args| int(args[0]) == PIDFD_SELF_THREAD && int(args[3]) & PIDFD_SIGNAL_GROUPS == 0,
        "sends the signal to the calling thread",
    ),
    // Credentials. The C library's wrappers make the raw call in every thread
    // (nptl(7)); the raw call changes one.
    always(Sysno::setuid, ChangesCredentialsOfThread, CREDENTIALS),
    always(Sysno::setgid, ChangesCredentialsOfThread, CREDENTIALS),
    always(Sysno::setreuid, ChangesCredentialsOfThread, CREDENTIALS),
    always(Sysno::setregid, ChangesCredentialsOfThread, CREDENTIALS),
    always(Sysno::setresuid, ChangesCredentialsOfThread, CREDENTIALS),
    always(Sysno::setresgid, ChangesCredentialsOfThread, CREDENTIALS),
    always(Sysno::setfsuid, ChangesCredentialsOfThread, CREDENTIALS),
    always(Sysno::setfsgid, ChangesCredentialsOfThread, CREDENTIALS),
    always(Sysno::setgroups, ChangesCredentialsOfThread, CREDENTIALS),
    always(
        Sysno::capset,
        ChangesCredentialsOfThread,
        "changes the capabilities of the calling thread alone",
    ),
    always(
        Sysno::capget,
        AnswersForWrongThread,
        "gives the capabilities of the calling thread, if the header says pid 0",
    ),
    always(
        Sysno::landlock_restrict_self,
        ChangesCredentialsOfThread,
        "restricts the calling thread, for good, and not the one that asks",
    ),
    always(
        Sysno::lsm_set_self_attr,
        ChangesCredentialsOfThread,
        "changes the security attributes of the calling thread",
    ),
    always(
        Sysno::lsm_get_self_attr,
        AnswersForWrongThread,
        "gives the security attributes of the calling thread",
    ),
    // Keyrings hang on the credentials, also the process's own
    // (security/keys/process_keys.c, install_process_keyring).
    always(Sysno::keyctl, ChangesCredentialsOfThread, KEYRINGS),
    always(Sysno::add_key, ChangesCredentialsOfThread, KEYRINGS),
    always(Sysno::request_key, ChangesCredentialsOfThread, KEYRINGS),
    // What else belongs to one thread.
    always(
        Sysno::prctl,
        ActsOnCallingThread,
        "sets or asks for attributes that are the calling thread's, with most of its options",
    ),
    always(
        Sysno::arch_prctl,
        ActsOnCallingThread,
        "changes the calling thread's segment bases, under which its thread-local storage lies",
    ),
    always(
        Sysno::set_thread_area,
        ActsOnCallingThread,
        "sets the calling thread's thread-local storage",
    ),
    always(
        Sysno::get_thread_area,
        AnswersForWrongThread,
        "gives the calling thread's thread-local storage",
    ),
    always(Sysno::iopl, ActsOnCallingThread, "gives the right to ports to the calling thread"),
    always(Sysno::ioperm, ActsOnCallingThread, "gives the right to ports to the calling thread"),
    always(
        Sysno::seccomp,
        ActsOnCallingThread,
        "puts a filter on the calling thread, which could not serve the next request",
    ),
    always(
        Sysno::ptrace,
        ActsOnCallingThread,
        "makes the calling thread the tracer, and only the tracer may go on with it",
    ),
    always(Sysno::setns, ActsOnCallingThread, "moves the calling thread to another namespace"),
    always(
        Sysno::unshare,
        ActsOnCallingThread,
        "parts the calling thread from the process: its descriptors, directories or namespaces",
    ),
    with(
        Sysno::close_range,
        ActsOnCallingThread,
        "CLOSE_RANGE_UNSHARE",
        |args| args[2] & CLOSE_RANGE_UNSHARE != 0,
        "gives the calling thread descriptors of its own: later requests would not see the \
         process's",
    ),
    // The file's signals go to whoever made the call (__f_setown in fs/locks.c and
    // fs/notify/dnotify/dnotify.c), by the id of that thread.
    with(
        Sysno::fcntl,
        ActsOnCallingThread,
        "F_SETLEASE (not F_UNLCK), F_SETDELEG or F_NOTIFY",
        |args| match int(args[1]) {
            libc::F_SETLEASE => int(args[2]) != libc::F_UNLCK,
            libc::F_NOTIFY | F_SETDELEG => true,
            _ => false,
        },
        "has the calling thread signalled: the signal is lost once that has retired",
    ),
    always(Sysno::rseq, ActsOnCallingThread, "registers memory of the calling thread"),
    numbered(
        471,
        "rseq_slice_yield",
        ActsOnCallingThread,
        "ends the longer time slice of the calling thread",
    ),
    always(
        Sysno::set_tid_address,
        ActsOnCallingThread,
        "sets what the kernel clears and wakes when the calling thread ends",
    ),
    always(
        Sysno::set_robust_list,
        ActsOnCallingThread,
        "sets the locks that the kernel releases when the calling thread ends",
    ),
    of_pid_0(Sysno::get_robust_list, AnswersForWrongThread, "gives the list of the calling thread"),
    with(
        Sysno::futex,
        ActsOnCallingThread,
        "a lock with priority inheritance",
        |args| {
            // FUTEX_CMP_REQUEUE_PI acts for the waiters, whoever calls it
            // (futex_proxy_trylock_atomic, kernel/futex/requeue.c).
            let command = int(args[1]) & libc::FUTEX_CMD_MASK;
            matches!(
                command,
                libc::FUTEX_LOCK_PI
                    | libc::FUTEX_UNLOCK_PI
                    | libc::FUTEX_TRYLOCK_PI
                    | libc::FUTEX_WAIT_REQUEUE_PI
                    | FUTEX_LOCK_PI2
            )
        },
        "makes the calling thread the lock's owner, or takes it for that",
    ),
    always(
        Sysno::personality,
        ActsOnCallingThread,
        // kernel/exec_domain.c; the manual page says process.
        "sets or gives the execution domain of the calling thread",
    ),
    always(
        Sysno::set_mempolicy,
        ActsOnCallingThread,
        "sets from which nodes the calling thread gets memory",
    ),
    with(
        Sysno::get_mempolicy,
        AnswersForWrongThread,
        "no MPOL_F_ADDR",
        |args| args[4] & MPOL_F_ADDR == 0,
        "gives the memory policy of the calling thread",
    ),
    always(
        Sysno::pkey_alloc,
        ActsOnCallingThread,
        "gives the calling thread alone the rights to memory under the new key",
    ),
    with(
        Sysno::wait4,
        ActsOnCallingThread,
        "__WNOTHREAD",
        |args| int(args[2]) & libc::__WNOTHREAD != 0,
        "waits for children of the calling thread alone",
    ),
    with(
        Sysno::waitid,
        ActsOnCallingThread,
        "__WNOTHREAD",
        |args| int(args[3]) & libc::__WNOTHREAD != 0,
        "waits for children of the calling thread alone",
    ),
    with(
        Sysno::timer_create,
        ActsOnCallingThread,
        OWN_CLOCK,
        |args| own_cpu_clock(args[0]),
        "makes a timer that runs by the processing thread's cpu time",
    ),
    with(
        Sysno::perf_event_open,
        ActsOnCallingThread,
        PID_0,
        // With the flag it is a descriptor, and 0 may be one.
        |args| int(args[1]) == 0 && args[4] & PERF_FLAG_PID_CGROUP == 0,
        "counts what the calling thread does",
    ),
    // io_uring. What is submitted is bound to the thread that does it: pending
    // operations fail when that ends, and processing threads retire.
    with(
        Sysno::io_uring_enter,
        ActsOnCallingThread,
        "anything to submit",
        |args| int(args[1]) != 0,
        "binds what it submits to the calling thread: what is pending fails when that retires",
    ),
    with(Sysno::io_uring_enter, ChangesSignalsOfThread, A_MASK, |args| args[4] != 0, MASK),
    with(
        Sysno::io_uring_enter,
        ActsOnCallingThread,
        "IORING_ENTER_REGISTERED_RING",
        |args| args[3] & IORING_ENTER_REGISTERED_RING != 0,
        "looks the ring up among those that the calling thread has registered",
    ),
    with(
        Sysno::io_uring_register,
        ActsOnCallingThread,
        "IORING_REGISTER_USE_REGISTERED_RING",
        |args| args[1] & IORING_REGISTER_USE_REGISTERED_RING != 0,
        "looks the ring up among those that the calling thread has registered",
    ),
    with(
        Sysno::io_uring_register,
        ActsOnCallingThread,
        "ring descriptors, workers' affinity or number, or a ring to enable",
        |args| {
            matches!(
                int(args[1]),
                IORING_REGISTER_ENABLE_RINGS
                    | IORING_REGISTER_IOWQ_AFF
                    | IORING_UNREGISTER_IOWQ_AFF
                    | IORING_REGISTER_IOWQ_MAX_WORKERS
                    | IORING_REGISTER_RING_FDS
                    | IORING_UNREGISTER_RING_FDS
            )
        },
        "registers for the calling thread, or binds the ring to it",
    ),
    // Schedule.
    always(
        Sysno::sched_yield,
        ActsOnCallingThread,
        "lets others run before the processing thread, not before the one that asks",
    ),
    of_pid_0(
        Sysno::sched_setaffinity,
        ActsOnCallingThread,
        "moves the calling thread to other cpus",
    ),
    of_pid_0(
        Sysno::sched_setscheduler,
        ActsOnCallingThread,
        "changes the schedule of the calling thread",
    ),
    of_pid_0(
        Sysno::sched_setparam,
        ActsOnCallingThread,
        "changes the schedule of the calling thread",
    ),
    of_pid_0(
        Sysno::sched_setattr,
        ActsOnCallingThread,
        "changes the schedule of the calling thread",
    ),
    with(
        Sysno::setpriority,
        ActsOnCallingThread,
        "PRIO_PROCESS and 0 (the calling thread)",
        |args| int(args[0]) == libc::PRIO_PROCESS as i32 && int(args[1]) == 0,
        "changes the nice value of the calling thread",
    ),
    with(
        Sysno::ioprio_set,
        ActsOnCallingThread,
        "IOPRIO_WHO_PROCESS and 0 (the calling thread)",
        |args| int(args[0]) == IOPRIO_WHO_PROCESS && int(args[1]) == 0,
        "changes the I/O priority of the calling thread",
    ),
    of_pid_0(
        Sysno::sched_getaffinity,
        AnswersForWrongThread,
        "gives the cpus of the calling thread",
    ),
    of_pid_0(
        Sysno::sched_getscheduler,
        AnswersForWrongThread,
        "gives the schedule of the calling thread",
    ),
    of_pid_0(
        Sysno::sched_getparam,
        AnswersForWrongThread,
        "gives the schedule of the calling thread",
    ),
    of_pid_0(
        Sysno::sched_getattr,
        AnswersForWrongThread,
        "gives the schedule of the calling thread",
    ),
    of_pid_0(
        Sysno::sched_rr_get_interval,
        AnswersForWrongThread,
        "gives the time slice of the calling thread",
    ),
    with(
        Sysno::getpriority,
        AnswersForWrongThread,
        "PRIO_PROCESS and 0 (the calling thread)",
        |args| int(args[0]) == libc::PRIO_PROCESS as i32 && int(args[1]) == 0,
        "gives the nice value of the calling thread",
    ),
    with(
        Sysno::ioprio_get,
        AnswersForWrongThread,
        "IOPRIO_WHO_PROCESS and 0 (the calling thread)",
        |args| int(args[0]) == IOPRIO_WHO_PROCESS && int(args[1]) == 0,
        "gives the I/O priority of the calling thread",
    ),
    // Questions about the thread.
    always(Sysno::gettid, AnswersForWrongThread, "gives the id of the calling thread"),
    always(Sysno::getcpu, AnswersForWrongThread, "gives the cpu on which the calling thread runs"),
    with(
        Sysno::getrusage,
        AnswersForWrongThread,
        "RUSAGE_THREAD",
        |args| int(args[0]) == libc::RUSAGE_THREAD,
        "gives what the calling thread has used",
    ),
    with(
        Sysno::clock_gettime,
        AnswersForWrongThread,
        OWN_CLOCK,
        |args| own_cpu_clock(args[0]),
        "gives the calling thread's cpu time",
    ),
];
