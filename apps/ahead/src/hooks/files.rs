//! Files that the program looks at and opens. Each function has the arguments of the C library's; the mode of `open`,
//! which is passed only where a file is made, is handed on as it came in its register.
//!
//! A thread that is cancelled within the C library's function is unwound through ours (`C-unwind`), which holds nothing
//! meanwhile.

use std::ffi::{CStr, c_char, c_int, c_uint};

use crate::real;
use crate::unnumbered::At;
use crate::watch::{self, Call, Found};

/// Identity of a file, where a call has written what it found.
pub(super) trait Identified {
    fn found(&self) -> Found;
}

impl Identified for libc::stat {
    fn found(&self) -> Found {
        Found {
            device: self.st_dev,
            inode: self.st_ino,
            is_folder: self.st_mode & libc::S_IFMT == libc::S_IFDIR,
        }
    }
}

impl Identified for libc::statx {
    fn found(&self) -> Found {
        Found {
            device: libc::makedev(self.stx_dev_major, self.stx_dev_minor),
            inode: self.stx_ino,
            is_folder: libc::mode_t::from(self.stx_mode) & libc::S_IFMT == libc::S_IFDIR,
        }
    }
}

pub(super) fn looked(
    call: Option<Call>,
    answer: c_int,
    found: *const impl Identified,
    (at, path): (c_int, *const c_char),
) {
    let Some(call) = call else { return };
    if answer != 0 {
        return call.failed();
    }
    // SAFETY: the call has succeeded and written it.
    let found = unsafe { &*found }.found();
    // SAFETY: the call has succeeded, and so read it as a text that ends with a zero, or needs none.
    call.looked(found, unsafe { At::of_call(at, path) });
}

pub(super) fn opened(
    call: Option<Call>,
    descriptor: c_int,
    (at, path): (c_int, *const c_char),
    flags: c_int,
) {
    let Some(call) = call else { return };
    if descriptor < 0 {
        return call.failed();
    }
    // SAFETY: the call has succeeded, and so read it as a text that ends with a zero.
    call.opened(descriptor, at, unsafe { CStr::from_ptr(path) }, flags);
}

macro_rules! looks {
    ($($name:ident($($word:ident: $type:ty),*), $buffer:ident, $from:expr, $path:ident;)*) => { $(
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($word: $type),*) -> c_int {
            let call = watch::begin();
            // SAFETY: as the caller says.
            let answer = unsafe { real::$name($($word),*) };
            looked(call, answer, $buffer, ($from, $path));
            answer
        }
    )* };
}

looks! {
    stat(path: *const c_char, found: *mut libc::stat), found, libc::AT_FDCWD, path;
    stat64(path: *const c_char, found: *mut libc::stat), found, libc::AT_FDCWD, path;
    lstat(path: *const c_char, found: *mut libc::stat), found, libc::AT_FDCWD, path;
    lstat64(path: *const c_char, found: *mut libc::stat), found, libc::AT_FDCWD, path;
    fstatat(at: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int), found, at, path;
    fstatat64(at: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int), found, at, path;
    __xstat(version: c_int, path: *const c_char, found: *mut libc::stat), found, libc::AT_FDCWD, path;
    __xstat64(version: c_int, path: *const c_char, found: *mut libc::stat), found, libc::AT_FDCWD, path;
    __lxstat(version: c_int, path: *const c_char, found: *mut libc::stat), found, libc::AT_FDCWD, path;
    __lxstat64(version: c_int, path: *const c_char, found: *mut libc::stat), found, libc::AT_FDCWD, path;
    __fxstatat(version: c_int, at: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int), found, at, path;
    __fxstatat64(version: c_int, at: c_int, path: *const c_char, found: *mut libc::stat, flags: c_int), found, at, path;
    statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, found: *mut libc::statx), found, at, path;
}

macro_rules! opens {
    ($($name:ident($($word:ident: $type:ty),*), $from:expr, $path:ident, $flags:ident;)*) => { $(
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($word: $type),*) -> c_int {
            let call = watch::begin();
            // SAFETY: as the caller says.
            let answer = unsafe { real::$name($($word),*) };
            opened(call, answer, ($from, $path), $flags);
            answer
        }
    )* };
}

opens! {
    open(path: *const c_char, flags: c_int, mode: c_uint), libc::AT_FDCWD, path, flags;
    open64(path: *const c_char, flags: c_int, mode: c_uint), libc::AT_FDCWD, path, flags;
    openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint), at, path, flags;
    openat64(at: c_int, path: *const c_char, flags: c_int, mode: c_uint), at, path, flags;
    __open_2(path: *const c_char, flags: c_int), libc::AT_FDCWD, path, flags;
    __open64_2(path: *const c_char, flags: c_int), libc::AT_FDCWD, path, flags;
    __openat_2(at: c_int, path: *const c_char, flags: c_int), at, path, flags;
    __openat64_2(at: c_int, path: *const c_char, flags: c_int), at, path, flags;
}

macro_rules! streams {
    ($($name:ident;)*) => { $(
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
            let call = watch::begin();
            // SAFETY: as the caller says.
            let stream = unsafe { real::$name(path, mode) };
            if stream.is_null() {
                opened(call, -1, (libc::AT_FDCWD, path), libc::O_RDONLY);
            } else {
                // SAFETY: a stream that the C library has just opened.
                let descriptor = unsafe { libc::fileno(stream) };
                // One that is written is taken for one that is read: it is rare, and a guess.
                opened(call, descriptor, (libc::AT_FDCWD, path), libc::O_RDONLY);
            }
            stream
        }
    )* };
}

streams! {
    fopen;
    fopen64;
}
