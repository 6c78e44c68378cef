//! Which way to run a batch: learnt from what the ways have cost.
//!
//! For each *key* (call, the one open file or directory that all are on if it is one,
//! size of the batch, alone or beside other work) the mean time per call of every way
//! is believed. The way with the least is taken; others are tried now and then, the less
//! often the worse they were. What cannot help is never
//! tried: calls on the address space run one after the other in the kernel.
//!
//! A way that has not been tried yet is guessed from that of plain calls, so
//! that what is likely to help is tried soon and the rest rarely.

mod duration;
mod entry;
mod key;
mod own;
mod sleep;
mod trial;
mod trust;

use std::collections::HashMap;

pub(crate) use duration::Durations;
pub(crate) use entry::{Entry, Sample};
pub(crate) use key::{Key, Prior, survey};
pub(crate) use sleep::sleep_ticks;

/// How a batch is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The calls one after the other, by the caller.
    Inline,
    /// The caller and the processing threads that spin on other cpus.
    Shared,
    /// So many threads of the pool besides, for calls that sleep.
    Many(u16),
    /// io_uring.
    Ring,
}

/// All ways, in the order in which an [`Entry`] counts them.
const WAYS: [Way; 6] =
    [Way::Inline, Way::Shared, Way::Many(8), Way::Many(32), Way::Many(64), Way::Ring];

/// What is there at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Means {
    /// There are other cpus for processing threads.
    pub(crate) others: bool,
    /// A processing thread spins already.
    pub(crate) hot: bool,
    /// The caller has something to do while others make calls.
    pub(crate) beside: bool,
    /// The process had one thread only when this one began to make requests.
    pub(crate) alone: bool,
    /// The pool may have threads.
    pub(crate) pool: bool,
    /// io_uring can make these calls, and each is guessed to take so many times
    /// what a plain one takes.
    pub(crate) ring: Option<f32>,
    /// What waking a processing thread costs, ticks.
    pub(crate) wake: f32,
    /// Calls of this duration may be worth a thread that sleeps, ticks.
    pub(crate) long: f32,
}

impl Means {
    /// Nobody and nothing.
    pub(crate) const NONE: Means = Means {
        others: false,
        hot: false,
        beside: false,
        alone: false,
        pool: false,
        ring: None,
        wake: 0.0,
        long: 0.0,
    };
}

/// What a requesting thread has learnt.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    index: HashMap<Key, usize>,
    entries: Vec<Entry>,
    last: Option<(Key, usize)>,
}

impl Costs {
    /// What is known about batches of this key.
    #[inline]
    pub(crate) fn entry(&mut self, key: Key) -> &mut Entry {
        let at = match self.last {
            Some((last, at)) if last == key => at,
            _ => self.find(key),
        };
        self.last = Some((key, at));
        &mut self.entries[at]
    }

    #[cold]
    fn find(&mut self, key: Key) -> usize {
        if let Some(at) = self.index.get(&key) {
            return *at;
        }
        let similar = key.neighbours().find_map(|other| self.index.get(&other));
        self.entries
            .push(similar.map_or_else(Entry::default, |at| Entry::like(&self.entries[*at])));
        let at = self.entries.len() - 1;
        // A place that is new begins with what the last new one has come to know.
        self.index.extend(key.anywhere().map(|anywhere| (anywhere, at)));
        self.index.insert(key, at);
        at
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::differences::Differences;
    use crate::request::{Place, Request};

    fn key(place: u64) -> Key {
        let reads = [Request::new(libc::SYS_read, [0]).at(Place(place)); 20];
        survey(&reads, Differences::of(&reads), false).0
    }

    #[test]
    fn open_files_are_told_apart_but_not_without_end() {
        let mut costs = Costs::default();
        // Of descriptors, which are small numbers and neighbours, hardly two are one.
        assert!((1..9).map(key).collect::<HashSet<_>>().len() >= 7);
        let keys: HashSet<Key> = (1..=10_000).map(key).collect();
        (1..=10_000).for_each(|place| _ = costs.entry(key(place)));
        assert!(keys.len() == 63 && costs.entries.len() == 63, "{}", keys.len());
    }

    #[test]
    fn a_new_file_begins_with_what_the_last_new_one_has_shown() {
        let means = Means { others: true, wake: 1e4, long: 1e6, ..Means::NONE };
        let sample = Sample { calls: 20, ticks: 20_000, helped: 0, kept: 0, woke: false, away: 0 };
        let mut costs = Costs::default();
        let plain = |costs: &mut Costs, place: u64| {
            let first = costs.entry(key(place));
            for _ in 0..2 {
                assert_eq!(first.choose(20, Prior::OneFile, means).way, Way::Inline);
                first.record(Way::Inline, sample, means);
            }
            format!("{first:?}")
        };
        let known = plain(&mut costs, 1);
        assert_eq!(format!("{:?}", costs.entry(key(1))), known);
        let other = format!("{:?}", costs.entry(key(2)));
        assert!(other != known && other != format!("{:?}", Entry::default()));
        // And goes its own way from there.
        plain(&mut costs, 2);
        assert_eq!(format!("{:?}", costs.entry(key(1))), known);
    }
}
