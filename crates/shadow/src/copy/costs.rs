//! What decides between the ways to copy, measured on this machine.

use std::arch::x86_64::{_mm_lfence, _mm_mfence, _rdtsc};
use std::hint::black_box;
use std::thread;

use kumiki_sys::cache::evict;
use kumiki_sys::topology::Topology;

use super::Pair;
use super::auto::LEAST;
use super::middle::Middle;
use crate::error::Result;
use crate::timed::Deadline;

/// Bytes copied first, to see where the rest comes from: short beside what is
/// worth a fork, and so long that one slow line does not count. Of pieces of
/// half the length one in twenty from the last-level cache took as long as the
/// fastest from memory.
pub(super) const PIECE: usize = 8 << 10;

/// Forks of which the median counts.
const FORKS: usize = 16;
/// Forks until so many have been answered by the helper. Taken back, one takes some
/// microseconds: together they take longer than a wake, and than a busy cpu's next turn.
const TRIES: usize = 1000;
/// Assumed where the helper has not come, or there is none: a microsecond or two.
const ASSUMED_FORK: u64 = 4000;
/// One that takes longer has waited for a helper that was on its way, ticks.
const LONGEST_FORK: u64 = 8 * ASSUMED_FORK;
/// Places where copies from memory are timed; an interrupt hits one of them.
const PLACES: usize = 8;
/// Pieces at each place: a first one, then so many that prefetchers do as well
/// as they ever do.
const RUN: usize = 12;
/// Used where the kernel does not tell (no cache files in sysfs).
const TYPICAL_CORE_CACHE: u64 = 1 << 20;

/// Costs in ticks of the time stamp counter.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// Fork and join of nothing.
    pub(super) fork_ticks: u64,
    /// `memcpy` of a piece from memory to memory, the first one at its place:
    /// nobody has prefetched for it.
    pub(super) first_ticks: u64,
    /// The same in the middle of a long copy.
    pub(super) later_ticks: u64,
    /// Some lines of a middle that are read in less are in a cache.
    pub(super) middle_ticks: u64,
    /// Copies of so many bytes, [`LEAST`] or more, go past the caches: source
    /// and destination together are more than the largest cache that a core has alone.
    pub(super) stream_from: usize,
}

/// Where a piece came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Cache,
    Memory,
    /// Memory, but not as fast as that is: the destination may have had no pages.
    Slow,
}

impl Costs {
    /// Takes two to six milliseconds, most of it page faults, evictions and
    /// reading sysfs; some 40 if the helper does not come. No step of it begins after the
    /// deadline: one fork, or what takes this thread a millisecond or so.
    pub(super) fn measure<P: Pair>(pair: &mut P, deadline: &Deadline) -> Result<Self> {
        let in_time = |done| match deadline.passed() {
            true => Err(deadline.error("measurements were made", done, FORKS + 2)),
            false => Ok(()),
        };
        let (middle_ticks, first_ticks, later_ticks) = from_memory(|| in_time(0))?;
        let fork_ticks = fork_and_join(pair, |answered| in_time(1 + answered))?;
        in_time(1 + FORKS)?;
        let stream_from = ((core_cache_bytes() / 2) as usize).max(LEAST);
        Ok(Costs { fork_ticks, first_ticks, later_ticks, middle_ticks, stream_from })
    }

    /// Bytes from which two threads are faster than one: half of the time to
    /// copy them from memory is at least three times what a fork costs, so
    /// that a fork that costs more this time does not lose.
    pub(super) fn share_from(&self, wake_ticks: u64) -> usize {
        let fork = self.fork_ticks.saturating_add(wake_ticks);
        let bytes = u128::from(fork) * 6 * PIECE as u128 / u128::from(self.later_ticks);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Whether a fork for nothing does not show beside `len` bytes: not even in a cache
    /// five times as fast as memory it takes a twelfth of the time.
    pub(super) fn fork_is_nothing(&self, len: usize) -> bool {
        self.fork_ticks.saturating_mul(64) <= self.later(len)
    }

    /// Where the first `len` bytes of a copy, [`PIECE`] or more, came from by the time
    /// they took. Such times vary by a fifth, and between moments by a third; a shared
    /// last-level cache is five times as fast on one machine, twice on another.
    pub(super) fn first_from(&self, len: usize, ticks: u64) -> From {
        let cold = self.first_ticks.saturating_add(self.later(len - PIECE));
        match ticks {
            ticks if ticks.saturating_mul(5) <= cold.saturating_mul(3) => From::Cache,
            ticks if ticks < cold.saturating_mul(2) => From::Memory,
            _ => From::Slow,
        }
    }

    /// Whether `len` bytes after the first came from memory, where a cache is two to
    /// three times as fast.
    pub(super) fn later_from_memory(&self, len: usize, ticks: u64) -> bool {
        ticks.saturating_mul(3) > self.later(len).saturating_mul(2)
    }

    /// Ticks to copy so many bytes, some megabytes at most, from memory in the middle
    /// of a long copy.
    pub(super) fn later(&self, len: usize) -> u64 {
        self.later_ticks.saturating_mul(len as u64) / PIECE as u64
    }
}

/// Ticks until `work` is done and its loads have arrived.
#[inline(always)]
pub(super) fn ticks_of(work: impl FnOnce()) -> u64 {
    // SAFETY: SSE2 is part of x86-64. Loads would wait for stores of the piece before.
    unsafe { _mm_mfence() };
    let start = ticks();
    work();
    // SAFETY: SSE2 is part of x86-64. The counter would not wait for the loads.
    unsafe { _mm_lfence() };
    ticks().saturating_sub(start)
}

/// The time stamp counter.
#[inline(always)]
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { _rdtsc() }
}

