//! What was asked and used, added up over all processes of a command, in a file that `kumiki ahead --say` has
//! made and they all map. Its format is this order of counts, 8 bytes each; without the file nothing is counted.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// The variable that names the file.
const VARIABLE: &CStr = c"KUMIKI_AHEAD_COUNTS";
/// Length of the file.
const BYTES: usize = 4096;
const COUNTS: usize = BYTES / size_of::<AtomicU64>();

/// One count, by its place in the file. `apps/cli/src/ahead/counts.rs` reads it.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Count {
    /// Programs that were started with the library.
    Programs = 0,
    /// Processes that found something cold.
    Pools = 1,
    /// Folders that programs have begun to read, and those that our threads have listed.
    Visits = 2,
    Listed = 3,
    /// Listed folders whose names were in memory.
    Warm = 4,
    Asked = 5,
    Used = 6,
    Opened = 7,
    OpenedUsed = 8,
    ListedAhead = 9,
    ListedAheadUsed = 10,
    /// Bytes of files read ahead.
    Bytes = 11,
    /// Calls of programs on names that were asked ahead, and the time of these.
    AheadCalls = 12,
    AheadNs = 13,
    /// Others, while the pool was at work.
    OtherCalls = 14,
    OtherNs = 15,
}

static FILE: AtomicPtr<[AtomicU64; COUNTS]> = AtomicPtr::new(ptr::null_mut());

/// Adds to a count.
pub(crate) fn add(count: Count, more: u64) {
    let file = FILE.load(Ordering::Acquire);
    if file.is_null() {
        return;
    }
    // SAFETY: the mapping is as large as that, is never removed, and is shared with programs that add, too.
    if let Some(count) = unsafe { &*file }.get(count as usize) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

/// Maps the file, if the environment names one. One that is not as it should be is left alone.
pub(crate) fn open() {
    // SAFETY: a name that ends with a zero; the program has not begun, and nobody changes its environment.
    let path = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: a variable's value, which ends with a zero.
    let path = unsafe { CStr::from_ptr(path) };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    let is_ours = rustix::fs::fstat(&file).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_size == BYTES as i64
    });
    if !is_ours {
        return;
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, wherever there is room, of a file that is that long.
    let made =
        unsafe { rustix::mm::mmap(ptr::null_mut(), BYTES, access, MapFlags::SHARED, &file, 0) };
    if let Ok(made) = made {
        FILE.store(made.cast(), Ordering::Release);
        add(Count::Programs, 1);
    }
}
