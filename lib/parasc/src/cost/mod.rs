//! Which way to run a batch: learnt from what batches have cost.
//!
//! | | rule |
//! |---|---|
//! | 1 | A batch is made *plainly* by its requesting thread, *shared* with the threads that spin on other cpus, or made by the *pool*. One call is plain, and so is what changes the address space. |
//! | 2 | What is learnt is kept by a [`CostKey`]: the call and the size of the batch, beside other work or not, and whether threads of the program serve, too. The first 32 calls of a key are made plainly and timed; a key of a new size starts from the nearest size of the same call, and is probed at once. |
//! | 3 | A key has one rival of the plain way: shared by two threads, or the pool if its calls sleep. `favour` = ¾ `favour` + ln(plain ÷ rival), that within ±1, for each probe; above 0 the rival is faster. It starts at what a rival is expected to save. Where two threads are taken, four are their rival, and so on to all there are, the nearest first: each *step* has a favour of its own, which begins with its first probe, and the step up from the number that is used is probed at once, its lower level by what that took as the rival just before. Once it is known, it and the step below are probed when they are due. Used is the number, of those that faster steps lead to, whose calls cost least: the mean verdicts up to it, and the waits of its batches, no less than those of fewer threads. |
//! | 4 | A probe is two halves of one batch, the rival's first; of batches below 32 calls, 64 on the second step and so on, whole ones, the rival's in a row and then the plain ones. The first turn of each way does not count, as it fetches what the other cpu has used, unless half a batch takes longer than a sleep. It is over when plain calls that count have taken half a wake. Waits for others at the end are left out: each number has a mean of its own of them, of the shared batches of some 32 probes, which is forgotten when a number that is not used is probed again. It shares only while a thread spins and has helped with the last shared batch. Where each batch needs a wake of its own, the rival's half begins with one, half of which counts. |
//! | 5 | The next probe waits until 32 times what the last one lost has been spent on the key, and a wake at least; twice that for each probe that changed nothing, up to 32 times. After a loss by which fewer threads share (rule 7) the step up is left for 32 times twice that loss; twice as long as the last time, up to 16 times, if that was over for less than as long again. Half of that patience is gone when the mean of the taken way moves by half. |
//! | 6 | A sleeping thread is woken when what it would have saved, over all keys, has reached the price of a wake; the first one of a process that had one thread at the price of four sleeps. For a batch as many are woken as share it, each by another one of these; until there are enough for a step, all that spin share. On the way up a quarter of what sharing saves goes into the next wake. |
//! | 7 | An account holds what sharing saved as far as is known, not more than the calls that others made, less wakes and waits for others at the end of a batch. Below minus four sleeps the key is weighed anew (rule 3). If it goes on as before, or plainly, and less than the loss was saved since the last one, nothing is shared for as long as was lost; for twice the last such pause, up to 32 times the loss. |
//! | 8 | Plain calls that are likely to take longer than four sleeps are watched: off the cpu for half of the time, by a switch of their own will, they sleep and the rival is the pool; else it is shared. A probe of the pool puts one plain call beside it. |
//! | 9 | Batches shorter than 50,000 ticks repeat the last decision for so long, without a look at the clock. A shared one that nobody helped with asks at once. |
//!
//! The constants below are all there are. Each names the rows of `cargo xtask bench parasc`
//! that it is for, and the tests of the simulated machine (`cost/model.rs`) that fail without
//! it: with a quarter and four times of it, if nothing else is said.

mod duration;
mod entry;
mod helpers;
mod key;
#[cfg(test)]
mod many;
#[cfg(test)]
mod model;
mod sleep;

use std::collections::HashMap;

pub(crate) use duration::Durations;
use entry::KeyCosts;
use helpers::Helpers;
pub(crate) use key::{Around, CostKey, Prior, survey};
pub(crate) use sleep::sleep_ticks;

