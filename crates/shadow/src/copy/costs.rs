//! What decides between the ways to copy, measured on this machine.

use std::arch::x86_64::{_mm_clflush, _mm_lfence, _mm_mfence, _rdtsc};
use std::hint::black_box;

use kumiki_sys::topology::Topology;

use super::Pair;
use super::region::Region;

/// Bytes copied to see where the rest comes from: long enough that reading the
/// counter does not matter, short beside what is worth a fork.
pub(super) const PIECE: usize = 8 << 10;

/// Pieces copied from memory to measure it, side by side as in a long copy.
const PIECES: usize = 16;
/// Forks measured; the first ones may wake the helper.
const FORKS: usize = 32;
/// Used where the kernel does not tell (no cache files in sysfs).
const TYPICAL_CORE_CACHE: u64 = 1 << 20;

/// Costs in ticks of the time stamp counter.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// Fork and join of nothing.
    fork_ticks: u64,
    /// `memcpy` of a piece from memory to memory.
    cold_ticks: u64,
    /// Copies of so many bytes go past the caches: source and destination
    /// together are more than the largest cache that a core has alone.
    pub(super) stream_from: usize,
}

impl Costs {
    /// Takes some 50 µs, and once more as long when the topology is read.
    pub(super) fn measure<P: Pair>(pair: &mut P) -> Self {
        // The least: a fork has a floor, and whatever disturbs only adds.
        let forks = (0..FORKS).map(|_| ticks_of(|| pair.both(|| (), || ())));
        Costs {
            fork_ticks: forks.min().unwrap_or(0),
            cold_ticks: cold_piece().max(1),
            stream_from: (core_cache_bytes() / 2) as usize,
        }
    }

    /// Bytes from which two threads are faster than one: half of the time to
    /// copy them is at least twice what it costs to fork.
    pub(super) fn share_from(&self, wake_ticks: u64) -> usize {
        let fork = self.fork_ticks.saturating_add(wake_ticks);
        let bytes = u128::from(fork) * 4 * PIECE as u128 / u128::from(self.cold_ticks);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Whether copying `len` bytes took so long that they came from memory.
    /// Two threads gain at most a factor of about two and a half over one that
    /// copies from memory, so whatever is twice as fast is left alone.
    pub(super) fn from_memory(&self, len: usize, ticks: u64) -> bool {
        let cold = u128::from(self.cold_ticks) * len as u128 / PIECE as u128;
        u128::from(ticks) * 2 > cold
    }
}

/// Ticks until `work` is done and its loads have arrived.
pub(super) fn ticks_of(work: impl FnOnce()) -> u64 {
    // SAFETY: every x86-64 processor has the counter.
    let start = unsafe { _rdtsc() };
    work();
    // SAFETY: SSE2 is part of x86-64. The counter would not wait for the loads.
    unsafe { _mm_lfence() };
    // SAFETY: as above.
    unsafe { _rdtsc() }.saturating_sub(start)
}

/// Ticks to copy a piece that is in no cache; the median of some.
fn cold_piece() -> u64 {
    let (mut to, from) = (vec![1_u8; PIECE * PIECES], vec![2_u8; PIECE * PIECES]);
    evict(black_box(&to));
    evict(black_box(&from));
    let pieces = to.chunks_exact_mut(PIECE).zip(from.chunks_exact(PIECE));
    let mut ticks: Vec<u64> = pieces
        .filter_map(|(to, from)| Region::new(to, from).ok())
        .map(|piece| ticks_of(|| piece.copy()))
        .collect();
    black_box(&to);
    ticks.sort_unstable();
    ticks[PIECES / 2]
}

/// Removes `bytes` from all caches.
fn evict(bytes: &[u8]) {
    const LINE: usize = 64;
    for line in bytes.chunks(LINE) {
        // SAFETY: SSE2 is part of x86-64, and the address is that of readable
        // memory.
        unsafe { _mm_clflush(line.as_ptr()) };
    }
    // SAFETY: as above. Orders the evictions before the loads that follow.
    unsafe { _mm_mfence() };
}

/// Bytes of the largest data cache that the cpus of one core have to
/// themselves.
fn core_cache_bytes() -> u64 {
    let Ok(topology) = Topology::read() else { return TYPICAL_CORE_CACHE };
    let sizes = topology.cpus().flat_map(|cpu| {
        let own = cpu.caches.iter().filter(|cache| cache.shared.len() <= cpu.siblings.len());
        own.filter_map(|cache| cache.size_bytes)
    });
    sizes.max().unwrap_or(TYPICAL_CORE_CACHE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { fork_ticks: 1000, cold_ticks: 800, stream_from: 1 << 19 };

    #[test]
    fn a_dearer_fork_needs_a_longer_copy() {
        assert_eq!(COSTS.share_from(0), 5 * PIECE);
        assert_eq!(COSTS.share_from(1000), 10 * PIECE);
        assert!(COSTS.share_from(u64::MAX) > 1 << 60);
    }

    #[test]
    fn twice_as_fast_as_memory_is_a_cache() {
        assert!(COSTS.from_memory(PIECE, 800));
        assert!(COSTS.from_memory(PIECE, 401));
        assert!(!COSTS.from_memory(PIECE, 400));
        assert!(COSTS.from_memory(16 * PIECE, 16 * 401));
        assert!(!COSTS.from_memory(16 * PIECE, 16 * 400));
    }
}
