//! What all functions are given: a directory, and names one after the other.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;

use kumiki_parasc::op::CWD;
use rustix::io::Errno;

use crate::failure::Failure;

/// The directory that relative paths start from.
pub(super) fn directory<'a>(fd: c_int) -> Result<BorrowedFd<'a>, Failure> {
    if fd == libc::AT_FDCWD {
        return Ok(CWD);
    }
    if fd < 0 {
        return Err(Failure::new(
            libc::EBADF,
            format!("directory {fd}: descriptors are from 0 on"),
        ));
    }
    // SAFETY: not -1; the kernel says what is no open directory.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The names that stand one after the other, each with a zero at its end.
///
/// # Safety
/// `names` has `size` bytes, that stay as they are.
pub(super) unsafe fn names<'a>(
    names: *const c_char,
    size: usize,
    n: usize,
) -> Result<Vec<&'a CStr>, Failure> {
    if n == 0 {
        return Ok(Vec::new());
    }
    if names.is_null() {
        return Err(Failure::invalid("the place of the names is a null pointer"));
    }
    // SAFETY: not null, and so many, the caller says.
    let mut rest = unsafe { std::slice::from_raw_parts(names.cast::<u8>(), size) };
    let mut found = Vec::with_capacity(n.min(size));
    for at in 0..n {
        let name = CStr::from_bytes_until_nul(rest).map_err(|_| {
            Failure::invalid(format!(
                "{size} bytes of names hold {at}, not {n}: each has a zero at its end"
            ))
        })?;
        rest = rest.get(name.count_bytes() + 1..).unwrap_or_default();
        found.push(name);
    }
    Ok(found)
}

/// A place for `n` of these.
///
/// # Safety
/// `place` has room for `n`, which nobody else uses.
pub(super) unsafe fn room<'a, T>(
    what: &str,
    place: *mut T,
    n: usize,
) -> Result<&'a mut [T], Failure> {
    if n == 0 {
        return Ok(&mut []);
    }
    if place.is_null() {
        return Err(Failure::invalid(format!("the place for {what} is a null pointer")));
    }
    // SAFETY: not null, and so many, the caller says.
    Ok(unsafe { std::slice::from_raw_parts_mut(place, n) })
}

/// Tells the errors of outputs, and how many there are.
pub(super) fn write_errors<T>(outputs: &[Result<T, Errno>], errors: &mut [c_int]) -> c_int {
    let mut failed = 0;
    for (output, error) in outputs.iter().zip(errors) {
        *error = output.as_ref().err().map_or(0, |errno| errno.raw_os_error());
        failed += c_int::from(*error != 0);
    }
    failed
}