/// Ticks of a fork and join of nothing with a helper that is there. Forks that it does
/// not come to in time, because it sleeps or its cpu is busy, say nothing of that:
/// in one process of fifteen all of the first ones took 40 µs.
/// Before each, `in_time` is asked with the number of those that were answered.
fn fork_and_join<P: Pair>(pair: &mut P, in_time: impl Fn(usize) -> Result<()>) -> Result<u64> {
    let here = thread::current().id();
    let mut forks = Vec::with_capacity(FORKS);
    for _ in 0..TRIES {
        in_time(forks.len())?;
        let mut there = here;
        let ticks = ticks_of(|| pair.both(|| (), || there = thread::current().id()));
        if there != here && ticks < LONGEST_FORK {
            forks.push(ticks);
        }
        if forks.len() == FORKS {
            return Ok(median(forks));
        }
    }
    Ok(ASSUMED_FORK)
}

/// Ticks that tell a middle in a cache from one in none, and those to copy a piece that
/// is in none: where nothing was copied before, and following another. Before each step
/// `in_time` is asked.
fn from_memory(in_time: impl Fn() -> Result<()>) -> Result<(u64, u64, u64)> {
    // Places are apart and taken backwards, so no prefetcher has been there.
    const APART: usize = (RUN + 4) * PIECE;
    let filled = |byte: u8| in_time().map(|()| vec![byte; APART * PLACES]);
    let (mut to, from) = (filled(1)?, filled(2)?);
    for part in to.chunks(APART).chain(from.chunks(APART)) {
        in_time()?;
        evict(black_box(part));
    }
    in_time()?;
    let middle = quartile(from.chunks(APART).map(|part| Middle::of(part).ticks()).collect());
    let places = to.chunks_exact_mut(APART).zip(from.chunks_exact(APART));
    let (first, later) = places
        .rev()
        .map(|(to, from)| {
            let (to_first, to_later) = to[..(1 + RUN) * PIECE].split_at_mut(PIECE);
            let (from_first, from_later) = from[..(1 + RUN) * PIECE].split_at(PIECE);
            let first = ticks_of(|| to_first.copy_from_slice(from_first));
            (first, ticks_of(|| to_later.copy_from_slice(from_later)) / RUN as u64)
        })
        .unzip();
    black_box(&to);
    // Of a last-level cache a middle takes two thirds of that, and less.
    Ok((middle / 4 * 3, quartile(first).max(1), quartile(later).max(1)))
}

/// What a quarter of them is below. What evicting has written is still on its way to
/// memory at first, and others' work makes times longer, never shorter; with medians,
/// one process in fourteen took memory for a cache ever after.
fn quartile(ticks: Vec<u64>) -> u64 {
    above_one_in(4, ticks)
}

fn median(ticks: Vec<u64>) -> u64 {
    above_one_in(2, ticks)
}

fn above_one_in(part: usize, mut ticks: Vec<u64>) -> u64 {
    ticks.sort_unstable();
    ticks[ticks.len() / part]
}

/// Bytes of the largest data cache that the cpus of one core have to
/// themselves. A virtual machine that shows one cpu a socket shows a last-level cache
/// so, too.
fn core_cache_bytes() -> u64 {
    let Ok(topology) = Topology::read() else { return TYPICAL_CORE_CACHE };
    let sizes = topology.cpus().flat_map(|cpu| {
        let own = cpu
            .caches
            .iter()
            .filter(|cache| cache.level <= 2 && cache.shared.len() <= cpu.siblings.len());
        own.filter_map(|cache| cache.size_bytes)
    });
    sizes.max().unwrap_or(TYPICAL_CORE_CACHE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::one_thread::OneThread;

    const COSTS: Costs = Costs {
        fork_ticks: 1000,
        first_ticks: 1200,
        later_ticks: 800,
        middle_ticks: 400,
        stream_from: 1 << 19,
    };

    #[test]
    fn a_dearer_fork_needs_a_longer_copy() {
        assert_eq!(COSTS.share_from(0), 60 * PIECE / 8);
        assert_eq!(COSTS.share_from(1000), 15 * PIECE);
        assert!(COSTS.share_from(u64::MAX) > 1 << 60);
    }

    #[test]
    fn what_is_much_faster_than_memory_comes_from_a_cache() {
        let first = [
            (1, 0, From::Cache),
            (1, 720, From::Cache),
            (1, 721, From::Memory),
            (1, 2399, From::Memory),
            (1, 2400, From::Slow),
            (1, u64::MAX, From::Slow),
            (2, 1200, From::Cache),
            (2, 1201, From::Memory),
        ];
        for (pieces, ticks, from) in first {
            assert_eq!(COSTS.first_from(pieces * PIECE, ticks), from, "{pieces} in {ticks}");
        }
        assert!(COSTS.later_from_memory(16 * PIECE, 16 * 540));
        assert!(!COSTS.later_from_memory(16 * PIECE, 16 * 530));
    }

    #[test]
    fn this_machine_has_costs() {
        let costs = Costs::measure(&mut OneThread::default(), &Deadline::NEVER).unwrap();
        assert!(costs.middle_ticks > 1, "{costs:?}");
        assert!(costs.first_ticks > 1 && costs.later_ticks > 1, "{costs:?}");
        assert!(costs.stream_from >= LEAST, "{costs:?}");
    }
}
