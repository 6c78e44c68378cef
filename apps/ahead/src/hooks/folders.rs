//! Folders that the program begins to read.

use std::ffi::{c_char, c_int, c_void};

use crate::unnumbered::At;
use crate::{real, watch};

/// Its descriptor, of which the C library's own stays the owner.
fn descriptor(folder: *mut libc::DIR) -> c_int {
    if folder.is_null() {
        return -1;
    }
    // SAFETY: a folder that the C library has just opened.
    unsafe { libc::dirfd(folder) }
}

/// # Safety
/// As opendir(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn opendir(path: *const c_char) -> *mut libc::DIR {
    let began = watch::opening();
    // SAFETY: as the caller says.
    let folder = unsafe { real::opendir(path) };
    let path = match folder.is_null() {
        true => At::NONE,
        // SAFETY: the C library has just read it as a text that ends with a zero.
        false => unsafe { At::of_call(libc::AT_FDCWD, path) },
    };
    watch::opened_folder(began, descriptor(folder), path);
    folder
}

/// # Safety
/// As fdopendir(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fdopendir(open: c_int) -> *mut libc::DIR {
    // SAFETY: as the caller says.
    let folder = unsafe { real::fdopendir(open) };
    watch::visit(descriptor(folder), At::NONE);
    folder
}

/// # Safety
/// As getdents64(2).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getdents64(open: c_int, buffer: *mut c_void, length: usize) -> isize {
    watch::reads(open, watch::Start::Too);
    // SAFETY: as the caller says.
    unsafe { real::getdents64(open, buffer, length) }
}

macro_rules! scans {
    ($($name:ident;)*) => { $(
        /// # Safety
        /// As scandir(3).
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            names: *mut c_void,
            filter: *const c_void,
            order: *const c_void,
        ) -> c_int {
            watch::scans(path);
            // SAFETY: as the caller says.
            unsafe { real::$name(path, names, filter, order) }
        }
    )* };
}

scans! {
    scandir;
    scandir64;
}