/// A probe may lose one part in so many of a key's time (rules 4, 5 and 7), and a chunk or a
/// first look has so many calls. Rows `du_usr` and `du_loaded`: with less, keys are probed too
/// often and `a_busy_machine_is_left_alone` fails, with more `what_changes_is_found`.
pub(crate) const PART: u32 = 32;
/// A mean that moves by this factor is another one. Rows `pread_cold_warmed`
/// (`cold_reads_are_found_…` with 4) and `du_usr`, whose batches differ
/// (`batches_that_differ_a_hundredfold_…` with 1.1).
const MOVED: f32 = 1.5;
/// Weight of a new sample in a mean, also of single calls. Row `pread_cold_warmed` (`cold_reads_are_found_…` with
/// 1/64).
const WEIGHT: f32 = 1.0 / 8.0;
/// Part of plain calls' time that a rival is expected to take before any probe. All rows from 10 on: above
/// 1 nobody is ever woken to find out, and far below 1 too soon
/// (`a_wake_waits_until_it_would_have_paid`).
const EXPECTED: f32 = 0.6;
/// Ticks for which short batches repeat a decision. Rows `getppid` and `read_zero_own` × 10: to
/// choose and to measure takes a tenth of them (`short_batches_are_rarely_asked` with 0; a
/// hundredfold, and nothing is found).
const REPEATED_TICKS: f32 = 50_000.0;
/// Weight of the earlier probes of a key beside the last one. Rows of 300: with 1/4
/// `one_accident_in_long_…` turns a settled key plain, with 1 `cold_reads_are_found_…` too late.
const KEPT: f32 = 0.75;
/// Sleeps that make a loss or a wait worth a closer look (rules 6 to 8). Rows `unlink_one_busy`,
/// `du_loaded` and `pread_cold`: `what_changes_is_found` fails with 1/2,
/// `never_much_slower_than_a_loop` with 128.
pub(crate) const SLEEPS: f32 = 4.0;

/// Way to run a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// The calls one after the other, by the requesting thread.
    #[default]
    Plain,
    /// Run by it and the processing threads that spin on other cpus.
    Shared,
    /// Run by it and the threads of the pool, for calls that sleep.
    Pool,
}

/// Helpers there are at the moment, and their prices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Means {
    /// True if there are other cpus for processing threads.
    pub(crate) others: bool,
    /// Threads that may share a batch, the requesting one among them.
    pub(crate) most: usize,
    /// Processing threads that spin already: of the nearest those before the first that does not.
    pub(crate) hot: usize,
    /// The process had one thread only when the requesting thread began.
    pub(crate) alone: bool,
    /// The pool may have threads.
    pub(crate) pool: bool,
    /// Cost of a sleep, ticks.
    pub(crate) sleep: f32,
}

impl Means {
    /// Part of a wake that the requesting thread pays; the rest of a sleep's cost passes while it
    /// goes on.
    fn wake(self) -> f32 {
        self.sleep / 2.0
    }
}

/// Decision for a batch, or the first `calls` of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) way: Way,
    pub(crate) calls: usize,
    /// Threads that share it, the requesting one among them: two stand for the pool's.
    pub(crate) threads: usize,
    /// Wake processing threads that sleep.
    pub(crate) wake: bool,
    /// Take the time and [`Costs::record`] it.
    pub(crate) measure: bool,
    /// Read how long the thread is on a cpu, too.
    pub(crate) watch: bool,
    /// Number of batches like this one that need not ask: they are plain, too.
    pub(crate) pass: u32,
}

impl Choice {
    fn of(way: Way, calls: usize) -> Choice {
        let threads = if way == Way::Plain { 1 } else { 2 };
        Choice { way, calls, threads, wake: false, measure: true, watch: false, pass: 0 }
    }
}

