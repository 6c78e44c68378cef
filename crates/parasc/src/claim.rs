//! A processing thread's note of what it is at: a slot, or a chunk of the calls that a
//! requesting thread offers. If the thread dies, its request is repaired from the note.
//!
//! The thread writes its note, on a line of its own, before it tries to take a request,
//! and clears it after it has given the result. The swap that takes the request releases
//! the note, so a thread that sees `PROCESSING` also sees the note of the thread that set
//! it. A thread that finds the note cleared or replaced also sees the result given before.
//! So if no living thread's note names a request in `PROCESSING`, its thread is dead.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The answer to a request whose thread has died: perhaps executed.
pub(crate) const OWNER_DIED: i64 = -(libc::EOWNERDEAD as i64);

/// A slot of the area: lane and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) lane: usize,
    pub(crate) at: usize,
}

/// A note of no slot: its index is 0, where others have 1 and more.
const HELD: u64 = 1 << 31;

/// The chunk of an offer at which a thread has died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) lane: usize,
    /// Calls that it has claimed.
    pub(crate) chunk: Range<usize>,
    /// The one that it was at; those before are made.
    pub(crate) at: usize,
}

/// A processing thread's note. Only that thread writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Claim {
    /// How many so far in the high half; lane and 1 + index in the low half, or
    /// [`HELD`], 0 if the thread is at none.
    word: AtomicU64,
    /// Where the claimed calls of an offer begin and end, and which one the thread is
    /// at, 16 bits each.
    chunk: AtomicU64,
    /// Requests taken from the lane for calls that are soon over.
    quick: AtomicU32,
}

impl Claim {
    /// Says that the thread is about to take the request at `spot`.
    #[inline(always)]
    pub(crate) fn set(&self, spot: Spot) {
        let count = (self.word.load(Relaxed) >> 32).wrapping_add(1);
        let low = (spot.lane << 16 | (spot.at + 1)) as u64;
        // To be seen with the swap that follows (`Slot::take`), which orders it.
        // Release: partner is `spot`, for the note that this one replaces.
        self.word.store(count << 32 | low, Release);
    }

    /// Says that the thread is at what the requesting thread of a lane offers.
    #[inline(always)]
    pub(crate) fn hold(&self, lane: usize) {
        let count = (self.word.load(Relaxed) >> 32).wrapping_add(1);
        // At no call yet.
        self.chunk.store(0, Relaxed);
        // To be seen with the swap that follows (`Offer::next`), as above.
        self.word.store(count << 32 | HELD | (lane as u64) << 16, Release);
    }

    /// Says that the thread is about to make call `at` of those that it has claimed.
    #[inline(always)]
    pub(crate) fn advance(&self, chunk: &Range<usize>, at: usize) {
        let word = chunk.start as u64 | (chunk.end as u64) << 16 | (at as u64) << 32;
        // Nobody looks but who has found the thread dead (`Life`), which orders it.
        self.chunk.store(word, Relaxed);
    }

    /// The chunk that a thread had claimed when it died, if it was at an offer.
    pub(crate) fn left(&self) -> Option<Left> {
        let low = self.word.load(Acquire) & u64::from(u32::MAX);
        let chunk = self.chunk.load(Relaxed);
        let field = |at: u32| (chunk >> (16 * at) & 0xffff) as usize;
        let left =
            Left { lane: ((low & !HELD) >> 16) as usize, chunk: field(0)..field(1), at: field(2) };
        (low & HELD != 0 && !left.chunk.is_empty()).then_some(left)
    }

    /// The note of a thread that writes no more.
    pub(crate) fn copy(&self) -> Claim {
        Claim {
            word: AtomicU64::new(self.word.load(Acquire)),
            chunk: AtomicU64::new(self.chunk.load(Relaxed)),
            quick: AtomicU32::new(0),
        }
    }

    /// Says that it is at none any more.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        let count = self.word.load(Relaxed) & !u64::from(u32::MAX);
        // Release: partner is `spot`; the result has been given (`Slot::finish`).
        self.word.store(count, Release);
    }

    pub(crate) fn spot(&self) -> Option<Spot> {
        // Acquire: partners are `clear` and `set`, before whose store the thread has
        // given the result of its last request.
        let low = self.word.load(Acquire) as u32 as usize;
        (low & 0xffff != 0).then(|| Spot { lane: low >> 16, at: (low & 0xffff) - 1 })
    }

    /// Whether the thread is at a request.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.word.load(Relaxed) as u32 != 0
    }

    /// Differs between two requests, also of the same slot.
    pub(crate) fn word(&self) -> u64 {
        self.word.load(Relaxed)
    }

    pub(crate) fn count_quick(&self) {
        self.quick.store(self.quick.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(crate) fn quick(&self) -> u32 {
        self.quick.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_first_and_the_last_slot_there_can_be() {
        let claim = Claim::default();
        assert_eq!(claim.spot(), None);
        for spot in [Spot { lane: 0, at: 0 }, Spot { lane: 63, at: 4095 }] {
            claim.set(spot);
            assert_eq!(claim.spot(), Some(spot));
            let word = claim.word();
            claim.clear();
            assert!(claim.spot().is_none() && !claim.is_set());
            claim.set(spot);
            assert_ne!(claim.word(), word);
        }
    }

    #[test]
    fn a_thread_at_calls_without_a_slot_is_at_something() {
        let claim = Claim::default();
        claim.hold(63);
        assert!(claim.is_set() && claim.spot().is_none() && claim.left().is_none());
        claim.advance(&(4000..4096), 4095);
        let left = Some(Left { lane: 63, chunk: 4000..4096, at: 4095 });
        assert_eq!((claim.left(), claim.copy().left()), (left.clone(), left));
        claim.clear();
        assert!(!claim.is_set() && claim.left().is_none());
    }
}
