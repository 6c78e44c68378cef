//! What belongs to a lane in this process alone: what its requesting thread shares
//! where it stands, where that thread sleeps, and for which answer.
//!
//! Who has executed a request rings only if its answer is the awaited one. A
//! requesting thread that waits for the last answers of a batch would otherwise
//! be woken by each of them, to find that it is not its own: with 64 threads at
//! it, more switches than calls.
//!
//! ```text
//!   requesting thread                     who has executed slot i
//!   awaited = i                           status of slot i = SUCCESS or ERROR
//!   bell = ASLEEP, heavy fence            light fence
//!   status of slot i? done                awaited == i? ring
//!   sleep
//! ```
//!
//! As with the bell itself (`kumiki_wait::Bell`), the fences leave two outcomes:
//! the requesting thread sees the status, or the other one sees that it is
//! awaited; in the first 10 ms of a sleep a longer look stands for the heavy one. A
//! number left from an earlier wait costs a ring in vain.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_wait::{Bell, barrier};

use crate::claim::Left;
use crate::offer::Offer;
use crate::primitive::{AtomicU32, Mutex};

/// Awaited in place of a slot's answer: the end of what is offered.
const OFFERED: usize = u32::MAX as usize;

/// A lane's requesting thread, as others see it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Side {
    pub(crate) offer: Offer,
    /// Where it sleeps.
    pub(crate) bell: Bell,
    /// Its slot whose answer it waits for, if it waits.
    awaited: AtomicU32,
    /// Whether there is such a thread.
    pub(crate) leased: AtomicBool,
    /// Chunks of what it offers whose claimers have died: for it to repair.
    pub(crate) left: Mutex<Vec<Left>>,
}

impl Side {
    /// Says whose answer is waited for from now on: by the requesting thread,
    /// before it waits.
    #[inline(always)]
    pub(crate) fn expect(&self, at: usize) {
        // Written only if need be: others read it with every answer.
        if self.awaited.load(Relaxed) != at as u32 {
            self.awaited.store(at as u32, Relaxed);
        }
    }

    /// As [`expect`](Self::expect), for the end of what is offered.
    pub(crate) fn expect_end(&self) {
        self.expect(OFFERED);
    }

    /// As [`answered`](Self::answered), for claimed calls of what is offered.
    #[inline(always)]
    pub(crate) fn made(&self) {
        self.answered(OFFERED);
    }

    /// Says that slot `at` has its answer, by who has given it.
    #[inline(always)]
    pub(crate) fn answered(&self, at: usize) {
        // Partner: the heavy fence of who sleeps, or the look before it.
        barrier::light();
        if self.awaited.load(Relaxed) == at as u32 {
            self.bell.ring();
        }
    }
}
