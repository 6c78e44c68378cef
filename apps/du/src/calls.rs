//! The system calls of a walk, in batches of one kind.

mod batched;
mod crowd;
mod parallel;
mod plain;

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use kumiki_parasc::Operation;
use kumiki_parasc::op::{Close, Fstatat, Getdents64, Openat};
use rustix::fs::{AtFlags, Mode, OFlags};

pub(crate) use batched::Batched;
pub(crate) use crowd::Crowd;
pub(crate) use parallel::Parallel;
pub(crate) use plain::Plain;

/// A maker of system calls.
pub(crate) trait Calls {
    /// Makes the calls of a batch, in any order; results come in the batch's.
    /// `meanwhile` is called once, while others are at the calls if there are
    /// others.
    fn make<O: Operation>(&mut self, batch: &mut [O], meanwhile: impl FnOnce()) -> Vec<O::Output>;
}

/// Asks for what is known of a name.
pub(crate) type Stat<'a> = Fstatat<BorrowedFd<'a>, &'a CStr>;

/// `follow`: of what a symbolic link leads to, instead of the link.
pub(crate) fn stat<'a>(directory: BorrowedFd<'a>, name: &'a CStr, follow: bool) -> Stat<'a> {
    let nofollow = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    // Looking at a name mounts nothing.
    Fstatat::new(directory, name, AtFlags::NO_AUTOMOUNT | nofollow)
}

/// Asks for a directory to read; `follow`: through a symbolic link, too.
pub(crate) fn open<'a>(
    directory: BorrowedFd<'a>,
    name: &'a CStr,
    follow: bool,
) -> Openat<BorrowedFd<'a>, &'a CStr> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOCTTY | nofollow;
    Openat::new(directory, name, flags, Mode::empty())
}

/// Asks for the next entries of a directory.
pub(crate) type Read<'a> = Getdents64<BorrowedFd<'a>, &'a mut [u8]>;

/// An error of close(2) tells of lost writes, and there were none.
pub(crate) fn close(calls: &mut impl Calls, batch: &mut Vec<Close>) {
    calls.make(batch, || ());
    batch.clear();
}
