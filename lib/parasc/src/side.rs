//! What belongs to a lane in this process alone: where its requesting thread sleeps, and what
//! it has to repair.
//!
//! Who has made the last calls of an offer rings, and nobody else: a requesting thread that
//! waits for the end of a batch would otherwise be woken by each that has made some, with 64
//! threads at it more often than there are calls.
//!
//! ```text
//!   requesting thread                     who has made claimed calls
//!   bell = ASLEEP, heavy fence            the line's word, light fence
//!   is the line's offer over? done        is it over, and the bell ASLEEP? ring
//!   sleep
//! ```
//!
//! As with the bell itself (`kumiki_wait::Bell`), the fences leave two outcomes: the
//! requesting thread sees that it is over, or who has made that so sees that it sleeps; in
//! the first 10 ms of a sleep a longer look stands for the heavy fence.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use kumiki_wait::Bell;

use crate::claim::DeadChunk;
use crate::line::Line;
use crate::primitive::Mutex;

/// A lane's requesting thread, as others see it.
#[derive(Debug, Default)]
#[cfg_attr(target_arch = "x86_64", repr(align(64)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(128)))]
pub(crate) struct Side {
    /// Bell at which it sleeps.
    pub(crate) bell: Bell,
    /// True if there is such a thread.
    pub(crate) leased: AtomicBool,
    /// Chunks of what it offers whose claimers have died: for it to repair.
    pub(crate) left: Mutex<Vec<DeadChunk>>,
    /// Seats that are to be woken: from, to, and the cpu they are near to, 16 bits each. By those that
    /// serve its batch, one each. Who looks too late wakes somebody who is not needed any more,
    /// and nobody counts on it: the requesting thread makes what nobody claims.
    sleepers: AtomicU64,
}

impl Side {
    /// Has those that serve the next batch wake the threads of seats: places among those near `cpu`.
    pub(crate) fn call(&self, cpu: usize, places: Range<usize>) {
        self.sleepers.store((cpu << 32 | places.end << 16 | places.start) as u64, Relaxed);
    }

    /// The next one to be woken, by the caller alone: the cpu, and the place.
    #[inline(always)]
    pub(crate) fn called(&self) -> Option<(usize, usize)> {
        let next = |word: u64| ((word & 0xffff) < (word >> 16 & 0xffff)).then_some(word + 1);
        let word = self.sleepers.fetch_update(Relaxed, Relaxed, next).ok()?;
        Some(((word >> 32) as usize, (word & 0xffff) as usize))
    }

    /// Says that claimed calls of this lane's `line` are made, by who has made them.
    #[inline(always)]
    pub(crate) fn made(&self, line: &Line) {
        // It may be of the next offer by now: then the requesting thread is awake.
        if line.over().is_some() {
            // Its light fence comes before the look whether anybody sleeps.
            self.bell.ring();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_sleeper_is_given_to_one_of_those_that_are_awake() {
        let side = Side::default();
        assert_eq!(side.called(), None);
        side.call(300, 3..5);
        assert_eq!(
            [side.called(), side.called(), side.called()],
            [Some((300, 3)), Some((300, 4)), None]
        );
        // Of the batch before nobody is left.
        side.call(1, 0..2);
        side.call(2, 7..7);
        assert_eq!(side.called(), None);
    }
}
