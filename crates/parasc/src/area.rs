//! The memory that requesting and processing threads share
//! (`struct parasc_area`, kernel/uapi/parasc.h).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use kumiki_sys::shm::{Anon, Huge, Populate};

use crate::lane::{Control, Lane};
use crate::slot::Slot;

/// "prac" in memory.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"prac");
pub(crate) const VERSION: u32 = 2;

/// Lanes that an area can have: the bits of [`Header::open_lanes`].
pub(crate) const MAX_LANES: usize = 64;
/// Lanes in which any thread may place requests: the first for calls that are
/// soon over, the second for those that sleep.
pub(crate) const OPEN_LANES: usize = 2;
/// The lane for calls that are soon over.
pub(crate) const QUICK_LANE: usize = 0;
/// The lane for calls that sleep, which only the pool's threads serve.
pub(crate) const SLEEPING_LANE: usize = 1;
/// Slots that a lane can have.
pub(crate) const MAX_LANE_SLOTS: usize = 4096;

/// The first two lines of the area.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Header {
    /// The paper's termination flag: not 0, and processing threads return.
    terminate: AtomicU32,
    magic: AtomicU32,
    version: AtomicU32,
    lanes: AtomicU32,
    lane_slots: AtomicU32,
    _reserved0: [u32; 11],
    /// Bit i: lane i may hold requests.
    open_lanes: AtomicU64,
    _reserved1: [u64; 7],
}

const _: () = {
    assert!(size_of::<Header>() == 128);
    assert!(std::mem::offset_of!(Header, terminate) == 0);
    assert!(std::mem::offset_of!(Header, lane_slots) == 16);
    assert!(std::mem::offset_of!(Header, open_lanes) == 64);
};

/// For comparison with the header (`tests.rs`).
#[cfg(all(test, not(loom)))]
pub(crate) const LAYOUT: &[(&str, usize)] = &[
    ("sizeof(struct parasc_area)", size_of::<Header>()),
    ("offsetof(struct parasc_area, terminate)", std::mem::offset_of!(Header, terminate)),
    ("offsetof(struct parasc_area, magic)", std::mem::offset_of!(Header, magic)),
    ("offsetof(struct parasc_area, version)", std::mem::offset_of!(Header, version)),
    ("offsetof(struct parasc_area, lanes)", std::mem::offset_of!(Header, lanes)),
    ("offsetof(struct parasc_area, lane_slots)", std::mem::offset_of!(Header, lane_slots)),
    ("offsetof(struct parasc_area, open_lanes)", std::mem::offset_of!(Header, open_lanes)),
];

/// The shared memory of one engine.
#[derive(Debug)]
pub(crate) struct Area {
    memory: Anon,
    lanes: usize,
    lane_slots: usize,
}

impl Area {
    /// Memory for `lanes` lanes of `lane_slots` slots, all free.
    pub(crate) fn new(lanes: usize, lane_slots: usize) -> kumiki_sys::Result<Self> {
        debug_assert!((1..=MAX_LANES).contains(&lanes));
        debug_assert!((1..=MAX_LANE_SLOTS).contains(&lane_slots));
        let bytes = size_of::<Header>() + lanes * lane_bytes(lane_slots);
        // Zeros are free slots. Lanes nobody leases never get a page.
        let memory = Anon::new(bytes, Huge::Never, Populate::OnTouch)?;
        let area = Area { memory, lanes, lane_slots };
        let header = area.header();
        header.magic.store(MAGIC, Relaxed);
        header.version.store(VERSION, Relaxed);
        header.lanes.store(lanes as u32, Relaxed);
        header.lane_slots.store(lane_slots as u32, Relaxed);
        Ok(area)
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header: it is page-aligned, longer
        // than that, lives as long as `self`, and all fields are atomic.
        unsafe { &*self.memory.as_ptr().cast::<Header>() }
    }

    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    pub(crate) fn lane_slots(&self) -> usize {
        self.lane_slots
    }

    /// Where the area begins, for the kernel module.
    pub(crate) fn start(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// How long the area is, bytes.
    pub(crate) fn length(&self) -> usize {
        size_of::<Header>() + self.lanes * lane_bytes(self.lane_slots)
    }

    /// Lane `index`.
    #[inline(always)]
    pub(crate) fn lane(&self, index: usize) -> Lane<'_> {
        assert!(index < self.lanes, "lane {index} of {}", self.lanes);
        let offset = size_of::<Header>() + index * lane_bytes(self.lane_slots);
        // SAFETY: within the mapping, whose length `new` made of the same sum.
        let control = unsafe { self.memory.as_ptr().add(offset) }.cast::<Control>();
        // SAFETY: as above; the slots follow the control lines.
        let slots = unsafe { control.add(1) }.cast::<Slot>();
        Lane {
            // SAFETY: aligned to a line (the mapping to a page, all offsets to
            // 64), in bounds, lives as long as `self`, and of atomics only.
            slots: unsafe { std::slice::from_raw_parts(slots, self.lane_slots) },
        }
    }
}

const fn lane_bytes(slots: usize) -> usize {
    size_of::<Control>() + slots * size_of::<Slot>()
}

impl Header {
    /// Tells all processing threads to return. They must be woken after it.
    pub(crate) fn terminate(&self) {
        self.terminate.store(1, Release);
    }

    #[inline(always)]
    pub(crate) fn is_terminated(&self) -> bool {
        self.terminate.load(Acquire) != 0
    }

    /// Leased lanes that may hold requests, a bit each.
    #[inline(always)]
    pub(crate) fn open_lanes(&self) -> u64 {
        self.open_lanes.load(Acquire)
    }

    pub(crate) fn open_lane(&self, lane: usize) {
        self.open_lanes.fetch_or(1 << lane, Release);
    }

    pub(crate) fn close_lane(&self, lane: usize) {
        self.open_lanes.fetch_and(!(1 << lane), Release);
    }
}
