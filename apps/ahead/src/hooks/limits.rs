//! Calls that a process with threads may not make, or after which threads must not do what they do: before them the
//! pool has ended.

use std::ffi::{c_int, c_long, c_void};

use crate::state::Mode;
use crate::{real, watch};

/// # Safety
/// As unshare(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    watch::end_pool(Mode::Quiet);
    // SAFETY: as the caller says.
    unsafe { real::unshare(flags) }
}

/// # Safety
/// As setns(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    watch::end_pool(Mode::Quiet);
    // SAFETY: as the caller says.
    unsafe { real::setns(descriptor, kind) }
}

/// # Safety
/// As prctl(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // A filter that follows may end the program for a call of ours.
    if matches!(option, libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS) {
        watch::end_pool(Mode::Off);
    }
    // SAFETY: as the caller says.
    unsafe { real::prctl(option, a, b, c, d) }
}

/// # Safety
/// As syscall(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    match number {
        libc::SYS_seccomp => watch::end_pool(Mode::Off),
        libc::SYS_unshare | libc::SYS_setns => watch::end_pool(Mode::Quiet),
        _ => {}
    }
    // SAFETY: as the caller says.
    unsafe { real::syscall(number, a, b, c, d, e, f) }
}

/// # Safety
/// As pthread_exit(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_exit(answer: *mut c_void) -> ! {
    // Who lets its first thread end waits for the last one; ours would never be it.
    if rustix::thread::gettid() == rustix::process::getpid() {
        watch::end_pool(Mode::Off);
    }
    // SAFETY: as the caller says.
    unsafe { real::pthread_exit(answer) }
}
