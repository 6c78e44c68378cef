//! Memory that can be executed, and memory that is not kept in place.

use std::ffi::{OsStr, c_void};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MprotectFlags, mprotect, munlock};

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

/// Opens a mapping for reading and writing that was made for neither. Between the two it is unlocked:
/// in a program that keeps all it will map in memory (mlockall(2), MCL_FUTURE) each of these would be
/// eight MiB of it, of which a request needs some pages.
///
/// # Safety
/// It is a mapping of so many bytes, whose content nobody needs.
pub(crate) unsafe fn open_unlocked(at: *mut c_void, bytes: usize) -> rustix::io::Result<()> {
    // Refused, it is kept as the program wants it.
    // SAFETY: the caller's promise.
    let _ = unsafe { munlock(at, bytes) };
    // SAFETY: the caller's promise.
    unsafe { mprotect(at, bytes, MprotectFlags::READ | MprotectFlags::WRITE) }
}
