//! A meeting of few members: one word.
//!
//! It holds the number of the round (upper half) and how many members have come (lower half):
//!
//! ```text
//!               arrive                arrive, the last one
//! (r, 0) ─────────▶ (r, 1) … (r, size-1) ─────────▶ (r+1, 0)
//!               ◀─────────
//!                withdraw, only while the round is still r
//! ```
//!
//! Every step is one compare-and-swap, so a member that gives up either takes
//! its own arrival back, or sees that the round has ended meanwhile and has met
//! the others. There is nothing between the two.
//!
//! A member is never a whole turn of the counter (2^32 rounds) behind, because
//! no round ends without it.

use crate::primitive::{AtomicU64, Ordering};

/// The word of the protocol.
#[derive(Debug)]
pub(super) struct Word {
    word: AtomicU64,
    size: u64,
}

const ROUND: u32 = 32;
const CAME: u64 = (1 << ROUND) - 1;

impl Word {
    pub(super) fn of(size: usize) -> Self {
        let size = size as u64;
        assert!(size <= CAME, "more members than any machine has cpus");
        Word { word: AtomicU64::new(0), size }
    }

    /// Comes; the round to wait for, or `None` if all have come now.
    pub(super) fn arrive(&self) -> Option<u32> {
        // Mostly wrong: the swap that fails brings the line as this thread's own, where a load would
        // bring a copy first.
        let mut now = 0;
        loop {
            let (round, last) = (now >> ROUND, (now & CAME) + 1 == self.size);
            let next = if last { round.wrapping_add(1) << ROUND } else { now + 1 };
            // Release, partner of `is_over` and of the last one's Acquire: what
            // this member wrote. Acquire: the last one has all that the others
            // wrote, and hands it on by its own Release. The swaps between, also
            // those that withdraw, keep what was released before.
            let swap =
                self.word.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed);
            match swap {
                Ok(_) => return (!last).then_some(round as u32),
                Err(other) => now = other,
            }
        }
    }

    pub(super) fn is_over(&self, round: u32) -> bool {
        self.word.load(Ordering::Acquire) >> ROUND != u64::from(round)
    }

    /// Takes an arrival back; `false` if the round has ended, with it.
    pub(super) fn withdraw(&self, round: u32) -> bool {
        // Acquire: if the round has ended, this is what `is_over` would see.
        let mut now = self.word.load(Ordering::Acquire);
        while now >> ROUND == u64::from(round) {
            let swap =
                self.word.compare_exchange_weak(now, now - 1, Ordering::Relaxed, Ordering::Acquire);
            match swap {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    pub(super) fn came(&self) -> usize {
        (self.word.load(Ordering::Relaxed) & CAME) as usize
    }

    pub(super) fn size(&self) -> usize {
        self.size as usize
    }
}
