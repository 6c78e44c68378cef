//! Which slots of an open lane hold requests, as bits in this process's memory:
//! threads find requests without a look at every slot.
//!
//! A bit is set after the slot's status has become `REQUEST`, and taken away by
//! the thread that then tries to take the request; the status alone decides who
//! executes it. The summary has a bit for each word of bits; it is taken away by
//! whoever empties a word, who then looks at the word once more.

use crate::primitive::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Slots that may hold a request which nobody is at.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Ready {
    summary: AtomicU64,
    words: Box<[AtomicU64]>,
}

impl Ready {
    /// For at most 4096 slots.
    pub(crate) fn new(slots: usize) -> Self {
        debug_assert!(slots <= 64 * 64, "the summary has 64 bits");
        let words = (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ready { summary: AtomicU64::new(0), words }
    }

    /// Says that slot `at` holds a request.
    pub(crate) fn mark(&self, at: usize) {
        // Release: partner is `claim`; both, since either may be what it reads.
        self.words[at / 64].fetch_or(1 << (at % 64), Release);
        self.summary.fetch_or(1 << (at / 64), Release);
    }

    /// Whether a slot may hold a request.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.summary.load(Acquire) != 0
    }

    /// A slot to look at, for this caller alone; the next after `cursor`, so
    /// that none is passed over for ever.
    pub(crate) fn claim(&self, cursor: &mut usize) -> Option<usize> {
        loop {
            let summary = self.summary.load(Acquire);
            if summary == 0 {
                return None;
            }
            let word = next_bit(summary, *cursor / 64);
            let start = if word == *cursor / 64 { *cursor % 64 } else { 0 };
            let bits = self.words[word].load(Acquire);
            if bits == 0 {
                self.tidy(word);
                continue;
            }
            let ahead = bits & u64::MAX << start;
            if ahead == 0 {
                // The other words first.
                *cursor = (word + 1) % 64 * 64;
                continue;
            }
            let bit = ahead.trailing_zeros() as usize;
            // Acquire: partner is `mark`.
            let before = self.words[word].fetch_and(!(1 << bit), AcqRel);
            if before & !(1 << bit) == 0 {
                self.tidy(word);
            }
            *cursor = (word * 64 + bit + 1) % (64 * 64);
            if before & 1 << bit != 0 {
                return Some(word * 64 + bit);
            }
        }
    }

    /// Takes away the summary's bit of a word found empty.
    fn tidy(&self, word: usize) {
        // AcqRel: reads what a `mark` has released, and with it that word's bits.
        self.summary.fetch_and(!(1 << word), AcqRel);
        if self.words[word].load(Relaxed) != 0 {
            self.summary.fetch_or(1 << word, Release);
        }
    }
}

/// The first bit set at or after `from`, going round.
fn next_bit(word: u64, from: usize) -> usize {
    let ahead = word & u64::MAX << from;
    (if ahead != 0 { ahead } else { word }).trailing_zeros() as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_claimed_once() {
        for slots in [2, 64, 65, 512, 4096] {
            let ready = Ready::new(slots);
            for first in [0, 1, slots / 2, slots - 1] {
                let mut cursor = first;
                (0..slots).for_each(|at| ready.mark(at));
                let mut claimed: Vec<_> = std::iter::from_fn(|| ready.claim(&mut cursor)).collect();
                claimed.sort_unstable();
                assert!(claimed.into_iter().eq(0..slots));
                assert!(!ready.any());
            }
        }
    }

    #[test]
    fn a_slot_marked_again_and_again_does_not_hide_another() {
        let ready = Ready::new(4096);
        let mut cursor = 0;
        ready.mark(4000);
        for _ in 0..3 {
            ready.mark(0);
            if ready.claim(&mut cursor) == Some(4000) {
                return;
            }
        }
        panic!("slot 4000 was passed over");
    }
}
