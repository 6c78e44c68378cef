//! What is known about a call before it is measured.
//!
//! A cost model measures the calls themselves; this is its prior, and says which calls to
//! measure separately. It never decides whether a call is made, or its result.

use crate::callset::NUMBERS;
use crate::contends::Contends;
use crate::request::Request;
use crate::table::{OfArgs, ROWS, counted, row};

/// Facts about a call that follow from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// Locks in the kernel on which two such calls wait for each other.
    pub contends: Contends,
    /// True if it commonly waits for a device, a time or another thread; if the arguments are
    /// known, use [`may_sleep`].
    pub sleeps: bool,
}

/// Facts about call `sysnum`; nothing for an unknown number.
#[inline]
pub fn kind(sysnum: u16) -> Kind {
    KINDS.get(usize::from(sysnum)).copied().unwrap_or(Kind::UNKNOWN)
}

/// True if this request commonly waits for a device, a time or another thread, so that more threads
/// than cpus are worthwhile. A prior, to be corrected by measurement.
pub fn may_sleep(request: &Request) -> bool {
    let Some(row) = row(request.sysnum) else { return false };
    let says_so = |says_so: OfArgs| says_so(&counted(request.args_num, &request.args));
    row.sleeps_if.map_or(row.sleeps, says_so)
}

/// Facts about each number.
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

impl Kind {
    const UNKNOWN: Kind = Kind { contends: Contends::Nothing, sleeps: false };
}

#[cfg(test)]
mod tests;
