//! The calling thread makes one call after the other.

use std::os::fd::OwnedFd;

use kumiki_sys::directory::getdents64;
use rustix::fs::{FileType, Mode, StatxAttributes, makedev};
use rustix::io::Errno;

use super::{Calls, Meta, Open, Read, Stat, WANTED, open_flags, stat_flags};

/// No other thread, no memory for batches.
pub(crate) struct Plain;

impl Calls for Plain {
    fn stat<'a>(
        &mut self,
        batch: impl Iterator<Item = Stat<'a>>,
        results: &mut Vec<Result<Meta, Errno>>,
        meanwhile: impl FnOnce(),
    ) {
        meanwhile();
        results.extend(batch.map(|stat| {
            let flags = stat_flags(stat.follow);
            rustix::fs::statx(stat.directory, stat.name, flags, WANTED).map(|found| Meta {
                kind: FileType::from_raw_mode(found.stx_mode.into()),
                links: found.stx_nlink,
                device: makedev(found.stx_dev_major, found.stx_dev_minor),
                inode: found.stx_ino,
                blocks: found.stx_blocks,
                size_bytes: found.stx_size,
                mount: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            })
        }));
    }

    fn open<'a>(
        &mut self,
        batch: impl Iterator<Item = Open<'a>>,
        results: &mut Vec<Result<OwnedFd, Errno>>,
    ) {
        results.extend(batch.map(|open| {
            let flags = open_flags(open.follow);
            rustix::fs::openat(open.directory, open.name, flags, Mode::empty())
        }));
    }

    fn read<'a>(
        &mut self,
        batch: impl Iterator<Item = Read<'a>>,
        results: &mut Vec<Result<usize, Errno>>,
    ) {
        results.extend(batch.map(|read| getdents64(read.directory, read.buffer)));
    }

    fn close(&mut self, batch: &mut Vec<OwnedFd>) {
        batch.clear();
    }
}
