//! From what the kernel returned to a result, and from what an operation holds
//! to an argument.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use kumiki_sys::syscall;
use rustix::io::Errno;

/// Value of a call that does not fail.
pub(crate) trait FromReturn {
    /// The typed form of what the kernel returned.
    ///
    /// # Safety
    /// The kernel returned this value for a call of that meaning, and it is
    /// used once.
    unsafe fn from_return(value: u64) -> Self;
}

impl FromReturn for () {
    #[inline]
    unsafe fn from_return(_: u64) {}
}

impl FromReturn for usize {
    #[inline]
    unsafe fn from_return(value: u64) -> usize {
        value as usize
    }
}

impl FromReturn for u64 {
    #[inline]
    unsafe fn from_return(value: u64) -> u64 {
        value
    }
}

impl FromReturn for i32 {
    #[inline]
    unsafe fn from_return(value: u64) -> i32 {
        value as i32
    }
}

impl FromReturn for OwnedFd {
    #[inline]
    unsafe fn from_return(value: u64) -> OwnedFd {
        // SAFETY: the caller vouches that the call opened it just now, so that
        // nobody else has it.
        unsafe { OwnedFd::from_raw_fd(value as i32) }
    }
}

/// The result of a call that gives a `T`.
///
/// # Safety
/// As for [`FromReturn::from_return`].
#[inline]
pub(crate) unsafe fn typed<T: FromReturn>(ret_val: i64) -> Result<T, Errno> {
    match syscall::result(ret_val) {
        // SAFETY: the caller vouches for it.
        Ok(value) => Ok(unsafe { T::from_return(value) }),
        Err(error) => Err(error),
    }
}

/// A descriptor as an argument.
///
/// It stays open until the call is complete: it could be borrowed from `file`
/// all that time, in which nobody touches `file`.
#[inline]
pub(crate) fn descriptor(file: &impl AsFd) -> u64 {
    file.as_fd().as_raw_fd() as u64
}

/// A name as an argument: its address, valid until the call is complete, for
/// the same reason as in [`descriptor`].
#[inline]
pub(crate) fn name(name: &impl AsRef<CStr>) -> u64 {
    name.as_ref().as_ptr() as u64
}
