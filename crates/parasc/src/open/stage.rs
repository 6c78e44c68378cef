//! Whose a slot of an open lane is, as this process knows it.
//!
//! The status lies in memory where foreign hands may write, and a request must neither
//! wait for ever for what one has written nor end while a thread is at its buffers.
//! So the status says where there is something to do, and the *stage*, beside it in
//! this process's memory, who does it:
//!
//! | from | to | who |
//! |---|---|---|
//! | `OPEN` | `RESERVED` | who has swapped the status from `FREE` |
//! | `RESERVED` | `OPEN` | the same, for nobody |
//! | `RESERVED` | `WAITING` | the same, for a task; the side's lock is held until the request is published |
//! | `WAITING` | `BEGUN` | who has taken the request or rejects it |
//! | `BEGUN` | `OPEN` | the same, or who has found it dead; it has the task then, and frees the slot |
//! | `RESERVED` | `PLACING` | who has reserved the slot, for a request by hand |
//! | `PLACING` | `PLACED` | the same, the request published |
//! | `PLACING`, `PLACED` | `TAKEN` | who has taken the request; who rejects it, from `PLACED` |
//! | `TAKEN` | `ANSWERED` | the same, or who has found it dead; the result is in the slot |
//! | `ANSWERED` | `OPEN` | who collects the result, and frees the slot |
//!
//! # What a foreign hand has spoilt
//! Under the side's lock, a slot in `WAITING` is in `REQUEST`, or in `PROCESSING` with a
//! note (`claim.rs`) of who is about to swap the stage. So is one in `PLACED`, as long as
//! the generation is the same: no lock is taken for that, which a child of fork(2) may
//! have inherited. Anything else a foreign hand has written; whoever comes upon it
//! *rejects* the request, which ends with `EINVAL`. But not as long as there is a note:
//! that thread may have taken the request before the foreign hand came, and would find
//! another one's stage. One in `BEGUN` or `TAKEN` is answered by who has begun it,
//! whatever the status.
//!
//! What a foreign hand requests itself is served as well: in `OPEN`, where the status is
//! all there is.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::Taken;
use crate::primitive::AtomicU64;

/// Free, or a foreign hand's.
pub(super) const OPEN: u32 = 0;
pub(super) const RESERVED: u32 = 1;
pub(super) const WAITING: u32 = 2;
pub(super) const BEGUN: u32 = 3;
pub(super) const PLACING: u32 = 4;
pub(super) const PLACED: u32 = 5;
pub(super) const TAKEN: u32 = 6;
pub(super) const ANSWERED: u32 = 7;

/// A slot's stage, and how many requests have been in the slot: its generation. A swap
/// is of both, so of the request that was seen.
#[derive(Debug)]
pub(super) struct Stage(AtomicU64);

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) generation: u32,
    pub(super) stage: u32,
}

impl Seen {
    /// What waits to be begun, and the stage that it goes to then.
    pub(super) fn waiting(self) -> Option<(u32, Taken)> {
        match self.stage {
            WAITING => Some((BEGUN, Taken::Task)),
            PLACING | PLACED => Some((TAKEN, Taken::ByHand)),
            _ => None,
        }
    }

    /// What somebody has begun.
    pub(super) fn begun(self) -> Option<Taken> {
        match self.stage {
            BEGUN => Some(Taken::Task),
            TAKEN => Some(Taken::ByHand),
            _ => None,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.stage)
    }
}

impl Stage {
    /// Requests are of generations after this one.
    pub(super) fn new(generation: u32) -> Self {
        Stage(AtomicU64::new(Seen { generation, stage: OPEN }.word()))
    }

    pub(super) fn get(&self) -> Seen {
        // Acquire: partners are `swap` and `set`.
        let word = self.0.load(Acquire);
        Seen { generation: (word >> 32) as u32, stage: word as u32 }
    }

    pub(super) fn is(&self, stage: u32) -> bool {
        self.get().stage == stage
    }

    /// Goes on from what was seen, unless somebody else has.
    pub(super) fn swap(&self, seen: Seen, stage: u32) -> bool {
        let next = Seen { stage, ..seen };
        // Release: partner is `get`.
        self.0.compare_exchange(seen.word(), next.word(), AcqRel, Relaxed).is_ok()
    }

    /// Goes on. By whose the slot is, where nobody else swaps.
    pub(super) fn set(&self, stage: u32) {
        // Release: partner is `get`.
        self.0.store(Seen { stage, ..self.get() }.word(), Release);
    }

    /// A new request in the slot, which is the caller's. Returns its generation.
    pub(super) fn begin(&self, stage: u32) -> u32 {
        let generation = self.get().generation.wrapping_add(1);
        self.0.store(Seen { generation, stage }.word(), Release);
        generation
    }
}
