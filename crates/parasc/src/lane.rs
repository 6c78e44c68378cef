//! A lane: slots that one requesting thread fills from the first on, and what
//! processing threads need to find their way in it.
//!
//! ```text
//!            slot 0                                            slot n-1
//!   batch    ├──────────────────────────────────────────────────┤
//!            ► processing threads, a chunk at a time             ◄ the requesting
//!              (next, on a line of their own)                      thread, helping
//!   published ──────────────────────────► grows while the batch is being filled
//! ```
//!
//! Nothing here decides who executes a request: the slot's status does
//! (`slot.rs`). `published` is written by the requesting thread alone and `next`
//! by processing threads alone, so neither waits for the other's line. Both
//! carry the batch's number: a word left from an earlier batch reads as "nothing
//! claimed", and a late claim on it sends its owner to slots where it takes
//! what it finds or nothing.
//!
//! A batch of one stays out of both words: processing threads that spin look at
//! the first slot itself, so request and answer need no second line.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::primitive::AtomicU64;
use crate::slot::Slot;

/// What is known about a lane (`struct parasc_lane`, kernel/uapi/parasc.h).
/// Batch number in the high half of each word, slots in the low half.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Control {
    /// Slots of this batch that may be in `REQUEST`.
    published: AtomicU64,
    _line: [u64; 7],
    /// The first slot that no processing thread has claimed.
    next: AtomicU64,
    _next_line: [u64; 7],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Control>() == 128);
    assert!(std::mem::offset_of!(Control, next) == 64);
};

/// For comparison with the header (`uapi.rs`).
#[cfg(all(test, not(loom)))]
pub(crate) const LAYOUT: &[(&str, usize)] = &[
    ("sizeof(struct parasc_lane)", size_of::<Control>()),
    ("offsetof(struct parasc_lane, published)", std::mem::offset_of!(Control, published)),
    ("offsetof(struct parasc_lane, next)", std::mem::offset_of!(Control, next)),
];

/// One lane of an area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) control: &'a Control,
    pub(crate) slots: &'a [Slot],
}

const fn pack(batch: u32, slots: u32) -> u64 {
    (batch as u64) << 32 | slots as u64
}

impl Lane<'_> {
    /// Number of the last batch that the control words tell of.
    pub(crate) fn batch(&self) -> u32 {
        (self.control.published.load(Relaxed) >> 32) as u32
    }

    /// Says that the first `slots` slots of `batch` may be looked at. By the
    /// requesting thread only.
    #[inline(always)]
    pub(crate) fn publish(&self, batch: u32, slots: usize) {
        // Release: partner is `claim`; it finds the slots filled.
        self.control.published.store(pack(batch, slots as u32), Release);
    }

    /// Claims some of the next slots for a processing thread to look at:
    /// one part in `share` of what is left, at most `most`.
    #[inline]
    pub(crate) fn claim(&self, share: usize, most: usize) -> Option<Range<usize>> {
        // Acquire: partner is `publish`.
        let published = self.control.published.load(Acquire);
        let mut next = self.control.next.load(Relaxed);
        loop {
            let end = published as u32 as usize;
            let start = if next >> 32 == published >> 32 { next as u32 as usize } else { 0 };
            if start >= end {
                return None;
            }
            let len = ((end - start) / share).clamp(1, most);
            let after = pack((published >> 32) as u32, (start + len) as u32);
            match self.control.next.compare_exchange_weak(next, after, Relaxed, Relaxed) {
                Ok(_) => return Some(start..start + len),
                Err(now) => next = now,
            }
        }
    }

    /// Whether a processing thread would find something to look at.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        self.slots[0].is_requested() || {
            let published = self.control.published.load(Acquire);
            let next = self.control.next.load(Relaxed);
            let claimed = if next >> 32 == published >> 32 { next as u32 as usize } else { 0 };
            published as u32 as usize > claimed
        }
    }
}
