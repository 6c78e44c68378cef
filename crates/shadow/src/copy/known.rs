//! The costs of this machine, measured once a process.
//!
//! They are behind no lock: a child of fork(2) might find it held by a thread
//! that it does not have. Threads that come at the same time may measure twice.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::Pair;
use super::costs::Costs;
use crate::error::Result;
use crate::timed::Deadline;

/// Bytes that go by `memcpy` before anything is measured. From memory that
/// takes about as long as measuring, so a process loses no more by it than as
/// much again, and one that copies little loses nothing.
const EARNED: usize = 32 << 20;

static PLAIN: AtomicUsize = AtomicUsize::new(0);

/// In one line: each copy reads it, and mostly from a far cache.
#[repr(align(64))]
struct Known {
    fork: AtomicU64,
    first: AtomicU64,
    middle: AtomicU64,
    stream_from: AtomicUsize,
    /// Written last; 0 until then.
    later: AtomicU64,
}

static KNOWN: Known = Known {
    fork: AtomicU64::new(0),
    first: AtomicU64::new(0),
    middle: AtomicU64::new(0),
    stream_from: AtomicUsize::new(0),
    later: AtomicU64::new(0),
};

/// What was measured, if it was.
#[inline(always)]
pub(super) fn known() -> Option<Costs> {
    let later_ticks = KNOWN.later.load(Ordering::Acquire);
    (later_ticks > 0).then(|| Costs {
        fork_ticks: KNOWN.fork.load(Ordering::Relaxed),
        first_ticks: KNOWN.first.load(Ordering::Relaxed),
        middle_ticks: KNOWN.middle.load(Ordering::Relaxed),
        later_ticks,
        stream_from: KNOWN.stream_from.load(Ordering::Relaxed),
    })
}

/// Measures now, until the deadline: what is known then is all or nothing.
pub(super) fn measure<P: Pair>(pair: &mut P, deadline: &Deadline) -> Result<Costs> {
    // If in vain, it is to be earned anew: limits may always be too short.
    let costs =
        Costs::measure(pair, deadline).inspect_err(|_| PLAIN.store(0, Ordering::Relaxed))?;
    KNOWN.fork.store(costs.fork_ticks, Ordering::Relaxed);
    KNOWN.first.store(costs.first_ticks, Ordering::Relaxed);
    KNOWN.middle.store(costs.middle_ticks, Ordering::Relaxed);
    KNOWN.stream_from.store(costs.stream_from, Ordering::Relaxed);
    KNOWN.later.store(costs.later_ticks, Ordering::Release);
    Ok(costs)
}

/// The bytes of a copy of `len` that are to go by `memcpy` because nothing is
/// known yet.
pub(super) fn plain(len: usize) -> usize {
    EARNED.saturating_sub(PLAIN.fetch_add(len, Ordering::Relaxed)).min(len)
}
