//! What the ways have cost for one key, and the choice between them.
//!
//! The best way is taken. Between *trials* of the others (`entry/trials.rs`) only that one
//! has samples. If it takes more now, batches may have become longer, or the way worse: the
//! others are taken to have changed as much.

mod trials;

use trials::{LEAST_WAKES, PATIENCE};

use super::own::Own;
use super::trial::Trial;
use super::trust::Trust;
use super::{Means, Prior, WAYS, Way};

/// Least weight of a new sample.
pub(super) const WEIGHT: f32 = 1.0 / 8.0;
/// A sample counts for so many times the mean at most: a thread that was
/// preempted in between says little about the way.
const OUTLIER: f32 = 2.0;
/// What several threads are guessed to take on one open file, times plain calls …
const ONE_FILE: f32 = 1.1;
/// … and in one directory, where they sleep in turns.
const ONE_DIRECTORY: f32 = 2.0;
/// What io_uring is guessed to take where it cannot make the calls, times plain
/// ones. It is not taken then, whatever this says: no better than they.
const NO_RING: f32 = 1.0;
/// A way must promise that much less than plain calls to be taken.
const MARGIN: f32 = 0.97;
/// Batches after which not each short one is looked at any more, and those that
/// are not plain get a trial of it.
const SETTLED: u32 = 64;
/// Batches between two that are looked at then, or at which a trial may begin; of shared
/// ones as many at most …
const SAMPLE: u32 = 8;
/// … and of the shortest plain ones up to four times as many, so that asking takes no larger
/// part of their time than this, or not much.
const ASKED: f32 = 0.02;
/// What it takes to ask and to measure, ticks. Where that is nothing each batch does: what
/// is looked at rarely is learnt slowly.
const ASKING: f32 = 500.0;
/// Wakes of a trial, at most: twice as many as it has samples of a way.
const WAKES: u32 = 24;
/// So many calls are claimed at once at most, or as many as take as long as a wake.
const CHUNK: usize = 32;

/// Mean time per call of one way, ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    ticks: f32,
    samples: u32,
    /// Trials in a row that have not made it the best way.
    failed: u32,
}

impl Mean {
    fn add(&mut self, sample: f32) {
        let most = if self.samples > 0 { self.ticks * OUTLIER } else { f32::MAX };
        self.samples = self.samples.saturating_add(1);
        let weight = (1.0 / self.samples as f32).max(WEIGHT);
        self.ticks += (sample.min(most) - self.ticks) * weight;
    }
}

/// One key's costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    means: [Mean; WAYS.len()],
    batches: u32,
    /// Ticks that they have taken, about.
    spent: u64,
    trial: Option<Trial>,
    /// The last batch that was chosen for is part of it.
    in_trial: bool,
    /// Which way had the last trial.
    last_trial: usize,
    /// When the next may begin, by `spent` …
    next_trial: u64,
    /// … and when, at the soonest, if the best way comes to take more.
    soonest: u64,
    /// What the best way took at the least since the last one.
    least: f32,
    trust: Trust,
    /// Whether plain calls were found to sleep.
    sleeps: Option<bool>,
    own: Own,
    /// So many batches are shared as the last one, and not measured.
    pub(crate) unasked: u32,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) way: Way,
    /// Wake processing threads that sleep.
    pub(crate) wake: bool,
    /// Take the time and [`Entry::record`] it.
    pub(crate) measure: bool,
    /// So many batches like this one need not ask: they are plain, too.
    pub(crate) pass: u32,
    /// So many calls of the batch go this way. For the rest, ask again.
    pub(crate) calls: usize,
}

impl Choice {
    fn plain(calls: usize) -> Choice {
        Choice { measure: false, ..Choice::of(Way::Inline, calls) }
    }

    fn of(way: Way, calls: usize) -> Choice {
        Choice { way, wake: false, measure: true, pass: 0, calls }
    }
}

/// How a measured batch went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) calls: usize,
    pub(crate) ticks: u64,
    /// Calls that other threads have made.
    pub(crate) helped: usize,
    /// Calls that the caller has kept from them.
    pub(crate) kept: usize,
    /// It began with a wake.
    pub(crate) woke: bool,
    /// Ticks that the caller was away for besides.
    pub(crate) away: u64,
}

impl Entry {
    /// What to believe of batches about as long as those of `other`: the same,
    /// until there are samples.
    pub(crate) fn like(other: &Entry) -> Entry {
        let means = other.means.map(|mean| Mean { samples: mean.samples.min(2), ..mean });
        let next_trial = other.next_trial.saturating_sub(other.spent);
        let soonest = other.soonest.saturating_sub(other.spent);
        let Entry { least, sleeps, own, .. } = *other;
        let trust = other.trust.anew();
        Entry { means, least, trust, sleeps, own, next_trial, soonest, ..Entry::default() }
    }