/// End of a batch, or of part of one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) calls: usize,
    /// Threads that a shared one was for.
    pub(crate) threads: usize,
    /// Ticks without work that the requesting thread did beside it, if it was measured.
    pub(crate) ticks: u64,
    /// Ticks for which the requesting thread waited for others.
    pub(crate) waited: u64,
    /// Calls of a shared one that other threads have made, …
    pub(crate) helped: usize,
    /// Number of those that the requesting thread has kept from them.
    pub(crate) kept: usize,
    /// True if it began with a wake.
    pub(crate) woke: bool,
    /// True if the calls slept; `None` if they were not watched.
    pub(crate) slept: Option<bool>,
}

/// Costs as a requesting thread has learnt them.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    index: HashMap<CostKey, usize>,
    entries: Vec<KeyCosts>,
    last: Option<(CostKey, usize)>,
    helpers: Helpers,
}

impl Costs {
    /// Chooses the way to run a batch of `calls`, or the first of them; `now` tells the time.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        (key, prior): (CostKey, Prior),
        calls: usize,
        means: Means,
        now: impl Fn() -> u64,
    ) -> Choice {
        if prior == Prior::Serial || !(means.others || means.pool) {
            return Choice { measure: false, pass: PART, ..Choice::of(Way::Plain, calls) };
        }
        let at = self.at(key, prior);
        self.entries[at].choose(calls, means, &mut self.helpers, now)
    }

    /// Notes how a measured batch went.
    #[inline]
    pub(crate) fn record(&mut self, key: CostKey, way: Way, sample: Sample, means: Means) {
        self.known(key).record(way, sample, means);
    }

    /// Notes how a shared batch ended, measured or not.
    #[inline]
    pub(crate) fn shared(
        &mut self,
        key: CostKey,
        end: Sample,
        means: Means,
        now: impl Fn() -> u64,
    ) {
        let each = self.known(key).shared(end);
        if let Some(lost) = self.helpers.shared(end, each, means) {
            let fewer = self.known(key).lost(lost, end.threads);
            self.helpers.loses(lost, fewer, now());
        }
    }

    /// Notes that calls of a shared batch turned out to sleep: how long it took says nothing of two threads.
    pub(crate) fn slept(&mut self, key: CostKey) {
        self.known(key).slept();
    }

    /// Number of `calls` that the requesting thread keeps for itself where `threads` share them, and number to
    /// claim at once at most: a thread at the last ones keeps the others waiting.
    pub(crate) fn terms(
        &mut self,
        key: CostKey,
        calls: usize,
        threads: usize,
        means: Means,
    ) -> (usize, usize) {
        let entry = self.known(key);
        (entry.kept(calls, threads), entry.claimed(means))
    }

    /// Notes that so many batches of `calls` will not ask.
    pub(crate) fn pass(&mut self, key: CostKey, batches: u32, calls: usize) {
        // None is kept of what is always plain.
        if let Some((_, at)) = self.last.filter(|(last, _)| *last == key) {
            self.entries[at].pass(batches, calls, &mut self.helpers);
        }
    }

    /// Entry of a key that was chosen for just now.
    #[inline]
    fn known(&mut self, key: CostKey) -> &mut KeyCosts {
        let at = self.at(key, Prior::Scales);
        &mut self.entries[at]
    }

    #[inline]
    fn at(&mut self, key: CostKey, prior: Prior) -> usize {
        let at = match self.last {
            Some((last, at)) if last == key => at,
            _ => self.find(key, prior),
        };
        self.last = Some((key, at));
        at
    }

    #[cold]
    fn find(&mut self, key: CostKey, prior: Prior) -> usize {
        if let Some(at) = self.index.get(&key) {
            return *at;
        }
        let alike = self.index.iter().filter_map(|(other, at)| Some((key.distance(*other)?, *at)));
        let entry = match alike.min() {
            Some((_, at)) => self.entries[at].anew(),
            None => KeyCosts::new(prior),
        };
        self.entries.push(entry);
        self.index.insert(key, self.entries.len() - 1);
        self.entries.len() - 1
    }
}
