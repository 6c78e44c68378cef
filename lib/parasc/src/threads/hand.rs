//! A processing thread's own things, and what it owes to others before it makes a call.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_sys::signals::Blocked;
use kumiki_wait::Ticks;

use super::alert;
use crate::claim::Claim;
use crate::core::Core;
use crate::primitive::fence_after_swap;
use crate::queue::QUICK;

/// A processing thread's own things.
#[derive(Debug)]
pub(crate) struct Hand<'a> {
    pub(crate) claim: &'a Claim,
    /// Signals of one of the program's threads, which may end it at any moment: blocked
    /// but at a call and while it waits.
    pub(crate) signals: Option<&'a Blocked>,
    pub(super) made: u32,
    pub(super) ticks: Ticks,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(claim: &'a Claim, signals: Option<&'a Blocked>) -> Self {
        Hand { claim, signals, made: 0, ticks: Ticks::new() }
    }

    /// True if this thread may die at a request, by a filter or, if it is the program's, whenever
    /// it likes: somebody must find out, also after the end.
    pub(super) fn may_die(&self, core: &Core) -> bool {
        core.filtered.load(Relaxed) || self.signals.is_some() && core.area.is_terminated()
    }
}

/// Runs `calls` where a thread may die of what a signal's handler does.
#[inline(always)]
pub(super) fn mortally<T>(signals: Option<&Blocked>, calls: impl FnOnce() -> T) -> T {
    match signals {
        None => calls(),
        Some(blocked) => blocked.lifted(calls),
    }
}

/// Takes care of the queue when a thread has just taken a call of a lane, by a swap: should it
/// sleep there, somebody must serve the requests that wait. Who places a request later sees the
/// note (`summon_seat`). Not by a thread of the program, which nobody counts on alone.
#[inline(always)]
pub(super) fn see_to_others(core: &Arc<Core>, hand: &Hand<'_>) {
    fence_after_swap();
    if hand.signals.is_none() && core.waits(QUICK) && !core.watch.is_alerted() {
        alert(core);
    }
}
