//! Are our calls allowed here? A filter of system calls that this process has had since its start may answer ours with an
//! error, which does no harm, or end the process. So a child makes each of them first, with arguments that do
//! nothing. It sends no signal at its end, and no wait of the program is for it.

use std::sync::atomic::{AtomicU8, Ordering};

use libc::c_long;
use rustix::thread::{SecureComputingMode, secure_computing_mode};

use crate::errno;
use crate::real;
use crate::signals::without_signals;

const UNKNOWN: u8 = 0;
const ALLOWED: u8 = 1;
const FORBIDDEN: u8 = 2;

/// Forked children have their parent's filters, and keep its verdict.
static VERDICT: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Calls that the pool makes and the program may never have made.
const CALLS: [c_long; 28] = [
    libc::SYS_openat2,
    libc::SYS_openat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_fadvise64,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv2,
    libc::SYS_close_range,
    libc::SYS_futex,
    libc::SYS_prlimit64,
    libc::SYS_prctl,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_rt_sigprocmask,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrusage,
    libc::SYS_read,
];

/// True if none of our calls ends the process.
pub(crate) fn is_allowed() -> bool {
    match VERDICT.load(Ordering::Relaxed) {
        UNKNOWN => {
            let is_free = matches!(secure_computing_mode(), Ok(SecureComputingMode::Disabled));
            let is_allowed = is_free || survives();
            let verdict = if is_allowed { ALLOWED } else { FORBIDDEN };
            VERDICT.store(verdict, Ordering::Relaxed);
            is_allowed
        }
        verdict => verdict == ALLOWED,
    }
}

/// Makes the calls in a child, and says whether it came to its end.
fn survives() -> bool {
    // A filter that answers by a signal ends the child that way: no handler of the program's runs there.
    let child = without_signals(|| {
        // SAFETY: a fork by number, with no signal at the child's end. The child makes calls by number and ends.
        let child = unsafe { real::syscall(libc::SYS_clone, 0, 0, 0, 0, 0, 0) };
        if child == 0 {
            try_all();
        }
        child
    });
    match child {
        1.. => ended_well(child),
        _ => false,
    }
}

fn try_all() -> ! {
    for number in CALLS {
        let none = usize::MAX;
        // Not through our own hook, which has nothing to see in it.
        // SAFETY: no descriptor, no length and no pointer of these is one: the kernel refuses each.
        unsafe { real::syscall(number, none, none, none, none, none, none) };
    }
    loop {
        // SAFETY: ends the child, and nothing of the program's is run for that.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

fn ended_well(child: c_long) -> bool {
    let mut status: libc::c_int = -1;
    loop {
        // SAFETY: waits for that child alone, and writes how it ended.
        let ended = unsafe {
            libc::syscall(libc::SYS_wait4, child, &raw mut status, libc::__WCLONE, 0_usize)
        };
        if ended == child {
            return status == 0;
        }
        if errno::get() != libc::EINTR {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_the_trial_do_nothing_and_its_child_ends() {
        assert!(survives());
        // Nothing is left to be waited for.
        // SAFETY: waits for any child of that sort, without sleeping.
        let left = unsafe {
            libc::syscall(libc::SYS_wait4, -1, 0_usize, libc::__WCLONE | libc::WNOHANG, 0_usize)
        };
        assert_eq!(left, -1);
    }
}
