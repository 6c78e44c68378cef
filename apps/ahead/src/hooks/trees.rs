//! Trees that the C library walks for the program: it opens their folders and looks at what is in them within itself. So a
//! folder is told by its path when the walk has come to it, and what is handed to the program counts as used.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_long, c_short, c_ushort, c_void};

use super::files::Identified;
use crate::text::Text;
use crate::unnumbered::At;
use crate::{real, watch};

/// The beginning of `FTSENT` (fts.h).
#[repr(C)]
pub(crate) struct Entry {
    cycle: *mut Entry,
    parent: *mut Entry,
    link: *mut Entry,
    number: c_long,
    pointer: *mut c_void,
    access_path: *mut c_char,
    path: *mut c_char,
    error: c_int,
    descriptor: c_int,
    path_length: c_ushort,
    name_length: c_ushort,
    inode: libc::ino_t,
    device: libc::dev_t,
    links: libc::nlink_t,
    level: c_short,
    info: c_ushort,
    flags: c_ushort,
    instruction: c_ushort,
    found: *mut libc::stat,
}

/// A folder before what is in it, and entries that were not looked at, or in vain (fts.h).
const FTS_D: c_ushort = 1;
const FTS_DP: c_ushort = 6;
const FTS_NS: c_ushort = 10;
const FTS_NSOK: c_ushort = 11;

fn read(entry: *mut Entry) {
    // SAFETY: null, or an entry that the C library has just handed out and keeps until the next call.
    let Some(entry) = (unsafe { entry.as_ref() }) else { return };
    if matches!(entry.info, FTS_NS | FTS_NSOK | FTS_DP) {
        return;
    }
    used(entry.found, entry.access_path);
    if entry.info == FTS_D {
        // The next call opens it by this path.
        watch::scans(entry.access_path);
    }
}

fn used(found: *const libc::stat, path: *const c_char) {
    // SAFETY: null, or what the C library has written of the file that it hands out.
    if let Some(found) = unsafe { found.as_ref() } {
        // SAFETY: null, or the text by which it has found it from the working folder.
        let path = unsafe { At::of_call(libc::AT_FDCWD, path) };
        watch::handed_out(found.found(), path);
    }
}

macro_rules! reads {
    ($($name:ident;)*) => { $(
        /// # Safety
        /// As fts_read(3).
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(walk: *mut c_void) -> *mut Entry {
            // SAFETY: as the caller says.
            let entry = unsafe { real::$name(walk) }.cast();
            read(entry);
            entry
        }
    )* };
}

reads! {
    fts_read;
    fts64_read;
}

/// The program's function, which is called for each file, with the flags of the newer walk.
#[derive(Clone, Copy)]
enum Given {
    Nftw(NewCallback, c_int),
    Ftw(OldCallback),
}

pub(crate) type NewCallback =
    unsafe extern "C-unwind" fn(*const c_char, *const libc::stat, c_int, *mut WalkPlace) -> c_int;
pub(crate) type OldCallback =
    unsafe extern "C-unwind" fn(*const c_char, *const libc::stat, c_int) -> c_int;

/// `struct FTW` (ftw.h).
#[repr(C)]
pub(crate) struct WalkPlace {
    base: c_int,
    level: c_int,
}

/// A folder before what is in it, one that cannot be read, a file that could not be looked at; and where the working folder is
/// changed as the walk goes on, and folders come after what is in them (ftw.h).
const FTW_D: c_int = 1;
const FTW_NS: c_int = 3;
const FTW_CHDIR: c_int = 4;
const FTW_DEPTH: c_int = 8;

thread_local! {
    /// The walk of this thread. One that it begins within is made as it came; so is each one after a walk that was left by a
    /// jump, of which nobody knows that it is over.
    static GIVEN: Cell<Option<Given>> = const { Cell::new(None) };
    /// The folder that was told last where folders come after what is in them, as a sum of its path.
    static TOLD: Cell<u64> = const { Cell::new(0) };
}

unsafe extern "C-unwind" fn handed_new(
    path: *const c_char,
    found: *const libc::stat,
    kind: c_int,
    place: *mut WalkPlace,
) -> c_int {
    let Some(Given::Nftw(callback, flags)) = GIVEN.get() else { return 0 };
    // SAFETY: what the C library has written for this call.
    if let Some(WalkPlace { base, level }) = unsafe { place.as_ref() } {
        let base = usize::try_from(*base).unwrap_or(0);
        // SAFETY: the text of this call, in which the name begins there.
        let name = unsafe { path.add(base) };
        let here = if flags & FTW_CHDIR == 0 { path } else { name };
        match kind {
            FTW_D => watch::scans(here),
            _ if flags & FTW_DEPTH != 0 && flags & FTW_CHDIR == 0 && *level > 0 => {
                come_to(path, base);
            }
            _ => {}
        }
        if kind != FTW_NS {
            used(found, here);
        }
    }
    // SAFETY: as the C library calls it.
    unsafe { callback(path, found, kind, place) }
}

/// Tells the folder of a path's last name, unless it was told last.
fn come_to(path: *const c_char, base: usize) {
    // SAFETY: a text that the C library hands out.
    let path = unsafe { CStr::from_ptr(path) };
    let Some(folder) = path.to_bytes().get(..base) else { return };
    let sum = folder
        .iter()
        .fold(1_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    if TOLD.replace(sum) != sum
        && let Some(folder) = Text::of_bytes(folder)
    {
        watch::scans(folder.as_c().as_ptr());
    }
}

unsafe extern "C-unwind" fn handed_old(
    path: *const c_char,
    found: *const libc::stat,
    kind: c_int,
) -> c_int {
    let Some(Given::Ftw(callback)) = GIVEN.get() else { return 0 };
    if kind == FTW_D {
        watch::scans(path);
    }
    if kind != FTW_NS {
        used(found, path);
    }
    // SAFETY: as the C library calls it.
    unsafe { callback(path, found, kind) }
}

macro_rules! new_walks {
    ($($name:ident;)*) => { $(
        /// # Safety
        /// As nftw(3).
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            callback: NewCallback,
            descriptors: c_int,
            flags: c_int,
        ) -> c_int {
            if GIVEN.get().is_some() {
                // SAFETY: as the caller says.
                return unsafe { real::$name(path, callback as *const c_void, descriptors, flags) };
            }
            GIVEN.set(Some(Given::Nftw(callback, flags)));
            // SAFETY: as the caller says.
            let answer = unsafe { real::$name(path, handed_new as NewCallback as *const c_void, descriptors, flags) };
            GIVEN.set(None);
            answer
        }
    )* };
}

new_walks! {
    nftw;
    nftw64;
}

macro_rules! old_walks {
    ($($name:ident;)*) => { $(
        /// # Safety
        /// As ftw(3).
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            callback: OldCallback,
            descriptors: c_int,
        ) -> c_int {
            if GIVEN.get().is_some() {
                // SAFETY: as the caller says.
                return unsafe { real::$name(path, callback as *const c_void, descriptors) };
            }
            GIVEN.set(Some(Given::Ftw(callback)));
            // SAFETY: as the caller says.
            let answer = unsafe { real::$name(path, handed_old as OldCallback as *const c_void, descriptors) };
            GIVEN.set(None);
            answer
        }
    )* };
}

old_walks! {
    ftw;
    ftw64;
}
