//! Measuring [`Costs`], in steps of a microsecond or a few: so that copies can make them
//! one by one, and a time limit is looked at between two.

use std::array;
use std::hint::black_box;
use std::thread;

use kumiki_sys::cache::evict;

use crate::costs::{ASSUMED_FORK, Costs, LEAST, PIECE, ticks_of};
use crate::pair::Pair;
use crate::probe::{self, Probe};

/// Places where copies from memory are timed; an interrupt hits one of them. Row `copy_first`.
const PLACES: usize = 8;
/// Pieces that follow the first one at each place: prefetchers do nearly as well as they
/// ever do. After twelve they are a tenth better, and a step would take as long as a
/// fifth of a copy. Row `copy_first`.
const RUN: usize = 4;
const TIMED: usize = (1 + RUN) * PIECE;
const PAGE: usize = 4096;

/// Forks of which the median counts. Row `copy_first`.
const FORKS: usize = 16;
/// Forks until so many have been answered by the helper. Taken back, one takes some
/// microseconds: together they take longer than a wake, and than a busy cpu's next turn. Row
/// `copy_first`: without an end, a helper that never comes is asked for ever.
const TRIES: usize = 1000;
/// Longest time of a fork that counts, ticks: a longer one has waited for a helper that was on its
/// way. Row `copy_cold`, 1 MiB of `kumiki/awake`, which such a fork makes one thread's.
const LONGEST_FORK: u64 = 8 * ASSUMED_FORK;

/// Samples so far.
#[derive(Debug)]
pub(crate) struct Measuring {
    places: Vec<Place>,
    /// Samples of memory, each at all places.
    probe: Vec<u64>,
    first: Vec<u64>,
    later: Vec<u64>,
    /// Samples of forks that the helper has answered, and how many were tried.
    fork: Vec<u64>,
    tries: usize,
}

/// Memory that is in no cache.
#[derive(Debug)]
struct Place {
    to: Vec<u8>,
    from: Vec<u8>,
}

impl Measuring {
    /// Nothing yet.
    pub(crate) const NEW: Measuring = Measuring {
        places: Vec::new(),
        probe: Vec::new(),
        first: Vec::new(),
        later: Vec::new(),
        fork: Vec::new(),
        tries: 0,
    };

    /// Steps in all, where the helper answers each fork.
    pub(crate) const STEPS: usize = PLACES * (TIMED / PAGE + 1) + FORKS;

    /// Steps that are made.
    pub(crate) fn done(&self) -> usize {
        let pages: usize = self.places.iter().map(|place| place.from.len() / PAGE).sum();
        let timed = self.first.len();
        pages + timed * (TIMED / PAGE + 1) + self.fork.len()
    }

    /// True if only forks are left to be measured.
    pub(crate) fn knows_memory(&self) -> bool {
        self.first.len() == PLACES
    }

    pub(crate) fn is_done(&self) -> bool {
        self.knows_memory() && (self.fork.len() == FORKS || self.tries == TRIES)
    }

    /// Makes the next step; the pair is asked for nothing but forks.
    pub(crate) fn step<P: Pair>(&mut self, pair: &mut P) {
        if self.knows_memory() {
            self.fork_and_join(pair);
        } else if self.first.len() + self.places.len() < PLACES || !self.is_evicted() {
            self.evict_page();
        } else {
            self.time();
        }
    }

    /// True if the place that was begun last is as long as the others.
    fn is_evicted(&self) -> bool {
        self.places.last().is_none_or(|place| place.from.len() == TIMED)
    }

    /// A page of source and destination more that is there and in no cache. What is
    /// evicted is still on its way to memory for a while, so all are before one is timed.
    fn evict_page(&mut self) {
        if self.is_evicted() {
            let [to, from] = array::from_fn(|_| Vec::with_capacity(TIMED));
            self.places.push(Place { to, from });
        }
        let Some(Place { to, from }) = self.places.last_mut() else { return };
        for side in [to, from] {
            let end = side.len();
            side.resize(end + PAGE, 1);
            evict(black_box(&side[end..]));
        }
    }

    /// Times the last place, backwards: no prefetcher has been there.
    fn time(&mut self) {
        let Some(Place { mut to, from }) = self.places.pop() else { return };
        self.probe.push(Probe::of(&from, probe::MIDDLE).ticks());
        let (to_first, to_later) = to.split_at_mut(PIECE);
        let (from_first, from_later) = from.split_at(PIECE);
        self.first.push(ticks_of(|| to_first.copy_from_slice(from_first)));
        let later = ticks_of(|| to_later.copy_from_slice(from_later));
        self.later.push(later / RUN as u64);
        black_box(&to);
    }

