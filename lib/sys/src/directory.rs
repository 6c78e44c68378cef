//! Directories: reading many entries at a time, removing one that others still write to.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::syscall;

/// getdents64(2): fills `buffer` with records of `directory` from its current position
/// and returns the number of bytes filled, 0 at the end.
///
/// `rustix::fs::RawDir` decides itself when to read; this is for callers that batch the
/// reads of many directories.
///
/// # Errors
/// The kernel's: `EINVAL` if not even the next record fits (280 bytes are
/// always enough), `ENOENT` if the directory has been removed, `ENOTDIR`, …
#[inline]
pub fn getdents64(directory: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    let fd = directory.as_raw_fd() as u64;
    let args = [fd, buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0, 0];
    // SAFETY: the kernel writes to no more than `buffer.len()` bytes of `buffer`,
    // which is borrowed mutably until it is done; any bytes are valid there.
    unsafe { syscall::call(libc::SYS_getdents64 as usize, args) }.map(|filled| filled as usize)
}

/// Removes a folder in which a process that is about to end may still make files: QEMU its
/// log, a measured command what it writes. A file made between the listing of the folder
/// and its removal has rmdir(2) refuse; then it is listed again, for up to a second.
pub fn remove_with_company(folder: &Path) {
    let begin = Instant::now();
    while fs::remove_dir_all(folder).is_err_and(|error| error.kind() != ErrorKind::NotFound)
        && begin.elapsed() < Duration::from_secs(1)
    {
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn reads_to_the_end_and_says_what_is_wrong() {
        let folder = std::fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert_eq!(getdents64(folder.as_fd(), &mut [0; 8]), Err(Errno::INVAL));
        let mut buffer = [0; 4096];
        let filled = getdents64(folder.as_fd(), &mut buffer).unwrap();
        assert!(buffer[..filled].windows(10).any(|name| name == b"Cargo.toml"));
        assert_eq!(getdents64(folder.as_fd(), &mut buffer), Ok(0));

        let file = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert_eq!(getdents64(file.unwrap().as_fd(), &mut buffer), Err(Errno::NOTDIR));
    }
}
