//! Is this folder cold? Asked by the program's thread, of one folder of many while nothing is asked ahead: its
//! first names are read and tried without sleeping.
//!
//! What sleeps here, the first listing of the folder, the program would sleep in at its next call. Names that nobody
//! has looked up are in no memory, and tell nothing by themselves: a program that only lists never sleeps for them.
//! So a folder is cold only where something has slept, too. Where the listing has, it is cold also if its names are in memory: file
//! systems of a network bring the attributes along with the listing (NFS, FUSE), and the next folder's has to be asked for.
//!
//! Where another program has looked at all names before, only reads sleep, which are not seen here. So where the thread has slept and
//! opened files, the contents of one are tried.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, OFlags, RawDir, openat};

use crate::clock::{now, sleeps};
use crate::folder::{Warmth, is_left_alone, try_contents, try_one};

/// A listing that took longer and slept has waited for the disk.
const SLEPT_NS: u64 = 50_000;
/// Bytes of the listing that are read.
const BYTES: usize = 2048;
/// Names that are tried.
const TRIES: usize = 4;
/// Bytes of a listing from which on a folder is large: some fifty names.
const LARGE: usize = 1600;

/// Bytes of a name's entry beside the name (getdents64(2)), with what aligns it.
const ENTRY_HEAD: usize = 24;

/// A folder as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probed {
    pub(crate) warmth: Warmth,
    /// Its names alone are worth threads.
    pub(crate) is_large: bool,
}

impl Probed {
    const NOTHING: Self = Probed { warmth: Warmth::Unknown, is_large: false };
}

/// Calls in which the program may have slept of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slept {
    /// True if one call was seen to take long.
    pub(crate) in_call: bool,
    pub(crate) in_read: InRead,
}

/// Reads of what the program opens, which nobody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InRead {
    No,
    /// The program has opened files and slept.
    Maybe,
    /// The program is about to: a file that it has just opened is not in memory.
    Now,
}

/// Tries a folder that this thread has open.
pub(crate) fn probe(folder: BorrowedFd<'_>, slept: Slept) -> Probed {
    if is_left_alone(folder) {
        return Probed::NOTHING;
    }
    let (began, before) = (now(), sleeps());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    // Another open file: the program's own has its place in the listing. Its access time changes as the program
    // is about to change it.
    let open = openat(folder, c".", flags | OFlags::NOATIME, Mode::empty())
        .or_else(|_| openat(folder, c".", flags, Mode::empty()));
    let Ok(open) = open else { return Probed::NOTHING };
    let mut buffer = [MaybeUninit::uninit(); BYTES];
    let mut entries = RawDir::new(&open, &mut buffer);
    let mut next = entries.next();
    let is_slow = now().saturating_sub(began) >= SLEPT_NS;
    let is_listing_cold = is_slow && sleeps() != before;
    let are_names_slow = slept.in_call || is_listing_cold;
    if !are_names_slow && slept.in_read == InRead::No {
        return Probed { warmth: Warmth::Warm, is_large: false };
    }
    let (mut tries, mut warmth, mut contents, mut bytes) = (0, Warmth::Unknown, Warmth::Unknown, 0);
    while let Some(Ok(entry)) = next {
        bytes += ENTRY_HEAD + entry.file_name().count_bytes();
        let is_hidden = entry.file_name().to_bytes().first() == Some(&b'.');
        if tries < TRIES && warmth != Warmth::Cold && !is_hidden {
            tries += 1;
            let found = try_one(folder, entry.file_name());
            if found != Warmth::Unknown {
                warmth = found;
            }
            let is_tried = slept.in_read == InRead::Maybe && contents == Warmth::Unknown;
            if is_tried && found == Warmth::Warm && entry.file_type() == FileType::RegularFile {
                contents = try_contents(folder, entry.file_name());
            }
        }
        // What more there is would be a second call.
        next = if entries.is_buffer_empty() { None } else { entries.next() };
    }
    if !are_names_slow || is_listing_cold && warmth == Warmth::Warm {
        warmth = if is_listing_cold { Warmth::Cold } else { Warmth::Warm };
    }
    if contents == Warmth::Cold || slept.in_read == InRead::Now {
        warmth = Warmth::Cold;
    }
    Probed { warmth, is_large: bytes >= LARGE }
}
