//! What the ways have cost for one key, and the choice between them.
//!
//! The best way is taken. A belief is only as good as its last samples, so each
//! way gets a *trial* from time to time, beside the best one (`trial.rs`). Trials are as
//! far apart as keeps their price small, by the time spent in batches of this key: a wrong
//! belief lasts some milliseconds of that, whatever the size of the batches.
//!
//! Between trials only the best way has samples. If it takes more now, batches may have
//! become longer, or the way worse: the others are taken to have changed as much, and one
//! of them gets its trial sooner.
//!
//! Sharing is special: it needs a processing thread that is awake *and* on a cpu.
//! A batch of which nobody else has made a single call says nothing about
//! sharing, and is not counted as a sample of it. It says that nobody is there:
//! when that has cost as much as a wake, the thread is taken for asleep, and each
//! further wake must be worth twice the one before, until somebody helps again.

use std::ops::RangeInclusive;

use super::own::Own;
use super::trial::Trial;
use super::{Means, Prior, WAYS, Way};

/// Least weight of a new sample.
pub(super) const WEIGHT: f32 = 1.0 / 8.0;
/// A sample counts for so many times the mean at most: a thread that was
/// preempted in between says little about the way.
const OUTLIER: f32 = 2.0;
/// Plain calls that make a sample, if they take as long as a wake …
const ENOUGH: usize = 16;
/// … and calls for each of many threads.
const TURNS: usize = 4;
/// The time between two trials is so many times what the last has cost more
/// than the best way would have, at first: a trial may have been disturbed …
const PATIENCE: f32 = 16.0;
/// … doubled with each trial that a way has failed, up to so many times …
const DOUBLINGS: u32 = 7;
/// … and so many wakes at least. A trial that has taken so long has shown enough.
const LEAST_WAKES: f32 = 16.0;
/// Samples of a way that a trial takes, mostly.
const SAMPLES: RangeInclusive<f32> = 2.0..=4.0;
/// A trial of which nothing comes of so many batches is none.
const CLOSED: u32 = 64;
/// Sooner, as if a way had failed no more than so many, if the best one takes …
const SOON: u32 = 2;
/// … so many times what it took at the least since then.
const RISEN: f32 = 1.3;
/// What several threads are guessed to take on one open file, times plain calls …
const ONE_FILE: f32 = 1.1;
/// … and in one directory, where they sleep in turns.
const ONE_DIRECTORY: f32 = 2.0;
/// What io_uring is guessed to take where it cannot make the calls, times plain
/// ones. It is not taken then, whatever this says: no better than they.
const NO_RING: f32 = 1.0;
/// A way that is guessed to be worse than plain calls gets its first trial when
/// so many times what that will cost has been spent.
const EARNED: f32 = 64.0;
/// A way must promise that much less than plain calls to be taken.
const MARGIN: f32 = 0.97;
/// Batches after which not each plain one is looked at any more, and those that
/// are not plain get a trial of it.
const SETTLED: u32 = 64;
/// Batches between two that are looked at then, or at which a trial may begin …
const SAMPLE: u32 = 8;
/// … and up to four times as many of the shortest, so that asking takes no larger part of
/// their time than this, or not much.
const ASKED: f32 = 0.02;
/// What it takes to ask and to measure, ticks. Where that is nothing each batch does: what
/// is looked at rarely is learnt slowly.
const ASKING: f32 = 500.0;
/// So many calls are claimed at once at most, or as many as take as long as a wake.
const CHUNK: usize = 32;
/// How much dearer a wake gets if nobody comes, at most.
const DEAREST: f32 = 64.0;

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
    /// Which way had the last trial.
    last_trial: usize,
    /// When the next may begin, by `spent` …
    next_trial: u64,
    /// … and when, at the soonest, if the best way comes to take more.
    soonest: u64,
    /// What the best way took at the least since the last one.
    least: f32,
    /// Ticks that waking a processing thread would have saved so far.
    missed: f32,
    /// Ticks lost by sharing with nobody.
    lost: f32,
    /// Since when wakes have been in vain, by `spent`.
    in_vain: Option<u64>,
    /// Somebody was woken and has not helped yet.
    arriving: bool,
    /// 0: a thread that seems awake is. Otherwise nobody came, and a wake must
    /// have been worth so many times its price.
    distrust: f32,
    /// Whether plain calls were found to sleep.
    sleeps: Option<bool>,
    own: Own,
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
        let Entry { least, distrust, sleeps, own, .. } = *other;
        Entry { means, least, distrust, sleeps, own, next_trial, soonest, ..Entry::default() }
    }

    /// How to run a batch of `calls`, or the first of them.
    #[inline]
    pub(crate) fn choose(&mut self, calls: usize, prior: Prior, means: Means) -> Choice {
        if prior == Prior::Serial || !(means.others || means.pool || means.ring.is_some()) {
            return Choice { pass: SAMPLE, ..Choice::plain(calls) };
        }
        self.batches = self.batches.wrapping_add(1);
        let plain = self.means[0];
        let sleeps = prior == Prior::Sleeps || self.sleeps == Some(true);
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
        let (way, is_worse) = match trial {
            Some(trial) => (WAYS[trial.due()], trial.is_own_turn() && WAYS[trial.at] != best),
            None => (best, false),
        };
        let tries = trial.is_some() || is_new;
        // What a trial of a worse one costs has been waited for.
        let mut wake = way == Way::Shared && is_worse && !means.hot;
        if way == Way::Shared && !is_worse && (!means.hot || self.distrust > 0.0) {
            let each = self.estimate(place(way), prior, means);
            self.missed += (plain.ticks - each) * calls as f32;
            if self.missed < means.wake * self.distrust.max(1.0) {
                // The caller helps: shared with nobody awake would be plain
                // calls, only dearer.
                self.spent += (plain.ticks * calls as f32) as u64;
                return Choice::plain(calls);
            }
            self.missed = 0.0;
            self.lost = 0.0;
            self.distrust = -self.distrust.abs();
            wake = true;
        }
        if is_new {
            self.try_beside(place(way), place(Way::Inline), false);
        }
        if tries {
            // What the caller does meanwhile goes with the part that others help
            // with: that is to be no small one.
            let whole = means.beside && matches!(way, Way::Shared | Way::Many(_));
            let calls = if whole { calls } else { self.enough(way, calls, means) };
            return Choice { wake, ..Choice::of(way, calls) };
        }
        let takes = plain.ticks * calls as f32;
        let pass = match self.batches {
            SETTLED.. if way == Way::Inline && takes < ASKING * 32.0 => {
                ((ASKING / (ASKED * takes)) as u32).clamp(SAMPLE, 4 * SAMPLE)
            }
            _ => 0,
        };
        Choice { wake, pass, ..Choice::of(way, calls) }
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

    /// Notes that so many batches of `calls` will not ask.
    pub(crate) fn pass(&mut self, batches: u32, calls: usize) {
        self.spent += (self.means[0].ticks * calls as f32) as u64 * u64::from(batches);
        self.batches = self.batches.wrapping_add(batches);
    }

    /// How many of `calls` show what a way costs that is not the best one: the
    /// others need not suffer from it.
    fn enough(&self, way: Way, calls: usize, means: Means) -> usize {
        let plain = self.means[0];
        let wakes = |count| match plain.samples {
            0 => 0,
            _ => (means.wake * count / plain.ticks) as usize,
        };
        let enough = match way {
            Way::Inline => wakes(1.0).max(ENOUGH),
            // Who is woken needs time to come.
            Way::Shared | Way::Ring => wakes(LEAST_WAKES / 2.0).max(4 * ENOUGH),
            Way::Many(threads) => TURNS * usize::from(threads),
        };
        if calls / 2 < enough { calls } else { enough }
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

    /// Ends a trial that has shown what there is to see, or does not get on.
    fn end_trial(&mut self, prior: Prior, sleeps: bool, means: Means) {
        let least = means.wake * LEAST_WAKES;
        let ends = |trial: &mut Trial| trial.is_over(least) || trial.closed > CLOSED;
        let Some(trial) = self.trial.take_if(ends) else { return };
        let (ratio, rival) = (trial.ratio(), self.means[trial.rival].ticks);
        let guess = self.estimate(trial.at, prior, means);
        let mean = &mut self.means[trial.at];
        if let Some(ratio) = ratio {
            // What it did long ago is not what it does now.
            mean.ticks = rival * ratio;
            mean.samples = mean.samples.max(1);
        } else if mean.samples == 0 && !trial.given_up {
            // Of plain calls that sleep there is no guess.
            mean.ticks = if guess < f32::MAX { guess } else { rival };
            mean.samples = 1;
        }
        let best = place(self.best(prior, sleeps, means).0);
        let mean = &mut self.means[trial.at];
        let after = |spent: u64, doublings| {
            spent + (trial.price() * PATIENCE * (1 << doublings) as f32).max(least) as u64
        };
        let worse = ratio.is_some_and(|ratio| ratio > 1.0);
        let nobody_came = trial.given_up && trial.is_own_turn();
        let doublings = if worse || nobody_came { mean.failed } else { 0 };
        mean.failed = match trial.at == best {
            true => 0,
            false => mean.failed + u32::from(ratio.is_some() || nobody_came),
        };
        self.soonest = after(self.spent, doublings.min(SOON));
        if !trial.early {
            self.next_trial = after(self.spent, doublings.min(DOUBLINGS));
        }
        self.least = self.means[best].ticks;
    }

    /// Begins one beside the best way if it is time for it.
    fn begin_trial(
        &mut self,
        (best, estimate): (Way, f32),
        calls: usize,
        prior: Prior,
        sleeps: bool,
        means: Means,
    ) {
        let known = self.means[place(best)];
        let has_risen = self.least > 0.0 && known.ticks > self.least * RISEN;
        let is_due = self.spent >= self.next_trial;
        if known.samples == 0 || !(is_due || has_risen && self.spent >= self.soonest) {
            return;
        }
        let can = |at: &usize| {
            // A process that has had one thread only pays for the second with
            // every use of a descriptor (fdget, fs/file.c): none is started on
            // the mere chance.
            let contends = matches!(prior, Prior::OneFile | Prior::OneDirectory);
            let dear = WAYS[*at] == Way::Shared && contends && means.alone && !means.hot;
            WAYS[*at] != best && is_open(WAYS[*at], sleeps, means) && !dear
        };
        if !is_due {
            self.least = known.ticks;
            let others = (0..WAYS.len()).filter(|at| can(at) && self.means[*at].samples > 0);
            let ticks = |at: &usize| self.means[*at].ticks;
            if let Some(at) = others.min_by(|a, b| ticks(a).total_cmp(&ticks(b))) {
                self.try_beside(at, place(best), true);
            }
            return;
        }
        let mut others = (1..=WAYS.len()).map(|step| (self.last_trial + step) % WAYS.len());
        let plain = self.means[0].ticks;
        let at = others.find(|at| {
            let way = WAYS[*at];
            let guess = self.estimate(*at, prior, means);
            let sample = self.enough(way, calls, means) as f32;
            let samples = means.wake * LEAST_WAKES / (guess * sample);
            let price =
                (guess - estimate) * sample * samples.clamp(*SAMPLES.start(), *SAMPLES.end());
            let unknown = self.means[*at].samples == 0 && guess > plain;
            let early = match way {
                // Calls that sleep are not made plainly at first: no price is known.
                Way::Inline => unknown && self.batches < SETTLED,
                _ => unknown && (self.spent as f32) < price * EARNED,
            };
            can(at) && !early
        });
        match at {
            Some(at) => {
                self.last_trial = at;
                self.try_beside(at, place(best), false);
            }
            None => self.next_trial = self.spent + (means.wake * LEAST_WAKES) as u64,
        }
    }

    fn try_beside(&mut self, at: usize, rival: usize, early: bool) {
        if WAYS[at] == Way::Shared {
            self.own = Own::default();
        }
        self.trial = Some(Trial::new(at, rival, early));
        self.lost = 0.0;
    }

    /// Notes how a batch went.
    #[inline]
    pub(crate) fn record(&mut self, way: Way, sample: Sample, means: Means) {
        let calls = sample.calls as f32;
        let ticks = sample.ticks.max(1) as f32;
        let alone = way == Way::Shared && sample.helped == 0;
        self.spent += sample.ticks;
        // Who comes from sleep takes several times as long for its first calls.
        let arrives = way == Way::Shared && !alone && std::mem::take(&mut self.arriving);
        self.arriving |= sample.woke && alone;
        let begins = sample.woke && self.trial.is_some_and(|trial| !trial.woke);
        if begins || alone && sample.woke {
            // What a wake takes is known, and who was called is on the way.
            let since = *self.in_vain.get_or_insert(self.spent);
            if (self.spent - since) as f32 > means.wake * LEAST_WAKES {
                self.lost = self.lost.max(means.wake);
            }
        } else if alone {
            self.lost += (ticks - self.means[0].ticks * calls).max(calls);
        } else if !arrives {
            self.learn(place(way), sample, means);
        }
        if way == Way::Shared {
            self.trust(alone, means.wake);
            if !alone && !sample.woke {
                self.own.learn(sample);
            }
        }
        let plain = self.means[0].ticks * calls;
        if let Some(trial) = &mut self.trial {
            trial.woke |= sample.woke;
            if trial.is_own_turn() && (begins || alone) {
                trial.lost += (ticks - plain).clamp(0.0, means.wake.max(plain));
            }
            // Nobody has come, and will not.
            trial.given_up |= alone && self.distrust > 0.0;
        }
    }

    /// Takes what a batch has shown of a way.
    fn learn(&mut self, at: usize, sample: Sample, means: Means) {
        let (ticks, calls) = (sample.ticks.max(1) as f32, sample.calls as f32);
        let each = ticks / calls;
        let least = means.wake * LEAST_WAKES;
        if let Some(trial) = &mut self.trial
            && trial.due() == at
        {
            let own_turn = trial.is_own_turn();
            trial.take(each, calls, self.means[trial.rival].ticks, least);
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
        self.means[at].add(each);
        let ticks = self.means[at].ticks;
        // Of calls that sleep each way is taken once before there is anything to compare.
        // While others make calls for who is away, what these take is not seen.
        if self.means[0].samples > 0 && before.samples > 0 && sample.away < sample.ticks {
            let others = self.means.iter_mut().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, mean)| mean.ticks *= ticks / before.ticks);
        }
        self.least = self.least.min(ticks);
    }

    /// Learns from a shared batch whether processing threads come.
    fn trust(&mut self, alone: bool, wake: f32) {
        if !alone {
            (self.lost, self.distrust, self.in_vain) = (0.0, 0.0, None);
        } else if self.lost >= wake {
            (self.lost, self.in_vain) = (0.0, None);
            self.distrust = (self.distrust.abs() * 2.0).clamp(1.0, DEAREST);
        }
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
