//! Is this folder cold? Asked by the program's thread, of one folder of many while nothing is asked ahead: its
//! first names are read and tried without sleeping.
//!
//! What sleeps here, the first listing of the folder, the program would sleep in at its next call.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, OFlags, RawDir, openat};

use crate::folder::{Warmth, is_left_alone, try_one};

/// Bytes of the listing that are read.
const BYTES: usize = 2048;
/// Names that are tried.
const TRIES: usize = 4;

/// Tries a folder that this thread has open.
pub(crate) fn probe(folder: BorrowedFd<'_>) -> Warmth {
    if is_left_alone(folder) {
        return Warmth::Unknown;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    // Another open file: the program's own has its place in the listing. Its access time changes as the program
    // is about to change it.
    let open = openat(folder, c".", flags | OFlags::NOATIME, Mode::empty())
        .or_else(|_| openat(folder, c".", flags, Mode::empty()));
    let Ok(open) = open else { return Warmth::Unknown };
    let mut buffer = [MaybeUninit::uninit(); BYTES];
    let mut entries = RawDir::new(&open, &mut buffer);
    let (mut tries, mut warmth) = (0, Warmth::Unknown);
    while tries < TRIES
        && let Some(Ok(entry)) = entries.next()
    {
        if entry.file_name().to_bytes().first() == Some(&b'.') {
            continue;
        }
        tries += 1;
        match try_one(folder, entry.file_name()) {
            Warmth::Cold => return Warmth::Cold,
            Warmth::Warm => warmth = Warmth::Warm,
            Warmth::Unknown => {}
        }
    }
    warmth
}
