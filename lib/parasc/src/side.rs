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

use std::sync::atomic::AtomicBool;

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
}

impl Side {
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
