//! What is known about a call before it is measured.
//!
//! A cost model measures the calls themselves; this is its prior, and says which calls to
//! measure separately. It never decides whether a call is made, or its result.

use kumiki_sys::syscall::MAX_ARGS;

use crate::callset::NUMBERS;
use crate::contends::Contends;
use crate::request::{Place, Request};
use crate::table::{OfArgs, ROWS, counted, row};

/// What is known about a call from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// What two such calls wait for each other on in the kernel.
    pub contends: Contends,
    /// Whether it commonly waits for a device, a time or another thread; if the arguments
    /// are known, use [`may_sleep`].
    pub sleeps: bool,
}

/// What is known about call `sysnum`; nothing for an unknown number.
#[inline]
pub fn kind(sysnum: u16) -> Kind {
    KINDS.get(usize::from(sysnum)).copied().unwrap_or(Kind::UNKNOWN)
}

/// The place of a request that names none, as far as its descriptor tells: a number for
/// each descriptor, [`Place::NONE`] for a call on a path alone or relative to the working
/// directory.
///
/// Two descriptors may refer to one open file (dup(2)), and a path may lead far from
/// where it starts: a caller that knows the place sets it with [`Request::at`].
///
/// ```
/// use kumiki_calls::{Place, Request, default_place};
///
/// let read = Request::new(libc::SYS_read, [7, 0x1000, 4096]);
/// let write = Request::new(libc::SYS_write, [7, 0x1000, 4096]);
/// assert_eq!(default_place(&read), default_place(&write));
/// assert_eq!(default_place(&Request::new(libc::SYS_getppid, [])), Place::NONE);
/// ```
#[inline]
pub fn default_place(request: &Request) -> Place {
    let after = PLACE.get(usize::from(request.sysnum)).copied().unwrap_or(0);
    match after.checked_sub(1) {
        None => Place::NONE,
        Some(OPENAT) if argument(request, 2) as i32 & libc::O_CREAT == 0 => Place::NONE,
        Some(OPENAT) => descriptor(request, 0),
        Some(arg) => descriptor(request, arg),
    }
}

/// Whether this request commonly waits for a device, a time or another thread, so that
/// more threads than cpus are worthwhile. A prior, to be corrected by measurement.
pub fn may_sleep(request: &Request) -> bool {
    let Some(row) = row(request.sysnum) else { return false };
    let says_so = |says_so: OfArgs| says_so(&counted(request.args_num, &request.args));
    row.sleeps_if.map_or(row.sleeps, says_so)
}

/// What is known of each number.
static KINDS: [Kind; NUMBERS] = {
    let mut kinds = [Kind::UNKNOWN; NUMBERS];
    let mut i = 0;
    while i < ROWS.len() {
        let row = &ROWS[i];
        kinds[row.sysnum as usize] = Kind { contends: row.contends, sleeps: row.sleeps };
        i += 1;
    }
    kinds
};

/// One more than the argument that names each call's place, for a look that is
/// one load; 0 where none does.
static PLACE: [u8; NUMBERS] = {
    let mut place = [0; NUMBERS];
    let mut i = 0;
    while i < ROWS.len() {
        let row = &ROWS[i];
        if let Contends::Descriptor(arg) | Contends::Directory(Some(arg)) = row.contends {
            place[row.sysnum as usize] = arg + 1;
        }
        if let Some(arg) = row.creates_in {
            assert!(arg == 0 && row.sysnum as i64 == libc::SYS_openat, "only openat is known");
            place[row.sysnum as usize] = OPENAT + 1;
        }
        i += 1;
    }
    place
};

/// In [`PLACE`], for an openat: its argument 0, if it may make a name there.
const OPENAT: u8 = MAX_ARGS as u8;

/// An argument that counts, or 0.
fn argument(request: &Request, index: u8) -> u64 {
    if u16::from(index) < request.args_num {
        request.args.get(usize::from(index)).copied().unwrap_or(0)
    } else {
        0
    }
}

/// The place of the descriptor in argument `index`, if that is one: the working
/// directory and an argument that was not given are none.
#[inline]
fn descriptor(request: &Request, index: u8) -> Place {
    if u16::from(index) >= request.args_num || usize::from(index) >= MAX_ARGS {
        return Place::NONE;
    }
    // The kernel looks at the lower half, as an int.
    match u64::try_from(request.args[usize::from(index)] as i32) {
        Ok(fd) => Place(fd + 1),
        Err(_) => Place::NONE,
    }
}

impl Kind {
    const UNKNOWN: Kind = Kind { contends: Contends::Nothing, sleeps: false };
}

#[cfg(test)]
mod tests;