    /// Forks and joins nothing. What a helper does not come to in time, because it
    /// sleeps or its cpu is busy, says nothing of a fork: in one process of fifteen all of
    /// the first ones took 40 µs.
    fn fork_and_join<P: Pair>(&mut self, pair: &mut P) {
        let here = thread::current().id();
        let mut there = here;
        let ticks = ticks_of(|| pair.both(|| (), || there = thread::current().id()));
        self.tries += 1;
        if there != here && ticks < LONGEST_FORK {
            self.fork.push(ticks);
        }
    }

    /// The costs, once memory's is known; the largest cache that a core has alone is given.
    pub(crate) fn costs(&self, core_cache: usize) -> Option<Costs> {
        if !self.knows_memory() {
            return None;
        }
        let fork_ticks = match self.fork.len() {
            FORKS => Some(median(&self.fork).max(1)),
            _ => self.is_done().then_some(ASSUMED_FORK),
        };
        Some(Costs {
            fork_ticks,
            first_ticks: quartile(&self.first).max(1),
            later_ticks: quartile(&self.later).max(1),
            // From a last-level cache it takes two thirds of that, and less. Rows `copy_warm`, `copy_cold`.
            probe_ticks: quartile(&self.probe) / 4 * 3,
            stream_from: (core_cache / 2).max(LEAST),
        })
    }
}

/// The lower quartile. Others' work makes times longer, never shorter; with
/// medians, one process in fourteen took memory for a cache ever after.
fn quartile(ticks: &[u64]) -> u64 {
    above_one_in(4, ticks)
}

fn median(ticks: &[u64]) -> u64 {
    above_one_in(2, ticks)
}

/// 0 of none.
fn above_one_in(part: usize, ticks: &[u64]) -> u64 {
    let mut ticks = ticks.to_vec();
    ticks.sort_unstable();
    ticks.get(ticks.len() / part).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_thread::OneThread;

    /// Makes all steps but the forks, of which it says how many they were.
    fn memory(measuring: &mut Measuring, pair: &mut OneThread) -> usize {
        let mut steps = 0;
        while !measuring.knows_memory() {
            assert_eq!(measuring.done(), steps);
            measuring.step(pair);
            steps += 1;
        }
        steps
    }

    #[test]
    fn this_machine_has_costs() {
        let (mut measuring, mut pair) = (Measuring::NEW, OneThread::default());
        assert!(measuring.costs(0).is_none());
        assert_eq!(memory(&mut measuring, &mut pair), Measuring::STEPS - FORKS);
        assert_eq!(pair.forks, 0);
        let costs = measuring.costs(0).unwrap();
        assert!(costs.probe_ticks > 1, "{costs:?}");
        assert!(costs.first_ticks > 1 && costs.later_ticks > 1, "{costs:?}");
        assert_eq!((costs.fork_ticks, costs.stream_from), (None, LEAST));
        assert_eq!(measuring.costs(4 * LEAST).unwrap().stream_from, 2 * LEAST);
    }

    #[test]
    fn a_helper_that_never_comes_is_asked_for_a_while() {
        let (mut measuring, mut pair) = (Measuring::NEW, OneThread::default());
        memory(&mut measuring, &mut pair);
        while !measuring.is_done() {
            assert_eq!(measuring.costs(0).unwrap().fork_ticks, None);
            measuring.step(&mut pair);
        }
        assert_eq!(pair.forks, TRIES);
        assert_eq!(measuring.costs(0).unwrap().fork_ticks, Some(ASSUMED_FORK));
    }

    #[test]
    fn forks_that_are_answered_count() {
        /// A new thread for each fork, which is dearer than the longest that counts at
        /// times.
        struct Threads(usize);
        impl Pair for Threads {
            fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
                self.0 += 1;
                thread::scope(|threads| {
                    threads.spawn(theirs);
                    ours();
                });
            }
        }
        let mut measuring = Measuring::NEW;
        memory(&mut measuring, &mut OneThread::default());
        let mut pair = Threads(0);
        while !measuring.is_done() {
            measuring.step(&mut pair);
        }
        assert!(measuring.fork.iter().all(|&ticks| ticks < LONGEST_FORK));
        assert!(pair.0 == TRIES || measuring.fork.len() == FORKS);
        measuring.fork = [[70; FORKS / 2], [90; FORKS / 2]].concat();
        assert_eq!(measuring.costs(0).unwrap().fork_ticks, Some(90));
    }
}
