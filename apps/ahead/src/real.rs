//! The functions that ours stand in front of: those of the next library that has them, so that others who are
//! preloaded (libeatmydata, fakeroot) keep their place.
//!
//! A name is looked up once, when the library is loaded. A call that comes before that looks it up itself, and so does each of the
//! rare ones, which no handler of a signal may make: the start of all programs is not to wait for these.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::errno;

/// A function of the C library by its name.
#[derive(Debug)]
struct Symbol {
    name: &'static CStr,
    /// Version of a function that today's headers have no more, which is found by it alone.
    version: Option<&'static CStr>,
    at: AtomicPtr<c_void>,
}

impl Symbol {
    const fn new(name: &'static CStr, version: Option<&'static CStr>) -> Self {
        Symbol { name, version, at: AtomicPtr::new(ptr::null_mut()) }
    }

    fn get(&self) -> Option<*mut c_void> {
        let at = self.at.load(Ordering::Relaxed);
        if !at.is_null() {
            return Some(at);
        }
        let at = match self.version {
            // SAFETY: both are texts that end with a zero; the handle stands for "the next one".
            Some(version) => unsafe {
                libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr())
            },
            // SAFETY: a text that ends with a zero; the handle stands for "the next one".
            None => unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) },
        };
        self.at.store(at, Ordering::Relaxed);
        (!at.is_null()).then_some(at)
    }
}

/// The version in which glibc began on this processor.
const FIRST: &CStr = if cfg!(target_arch = "x86_64") { c"GLIBC_2.2.5" } else { c"GLIBC_2.17" };

/// Version of its functions that take a folder's descriptor.
const AT: &CStr = if cfg!(target_arch = "x86_64") { c"GLIBC_2.4" } else { c"GLIBC_2.17" };

/// Answer of a function that there is not, with `errno` ENOSYS.
trait Missing {
    fn missing() -> Self;
}

impl Missing for c_int {
    fn missing() -> Self {
        no_such_function();
        -1
    }
}

impl Missing for c_long {
    fn missing() -> Self {
        no_such_function();
        -1
    }
}

impl Missing for usize {
    fn missing() -> Self {
        0
    }
}

impl Missing for isize {
    fn missing() -> Self {
        no_such_function();
        -1
    }
}

impl<T> Missing for *mut T {
    fn missing() -> Self {
        no_such_function();
        ptr::null_mut()
    }
}

fn no_such_function() {
    errno::set(libc::ENOSYS);
}

macro_rules! functions {
    ($names:ident;
     $($name:ident$([$version:expr])?($($word:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            #[doc = concat!("Calls the next `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As of that function.
            pub(crate) unsafe fn $name($($word: $type),*) -> $answer {
                let Some(at) = $names::$name.get() else { return <$answer>::missing() };
                // SAFETY: the C library's function of this name has this type.
                let call = unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($type),*) -> $answer>(at)
                };
                // SAFETY: as the caller says.
                unsafe { call($($word),*) }
            }
        )*

        #[expect(non_upper_case_globals, reason = "each has its function's name")]
        mod $names {
            use super::*;
            $(pub(super) static $name: Symbol = Symbol::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                functions!(@version $($version)?),
            );)*
            #[allow(dead_code, reason = "rare ones are looked up when they are called")]
            pub(super) static ALL: &[&Symbol] = &[$(&$name),*];
        }
    };
    (@version) => { None };
    (@version $version:expr) => { Some($version) };
}

/// Looks all names up, but for the rare ones.
pub(crate) fn find_all() {
    symbol::ALL.iter().for_each(|symbol| _ = symbol.get());
}

functions! {
    rare;
    ftw(path: *const c_char, callback: *const c_void, descriptors: c_int) -> c_int;
    ftw64(path: *const c_char, callback: *const c_void, descriptors: c_int) -> c_int;
    nftw(path: *const c_char, callback: *const c_void, descriptors: c_int, flags: c_int) -> c_int;
    nftw64(path: *const c_char, callback: *const c_void, descriptors: c_int, flags: c_int) -> c_int;
    fts_read(walk: *mut c_void) -> *mut c_void;
    fts64_read(walk: *mut c_void) -> *mut c_void;
}

functions! {
    symbol;
    opendir(path: *const c_char) -> *mut libc::DIR;
    fdopendir(descriptor: c_int) -> *mut libc::DIR;
    getdents64(open: c_int, buffer: *mut c_void, length: usize) -> isize;
    scandir(path: *const c_char, names: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int;
    scandir64(path: *const c_char, names: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int;
    stat(path: *const c_char, buffer: *mut libc::stat) -> c_int;
    stat64(path: *const c_char, buffer: *mut libc::stat) -> c_int;
    lstat(path: *const c_char, buffer: *mut libc::stat) -> c_int;
    lstat64(path: *const c_char, buffer: *mut libc::stat) -> c_int;
    fstatat(at: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int) -> c_int;
    fstatat64(at: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int) -> c_int;
    __xstat[FIRST](version: c_int, path: *const c_char, buffer: *mut libc::stat) -> c_int;
    __xstat64[FIRST](version: c_int, path: *const c_char, buffer: *mut libc::stat) -> c_int;
    __lxstat[FIRST](version: c_int, path: *const c_char, buffer: *mut libc::stat) -> c_int;
    __lxstat64[FIRST](version: c_int, path: *const c_char, buffer: *mut libc::stat) -> c_int;
    __fxstatat[AT](version: c_int, at: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int) -> c_int;
    __fxstatat64[AT](version: c_int, at: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int) -> c_int;
    statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, buffer: *mut libc::statx) -> c_int;
    open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    openat64(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    __open_2(path: *const c_char, flags: c_int) -> c_int;
    __open64_2(path: *const c_char, flags: c_int) -> c_int;
    __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    unlink(path: *const c_char) -> c_int;
    unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    rmdir(path: *const c_char) -> c_int;
    remove(path: *const c_char) -> c_int;
    rename(from: *const c_char, to: *const c_char) -> c_int;
    renameat(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int;
    renameat2(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int;
    umount(path: *const c_char) -> c_int;
    umount2(path: *const c_char, flags: c_int) -> c_int;
    chroot(path: *const c_char) -> c_int;
    pivot_root(new: *const c_char, old: *const c_char) -> c_int;
    setuid(user: c_uint) -> c_int;
    seteuid(user: c_uint) -> c_int;
    setreuid(real: c_uint, effective: c_uint) -> c_int;
    setresuid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    setgid(group: c_uint) -> c_int;
    setegid(group: c_uint) -> c_int;
    setregid(real: c_uint, effective: c_uint) -> c_int;
    setresgid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    setgroups(count: usize, groups: *const c_uint) -> c_int;
    initgroups(user: *const c_char, group: c_uint) -> c_int;
    setfsuid(user: c_uint) -> c_int;
    setfsgid(group: c_uint) -> c_int;
    capset(header: *mut c_void, data: *const c_void) -> c_int;
    __pthread_get_minstack(attributes: *const libc::pthread_attr_t) -> usize;
    unshare(flags: c_int) -> c_int;
    setns(descriptor: c_int, kind: c_int) -> c_int;
    prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int;
    syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
}

/// Ends this thread.
///
/// # Safety
/// As `pthread_exit`.
pub(crate) unsafe fn pthread_exit(answer: *mut c_void) -> ! {
    static NEXT: Symbol = Symbol::new(c"pthread_exit", None);
    let Some(at) = NEXT.get() else { std::process::abort() };
    // SAFETY: the C library's function of this name has this type.
    let call = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_void) -> !>(at)
    };
    // SAFETY: as the caller says.
    unsafe { call(answer) }
}
