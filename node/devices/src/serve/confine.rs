//! Rights of the serving process: little, because what it reads was written by
//! another kernel.

use rustix::process::{Gid, Uid};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads,
};

use crate::{Error, ErrorKind, Result};

/// `nobody`: all that is needed was opened before.
const NOBODY: u32 = 65534;

/// Calls of a thread that serves: it waits, copies, and reads and writes what is open.
const CALLS: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_seccomp,
    libc::SYS_sendmsg,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Calls that fail here and are survived: the C library's allocator looks for the number of
/// cpus in a file when a second thread allocates, and guesses if there is none.
const REFUSED: &[i64] = &[libc::SYS_openat];

/// Calls that have a number of their own on x86-64, and are another one's on aarch64.
#[cfg(target_arch = "x86_64")]
const OLD: (&[i64], &[i64]) = (&[libc::SYS_epoll_wait, libc::SYS_poll], &[libc::SYS_open]);
/// None.
#[cfg(not(target_arch = "x86_64"))]
const OLD: (&[i64], &[i64]) = (&[], &[]);

/// Another user, and no way back. While this process has one thread.
pub(super) fn privileges() -> Result<()> {
    let failed = |error| Error::os("giving privileges up", error);
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[]).map_err(failed)?;
    set_thread_res_gid(group, group, group).map_err(failed)?;
    // Capabilities go with it.
    set_thread_res_uid(user, user, user).map_err(failed)?;
    set_no_new_privs(true).map_err(failed)
}

/// Forbids any other system call from now on: one ends this process.
pub(super) fn calls() -> Result<()> {
    // Of two filters the answer is the stricter one's.
    let errno = SeccompAction::Errno(libc::EACCES as u32);
    let refused = [REFUSED, OLD.1].concat();
    let known = [CALLS, OLD.0, &refused].concat();
    apply(&refused, errno, SeccompAction::Allow)?;
    apply(&known, SeccompAction::Allow, SeccompAction::KillProcess)
}

fn apply(calls: &[i64], then: SeccompAction, otherwise: SeccompAction) -> Result<()> {
    let refused = |error: &dyn std::fmt::Display| {
        Error::inner(ErrorKind::Unsupported, format!("seccomp: {error}"))
    };
    let rules = calls.iter().map(|&call| (call, Vec::new())).collect();
    let arch = if cfg!(target_arch = "x86_64") { TargetArch::x86_64 } else { TargetArch::aarch64 };
    let filter = SeccompFilter::new(rules, otherwise, then, arch);
    let filter = filter.map_err(|error| refused(&error))?;
    let program: BpfProgram = filter.try_into().map_err(|error: BackendError| refused(&error))?;
    apply_filter_all_threads(&program).map_err(|error| refused(&error))
}
