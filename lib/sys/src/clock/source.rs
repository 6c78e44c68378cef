//! The two counters.

use rustix::time::{ClockId, clock_gettime};

use super::tsc::Tsc;

/// Counter of the ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Tsc(Tsc),
    MonotonicRaw,
}

/// The kernel's clock that nobody slews, nanoseconds since boot.
#[inline(always)]
pub(super) fn monotonic_raw_ns() -> u64 {
    let t = clock_gettime(ClockId::MonotonicRaw);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
