//! The system calls of a walk, in batches of one kind.
//!
//! Calls of one batch are independent of each other and may be made in any
//! order; results come in the batch's order.

mod batched;
mod parallel;
mod plain;

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags};
use rustix::io::Errno;

pub(crate) use batched::Batched;
pub(crate) use parallel::Parallel;
pub(crate) use plain::Plain;

/// Asks for what is known of a name.
#[derive(Clone, Copy)]
pub(crate) struct Stat<'a> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a CStr,
    /// Of what a symbolic link leads to, instead of the link.
    pub(crate) follow: bool,
}

/// Asks for a directory to read.
#[derive(Clone, Copy)]
pub(crate) struct Open<'a> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a CStr,
    /// Through a symbolic link, too.
    pub(crate) follow: bool,
}

/// Asks for the next entries of a directory.
pub(crate) struct Read<'a> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) buffer: &'a mut [u8],
}

/// What is known of a file of any kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) kind: FileType,
    pub(crate) links: u32,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Units of 512 bytes.
    pub(crate) blocks: u64,
    pub(crate) size_bytes: u64,
    /// Something is mounted here.
    pub(crate) mount: bool,
}

/// Who makes the calls.
pub(crate) trait Calls {
    /// statx(2); `meanwhile` is called once, while others make the calls if there
    /// are others.
    fn stat<'a>(
        &mut self,
        batch: impl Iterator<Item = Stat<'a>>,
        results: &mut Vec<Result<Meta, Errno>>,
        meanwhile: impl FnOnce(),
    );

    /// openat(2).
    fn open<'a>(
        &mut self,
        batch: impl Iterator<Item = Open<'a>>,
        results: &mut Vec<Result<OwnedFd, Errno>>,
    );

    /// getdents64(2); a result is the number of bytes filled, 0 at the end.
    fn read<'a>(
        &mut self,
        batch: impl Iterator<Item = Read<'a>>,
        results: &mut Vec<Result<usize, Errno>>,
    );

    /// close(2) of all.
    fn close(&mut self, batch: &mut Vec<OwnedFd>);
}

/// What a walk wants to know of a file.
const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::NLINK)
    .union(StatxFlags::INO)
    .union(StatxFlags::BLOCKS)
    .union(StatxFlags::SIZE);

/// Like fstatat(2), looking at a name mounts nothing.
fn stat_flags(follow: bool) -> AtFlags {
    let nofollow = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    AtFlags::NO_AUTOMOUNT | nofollow
}

fn open_flags(follow: bool) -> OFlags {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOCTTY | nofollow
}
