//! What stat(2) tells of a file.

use std::ffi::CStr;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use kumiki_sys::syscall;
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::Operation;
use super::output::{descriptor, name};
use crate::request::Request;

/// fstatat(2) (newfstatat of x86-64): what there is to know of `path`, relative
/// to `dir`; with [`AtFlags::EMPTY_PATH`] and an empty path, of `dir` itself.
///
/// Half as much as [`Statx`](super::Statx) tells, a twentieth sooner: 144 bytes
/// travel from the thread that made the call, not 256. The kernel writes them into
/// the operation, where [`stat`](Self::stat) finds them.
pub struct Fstatat<F, P> {
    dir: F,
    path: P,
    flags: AtFlags,
    filled: bool,
    stat: MaybeUninit<Stat>,
}

impl<F: AsFd, P: AsRef<CStr>> Fstatat<F, P> {
    /// The call with these arguments, to be made.
    #[inline]
    pub const fn new(dir: F, path: P, flags: AtFlags) -> Self {
        Fstatat { dir, path, flags, filled: false, stat: MaybeUninit::uninit() }
    }

    /// Attributes that the last call found; `None` if it failed or was not made.
    #[inline]
    pub fn stat(&self) -> Option<&Stat> {
        match self.filled {
            // SAFETY: the kernel wrote all of it.
            true => Some(unsafe { self.stat.assume_init_ref() }),
            false => None,
        }
    }

    /// The directory and the path.
    #[inline]
    pub fn into_parts(self) -> (F, P) {
        (self.dir, self.path)
    }
}

const _: () = assert!(size_of::<Stat>() == if cfg!(target_arch = "x86_64") { 144 } else { 128 });

// SAFETY: the kernel writes one struct stat, to the field of that size; the path
// is owned or borrowed, for reading.
unsafe impl<F: AsFd, P: AsRef<CStr>> Operation for Fstatat<F, P> {
    type Output = Result<(), Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        self.filled = false;
        let to = self.stat.as_mut_ptr() as u64;
        let flags = self.flags.bits() as u64;
        Request::new(libc::SYS_newfstatat, [descriptor(&self.dir), name(&self.path), to, flags])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        let result = syscall::result(ret_val);
        self.filled = result.is_ok();
        result.map(drop)
    }
}

impl<F: fmt::Debug, P: fmt::Debug> fmt::Debug for Fstatat<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fstatat")
            .field("dir", &self.dir)
            .field("path", &self.path)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}
