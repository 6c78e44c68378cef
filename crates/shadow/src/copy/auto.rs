//! The choice of [`Method::Auto`](super::Method::Auto).
//!
//! Nobody says whether the bytes are in a cache, and it decides everything:
//! here one thread copies 130 GB/s within its own caches, two threads 30,
//! because half of the lines must travel to the helper first; from memory it
//! is one thread's 21 against 55. So a large copy begins as `memcpy`, by a piece
//! whose time tells. While pieces come from a cache, it goes on so, with larger
//! ones; at the first that comes from memory, the rest is shared.

use std::sync::OnceLock;

use super::costs::{Costs, PIECE, ticks_of};
use super::region::Region;
use super::{Pair, share};

/// Below this it is `memcpy` and nothing else. From memory two threads would be
/// faster from an eighth of it on, where they are two cores. But in a cache a
/// copy so short takes so little that looking at the clock shows, and a mistake
/// about where it is doubles its time.
pub(super) const FLOOR: usize = 1 << 20;
/// The piece after the first, and those after it: a longer one costs less, a
/// shorter one notices sooner that the cache ends or was never there.
const SECOND_PIECE: usize = 64 << 10;
const LATER_PIECE: usize = 512 << 10;

/// Measured at the first copy of [`FLOOR`] bytes or more in this process.
static COSTS: OnceLock<Costs> = OnceLock::new();

/// Copies a region of [`FLOOR`] bytes or more.
pub(super) fn copy<P: Pair>(pair: &mut P, region: Region<'_>) {
    let costs = COSTS.get_or_init(|| Costs::measure(pair));
    copy_at(costs, pair, region);
}

fn copy_at<P: Pair>(costs: &Costs, pair: &mut P, region: Region<'_>) {
    let share_from = costs.share_from(pair.wake_ticks()).max(FLOOR - PIECE);
    if region.len() - PIECE < share_from.min(costs.stream_from) {
        return region.copy();
    }
    let (first, mut rest) = region.split_at(PIECE);
    if !costs.first_from_memory(ticks_of(|| first.copy())) {
        let mut len = SECOND_PIECE;
        loop {
            if rest.len() <= LATER_PIECE {
                return rest.copy();
            }
            let (piece, others) = rest.split_at(len);
            rest = others;
            if costs.later_from_memory(len, ticks_of(|| piece.copy())) {
                break;
            }
            len = LATER_PIECE;
        }
    }
    let past_caches = rest.len() >= costs.stream_from;
    let copy = if past_caches { Region::stream } else { Region::copy };
    if rest.len() >= share_from { share::copy(pair, rest, copy) } else { copy(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A helper that is counted, and asleep or not.
    struct Counted {
        forks: u32,
        wake_ticks: u64,
    }

    impl Pair for Counted {
        fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
            self.forks += 1;
            theirs();
            ours();
        }

        fn wake_ticks(&self) -> u64 {
            self.wake_ticks
        }
    }

    /// Copies `len` bytes, checks them, and counts the forks.
    fn forks(costs: &Costs, len: usize, wake_ticks: u64) -> u32 {
        let from: Vec<u8> = (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        let mut to = vec![0; len];
        let mut pair = Counted { forks: 0, wake_ticks };
        copy_at(costs, &mut pair, Region::new(&mut to, &from).unwrap());
        assert!(to == from, "{len} bytes, {costs:?}");
        pair.forks
    }

    /// No measured time is less than none, and none more than the most.
    const MEMORY: Costs =
        Costs { fork_ticks: 1000, first_ticks: 0, later_ticks: 1, stream_from: 1 << 19 };
    const CACHE: Costs = Costs { first_ticks: u64::MAX, later_ticks: u64::MAX, ..MEMORY };
    const CACHE_THEN_MEMORY: Costs = Costs { first_ticks: u64::MAX, ..MEMORY };

    #[test]
    fn what_comes_from_memory_is_shared() {
        let costs = Costs { fork_ticks: 0, ..MEMORY };
        assert_eq!(forks(&costs, FLOOR, 0), 1);
        assert_eq!(forks(&costs, 3_000_001, 0), 1);
        assert_eq!(forks(&Costs { fork_ticks: 0, ..CACHE_THEN_MEMORY }, 3_000_001, 0), 1);
    }

    #[test]
    fn what_comes_from_a_cache_is_not() {
        for len in [FLOOR, FLOOR + 1, 3_000_001] {
            assert_eq!(forks(&CACHE, len, 0), 0);
        }
    }

    #[test]
    fn nothing_waits_for_a_helper_whose_wake_takes_longer() {
        let costs = Costs { fork_ticks: 0, ..MEMORY };
        for len in [FLOOR, 1_600_000, 3_000_001] {
            assert_eq!(forks(&costs, len, u64::MAX), 0);
        }
    }
}
