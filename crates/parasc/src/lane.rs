//! A lane: slots of an open lane, or of one that a requesting thread leases, which hands a
//! call over in the first of them. Its batches it offers where they stand (`offer.rs`).

use crate::primitive::AtomicU64;
use crate::slot::Slot;

/// What is known about a lane (`struct parasc_lane`, kernel/uapi/parasc.h): of batches in
/// slots, of which there are none here.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Control {
    _published: AtomicU64,
    _line: [u64; 7],
    _next: AtomicU64,
    _next_line: [u64; 7],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Control>() == 128);
    assert!(std::mem::offset_of!(Control, _next) == 64);
};

/// For comparison with the header (`uapi.rs`).
#[cfg(all(test, not(loom)))]
pub(crate) const LAYOUT: &[(&str, usize)] = &[
    ("sizeof(struct parasc_lane)", size_of::<Control>()),
    ("offsetof(struct parasc_lane, published)", std::mem::offset_of!(Control, _published)),
    ("offsetof(struct parasc_lane, next)", std::mem::offset_of!(Control, _next)),
];

/// One lane of an area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) slots: &'a [Slot],
}
