//! `0..n` divided between the members of a team: a share for each, in ranges. A member
//! that is done with its own share steals ranges that others have not begun.
//!
//! A share is the same part of `0..n` each time, so that data stays in the cache of
//! the core that works on it. Its ranges are counted on a line of its own, which
//! nobody else touches but who helps out in the end: one counter for all would go
//! from core to core with each range.
//!
//! # Protocol
//! A counter is a word of two parts: the *call* that it counts for, and how many
//! ranges of the share have been taken in that. One of an earlier call counts as none
//! taken, so no counter is reset between calls, which would cost its line's way.
//! Whoever swaps a counter one up has that range, alone. All orders are Relaxed:
//! fork and join order the data, and the last call's counts are behind its joins.

use std::ops::Range;

use crate::primitive::{AtomicU64, Ordering::Relaxed};

/// Bits of a counter for ranges taken: a member has [`RANGES_EACH`] and one more.
const TAKEN_BITS: u32 = 8;
const TAKEN: u64 = (1 << TAKEN_BITS) - 1;

/// Ranges for each member: enough that a member that lost its cpu for a while
/// does not hold up the rest, few enough that taking one costs nothing.
const RANGES_EACH: usize = 4;

/// Number of elements taken from one member's share.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// A team's counters.
#[derive(Debug)]
pub(crate) struct Counters {
    each: Vec<Counter>,
    call: u64,
}

impl Counters {
    pub(crate) fn new(members: usize) -> Self {
        Counters { each: (0..members).map(|_| Counter::default()).collect(), call: 0 }
    }

    /// Divides `0..n` into ranges of `grain` at least, but for the last one. `None` if
    /// that is one range or none.
    pub(crate) fn divide(&mut self, n: usize, grain: usize) -> Option<Shares<'_>> {
        let (grain, members) = (grain.max(1), self.each.len());
        if members < 2 || n / 2 < grain {
            return None;
        }
        let range = n.div_ceil(members * RANGES_EACH).max(grain);
        self.call += 1;
        let ranges = n.div_ceil(range);
        Some(Shares { counters: &self.each, call: self.call, n, range, ranges })
    }
}

/// One call's division.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares<'a> {
    counters: &'a [Counter],
    call: u64,
    n: usize,
    /// Elements of a range.
    range: usize,
    ranges: usize,
}

impl Shares<'_> {
    /// The ranges that `member` gets: its own, then what others have left.
    #[inline]
    pub(crate) fn of(&self, member: usize) -> impl Iterator<Item = Range<usize>> {
        let members = self.counters.len();
        // With one range each nobody has more to give than it is at.
        let help = if self.ranges > members { members } else { 1 };
        let mut others = member..member + help;
        std::iter::from_fn(move || {
            loop {
                match self.take(others.start % members) {
                    Some(range) => return Some(range),
                    None if others.len() <= 1 => return None,
                    None => others.start += 1,
                }
            }
        })
    }

    /// The next range of a member's share.
    #[inline]
    fn take(&self, member: usize) -> Option<Range<usize>> {
        let members = self.counters.len();
        let first = (self.ranges * member).div_ceil(members);
        let share = ((self.ranges * (member + 1)).div_ceil(members) - first) as u64;
        let counter = &self.counters[member].0;
        let mut now = counter.load(Relaxed);
        loop {
            let taken = if now >> TAKEN_BITS == self.call { now & TAKEN } else { 0 };
            if taken >= share {
                return None;
            }
            let next = self.call << TAKEN_BITS | (taken + 1);
            match counter.compare_exchange_weak(now, next, Relaxed, Relaxed) {
                Ok(_) => {
                    let start = (first + taken as usize) * self.range;
                    return Some(start..self.n.min(start.saturating_add(self.range)));
                }
                Err(other) => now = other,
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    fn sorted(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }

    fn covers(ranges: &[Range<usize>], n: usize) -> bool {
        let mut end = 0;
        ranges.iter().all(|range| std::mem::replace(&mut end, range.end) == range.start) && end == n
    }

    #[test]
    fn the_shares_are_the_whole_whoever_comes() {
        for members in [2, 3, 7] {
            let mut counters = Counters::new(members);
            for (n, grain) in [(2, 1), (7, 3), (100, 1), (1000, 90), (1000, 400), (1 << 20, 4096)] {
                // Nobody but one comes; and each comes, in turn.
                let mut shares = counters.divide(n, grain).unwrap();
                let helps = shares.ranges > members;
                let last: Vec<_> = shares.of(members - 1).collect();
                if helps {
                    assert!(covers(&sorted(last), n), "{n} by {grain}, {members} members");
                }
                shares = counters.divide(n, grain).unwrap();
                let all: Vec<_> = (0..members).flat_map(|member| shares.of(member)).collect();
                assert!(covers(&sorted(all.clone()), n), "{n} by {grain}, {members} members");
                assert!(all.iter().all(|range| range.len() >= grain || range.end == n));
            }
        }
    }

    #[test]
    fn what_is_one_range_is_not_divided() {
        assert!(Counters::new(1).divide(1000, 1).is_none());
        assert!(Counters::new(2).divide(1, 1).is_none());
        assert!(Counters::new(2).divide(9, 5).is_none());
        assert!(Counters::new(2).divide(0, 0).is_none());
    }

    #[test]
    fn a_share_is_the_same_each_time() {
        let mut counters = Counters::new(2);
        for _ in 0..3 {
            let shares = counters.divide(800, 1).unwrap();
            let first: Vec<_> = shares.of(1).take(4).collect();
            assert_eq!(first, [400..500, 500..600, 600..700, 700..800]);
        }
    }

    #[test]
    fn no_range_goes_to_two_threads() {
        let mut counters = Counters::new(3);
        for n in 1000..1200 {
            let shares = counters.divide(n, 1).unwrap();
            let taken = Mutex::new(Vec::new());
            thread::scope(|threads| {
                for member in 0..3 {
                    let taken = &taken;
                    threads.spawn(move || {
                        shares.of(member).for_each(|range| taken.lock().unwrap().push(range));
                    });
                }
            });
            assert!(covers(&sorted(taken.into_inner().unwrap()), n), "{n}");
        }
    }
}
