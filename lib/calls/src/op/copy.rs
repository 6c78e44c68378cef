//! Bytes from file to file, without passing through the process.
//!
//! Without an offset a file is read or written at its position, which advances. With one
//! the position stays, and the kernel advances the operation's offset: requested again,
//! the operation continues where it stopped.

use std::os::fd::AsFd;

use rustix::pipe::SpliceFlags;

use super::output::descriptor;
use crate::request::Request;

operation! {
    /// copy_file_range(2): copies up to `length` bytes between two files.
    pub struct CopyFileRange<F: AsFd, T: AsFd> {
        from: F,
        from_offset: Option<u64>,
        to: T,
        to_offset: Option<u64>,
        length: usize,
    }
    |op| Request::new(
        libc::SYS_copy_file_range,
        [
            descriptor(&op.from),
            offset(&mut op.from_offset),
            descriptor(&op.to),
            offset(&mut op.to_offset),
            op.length as u64,
            0,
        ],
    ) => usize
}

operation! {
    /// sendfile(2): copies up to `length` bytes from a file to a socket, a pipe
    /// or another file, at that one's position.
    pub struct Sendfile<T: AsFd, F: AsFd> {
        to: T,
        from: F,
        from_offset: Option<u64>,
        length: usize,
    }
    |op| Request::new(
        libc::SYS_sendfile,
        [
            descriptor(&op.to),
            descriptor(&op.from),
            offset(&mut op.from_offset),
            op.length as u64,
        ],
    ) => usize
}

operation! {
    /// splice(2): moves up to `length` bytes from or to a pipe. A pipe has no
    /// offset.
    pub struct Splice<F: AsFd, T: AsFd> {
        from: F,
        from_offset: Option<u64>,
        to: T,
        to_offset: Option<u64>,
        length: usize,
        flags: SpliceFlags,
    }
    |op| Request::new(
        libc::SYS_splice,
        [
            descriptor(&op.from),
            offset(&mut op.from_offset),
            descriptor(&op.to),
            offset(&mut op.to_offset),
            op.length as u64,
            op.flags.bits() as u64,
        ],
    ) => usize
}

/// Address from which the kernel reads the offset, and which it moves, or null.
#[inline]
fn offset(offset: &mut Option<u64>) -> u64 {
    offset.as_mut().map_or(0, |offset| &raw mut *offset as u64)
}
