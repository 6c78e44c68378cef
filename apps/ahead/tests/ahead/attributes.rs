//! Attributes of what a FUSE server of tests and benches has.

use std::time::UNIX_EPOCH;

use fuser::{FileAttr, FileType, INodeNo};

/// Attributes of a file or folder of root's, which was never changed.
pub(crate) fn attributes(ino: INodeNo, kind: FileType, size: u64, perm: u16) -> FileAttr {
    FileAttr {
        ino,
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        flags: 0,
        blksize: 4096,
    }
}
