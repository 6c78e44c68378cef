//! How much of a shared batch the caller keeps for itself: such that it and the others
//! are ready at the same time.

use super::Sample;
use super::entry::WEIGHT;

/// The part of what the caller is guessed to make of a batch that it keeps at first.
const KEPT: f32 = 0.9;
/// By which part of a batch it changes at most, before [`WEIGHT`].
const STEP: f32 = 1.0 / 16.0;

/// Batches from which it is learnt, about.
const LEARNT: u32 = 32;

/// The caller's part of a batch, once others have helped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    part: Option<f32>,
    batches: u32,
}

impl Own {
    /// How many of `calls` to share with `others`.
    pub(super) fn of(self, calls: usize, others: usize) -> usize {
        let own = self.part.unwrap_or(KEPT / (1 + others) as f32);
        (own * calls as f32) as usize
    }

    /// Learns from a batch that others have helped with. A call that the caller could
    /// have kept has to be claimed, at the price of a line's way or two; one too many
    /// that it has kept the others wait for.
    pub(super) fn learn(&mut self, Sample { calls, helped, kept, .. }: Sample) {
        let part = |count: usize| count as f32 / calls as f32;
        let own = self.part.get_or_insert(part(kept));
        let change = if helped == calls - kept { -1.0 } else { part(calls - helped) - *own };
        *own = (*own + change.clamp(-STEP, STEP) * WEIGHT).clamp(0.0, 1.0 - part(1));
        self.batches = self.batches.saturating_add(1);
    }

    /// Whether enough batches have taught it that it need not learn from each.
    pub(super) fn is_learnt(self) -> bool {
        self.batches >= LEARNT
    }
}
