//! Free frames that are handed on many at a time: a frame that lists others.

use std::ptr::NonNull;

use super::FRAME;

/// Frames that a batch lists beside itself: what eight cache lines hold.
pub(super) const LISTED: usize = 62;
/// Batches of free frames that a pool keeps to itself beside its hand: 4 MiB.
pub(super) const STOCK: usize = (4 << 20) / ((LISTED + 1) * FRAME);

/// A frame that lists others.
pub(super) struct Batch {
    pub(super) next: *mut Batch,
    pub(super) count: usize,
    pub(super) frames: [*mut u8; LISTED],
}

const _: () = assert!(size_of::<Batch>() <= 8 * 64);

/// The last batch of a chain of the caller's.
pub(super) fn last_of(first: *mut Batch) -> Option<NonNull<Batch>> {
    // SAFETY: batches of a chain that is the caller's.
    let next = |batch: &NonNull<Batch>| NonNull::new(unsafe { batch.as_ref() }.next);
    std::iter::successors(NonNull::new(first), next).last()
}
