//! Files: open and close, position, length.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use kumiki_sys::syscall;
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, ResolveFlags, SeekFrom};
use rustix::io::Errno;

use super::Operation;
use super::output::{descriptor, name, typed};
use crate::request::Request;

operation! {
    /// openat(2): opens `path`, relative to `dir`.
    ///
    /// The flags go to the kernel as they are; add [`OFlags::CLOEXEC`] unless programs
    /// executed later should get the file.
    pub struct Openat<F: AsFd, P: AsRef<CStr>> { dir: F, path: P, flags: OFlags, mode: Mode }
    |op| Request::new(
        libc::SYS_openat,
        [descriptor(&op.dir), name(&op.path), op.flags.bits() as u64, op.mode.as_raw_mode() as u64],
    ) => OwnedFd
}

/// openat2(2), since Linux 5.6: opens `path`, relative to `dir`, with control over how it
/// is resolved. Flags that the kernel does not know are an error.
#[derive(Debug)]
pub struct Openat2<F, P> {
    dir: F,
    path: P,
    how: OpenHow,
}

/// `struct open_how`, include/uapi/linux/openat2.h.
#[derive(Debug)]
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

impl<F: AsFd, P: AsRef<CStr>> Openat2<F, P> {
    /// The call with these arguments, to be made. A mode goes with flags that
    /// make a file, and with no others.
    #[inline]
    pub const fn new(dir: F, path: P, flags: OFlags, mode: Mode, resolve: ResolveFlags) -> Self {
        let how = OpenHow {
            flags: flags.bits() as u64,
            mode: mode.as_raw_mode() as u64,
            resolve: resolve.bits(),
        };
        Openat2 { dir, path, how }
    }

    /// The directory and the path.
    #[inline]
    pub fn into_parts(self) -> (F, P) {
        (self.dir, self.path)
    }
}

// SAFETY: the kernel reads the path and one struct open_how, which the operation
// owns or borrows; what it gives is a new descriptor.
unsafe impl<F: AsFd, P: AsRef<CStr>> Operation for Openat2<F, P> {
    type Output = Result<OwnedFd, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let how = &raw const self.how as u64;
        let args = [descriptor(&self.dir), name(&self.path), how, size_of::<OpenHow>() as u64];
        Request::new(libc::SYS_openat2, args)
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the engine hands over what the kernel returned for this call,
        // once.
        unsafe { typed(ret_val) }
    }
}

/// close(2): closes the descriptor.
///
/// Linux closes it whatever the result; an error is about earlier writes (`EIO`,
/// `ENOSPC`, `EDQUOT`). The operation owns the descriptor until the call is made: dropped
/// before that, it closes the descriptor at once; given back by a cancelled or refused
/// request, it can be requested again.
///
/// In a child of fork(2), a copy of the operation closes the descriptor only if no thread
/// had begun the call. If one had, the number may already belong to another file in the
/// child: the copy counts as complete, and a descriptor that is still open stays open.
#[derive(Debug)]
pub struct Close {
    file: Option<OwnedFd>,
}

impl Close {
    /// The call that closes `file`, to be made.
    #[inline]
    pub fn new(file: impl Into<OwnedFd>) -> Close {
        Close { file: Some(file.into()) }
    }
}

// SAFETY: no pointers; the descriptor is owned, and given up when the kernel has
// closed it.
unsafe impl Operation for Close {
    type Output = Result<(), Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        // Closed before: its number may be somebody else's by now.
        let number = self.file.as_ref().map_or(-1, OwnedFd::as_raw_fd);
        Request::new(libc::SYS_close, [number as u64])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // Not ours to close, whatever the result says.
        let _ = self.file.take().map(OwnedFd::into_raw_fd);
        syscall::result(ret_val).map(drop)
    }
}

operation! {
    /// lseek(2): moves the open file's position and returns it, in bytes from the start.
    pub struct Lseek<F: AsFd> { file: F, to: SeekFrom }
    |op| {
        let (offset, whence) = match op.to {
            SeekFrom::Start(offset) => (offset, libc::SEEK_SET),
            SeekFrom::Current(offset) => (offset as u64, libc::SEEK_CUR),
            SeekFrom::End(offset) => (offset as u64, libc::SEEK_END),
            SeekFrom::Data(offset) => (offset, libc::SEEK_DATA),
            SeekFrom::Hole(offset) => (offset, libc::SEEK_HOLE),
        };
        Request::new(libc::SYS_lseek, [descriptor(&op.file), offset, whence as u64])
    } => u64
}

operation! {
    /// ftruncate(2): makes the file `length` bytes long.
    pub struct Ftruncate<F: AsFd> { file: F, length: u64 }
    |op| Request::new(libc::SYS_ftruncate, [descriptor(&op.file), op.length]) => ()
}

operation! {
    /// truncate(2): as [`Ftruncate`], by name; of what a symbolic link leads to.
    pub struct Truncate<P: AsRef<CStr>> { path: P, length: u64 }
    |op| Request::new(libc::SYS_truncate, [name(&op.path), op.length]) => ()
}

operation! {
    /// fallocate(2): reserves, frees, zeroes, inserts or removes `length` bytes
    /// at `offset`, by `flags`.
    pub struct Fallocate<F: AsFd> { file: F, flags: FallocateFlags, offset: u64, length: u64 }
    |op| Request::new(
        libc::SYS_fallocate,
        [descriptor(&op.file), op.flags.bits() as u64, op.offset, op.length],
    ) => ()
}

operation! {
    /// posix_fadvise(2): announces how `length` bytes at `offset` will be used; a length
    /// of 0 means to the end.
    pub struct Fadvise<F: AsFd> { file: F, offset: u64, length: u64, advice: Advice }
    |op| Request::new(
        libc::SYS_fadvise64,
        [descriptor(&op.file), op.offset, op.length, op.advice as u64],
    ) => ()
}
