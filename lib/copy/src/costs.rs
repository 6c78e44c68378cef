//! What decides between the ways to copy, measured on this machine.

pub(crate) use kumiki_sys::ticks;

/// Bytes copied first, whose time tells whether the destination has pages: short beside
/// what is worth a fork, and so long that one slow line does not count. Row `copy_fresh`.
pub(crate) const PIECE: usize = 8 << 10;

/// Length below which it is `memcpy` and nothing else. From memory two threads would be faster from
/// an eighth of it on, where they are two cores. But in a cache a copy so short takes so little
/// that looking at the clock shows, and a mistake about where it is doubles its time. Rows
/// `copy_warm` and `copy_cold`.
pub(crate) const FLOOR: usize = 1 << 20;
/// [`Costs::stream_from`] is this at least: a middle needs some length. Row `copy_stale_ends`.
pub(crate) const LEAST: usize = FLOOR / 2;
/// A fork and join of which nothing is known yet, or that the helper has never come to: a
/// microsecond or two. Row `copy_first`.
pub(crate) const ASSUMED_FORK: u64 = 4000;

/// Costs in ticks of the time stamp counter.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    /// Fork and join of nothing; `None` until the helper was awake after a copy.
    pub(crate) fork_ticks: Option<u64>,
    /// `memcpy` of a piece from memory to memory, the first one at its place:
    /// nobody has prefetched for it.
    pub(crate) first_ticks: u64,
    /// The cost in the middle of a long copy.
    pub(crate) later_ticks: u64,
    /// Lines of a [`Probe`](crate::probe::Probe) that are read in less are in a cache.
    pub(crate) probe_ticks: u64,
    /// Copies of so many bytes, [`LEAST`] or more, go past the caches: source
    /// and destination together are more than the largest cache that a core has alone.
    pub(crate) stream_from: usize,
}

impl Costs {
    /// Bytes from which two threads are faster than one: half of the time to
    /// copy them from memory is at least three times what a fork costs, so
    /// that a fork that costs more this time does not lose. Row `copy_cold`.
    pub(crate) fn share_from(&self, wake_ticks: u64) -> usize {
        let fork = self.fork().saturating_add(wake_ticks);
        let bytes = u128::from(fork) * 6 * PIECE as u128 / u128::from(self.later_ticks);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// True if a fork for nothing does not show beside `len` bytes: not even in a cache five times
    /// as fast as memory it takes a twelfth of the time. Row `copy_warm`.
    pub(crate) fn fork_is_nothing(&self, len: usize) -> bool {
        self.fork().saturating_mul(64) <= self.later(len)
    }

    fn fork(&self) -> u64 {
        self.fork_ticks.unwrap_or(ASSUMED_FORK)
    }

    /// True if the first `len` bytes of a copy, [`PIECE`] or more, took twice as long as from
    /// memory to memory, or longer: the destination may have had no pages. Row `copy_fresh`.
    pub(crate) fn is_slow(&self, len: usize, ticks: u64) -> bool {
        let cold = self.first_ticks.saturating_add(self.later(len - PIECE));
        ticks >= cold.saturating_mul(2)
    }

    /// True if `len` bytes after the first came from memory, where a cache is two to three times as
    /// fast. Row `copy_stale_start`.
    pub(crate) fn later_from_memory(&self, len: usize, ticks: u64) -> bool {
        ticks.saturating_mul(3) > self.later(len).saturating_mul(2)
    }

    /// Ticks to copy so many bytes, some megabytes at most, from memory in the middle
    /// of a long copy.
    pub(crate) fn later(&self, len: usize) -> u64 {
        self.later_ticks.saturating_mul(len as u64) / PIECE as u64
    }
}

/// Ticks until `work` is done and its loads have arrived.
#[inline(always)]
pub(crate) fn ticks_of(work: impl FnOnce()) -> u64 {
    // Loads would wait for stores of the piece before.
    stores_are_made();
    let start = ticks();
    work();
    // The counter would not wait for the loads.
    loads_have_arrived();
    ticks().saturating_sub(start)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn stores_are_made() {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { std::arch::x86_64::_mm_mfence() };
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn loads_have_arrived() {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { std::arch::x86_64::_mm_lfence() };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn stores_are_made() {
    // SAFETY: orders; it changes nothing.
    unsafe { std::arch::asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn loads_have_arrived() {
    // SAFETY: orders; it changes nothing.
    unsafe { std::arch::asm!("dsb ishld", "isb", options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        fork_ticks: Some(1000),
        first_ticks: 1200,
        later_ticks: 800,
        probe_ticks: 400,
        stream_from: 1 << 19,
    };

    #[test]
    fn a_dearer_fork_needs_a_longer_copy() {
        assert_eq!(COSTS.share_from(0), 60 * PIECE / 8);
        assert_eq!(COSTS.share_from(1000), 15 * PIECE);
        assert!(COSTS.share_from(u64::MAX) > 1 << 60);
    }

    #[test]
    fn times_are_compared_with_those_from_memory() {
        for (pieces, slow) in [(1, 2400), (2, 4000)] {
            assert!(COSTS.is_slow(pieces * PIECE, slow) && COSTS.is_slow(PIECE, u64::MAX));
            assert!(!COSTS.is_slow(pieces * PIECE, slow - 1));
        }
        assert!(COSTS.later_from_memory(16 * PIECE, 16 * 540));
        assert!(!COSTS.later_from_memory(16 * PIECE, 16 * 530));
    }

    #[test]
    fn a_fork_of_which_nothing_is_known_is_assumed_to_be_dear() {
        let unknown = Costs { fork_ticks: None, ..COSTS };
        assert_eq!(unknown.share_from(0), 4 * COSTS.share_from(0));
        assert!(COSTS.fork_is_nothing(80 * PIECE) && !unknown.fork_is_nothing(80 * PIECE));
    }
}
