//! Calls by number: what the other hooks see by a name is seen here as well. Node.js looks at files so, and bfs reads folders.

use std::ffi::{c_char, c_int, c_long};

use super::files::{looked, opened};
use super::limits::before_prctl;
use crate::{real, watch};

/// # Safety
/// As syscall(2).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    before(number, a);
    let call = match number {
        libc::SYS_statx | libc::SYS_newfstatat | libc::SYS_openat | libc::SYS_openat2 => {
            watch::begin()
        }
        _ => None,
    };
    // SAFETY: as the caller says.
    let answer = unsafe { real::syscall(number, a, b, c, d, e, f) };
    // What fails is -1, and a descriptor is small.
    let short = answer as c_int;
    let path = (a as c_int, b as *const c_char);
    match number {
        libc::SYS_statx => looked(call, short, e as *const libc::statx, path),
        libc::SYS_newfstatat => looked(call, short, c as *const libc::stat, path),
        libc::SYS_openat | libc::SYS_openat2 => {
            let flags = if number == libc::SYS_openat { c as c_int } else { libc::O_RDONLY };
            opened(call, short, path, flags);
        }
        _ => {}
    }
    answer
}

fn before(number: c_long, first: usize) {
    match number {
        libc::SYS_getdents64 => watch::reads(first as c_int, watch::Start::Not),
        libc::SYS_seccomp => watch::turn_off(),
        libc::SYS_prctl => before_prctl(first),
        libc::SYS_unlinkat | libc::SYS_renameat2 => watch::removes(),
        libc::SYS_unshare
        | libc::SYS_setns
        | libc::SYS_chroot
        | libc::SYS_pivot_root
        | libc::SYS_umount2
        | libc::SYS_setuid
        | libc::SYS_setreuid
        | libc::SYS_setresuid
        | libc::SYS_setgid
        | libc::SYS_setregid
        | libc::SYS_setresgid
        | libc::SYS_setgroups
        | libc::SYS_setfsuid
        | libc::SYS_setfsgid
        | libc::SYS_capset
        | libc::SYS_landlock_restrict_self => watch::end_pool(),
        _ => {}
    }
}