    /// How to run a batch of `calls`, or the first of them.
    #[inline]
    pub(crate) fn choose(&mut self, calls: usize, prior: Prior, means: Means) -> Choice {
        if prior == Prior::Serial || !(means.others || means.pool || means.ring.is_some()) {
            return Choice { pass: SAMPLE, ..Choice::plain(calls) };
        }
        self.batches = self.batches.wrapping_add(1);
        self.in_trial = false;
        let plain = self.means[0];
        let sleeps = prior == Prior::Sleeps || self.sleeps == Some(true);
        if self.unasked > 0 && means.hot && is_open(Way::Shared, sleeps, means) {
            self.unasked -= 1;
            self.spent += (self.means[place(Way::Shared)].ticks * calls as f32) as u64;
            return Choice { measure: false, ..Choice::of(Way::Shared, calls) };
        }
        self.unasked = 0;
        if plain.samples < 2 && !sleeps {
            return Choice::of(Way::Inline, self.enough(Way::Inline, calls, means));
        }
        self.end_trial(prior, sleeps, means);
        let (best, estimate) = self.best(prior, sleeps, means);
        if self.trial.is_none() {
            self.begin_trial((best, estimate), calls, prior, sleeps, means);
        }
        // A way that is best by a guess has yet to show it.
        let is_new = self.trial.is_none() && self.means[place(best)].samples == 0 && !sleeps;
        // One or the other of the two may be no way for this batch.
        let open = |trial: &Trial| trial.is_open(|at| is_open(WAYS[at], sleeps, means));
        let trial = self.trial.filter(open);
        if let (None, Some(waits)) = (trial, &mut self.trial) {
            waits.closed += 1;
        }
        let way = trial.map_or(best, |trial| WAYS[trial.due()]);
        let is_worse = way != best;
        self.in_trial = trial.is_some() || is_new;
        // What a trial with a worse one costs has been waited for.
        let mut wake = way == Way::Shared && is_worse && !means.hot;
        if way == Way::Shared && !is_worse && (!means.hot || self.trust.is_gone()) {
            let each = self.estimate(place(way), prior, means);
            if !self.trust.is_worth_a_wake((plain.ticks - each) * calls as f32, means.wake) {
                // The caller helps: shared with nobody awake would be plain
                // calls, only dearer.
                self.spent += (plain.ticks * calls as f32) as u64;
                return Choice::plain(calls);
            }
            wake = true;
        }
        if is_new {
            self.try_beside(place(way), place(Way::Inline), false, means);
        }
        if self.in_trial {
            // What the caller does meanwhile goes with the part that others help
            // with: that is to be no small one.
            let whole = means.beside && matches!(way, Way::Shared | Way::Many(_));
            let calls = if whole { calls } else { self.enough(way, calls, means) };
            return Choice { wake, ..Choice::of(way, calls) };
        }
        let choice = Choice { wake, ..Choice::of(way, calls) };
        if self.batches < SETTLED {
            return choice;
        }
        let takes = self.means[place(way)].ticks * calls as f32;
        let unasked = (ASKING / (ASKED * takes)) as u32;
        match way {
            Way::Inline if takes < ASKING * 32.0 => {
                Choice { pass: unasked.clamp(SAMPLE, 4 * SAMPLE), ..choice }
            }
            // Each counts while the caller's part is learnt, while a trial waits, or where
            // they have come to take more.
            Way::Shared if self.own.is_learnt() && self.trial.is_none() && !self.has_risen(way) => {
                self.unasked = if wake || means.beside { 0 } else { unasked.min(SAMPLE) };
                choice
            }
            _ => choice,
        }
    }

    /// How many of `calls` to share with `others` the caller keeps for itself.
    pub(crate) fn kept(&self, calls: usize, others: usize) -> usize {
        self.own.of(calls, others)
    }

    /// How many calls to claim at once, at most: who is at the last ones keeps the
    /// others waiting.
    pub(crate) fn claimed(&self, means: Means) -> usize {
        let plain = self.means[0].ticks.max(1.0);
        ((means.wake / plain) as usize).clamp(1, CHUNK)
    }

    /// Notes that nobody has come to a shared batch: the next one is measured.
    pub(crate) fn nobody_came(&mut self) {
        self.unasked = 0;
    }

    /// Notes that so many batches of `calls` will not ask.
    pub(crate) fn pass(&mut self, batches: u32, calls: usize) {
        self.spent += (self.means[0].ticks * calls as f32) as u64 * u64::from(batches);
        self.batches = self.batches.wrapping_add(batches);
    }

    /// The way that promises least, and what.
    fn best(&self, prior: Prior, sleeps: bool, means: Means) -> (Way, f32) {
        let mut best = (Way::Inline, self.estimate(0, prior, means) * MARGIN);
        for (at, way) in WAYS.iter().enumerate().skip(1) {
            if is_open(*way, sleeps, means) {
                let estimate = self.estimate(at, prior, means);
                if estimate < best.1 {
                    best = (*way, estimate);
                }
            }
        }
        best
    }

