//! Memory that can be executed.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// Memory for an image. Its name is what the kernel calls the processes in /proc.
pub(crate) fn memory(path: impl AsRef<Path>) -> rustix::io::Result<OwnedFd> {
    let name = path.as_ref().file_name().unwrap_or(OsStr::new("program"));
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // The kernel takes 249 bytes. Before Linux 6.3 each can be executed, and none says so.
    let name = if name.len() > 200 { OsStr::new("program") } else { name };
    match memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    }
}
