//! From memory to the disk.

use std::os::fd::AsFd;

use kumiki_sys::syscall;

use super::output::descriptor;
use crate::request::Request;

operation! {
    /// fsync(2): the file's data and attributes, to the disk.
    pub struct Fsync<F: AsFd> { file: F }
    |op| Request::new(libc::SYS_fsync, [descriptor(&op.file)]) => ()
}

operation! {
    /// fdatasync(2): the file's data, and of its attributes what finding the data
    /// again takes, to the disk.
    pub struct Fdatasync<F: AsFd> { file: F }
    |op| Request::new(libc::SYS_fdatasync, [descriptor(&op.file)]) => ()
}

operation! {
    /// sync_file_range(2): starts or awaits writing out `length` bytes at
    /// `offset`; a length of 0 is to the end. `flags` are
    /// `libc::SYNC_FILE_RANGE_*`. Safe against a power cut it is not: see the
    /// manual page.
    pub struct SyncFileRange<F: AsFd> { file: F, offset: u64, length: u64, flags: u32 }
    |op| Request::new(
        syscall::SYNC_FILE_RANGE,
        [descriptor(&op.file), op.offset, op.length, op.flags as u64],
    ) => ()
}

operation! {
    /// syncfs(2): all of the file system that the file is on, to the disk.
    pub struct Syncfs<F: AsFd> { file: F }
    |op| Request::new(libc::SYS_syncfs, [descriptor(&op.file)]) => ()
}
