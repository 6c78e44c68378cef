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

static FORK: AtomicU64 = AtomicU64::new(0);
static FIRST: AtomicU64 = AtomicU64::new(0);
static MIDDLE: AtomicU64 = AtomicU64::new(0);
static STREAM_FROM: AtomicUsize = AtomicUsize::new(0);
/// Written last; 0 until then.
static LATER: AtomicU64 = AtomicU64::new(0);

/// What was measured, if it was.
pub(super) fn known() -> Option<Costs> {
    let later_ticks = LATER.load(Ordering::Acquire);
    (later_ticks > 0).then(|| Costs {
        fork_ticks: FORK.load(Ordering::Relaxed),
        first_ticks: FIRST.load(Ordering::Relaxed),
        middle_ticks: MIDDLE.load(Ordering::Relaxed),
        later_ticks,
        stream_from: STREAM_FROM.load(Ordering::Relaxed),
    })
}

/// Measures now, until the deadline: what is known then is all or nothing.
pub(super) fn measure<P: Pair>(pair: &mut P, deadline: &Deadline) -> Result<Costs> {
    // If in vain, it is to be earned anew: limits may always be too short.
    let costs =
        Costs::measure(pair, deadline).inspect_err(|_| PLAIN.store(0, Ordering::Relaxed))?;
    FORK.store(costs.fork_ticks, Ordering::Relaxed);
    FIRST.store(costs.first_ticks, Ordering::Relaxed);
    MIDDLE.store(costs.middle_ticks, Ordering::Relaxed);
    STREAM_FROM.store(costs.stream_from, Ordering::Relaxed);
    LATER.store(costs.later_ticks, Ordering::Release);
    Ok(costs)
}

/// The bytes of a copy of `len` that are to go by `memcpy` because nothing is
/// known yet.
pub(super) fn plain(len: usize) -> usize {
    EARNED.saturating_sub(PLAIN.fetch_add(len, Ordering::Relaxed)).min(len)
}
