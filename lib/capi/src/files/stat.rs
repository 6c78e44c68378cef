//! Attributes of many files.

use std::ffi::{c_char, c_int};

use kumiki_parasc::op::Fstatat;
use rustix::fs::{AtFlags, Stat};

use super::KUMIKI_FILES_ASK;
use super::engine::run;
use super::named::{directory, names, room, write_errors};
use crate::failure::{Failure, answer_all};

/// `struct kumiki_files_stat`: the fields of Python's `os.stat_result`, in its order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct FileStat {
    pub mode: u64,
    pub ino: u64,
    pub dev: u64,
    pub nlink: u64,
    pub uid: i64,
    pub gid: i64,
    pub size: i64,
    pub atime: i64,
    pub mtime: i64,
    pub ctime: i64,
    pub atime_float: f64,
    pub mtime_float: f64,
    pub ctime_float: f64,
    pub atime_ns: i64,
    pub mtime_ns: i64,
    pub ctime_ns: i64,
    pub blksize: i64,
    pub blocks: i64,
    pub rdev: u64,
}

/// A time as whole seconds, as seconds with a fraction, and in nanoseconds. `None` if those do not fit: from the
/// year 2262 on.
fn time(seconds: i64, nanoseconds: u64) -> Option<(i64, f64, i64)> {
    let part = i64::try_from(nanoseconds).ok()?;
    let all = seconds.checked_mul(1_000_000_000)?.checked_add(part)?;
    Some((seconds, seconds as f64 + 1e-9 * nanoseconds as f64, all))
}

/// An id; the last one, which stands for none, is -1 in Python.
fn id(id: u32) -> i64 {
    if id == u32::MAX { -1 } else { id.into() }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "widths of the kernel's fields differ between processors"
)]
fn record(stat: &Stat) -> Option<FileStat> {
    let (atime, atime_float, atime_ns) = time(stat.st_atime as i64, stat.st_atime_nsec as u64)?;
    let (mtime, mtime_float, mtime_ns) = time(stat.st_mtime as i64, stat.st_mtime_nsec as u64)?;
    let (ctime, ctime_float, ctime_ns) = time(stat.st_ctime as i64, stat.st_ctime_nsec as u64)?;
    Some(FileStat {
        mode: stat.st_mode.into(),
        ino: stat.st_ino.into(),
        dev: stat.st_dev.into(),
        nlink: stat.st_nlink.into(),
        uid: id(stat.st_uid),
        gid: id(stat.st_gid),
        size: stat.st_size.into(),
        atime,
        mtime,
        ctime,
        atime_float,
        mtime_float,
        ctime_float,
        atime_ns,
        mtime_ns,
        ctime_ns,
        blksize: stat.st_blksize.into(),
        blocks: stat.st_blocks.into(),
        rdev: stat.st_rdev.into(),
    })
}

/// See the header.
///
/// # Safety
/// `list` has `size` bytes; `stats`, unless it is null, and `errors` have room for `n`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_stat(
    dir_fd: c_int,
    list: *const c_char,
    size: usize,
    n: usize,
    flags: c_int,
    stats: *mut FileStat,
    errors: *mut c_int,
) -> c_int {
    answer_all(|| {
        let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
        if flags & !known != 0 {
            return Err(Failure::invalid(format!(
                "flags {flags:#x}: AT_SYMLINK_NOFOLLOW and AT_NO_AUTOMOUNT are known"
            )));
        }
        let flags = AtFlags::from_bits_retain(flags as u32);
        let dir = directory(dir_fd)?;
        // SAFETY: the caller's promise.
        let names = unsafe { names(list, size, n) }?;
        // SAFETY: the same.
        let errors = unsafe { room("errors", errors, n) }?;
        let mut asked: Vec<_> =
            names.into_iter().map(|name| Fstatat::new(dir, name, flags)).collect();
        let outputs = run(&mut asked);
        let mut failed = write_errors(&outputs, errors);
        if stats.is_null() {
            return Ok(failed);
        }
        // SAFETY: not null, and so many, the caller says.
        let stats = unsafe { room("stats", stats, n) }?;
        for ((asked, stat), error) in asked.iter().zip(stats).zip(errors) {
            match asked.stat().map(record) {
                Some(Some(record)) => *stat = record,
                Some(None) => {
                    *error = KUMIKI_FILES_ASK;
                    failed += 1;
                }
                None => (),
            }
        }
        Ok(failed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_no_nanoseconds_is_none() {
        assert_eq!(time(1, 5), Some((1, 1.000000005, 1_000_000_005)));
        assert_eq!(time(-1, 500_000_000), Some((-1, -0.5, -500_000_000)));
        assert_eq!(time(9_223_372_037, 0), None);
        assert_eq!(time(i64::MIN, 0), None);
    }
}
