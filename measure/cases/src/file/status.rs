//! Asking about a file.

use std::ffi::CStr;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use rustix::fs::{Access, AtFlags, StatxFlags};

use super::folder::{Folder, failed};
use kumiki_measure::case::{Case, Level};
use kumiki_measure::error::Error;

const FILE: &CStr = c"file";

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("file.stat", "ask about a file by its name (newfstatat)", |place| {
            let folder = Folder::new(place)?;
            folder.create(FILE)?;
            Ok(folder.each(|folder| {
                black_box(rustix::fs::statat(folder, FILE, AtFlags::empty()))
                    .map(drop)
                    .map_err(|e| failed("stat", FILE, e))
            }))
        }),
        Case::new("file.stat.libc", "the same by the C library's function", |place| {
            let folder = Folder::new(place)?;
            folder.create(FILE)?;
            Ok(folder.each(|folder| {
                let mut status = MaybeUninit::<libc::stat>::uninit();
                // SAFETY: the name is a C string and `status` is writable and of the type
                // that is filled; nobody reads it.
                let done = unsafe {
                    libc::fstatat(folder.as_raw_fd(), FILE.as_ptr(), status.as_mut_ptr(), 0)
                };
                black_box(&status);
                match done {
                    0 => Ok(()),
                    _ => Err(Error::last_os("fstatat")),
                }
            }))
        })
        .level(Level::Default),
        Case::new("file.statx", "ask about a file by its name (statx, basic fields)", |place| {
            let folder = Folder::new(place)?;
            folder.create(FILE)?;
            let fields = StatxFlags::BASIC_STATS;
            Ok(folder.each(move |folder| {
                black_box(rustix::fs::statx(folder, FILE, AtFlags::empty(), fields))
                    .map(drop)
                    .map_err(|e| failed("statx", FILE, e))
            }))
        })
        .level(Level::Default),
        Case::new("file.fstat", "ask about an open file", |place| {
            let folder = Folder::new(place)?;
            let file = folder.create(FILE)?;
            Ok(folder.each(move |_| {
                black_box(rustix::fs::fstat(&file)).map(drop).map_err(|e| Error::os("fstat", e))
            }))
        })
        .level(Level::Default),
        Case::new("file.access", "ask whether a file may be read (faccessat)", |place| {
            let folder = Folder::new(place)?;
            folder.create(FILE)?;
            Ok(folder.each(|folder| {
                rustix::fs::accessat(folder, FILE, Access::READ_OK, AtFlags::empty())
                    .map_err(|e| failed("access", FILE, e))
            }))
        })
        .level(Level::Default),
    ]
}
