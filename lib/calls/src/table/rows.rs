//! The rows, in the order of the kernel's table
//! (arch/x86/entry/syscalls/syscall_64.tbl).
//!
//! A row that says nothing is of a call that somebody has looked at: made by another
//! thread it does what it does for the thread that asks, it contends on nothing that is
//! known, and it does not commonly sleep.

use kumiki_sys::syscall;
use syscalls::Sysno;

use super::{PID_0, Row, call, int, numbered};
use crate::reason::RefusalKind::*;

/// The clock of the calling thread's processor time: by its name, or as the
/// clock of thread 0 (`pid_for_clock`, kernel/time/posix-cpu-timers.c).
fn own_cpu_clock(clock: u64) -> bool {
    matches!(int(clock), libc::CLOCK_THREAD_CPUTIME_ID | -4..=-2)
}

const OWN_CLOCK: &str = "the clock of the calling thread's cpu time";
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

/// One row a system call; those without their line are in the table of processors that came later, too,
/// under other numbers. Of a call's refusals the worst stands first: the first that
/// applies is the answer.
pub(crate) static ROWS: &[Row] = &[
    call(Sysno::read).file(0),
    call(Sysno::write).file(0),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::open),
    call(Sysno::close),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::stat),
    call(Sysno::fstat).file(0),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::lstat),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::poll)
        // Milliseconds, an int; 0 only looks.
        .sleeps_if(|args| int(args[2]) != 0),
    call(Sysno::lseek).file(0),
    call(Sysno::mmap).address_space(),
    call(Sysno::mprotect).address_space(),
    call(Sysno::munmap).address_space(),
    call(Sysno::brk).address_space(),
    call(Sysno::rt_sigaction),
    call(Sysno::rt_sigprocmask)
        .refused_if(
            ChangesSignalsOfThread,
            "a new mask",
            |args| args[1] != 0,
            "changes the signal mask of the calling thread: the processing thread \
             would run handlers",
        )
        .refused_if(
            AnswersForWrongThread,
            "no new mask",
            |args| args[1] == 0,
            "gives the signal mask of the calling thread",
        ),
    call(Sysno::rt_sigreturn).refused(
        NeedsRegistersOrStack,
        "takes all registers from the caller's stack, where no signal has left any",
    ),
    call(Sysno::ioctl).file(0),
    call(Sysno::pread64).file(0),
    call(Sysno::pwrite64).file(0),
    call(Sysno::readv).file(0),
    call(Sysno::writev).file(0),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::access),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::pipe),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::select).sleeps(),
    call(Sysno::sched_yield).refused(
        ActsOnCallingThread,
        "lets others run before the processing thread, not before the one that asks",
    ),
    call(Sysno::mremap).address_space(),
    // Leaves the lock of the memory map before it writes.
    call(Sysno::msync).sleeps_if(|args| int(args[2]) & libc::MS_SYNC != 0),
    call(Sysno::mincore).address_space(),
    call(Sysno::madvise).address_space(),
    call(Sysno::shmget),
    call(Sysno::shmat).address_space(),
    call(Sysno::shmctl),
    call(Sysno::dup),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::dup2),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::pause).refused(
        WaitsForSignalsOfThread,
        "waits for a signal to the calling thread; the processing thread gets \
             none, so for ever",
    ),
    call(Sysno::nanosleep).sleeps(),
    call(Sysno::getitimer),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::alarm),
    call(Sysno::setitimer),
    call(Sysno::getpid),
    call(Sysno::sendfile).file(0),
    call(Sysno::socket),
    call(Sysno::connect).file(0).sleeps(),
    call(Sysno::accept).file(0).sleeps(),
    call(Sysno::sendto).file(0),
    call(Sysno::recvfrom).file(0).sleeps_if(|args| int(args[3]) & libc::MSG_DONTWAIT == 0),
    call(Sysno::sendmsg).file(0),
    call(Sysno::recvmsg).file(0).sleeps_if(|args| int(args[2]) & libc::MSG_DONTWAIT == 0),
    call(Sysno::shutdown).file(0),
    call(Sysno::bind).file(0),
    call(Sysno::listen).file(0),
    call(Sysno::getsockname).file(0),
    call(Sysno::getpeername).file(0),
    call(Sysno::socketpair),
    call(Sysno::setsockopt).file(0),
    call(Sysno::getsockopt).file(0),
    call(Sysno::clone).refused(
        CopiesThread,
        "leaves a child that goes on in the processing thread's place, not in the caller's",
    ),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::fork).refused(
        CopiesThread,
        "leaves a child that goes on in the processing thread's place, not in the caller's",
    ),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::vfork).refused(
        CopiesThread,
        "leaves a child that runs on the processing thread's stack, in its loop",
    ),
    call(Sysno::execve)
        .refused(EndsOrReplacesThread, "replaces the program and ends every other thread"),
    call(Sysno::exit)
        .refused(EndsOrReplacesThread, "ends the processing thread, not the one that asks"),
    call(Sysno::wait4).sleeps_if(|args| int(args[2]) & libc::WNOHANG == 0).refused_if(
        ActsOnCallingThread,
        "__WNOTHREAD",
        |args| int(args[2]) & libc::__WNOTHREAD != 0,
        "waits for children of the calling thread alone",
    ),
    call(Sysno::kill),
    call(Sysno::uname),
    call(Sysno::semget),
    call(Sysno::semop).sleeps(),
    call(Sysno::semctl),
    call(Sysno::shmdt).address_space(),
    call(Sysno::msgget),
    call(Sysno::msgsnd),
    call(Sysno::msgrcv).sleeps_if(|args| int(args[4]) & libc::IPC_NOWAIT == 0),
    call(Sysno::msgctl),
    // The file's signals go to whoever made the call (__f_setown in fs/locks.c and
    // fs/notify/dnotify/dnotify.c), by the id of that thread.
    call(Sysno::fcntl)
        .file(0)
        .sleeps_only_if(|args| matches!(int(args[1]), libc::F_SETLKW | libc::F_OFD_SETLKW))
        .refused_if(
            ActsOnCallingThread,
            "F_SETLEASE (not F_UNLCK), F_SETDELEG or F_NOTIFY",
            |args| match int(args[1]) {
                libc::F_SETLEASE => int(args[2]) != libc::F_UNLCK,
                libc::F_NOTIFY | F_SETDELEG => true,
                _ => false,
            },
            "has the calling thread signalled: the signal is lost once that has retired",
        ),
    call(Sysno::flock)
        .file(0)
        .sleeps_if(|args| int(args[1]) & (libc::LOCK_NB | libc::LOCK_UN) == 0),
    // Waits for the device, and many at once are what it gains by.
    call(Sysno::fsync).sleeps(),
    call(Sysno::fdatasync).sleeps(),
    call(Sysno::truncate),
    call(Sysno::ftruncate).file(0),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::getdents).file(0),
    call(Sysno::getcwd),
    call(Sysno::chdir),
    call(Sysno::fchdir),
    // Locks both directories; one stands for them.
    #[cfg(target_arch = "x86_64")]
    call(Sysno::rename).directory(None),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::mkdir).directory(None),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::rmdir).directory(None),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::creat).directory(None),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::link).directory(None),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::unlink).directory(None),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::symlink).directory(None),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::readlink),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::chmod),
    call(Sysno::fchmod).file(0),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::chown),
    call(Sysno::fchown).file(0),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::lchown),
    call(Sysno::umask),
    call(Sysno::gettimeofday),
    call(Sysno::getrlimit),
    call(Sysno::getrusage).refused_if(
        AnswersForWrongThread,
        "RUSAGE_THREAD",
        |args| int(args[0]) == libc::RUSAGE_THREAD,
        "gives what the calling thread has used",
    ),
    call(Sysno::sysinfo),
    call(Sysno::times),
    call(Sysno::ptrace).refused(
        ActsOnCallingThread,
        "makes the calling thread the tracer, and only the tracer may go on with it",
    ),
    call(Sysno::getuid),
    call(Sysno::syslog),
    call(Sysno::getgid),
    // Credentials: the C library's wrappers make the raw call in every thread
    // (nptl(7)); the raw call changes one.
    call(Sysno::setuid).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::setgid).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::geteuid),
    call(Sysno::getegid),
    call(Sysno::setpgid),
    call(Sysno::getppid),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::getpgrp),
    call(Sysno::setsid),
    call(Sysno::setreuid).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::setregid).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::getgroups),
    call(Sysno::setgroups).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::setresuid).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::getresuid),
    call(Sysno::setresgid).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::getresgid),
    call(Sysno::getpgid),
    call(Sysno::setfsuid).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::setfsgid).refused(ChangesCredentialsOfThread, CREDENTIALS),
    call(Sysno::getsid),
    call(Sysno::capget).refused(
        AnswersForWrongThread,
        "gives the capabilities of the calling thread, if the header says pid 0",
    ),
    call(Sysno::capset).refused(
        ChangesCredentialsOfThread,
        "changes the capabilities of the calling thread alone",
    ),
    call(Sysno::rt_sigpending)
        .refused(AnswersForWrongThread, "gives the signals that wait for the calling thread"),
    call(Sysno::rt_sigtimedwait).refused(
        WaitsForSignalsOfThread,
        "takes signals to the process and to the calling thread, not those to \
             the one that asks",
    ),
    call(Sysno::rt_sigqueueinfo),
    call(Sysno::rt_sigsuspend).refused(
        ChangesSignalsOfThread,
        "waits with another signal mask for a signal to the calling thread",
    ),
    call(Sysno::sigaltstack)
        .refused_if(
            ChangesSignalsOfThread,
            "a new stack",
            |args| args[0] != 0,
            "sets the stack on which the calling thread handles signals",
        )
        .refused_if(
            AnswersForWrongThread,
            "no new stack",
            |args| args[0] == 0,
            "gives the stack on which the calling thread handles signals",
        ),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::utime),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::mknod).directory(None),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::uselib),
    // kernel/exec_domain.c; the manual page says process.
    call(Sysno::personality)
        .refused(ActsOnCallingThread, "sets or gives the execution domain of the calling thread"),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::ustat),
    call(Sysno::statfs),
    call(Sysno::fstatfs).file(0),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::sysfs),
    call(Sysno::getpriority).refused_if(
        AnswersForWrongThread,
        "PRIO_PROCESS and 0 (the calling thread)",
        |args| int(args[0]) == libc::PRIO_PROCESS as i32 && int(args[1]) == 0,
        "gives the nice value of the calling thread",
    ),
    call(Sysno::setpriority).refused_if(
        ActsOnCallingThread,
        "PRIO_PROCESS and 0 (the calling thread)",
        |args| int(args[0]) == libc::PRIO_PROCESS as i32 && int(args[1]) == 0,
        "changes the nice value of the calling thread",
    ),
    call(Sysno::sched_setparam)
        .refused_for_pid_0(ActsOnCallingThread, "changes the schedule of the calling thread"),
    call(Sysno::sched_getparam)
        .refused_for_pid_0(AnswersForWrongThread, "gives the schedule of the calling thread"),
    call(Sysno::sched_setscheduler)
        .refused_for_pid_0(ActsOnCallingThread, "changes the schedule of the calling thread"),
    call(Sysno::sched_getscheduler)
        .refused_for_pid_0(AnswersForWrongThread, "gives the schedule of the calling thread"),
    call(Sysno::sched_get_priority_max),
    call(Sysno::sched_get_priority_min),
    call(Sysno::sched_rr_get_interval)
        .refused_for_pid_0(AnswersForWrongThread, "gives the time slice of the calling thread"),
    call(Sysno::mlock).address_space(),
    call(Sysno::munlock).address_space(),
    call(Sysno::mlockall).address_space(),
    call(Sysno::munlockall).address_space(),
    call(Sysno::vhangup),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::modify_ldt).address_space(),
    call(Sysno::pivot_root),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::_sysctl),
    call(Sysno::prctl).refused(
        ActsOnCallingThread,
        "sets or asks for attributes that are the calling thread's, with most \
             of its options",
    ),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::arch_prctl).refused(
        ActsOnCallingThread,
        "changes the calling thread's segment bases, under which its \
             thread-local storage lies",
    ),
    call(Sysno::adjtimex),
    call(Sysno::setrlimit),
    call(Sysno::chroot),
    call(Sysno::sync).sleeps(),
    call(Sysno::acct),
    call(Sysno::settimeofday),
    call(Sysno::mount),
    call(Sysno::umount2).sleeps(),
    call(Sysno::swapon),
    call(Sysno::swapoff),
    call(Sysno::reboot),
    call(Sysno::sethostname),
    call(Sysno::setdomainname),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::iopl)
        .refused(ActsOnCallingThread, "gives the right to ports to the calling thread"),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::ioperm)
        .refused(ActsOnCallingThread, "gives the right to ports to the calling thread"),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::create_module),
    call(Sysno::init_module),
    call(Sysno::delete_module),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::get_kernel_syms),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::query_module),
    call(Sysno::quotactl),
    call(Sysno::nfsservctl),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::getpmsg),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::putpmsg),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::afs_syscall),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::tuxcall),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::security),
    call(Sysno::gettid).refused(AnswersForWrongThread, "gives the id of the calling thread"),
    call(Sysno::readahead).file(0),
    call(Sysno::setxattr),
    call(Sysno::lsetxattr),
    call(Sysno::fsetxattr).file(0),
    call(Sysno::getxattr),
    call(Sysno::lgetxattr),
    call(Sysno::fgetxattr).file(0),
    call(Sysno::listxattr),
    call(Sysno::llistxattr),
    call(Sysno::flistxattr).file(0),
    call(Sysno::removexattr),
    call(Sysno::lremovexattr),
    call(Sysno::fremovexattr).file(0),
    call(Sysno::tkill),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::time),
    call(Sysno::futex)
        .sleeps_if(|args| {
            matches!(
                int(args[1]) & libc::FUTEX_CMD_MASK,
                libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET
            )
        })
        .refused_if(
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
    call(Sysno::sched_setaffinity)
        .refused_for_pid_0(ActsOnCallingThread, "moves the calling thread to other cpus"),
    call(Sysno::sched_getaffinity)
        .refused_for_pid_0(AnswersForWrongThread, "gives the cpus of the calling thread"),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::set_thread_area)
        .refused(ActsOnCallingThread, "sets the calling thread's thread-local storage"),
    call(Sysno::io_setup).address_space(),
    call(Sysno::io_destroy).address_space(),
    call(Sysno::io_getevents)
        // How many completions to wait for.
        .sleeps_if(|args| args[1] as i64 > 0),
    call(Sysno::io_submit),
    call(Sysno::io_cancel),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::get_thread_area)
        .refused(AnswersForWrongThread, "gives the calling thread's thread-local storage"),
    call(Sysno::lookup_dcookie),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::epoll_create),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::epoll_ctl_old),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::epoll_wait_old),
    call(Sysno::remap_file_pages).address_space(),
    call(Sysno::getdents64).file(0),
    call(Sysno::set_tid_address).refused(
        ActsOnCallingThread,
        "sets what the kernel clears and wakes when the calling thread ends",
    ),
    call(Sysno::restart_syscall).refused(
        NeedsRegistersOrStack,
        "goes on with what a signal has interrupted in the calling thread",
    ),
    call(Sysno::semtimedop).sleeps(),
    call(Sysno::fadvise64).file(0),
    call(Sysno::timer_create).refused_if(
        ActsOnCallingThread,
        OWN_CLOCK,
        |args| own_cpu_clock(args[0]),
        "makes a timer that runs by the processing thread's cpu time",
    ),
    call(Sysno::timer_settime),
    call(Sysno::timer_gettime),
    call(Sysno::timer_getoverrun),
    call(Sysno::timer_delete),
    call(Sysno::clock_settime),
    call(Sysno::clock_gettime).refused_if(
        AnswersForWrongThread,
        OWN_CLOCK,
        |args| own_cpu_clock(args[0]),
        "gives the calling thread's cpu time",
    ),
    call(Sysno::clock_getres),
    call(Sysno::clock_nanosleep).sleeps(),
    call(Sysno::exit_group)
        .refused(EndsOrReplacesThread, "ends the process with requests under way; end it yourself"),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::epoll_wait).file(0).sleeps_if(|args| int(args[3]) != 0),
    call(Sysno::epoll_ctl).file(0),
    call(Sysno::tgkill),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::utimes),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::vserver),
    call(Sysno::mbind).address_space(),
    call(Sysno::set_mempolicy)
        .refused(ActsOnCallingThread, "sets from which nodes the calling thread gets memory"),
    call(Sysno::get_mempolicy).address_space().refused_if(
        AnswersForWrongThread,
        "no MPOL_F_ADDR",
        |args| args[4] & MPOL_F_ADDR == 0,
        "gives the memory policy of the calling thread",
    ),
    call(Sysno::mq_open),
    call(Sysno::mq_unlink).directory(None),
    call(Sysno::mq_timedsend).file(0),
    call(Sysno::mq_timedreceive).file(0).sleeps(),
    call(Sysno::mq_notify).file(0),
    call(Sysno::mq_getsetattr).file(0),
    call(Sysno::kexec_load),
    call(Sysno::waitid).sleeps_if(|args| int(args[3]) & libc::WNOHANG == 0).refused_if(
        ActsOnCallingThread,
        "__WNOTHREAD",
        |args| int(args[3]) & libc::__WNOTHREAD != 0,
        "waits for children of the calling thread alone",
    ),
    // Keyrings hang on the credentials, also the process's own
    // (security/keys/process_keys.c, install_process_keyring).
    call(Sysno::add_key).refused(ChangesCredentialsOfThread, KEYRINGS),
    call(Sysno::request_key).refused(ChangesCredentialsOfThread, KEYRINGS),
    call(Sysno::keyctl).refused(ChangesCredentialsOfThread, KEYRINGS),
    call(Sysno::ioprio_set).refused_if(
        ActsOnCallingThread,
        "IOPRIO_WHO_PROCESS and 0 (the calling thread)",
        |args| int(args[0]) == IOPRIO_WHO_PROCESS && int(args[1]) == 0,
        "changes the I/O priority of the calling thread",
    ),
    call(Sysno::ioprio_get).refused_if(
        AnswersForWrongThread,
        "IOPRIO_WHO_PROCESS and 0 (the calling thread)",
        |args| int(args[0]) == IOPRIO_WHO_PROCESS && int(args[1]) == 0,
        "gives the I/O priority of the calling thread",
    ),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::inotify_init),
    call(Sysno::inotify_add_watch).file(0),
    call(Sysno::inotify_rm_watch).file(0),
    call(Sysno::migrate_pages).address_space(),
    call(Sysno::openat),
    call(Sysno::mkdirat).directory(Some(0)),
    call(Sysno::mknodat).directory(Some(0)),
    call(Sysno::fchownat),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::futimesat),
    numbered(libc::SYS_newfstatat as u16, "newfstatat"),
    call(Sysno::unlinkat).directory(Some(0)),
    call(Sysno::renameat).directory(Some(0)),
    call(Sysno::linkat).directory(Some(2)),
    call(Sysno::symlinkat).directory(Some(1)),
    call(Sysno::readlinkat),
    call(Sysno::fchmodat),
    call(Sysno::faccessat),
    call(Sysno::pselect6).sleeps().refused_if(
        ChangesSignalsOfThread,
        A_MASK,
        |args| args[5] != 0,
        MASK,
    ),
    call(Sysno::ppoll).sleeps().refused_if(
        ChangesSignalsOfThread,
        A_MASK,
        |args| args[3] != 0,
        MASK,
    ),
    call(Sysno::unshare).refused(
        ActsOnCallingThread,
        "parts the calling thread from the process: its descriptors, \
             directories or namespaces",
    ),
    call(Sysno::set_robust_list).refused(
        ActsOnCallingThread,
        "sets the locks that the kernel releases when the calling thread ends",
    ),
    call(Sysno::get_robust_list)
        .refused_for_pid_0(AnswersForWrongThread, "gives the list of the calling thread"),
    call(Sysno::splice).file(2),
    call(Sysno::tee).file(1),
    numbered(syscall::SYNC_FILE_RANGE as u16, "sync_file_range").sleeps(),
    call(Sysno::vmsplice).file(0),
    call(Sysno::move_pages).address_space(),
    call(Sysno::utimensat),
    call(Sysno::epoll_pwait).file(0).sleeps_if(|args| int(args[3]) != 0).refused_if(
        ChangesSignalsOfThread,
        A_MASK,
        |args| args[4] != 0,
        MASK,
    ),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::signalfd),
    call(Sysno::timerfd_create),
    #[cfg(target_arch = "x86_64")]
    call(Sysno::eventfd),
    call(Sysno::fallocate).file(0),
    call(Sysno::timerfd_settime).file(0),
    call(Sysno::timerfd_gettime).file(0),
    call(Sysno::accept4).file(0).sleeps(),
    call(Sysno::signalfd4),
    call(Sysno::eventfd2),
    call(Sysno::epoll_create1),
    call(Sysno::dup3),
    call(Sysno::pipe2),
    call(Sysno::inotify_init1),
    call(Sysno::preadv).file(0),
    call(Sysno::pwritev).file(0),
    call(Sysno::rt_tgsigqueueinfo),
    call(Sysno::perf_event_open).refused_if(
        ActsOnCallingThread,
        PID_0,
        // With the flag it is a descriptor, and 0 may be one.
        |args| int(args[1]) == 0 && args[4] & PERF_FLAG_PID_CGROUP == 0,
        "counts what the calling thread does",
    ),
    call(Sysno::recvmmsg).file(0).sleeps_if(|args| int(args[3]) & libc::MSG_DONTWAIT == 0),
    call(Sysno::fanotify_init),
    call(Sysno::fanotify_mark).file(0),
    call(Sysno::prlimit64),
    call(Sysno::name_to_handle_at),
    call(Sysno::open_by_handle_at),
    call(Sysno::clock_adjtime),
    call(Sysno::syncfs).sleeps(),
    call(Sysno::sendmmsg).file(0),
    call(Sysno::setns)
        .refused(ActsOnCallingThread, "moves the calling thread to another namespace"),
    call(Sysno::getcpu)
        .refused(AnswersForWrongThread, "gives the cpu on which the calling thread runs"),
    call(Sysno::process_vm_readv),
    call(Sysno::process_vm_writev),
    call(Sysno::kcmp),
    call(Sysno::finit_module),
    call(Sysno::sched_setattr)
        .refused_for_pid_0(ActsOnCallingThread, "changes the schedule of the calling thread"),
    call(Sysno::sched_getattr)
        .refused_for_pid_0(AnswersForWrongThread, "gives the schedule of the calling thread"),
    call(Sysno::renameat2).directory(Some(0)),
    call(Sysno::seccomp).refused(
        ActsOnCallingThread,
        "puts a filter on the calling thread, which could not serve the next request",
    ),
    call(Sysno::getrandom),
    call(Sysno::memfd_create),
    call(Sysno::kexec_file_load),
    call(Sysno::bpf),
    call(Sysno::execveat)
        .refused(EndsOrReplacesThread, "replaces the program and ends every other thread"),
    call(Sysno::userfaultfd),
    // Has a lock of its own and interrupts every cpu on which the process runs, which
    // comes to the same as the lock of the memory map.
    call(Sysno::membarrier).address_space(),
    call(Sysno::mlock2).address_space(),
    // Of two files the one that is written to: its lock is held longer.
    call(Sysno::copy_file_range).file(2),
    call(Sysno::preadv2).file(0),
    call(Sysno::pwritev2).file(0),
    call(Sysno::pkey_mprotect).address_space(),
    call(Sysno::pkey_alloc).address_space().refused(
        ActsOnCallingThread,
        "gives the calling thread alone the rights to memory under the new key",
    ),
    call(Sysno::pkey_free).address_space(),
    call(Sysno::statx),
    call(Sysno::io_pgetevents).sleeps_if(|args| args[1] as i64 > 0).refused_if(
        ChangesSignalsOfThread,
        A_MASK,
        |args| args[5] != 0,
        MASK,
    ),
    call(Sysno::rseq).refused(ActsOnCallingThread, "registers memory of the calling thread"),
    #[cfg(target_arch = "x86_64")]
    numbered(335, "uretprobe").refused(
        NeedsRegistersOrStack,
        "is the kernel's own trampoline; from elsewhere it kills the process",
    ),
    #[cfg(target_arch = "x86_64")]
    numbered(336, "uprobe").refused(
        NeedsRegistersOrStack,
        "is the kernel's own trampoline; from elsewhere it kills the process",
    ),
    call(Sysno::pidfd_send_signal).refused_if(
        ActsOnCallingThread,
        "PIDFD_SELF_THREAD",
        // Unless a flag widens it to the process or its group.
        |args| int(args[0]) == PIDFD_SELF_THREAD && int(args[3]) & PIDFD_SIGNAL_GROUPS == 0,
        "sends the signal to the calling thread",
    ),
    call(Sysno::io_uring_setup),
    // What is submitted is bound to the thread that does it: pending operations fail
    // when that ends, and processing threads retire.
    call(Sysno::io_uring_enter)
        .file(0)
        // How many completions to wait for.
        .sleeps_if(|args| int(args[2]) != 0)
        .refused_if(
            ActsOnCallingThread,
            "anything to submit",
            |args| int(args[1]) != 0,
            "binds what it submits to the calling thread: what is pending fails \
             when that retires",
        )
        .refused_if(ChangesSignalsOfThread, A_MASK, |args| args[4] != 0, MASK)
        .refused_if(
            ActsOnCallingThread,
            "IORING_ENTER_REGISTERED_RING",
            |args| args[3] & IORING_ENTER_REGISTERED_RING != 0,
            "looks the ring up among those that the calling thread has registered",
        ),
    call(Sysno::io_uring_register)
        .file(0)
        .refused_if(
            ActsOnCallingThread,
            "IORING_REGISTER_USE_REGISTERED_RING",
            |args| args[1] & IORING_REGISTER_USE_REGISTERED_RING != 0,
            "looks the ring up among those that the calling thread has registered",
        )
        .refused_if(
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
    call(Sysno::open_tree),
    call(Sysno::move_mount),
    call(Sysno::fsopen),
    call(Sysno::fsconfig),
    call(Sysno::fsmount),
    call(Sysno::fspick),
    call(Sysno::pidfd_open),
    call(Sysno::clone3).refused(
        CopiesThread,
        "leaves a child that goes on in the processing thread's place, not in the caller's",
    ),
    call(Sysno::close_range).refused_if(
        ActsOnCallingThread,
        "CLOSE_RANGE_UNSHARE",
        |args| args[2] & CLOSE_RANGE_UNSHARE != 0,
        "gives the calling thread descriptors of its own: later requests \
             would not see the process's",
    ),
    call(Sysno::openat2),
    call(Sysno::pidfd_getfd),
    call(Sysno::faccessat2),
    call(Sysno::process_madvise).address_space(),
    call(Sysno::epoll_pwait2).file(0).sleeps().refused_if(
        ChangesSignalsOfThread,
        A_MASK,
        |args| args[4] != 0,
        MASK,
    ),
    call(Sysno::mount_setattr),
    call(Sysno::quotactl_fd),
    call(Sysno::landlock_create_ruleset),
    call(Sysno::landlock_add_rule),
    call(Sysno::landlock_restrict_self).refused(
        ChangesCredentialsOfThread,
        "restricts the calling thread, for good, and not the one that asks",
    ),
    call(Sysno::memfd_secret),
    call(Sysno::process_mrelease),
    call(Sysno::futex_waitv).sleeps(),
    call(Sysno::set_mempolicy_home_node).address_space(),
    call(Sysno::cachestat).file(0),
    call(Sysno::fchmodat2),
    call(Sysno::map_shadow_stack).address_space(),
    call(Sysno::futex_wake),
    call(Sysno::futex_wait).sleeps(),
    call(Sysno::futex_requeue),
    call(Sysno::statmount),
    call(Sysno::listmount),
    call(Sysno::lsm_get_self_attr)
        .refused(AnswersForWrongThread, "gives the security attributes of the calling thread"),
    call(Sysno::lsm_set_self_attr).refused(
        ChangesCredentialsOfThread,
        "changes the security attributes of the calling thread",
    ),
    call(Sysno::lsm_list_modules),
    numbered(462, "mseal").address_space(),
    numbered(463, "setxattrat"),
    numbered(464, "getxattrat"),
    numbered(465, "listxattrat"),
    numbered(466, "removexattrat"),
    numbered(467, "open_tree_attr"),
    numbered(468, "file_getattr"),
    numbered(469, "file_setattr"),
    numbered(471, "rseq_slice_yield")
        .refused(ActsOnCallingThread, "ends the longer time slice of the calling thread"),
];
