//! When which way gets a trial, and what comes of it.
//!
//! A belief is only as good as its last samples, so each way is compared with the best one
//! from time to time (`cost/trial.rs`). Trials are as far apart as keeps their price small, by
//! the time spent in batches of this key: a wrong belief lasts some milliseconds of that,
//! whatever the size of the batches. If the best way comes to take more, there is one sooner.

use std::ops::RangeInclusive;

use super::{Entry, SETTLED, is_open, place};
use crate::cost::own::Own;
use crate::cost::trial::Trial;
use crate::cost::{Means, Prior, WAYS, Way};

/// Plain calls that make a sample, if they take as long as a wake …
const ENOUGH: usize = 16;
/// … and calls for each of many threads.
const TURNS: usize = 4;
/// The time between two trials is so many times what the last has cost more
/// than the best way would have, at first: a trial may have been disturbed …
pub(super) const PATIENCE: f32 = 16.0;
/// … doubled with each trial that a way has failed, up to so many times …
const DOUBLINGS: u32 = 7;
/// … and so many wakes at least. A round for which even the better way would have taken so
/// long is enough.
pub(super) const LEAST_WAKES: f32 = 16.0;
/// Samples of a way that a trial takes, mostly.
pub(super) const SAMPLES: RangeInclusive<f32> = 2.0..=4.0;
/// A trial of which nothing comes of so many batches is none.
const CLOSED: u32 = 64;
/// Sooner, as if a way had failed no more than so many, if the best one takes …
const SOON: u32 = 2;
/// … so many times what it took at the least since then.
pub(super) const RISEN: f32 = 1.3;
/// A way that is guessed to be worse than plain calls gets its first trial when
/// so many times what that will cost has been spent.
const EARNED: f32 = 64.0;

impl Entry {
    /// How many of `calls` show what a way costs that is not the best one: the
    /// others need not suffer from it.
    pub(super) fn enough(&self, way: Way, calls: usize, means: Means) -> usize {
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

    /// Ends a trial that has shown what there is to see, or does not get on.
    pub(super) fn end_trial(&mut self, prior: Prior, sleeps: bool, means: Means) {
        let least = means.wake * LEAST_WAKES;
        let ends = |trial: &mut Trial| trial.is_over() || trial.closed > CLOSED;
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
            let guess = if guess < f32::MAX { guess } else { rival };
            mean.ticks = trial.guess().map_or(guess, |ratio| rival * ratio);
            mean.samples = 1;
        }
        let best = place(self.best(prior, sleeps, means).0);
        let mean = &mut self.means[trial.at];
        let after = |spent: u64, doublings| {
            spent + (trial.price() * PATIENCE * (1 << doublings) as f32).max(least) as u64
        };
        // Nor is it asked again soon for what it does not show.
        let doublings = if ratio.is_none_or(|ratio| ratio > 1.0) { mean.failed } else { 0 };
        if trial.at == best {
            mean.failed = 0;
        } else if !trial.early && (ratio.is_some() || trial.price() > 0.0) {
            mean.failed = mean.failed.saturating_add(1);
        }
        self.soonest = after(self.spent, doublings.min(SOON));
        if !trial.early {
            self.next_trial = after(self.spent, doublings.min(DOUBLINGS));
        }
        self.least = self.means[best].ticks;
    }

    /// Whether this way, the best one, takes more than it did since the last trial.
    pub(super) fn has_risen(&self, way: Way) -> bool {
        self.least > 0.0 && self.means[place(way)].ticks > self.least * RISEN
    }

    /// Begins one beside the best way if it is time for it.
    pub(super) fn begin_trial(
        &mut self,
        (best, estimate): (Way, f32),
        calls: usize,
        prior: Prior,
        sleeps: bool,
        means: Means,
    ) {
        let is_new = self.means[place(best)].samples == 0;
        let (rival, estimate) = match best {
            // It cannot show what it promises: nobody comes.
            Way::Shared if is_new && self.trust.is_gone() => (0, self.means[0].ticks),
            _ => (place(best), estimate),
        };
        let known = self.means[rival];
        let is_due = self.spent >= self.next_trial;
        let is_early = self.has_risen(WAYS[rival]) && self.spent >= self.soonest;
        if known.samples == 0 || !(is_due || is_early) {
            return;
        }
        let can = |at: &usize| {
            // A process that has had one thread only pays for the second with
            // every use of a descriptor (fdget, fs/file.c): none is started on
            // the mere chance.
            let contends = matches!(prior, Prior::OneFile | Prior::OneDirectory);
            let dear = WAYS[*at] == Way::Shared && contends && means.alone && !means.hot;
            let is_other = WAYS[*at] != best && *at != rival;
            is_other && is_open(WAYS[*at], sleeps, means) && !dear
        };
        if !is_due {
            self.least = known.ticks;
            let others = (0..WAYS.len()).filter(|at| can(at) && self.means[*at].samples > 0);
            let ticks = |at: &usize| self.means[*at].ticks;
            if let Some(at) = others.min_by(|a, b| ticks(a).total_cmp(&ticks(b))) {
                self.try_beside(at, rival, true, means);
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
                self.try_beside(at, rival, false, means);
            }
            None => self.next_trial = self.spent + (means.wake * LEAST_WAKES) as u64,
        }
    }

    pub(super) fn try_beside(&mut self, at: usize, rival: usize, early: bool, means: Means) {
        if WAYS[at] == Way::Shared {
            self.own = Own::default();
            self.trust.begin_trial();
        }
        self.trial = Some(Trial::new(at, rival, early, means.wake * LEAST_WAKES));
    }
}
