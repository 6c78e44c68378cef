//! The memory that requesting and processing threads share: one page
//! (`struct parasc_area`, node/kernel/uapi/parasc.h).

use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use crate::line::Line;
use crate::primitive::{AtomicU32, AtomicU64};

/// "prac" in memory.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"prac");
pub(crate) const VERSION: u32 = 7;

/// Lines of an area: as many as a page has beside the first two.
pub(crate) const LINES: usize = 62;

/// Requesting threads at the same time, each with a lane of its own.
pub(crate) const REQUESTERS: usize = LINES - 1;

/// The line of requests placed by hand, which has no side.
pub(crate) const PLACED: usize = LINES - 1;

/// The shared memory of one engine. A lane is the place of one requesting thread: a line
/// here, and a [`Side`](crate::side::Side).
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Area {
    /// The paper's termination flag: not 0, and processing threads return.
    terminate: AtomicU32,
    magic: u32,
    version: u32,
    /// Changes: threads inside the kernel return.
    recalls: AtomicU32,
    /// Number of these that sleep there.
    sleepers: AtomicU32,
    /// Number of requesting threads that sleep there, which those of an engine never do.
    waiters: AtomicU32,
    _reserved0: [u32; 10],
    /// Bit i: lane i may hold a request.
    open: AtomicU64,
    /// Bit i: lane i is not for threads inside the kernel.
    others: AtomicU64,
    /// Bit i: the requesting thread of lane i waits to be woken.
    asleep: AtomicU64,
    _reserved1: [u64; 5],
    lines: [Line; LINES],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Area>() == 4096);
    assert!(std::mem::offset_of!(Area, terminate) == 0);
    assert!(std::mem::offset_of!(Area, open) == 64);
    assert!(std::mem::offset_of!(Area, lines) == 128);
};

impl Default for Area {
    fn default() -> Self {
        Area {
            terminate: AtomicU32::new(0),
            magic: MAGIC,
            version: VERSION,
            recalls: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            _reserved0: [0; 10],
            open: AtomicU64::new(0),
            others: AtomicU64::new(0),
            asleep: AtomicU64::new(0),
            _reserved1: [0; 5],
            lines: std::array::from_fn(|_| Line::default()),
        }
    }
}

impl Area {
    /// The line of a lane: a requesting thread's offer.
    #[inline(always)]
    pub(crate) fn line(&self, lane: usize) -> &Line {
        &self.lines[lane]
    }

    /// Tells all processing threads to return. They must be woken after it.
    pub(crate) fn terminate(&self) {
        self.terminate.store(1, Release);
    }

    #[inline(always)]
    pub(crate) fn is_terminated(&self) -> bool {
        self.terminate.load(Acquire) != 0
    }

    /// Count that a thread which serves inside the kernel has seen before its last look at all else
    /// that it is for.
    pub(crate) fn recalls(&self) -> u32 {
        self.recalls.load(SeqCst)
    }

    /// Has threads that serve inside the kernel come back and look at all that they are for.
    pub(crate) fn recall(&self) {
        self.recalls.fetch_add(1, SeqCst);
    }

    /// Number of processing threads that sleep inside the kernel.
    pub(crate) fn sleepers(&self) -> u32 {
        self.sleepers.load(SeqCst)
    }

    /// Number of requesting threads that sleep there.
    pub(crate) fn waiters(&self) -> u32 {
        self.waiters.load(SeqCst)
    }

    /// Says that a lane is for others than threads inside the kernel, or not only for others.
    pub(crate) fn leave_to_others(&self, lane: usize, leave: bool) {
        mark(&self.others, lane, leave);
    }

    /// Says that a lane's requesting thread waits to be woken by threads inside the kernel, or
    /// does not. Partner of the former is the barrier of a swap there.
    pub(crate) fn sleeps(&self, lane: usize, sleeps: bool) {
        mark(&self.asleep, lane, sleeps);
    }

    /// Lanes that may hold requests, a bit each.
    #[inline(always)]
    pub(crate) fn open_lanes(&self) -> u64 {
        self.open.load(Acquire)
    }

    pub(crate) fn open_lane(&self, lane: usize) {
        self.open.fetch_or(1 << lane, Release);
    }

    pub(crate) fn close_lane(&self, lane: usize) {
        self.open.fetch_and(!(1 << lane), Release);
    }
}

fn mark(lanes: &AtomicU64, lane: usize, is: bool) {
    match is {
        true => lanes.fetch_or(1 << lane, SeqCst),
        false => lanes.fetch_and(!(1 << lane), SeqCst),
    };
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;

    /// Layout, for comparison with the header (`tests.rs` of the crate).
    pub(crate) const LAYOUT: &[(&str, usize)] = &[
        ("sizeof(struct parasc_area)", size_of::<Area>()),
        ("offsetof(struct parasc_area, terminate)", std::mem::offset_of!(Area, terminate)),
        ("offsetof(struct parasc_area, magic)", std::mem::offset_of!(Area, magic)),
        ("offsetof(struct parasc_area, version)", std::mem::offset_of!(Area, version)),
        ("offsetof(struct parasc_area, recalls)", std::mem::offset_of!(Area, recalls)),
        ("offsetof(struct parasc_area, open_lines)", std::mem::offset_of!(Area, open)),
        ("offsetof(struct parasc_area, other_lines)", std::mem::offset_of!(Area, others)),
        ("offsetof(struct parasc_area, asleep_lines)", std::mem::offset_of!(Area, asleep)),
        ("offsetof(struct parasc_area, lines)", std::mem::offset_of!(Area, lines)),
    ];
}
