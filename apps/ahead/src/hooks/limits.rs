//! Calls that a process with threads may not make, or after which threads must not do what they do, or hold open what
//! they hold: before them the pool has ended.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::{real, watch};

macro_rules! ends {
    ($($before:ident: $name:ident($($word:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($word: $type),*) -> c_int {
            watch::$before();
            // SAFETY: as the caller says.
            unsafe { real::$name($($word),*) }
        }
    )* };
}

// Refused to a process with threads, or of its one thread alone.
ends! {
    end_pool: unshare(flags: c_int);
    end_pool: setns(descriptor: c_int, kind: c_int);
}

// The threads would keep what the program gives up, or have folders of outside open.
ends! {
    end_pool: chroot(path: *const c_char);
    end_pool: pivot_root(new: *const c_char, old: *const c_char);
    end_pool: setuid(user: c_uint);
    end_pool: seteuid(user: c_uint);
    end_pool: setreuid(real: c_uint, effective: c_uint);
    end_pool: setresuid(real: c_uint, effective: c_uint, saved: c_uint);
    end_pool: setgid(group: c_uint);
    end_pool: setegid(group: c_uint);
    end_pool: setregid(real: c_uint, effective: c_uint);
    end_pool: setresgid(real: c_uint, effective: c_uint, saved: c_uint);
    end_pool: setgroups(count: usize, groups: *const c_uint);
    end_pool: initgroups(user: *const c_char, group: c_uint);
    end_pool: setfsuid(user: c_uint);
    end_pool: setfsgid(group: c_uint);
    end_pool: capset(header: *mut c_void, data: *const c_void);
}

// What is open keeps a file system mounted.
ends! {
    end_pool: umount(path: *const c_char);
    end_pool: umount2(path: *const c_char, flags: c_int);
}

ends! {
    removes: unlink(path: *const c_char);
    removes: unlinkat(at: c_int, path: *const c_char, flags: c_int);
    removes: rmdir(path: *const c_char);
    removes: remove(path: *const c_char);
    removes: rename(from: *const c_char, to: *const c_char);
    removes: renameat(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char);
    removes: renameat2(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint);
}

/// # Safety
/// As prctl(2).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    before_prctl(option as usize);
    // SAFETY: as the caller says.
    unsafe { real::prctl(option, a, b, c, d) }
}

pub(super) fn before_prctl(option: usize) {
    // A filter that follows may end the program for a call of ours.
    match c_int::try_from(option) {
        Ok(libc::PR_SET_SECCOMP) => watch::turn_off(),
        Ok(libc::PR_SET_NO_NEW_PRIVS) => watch::rest(),
        _ => {}
    }
}

/// # Safety
/// As pthread_exit(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_exit(answer: *mut c_void) -> ! {
    // Who lets its first thread end waits for the last one; ours would never be it.
    if rustix::thread::gettid() == rustix::process::getpid() {
        watch::turn_off();
    }
    // SAFETY: as the caller says.
    unsafe { real::pthread_exit(answer) }
}
