//! Reading directories many entries at a time.

use std::os::fd::{AsRawFd, BorrowedFd};

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
