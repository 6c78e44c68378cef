//! Names that are removed or changed.

use std::ffi::{c_char, c_int};

use kumiki_parasc::op::{Renameat2, Unlinkat};
use rustix::fs::{AtFlags, RenameFlags};

use super::engine::run;
use super::named::{directory, names, room, write_errors};
use crate::failure::{Failure, answer_all};

/// See the header.
///
/// # Safety
/// `list` has `size` bytes; `errors` has room for `n`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_unlink(
    dir_fd: c_int,
    list: *const c_char,
    size: usize,
    n: usize,
    flags: c_int,
    errors: *mut c_int,
) -> c_int {
    answer_all(|| {
        if flags & !libc::AT_REMOVEDIR != 0 {
            return Err(Failure::invalid(format!("flags {flags:#x}: AT_REMOVEDIR is known")));
        }
        let flags = AtFlags::from_bits_retain(flags as u32);
        let dir = directory(dir_fd)?;
        // SAFETY: the caller's promise.
        let names = unsafe { names(list, size, n) }?;
        // SAFETY: the same.
        let errors = unsafe { room("errors", errors, n) }?;
        let mut asked: Vec<_> =
            names.into_iter().map(|name| Unlinkat::new(dir, name, flags)).collect();
        Ok(write_errors(&run(&mut asked), errors))
    })
}

/// See the header.
///
/// # Safety
/// `from` has `from_size` bytes and `to` has `to_size`; `errors` has room for `n`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_rename(
    from_fd: c_int,
    from: *const c_char,
    from_size: usize,
    to_fd: c_int,
    to: *const c_char,
    to_size: usize,
    n: usize,
    errors: *mut c_int,
) -> c_int {
    answer_all(|| {
        let (from_dir, to_dir) = (directory(from_fd)?, directory(to_fd)?);
        // SAFETY: the caller's promise.
        let from = unsafe { names(from, from_size, n) }?;
        // SAFETY: the same.
        let to = unsafe { names(to, to_size, n) }?;
        // SAFETY: the same.
        let errors = unsafe { room("errors", errors, n) }?;
        let renamed = |(from, to)| Renameat2::new(from_dir, from, to_dir, to, RenameFlags::empty());
        let mut asked: Vec<_> = from.into_iter().zip(to).map(renamed).collect();
        Ok(write_errors(&run(&mut asked), errors))
    })
}
