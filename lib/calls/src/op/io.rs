//! Bytes from and to files.

use std::os::fd::AsFd;

use super::output::descriptor;
use crate::request::Request;

filling! {
    /// read(2): reads at the open file's position, and moves it.
    pub struct Read<F: AsFd> { file: F }
    |op, pointer, room| Request::new(libc::SYS_read, [descriptor(&op.file), pointer, room])
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
    } => usize
}

operation! {
    /// pwrite(2): writes at `offset` bytes from the start, or at the end of a
    /// file opened with [`OFlags::APPEND`](rustix::fs::OFlags::APPEND).
    pub struct Pwrite<F: AsFd, B: AsRef<[u8]>> { file: F, data: B, offset: u64 }
    |op| {
        let data = op.data.as_ref();
        Request::new(
            libc::SYS_pwrite64,
            [descriptor(&op.file), data.as_ptr() as u64, data.len() as u64, op.offset],
        )
    } => usize
}
