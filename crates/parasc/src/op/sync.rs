//! From memory to the disk.

use std::os::fd::AsFd;

use super::output::descriptor;
use crate::request::Request;

operation! {
    /// fsync(2): the file's data and attributes, to the disk.
    pub struct Fsync<F: AsFd> { file: F }
    |op| Request::new(libc::SYS_fsync, [descriptor(&op.file)]) => ()
}
