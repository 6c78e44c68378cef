//! A lane: the slots of an open lane, or of one that a requesting thread leases. That thread
//! hands a single call over in the first slot, and offers batches where they stand
//! (`offer.rs`).

use crate::slot::Slot;

/// What precedes a lane's slots (`struct parasc_lane`, kernel/uapi/parasc.h): reserved.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Control {
    _reserved: [u64; 16],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Control>() == 128);

/// For comparison with the header (`tests.rs`).
#[cfg(all(test, not(loom)))]
pub(crate) const LAYOUT: &[(&str, usize)] = &[("sizeof(struct parasc_lane)", size_of::<Control>())];

/// One lane of an area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) slots: &'a [Slot],
}
