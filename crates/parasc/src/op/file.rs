//! Files: open, read, write.

use std::ffi::CStr;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd, RawFd};

use kumiki_sys::syscall;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Operation;
use super::output::{descriptor, name};
use super::place;
use crate::request::{Place, Request};

operation! {
    /// openat(2): opens `path`, relative to `dir`.
    ///
    /// The flags go to the kernel as they are; give [`OFlags::CLOEXEC`] unless
    /// programs executed later shall have the file.
    pub struct Openat<F: AsFd, P: AsRef<CStr>> { dir: F, path: P, flags: OFlags, mode: Mode }
    |op| Request::new(
        libc::SYS_openat,
        [descriptor(&op.dir), name(&op.path), op.flags.bits() as u64, op.mode.as_raw_mode() as u64],
    )
    .at(match op.flags.contains(OFlags::CREATE) {
        true => place::directory(&op.dir, op.path.as_ref().to_bytes()),
        false => Place::NONE,
    }) => OwnedFd
}

/// close(2): closes the descriptor.
///
/// Linux closes it whatever the result says; an error tells of what was written
/// before (`EIO`, `ENOSPC`, `EDQUOT`). The descriptor is the call's from
/// [`request`](Operation::request) on: if the call is then not made, it stays
/// open until the operation is requested again and the call made. Dropped
/// before, the operation closes it at once.
#[derive(Debug)]
pub struct Close {
    ours: Option<OwnedFd>,
    number: RawFd,
}

impl Close {
    /// The call that closes `file`, to be made.
    #[inline]
    pub fn new(file: impl Into<OwnedFd>) -> Close {
        Close { ours: Some(file.into()), number: -1 }
    }
}

// SAFETY: no pointers; the descriptor is owned, and given up with the request.
unsafe impl Operation for Close {
    type Output = Result<(), Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        if let Some(file) = self.ours.take() {
            self.number = file.into_raw_fd();
        }
        Request::new(libc::SYS_close, [self.number as u64])
    }

    #[inline]
    fn complete(&mut self, ret_val: i64) -> Self::Output {
        // The number may be somebody else's by now.
        self.number = -1;
        syscall::result(ret_val).map(drop)
    }
}

filling! {
    /// read(2): reads at the open file's position, and moves it.
    pub struct Read<F: AsFd> { file: F }
    |op, pointer, room| Request::new(libc::SYS_read, [descriptor(&op.file), pointer, room])
        .at(place::open_file(&op.file))
}

filling! {
    /// pread(2): reads at `offset` bytes from the start.
    pub struct Pread<F: AsFd> { file: F, offset: u64 }
    |op, pointer, room|
        Request::new(libc::SYS_pread64, [descriptor(&op.file), pointer, room, op.offset])
}

operation! {
    /// write(2): writes at the open file's position, and moves it.
    pub struct Write<F: AsFd, B: AsRef<[u8]>> { file: F, data: B }
    |op| {
        let data = op.data.as_ref();
        Request::new(
            libc::SYS_write,
            [descriptor(&op.file), data.as_ptr() as u64, data.len() as u64],
        )
        .at(place::open_file(&op.file))
    } => usize
}

operation! {
    /// pwrite(2): writes at `offset` bytes from the start, or at the end of a
    /// file opened with [`OFlags::APPEND`].
    pub struct Pwrite<F: AsFd, B: AsRef<[u8]>> { file: F, data: B, offset: u64 }
    |op| {
        let data = op.data.as_ref();
        Request::new(
            libc::SYS_pwrite64,
            [descriptor(&op.file), data.as_ptr() as u64, data.len() as u64, op.offset],
        )
    } => usize
}
