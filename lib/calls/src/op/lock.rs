//! Locks on files, between processes. They belong to the open file, not to a thread or
//! process, so that any thread may acquire and release them.

use std::os::fd::AsFd;

use kumiki_sys::syscall;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::Operation;
use super::output::descriptor;
use crate::request::Request;

operation! {
    /// flock(2): locks or unlocks a whole file.
    pub struct Flock<F: AsFd> { file: F, operation: FlockOperation }
    |op| Request::new(libc::SYS_flock, [descriptor(&op.file), op.operation as u64]) => ()
}

/// A range of bytes of a file and how it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// Shared, exclusive or not.
    pub kind: LockKind,
    /// First byte, from the start of the file.
    pub start: u64,
    /// Number of bytes; 0 means to the end, however long the file grows.
    pub length: u64,
}

/// Locks that others may hold on the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Others may hold shared locks.
    Shared,
    /// Nobody else.
    Exclusive,
    /// Everybody: no lock.
    Unlocked,
}

impl RangeLock {
    const fn to_raw(self) -> libc::flock {
        let kind = match self.kind {
            LockKind::Shared => libc::F_RDLCK,
            LockKind::Exclusive => libc::F_WRLCK,
            LockKind::Unlocked => libc::F_UNLCK,
        };
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            // Above the greatest offset these turn negative: EINVAL.
            l_start: self.start as i64,
            l_len: self.length as i64,
            l_pid: 0,
        }
    }

    /// `None` where there is no lock.
    const fn from_raw(raw: &libc::flock) -> Option<RangeLock> {
        let kind = match raw.l_type as i32 {
            libc::F_RDLCK => LockKind::Shared,
            libc::F_WRLCK => LockKind::Exclusive,
            _ => return None,
        };
        Some(RangeLock { kind, start: raw.l_start as u64, length: raw.l_len as u64 })
    }
}

/// fcntl(2), `F_OFD_SETLK` and `F_OFD_SETLKW`: locks or unlocks some bytes of a
/// file for its open file description.
#[derive(Debug)]
pub struct OfdSetlk<F> {
    file: F,
    lock: libc::flock,
    command: i32,
}

impl<F: AsFd> OfdSetlk<F> {
    /// The call that fails with `EAGAIN` where somebody else has a lock.
    #[inline]
    pub const fn new(file: F, lock: RangeLock) -> Self {
        OfdSetlk { file, lock: lock.to_raw(), command: libc::F_OFD_SETLK }
    }

    /// The call that waits until nobody else has a lock.
    #[inline]
    pub const fn waiting(file: F, lock: RangeLock) -> Self {
        OfdSetlk { file, lock: lock.to_raw(), command: libc::F_OFD_SETLKW }
    }
}

// SAFETY: the kernel reads one struct flock, the field of that type.
unsafe impl<F: AsFd> Operation for OfdSetlk<F> {
    type Output = Result<(), Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let lock = &raw const self.lock as u64;
        Request::new(libc::SYS_fcntl, [descriptor(&self.file), self.command as u64, lock])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        syscall::result(ret_val).map(drop)
    }
}

/// fcntl(2), `F_OFD_GETLK`: a lock of somebody else that is in the way of this
/// one; `None` if it could be had.
#[derive(Debug)]
pub struct OfdGetlk<F> {
    file: F,
    wanted: RangeLock,
    found: libc::flock,
}

impl<F: AsFd> OfdGetlk<F> {
    /// The call with these arguments, to be made.
    #[inline]
    pub const fn new(file: F, lock: RangeLock) -> Self {
        OfdGetlk { file, wanted: lock, found: lock.to_raw() }
    }
}

// SAFETY: the kernel reads and writes one struct flock, the field of that type.
unsafe impl<F: AsFd> Operation for OfdGetlk<F> {
    type Output = Result<Option<RangeLock>, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        self.found = self.wanted.to_raw();
        let lock = &raw mut self.found as u64;
        Request::new(libc::SYS_fcntl, [descriptor(&self.file), libc::F_OFD_GETLK as u64, lock])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        syscall::result(ret_val).map(|_| RangeLock::from_raw(&self.found))
    }
}