    /// Ticks per call: measured, or guessed from plain calls.
    fn estimate(&self, at: usize, prior: Prior, means: Means) -> f32 {
        let (mean, plain) = (self.means[at], self.means[0].ticks);
        match WAYS[at] {
            _ if mean.samples > 0 => mean.ticks,
            Way::Inline => f32::MAX,
            Way::Shared | Way::Many(_) if prior == Prior::OneFile => plain * ONE_FILE,
            Way::Shared | Way::Many(_) if prior == Prior::OneDirectory => plain * ONE_DIRECTORY,
            Way::Shared => plain * 0.6,
            // Nothing has been measured: any number, so that it is tried.
            Way::Many(threads) if plain == 0.0 => 1.0 / f32::from(threads),
            Way::Many(threads) => plain / f32::from(threads),
            Way::Ring if plain == 0.0 => 1.0,
            Way::Ring => plain * means.ring.unwrap_or(NO_RING),
        }
    }

    /// Notes how a batch went.
    #[inline]
    pub(crate) fn record(&mut self, way: Way, sample: Sample, means: Means) {
        let calls = sample.calls as f32;
        let ticks = sample.ticks.max(1) as f32;
        let plain = self.means[0].ticks * calls;
        let more = ticks - plain;
        self.spent += sample.ticks;
        let begins = sample.woke && self.trial.is_some_and(|trial| trial.wakes == 0);
        let is_shared = way == Way::Shared;
        let alone = is_shared && sample.helped == 0;
        if alone {
            self.nobody_came();
        }
        if !is_shared || self.trust.record(sample, begins, more, self.spent, means.wake) {
            self.learn(place(way), sample, means);
        }
        if is_shared && !alone && !sample.woke {
            self.own.learn(sample);
        }
        if let Some(trial) = self.trial.as_mut().filter(|_| self.in_trial) {
            trial.wakes += u32::from(sample.woke);
            if trial.is_own_turn() && (begins || alone) {
                trial.lost += more.clamp(0.0, means.wake.max(plain));
            }
            // Nobody has come, and will not, or never stays for long enough.
            trial.given_up |= alone && self.trust.is_gone() || trial.wakes > WAKES;
        }
    }

    /// Takes what a batch has shown of a way.
    fn learn(&mut self, at: usize, sample: Sample, means: Means) {
        let (ticks, calls) = (sample.ticks.max(1) as f32, sample.calls as f32);
        let each = ticks / calls;
        let least = means.wake * LEAST_WAKES;
        if let Some(trial) = &mut self.trial
            && self.in_trial
            && trial.due() == at
        {
            let own_turn = trial.is_own_turn();
            trial.take(each, calls, self.means[trial.rival].ticks);
            if own_turn {
                return;
            }
        }
        if self.means[at].samples == 0 {
            // As good as a trial.
            let known = self.means.iter().filter(|mean| mean.samples > 0);
            let best = known.map(|mean| mean.ticks).fold(each, f32::min);
            let pause = ((each - best) * calls * PATIENCE).max(least);
            self.next_trial = self.next_trial.max(self.spent + pause as u64);
        }
        let before = self.means[at];
        // While others make calls for who is away, what these take is not seen.
        if before.samples > 0 && sample.away >= sample.ticks {
            return;
        }
        self.means[at].add(each);
        let ticks = self.means[at].ticks;
        // Of calls that sleep each way is taken once before there is anything to compare.
        if self.means[0].samples > 0 && before.samples > 0 {
            let others = self.means.iter_mut().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, mean)| mean.ticks *= ticks / before.ticks);
        }
        self.least = self.least.min(ticks);
    }

    /// Whether plain calls take so long that it is worth knowing if they sleep.
    pub(crate) fn asks_whether_sleeps(&self, means: Means) -> bool {
        self.sleeps.is_none() && self.means[0].samples > 0 && self.means[0].ticks > means.long
    }

    /// Notes how much of a plain batch's time the cpu was in use for it.
    pub(crate) fn record_sleep(&mut self, busy: f32) {
        self.sleeps = Some(busy < 0.5);
    }
}

/// Where a way stands among all.
fn place(way: Way) -> usize {
    WAYS.iter().position(|other| *other == way).expect("every way has a place")
}

/// Whether a way can be taken at all.
fn is_open(way: Way, sleeps: bool, means: Means) -> bool {
    match way {
        Way::Inline => true,
        Way::Shared => means.others && !sleeps,
        Way::Many(_) => means.pool && sleeps,
        Way::Ring => means.ring.is_some(),
    }
}

#[cfg(test)]
mod tests;
