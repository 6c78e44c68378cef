//! What the ways have cost for one key, and the choice between them.

use super::{Means, Prior, WAYS, Way};

/// Weight of a new sample.
const WEIGHT: f32 = 1.0 / 8.0;
/// A sample counts for so many times the mean at most: a thread that was
/// preempted in between says nothing about the way.
const OUTLIER: f32 = 2.0;
/// Batches between two tries of a way that is not the best.
const EXPLORE: u32 = 64;
/// The same for a way that was far worse.
const EXPLORE_BAD: u32 = 1024;
/// Far worse: so many times the best.
const BAD: f32 = 1.5;
/// A way must promise that much less than plain calls to be taken.
const MARGIN: f32 = 0.97;
/// Batches after which the clock is not read for each plain one any more.
const SETTLED: u32 = 64;
/// Plain batches between two readings then.
const SAMPLE: u32 = 8;

/// Mean time per call of one way, ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    ticks: f32,
    samples: u32,
}

impl Mean {
    fn add(&mut self, sample: f32) {
        self.samples = self.samples.saturating_add(1);
        match self.samples {
            // The first finds cold caches and pages.
            1 | 2 => self.ticks = sample,
            _ => self.ticks += (sample.min(self.ticks * OUTLIER) - self.ticks) * WEIGHT,
        }
    }
}

/// One key's costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    means: [Mean; WAYS.len()],
    batches: u32,
    /// Ticks that waking a processing thread would have saved so far.
    missed: f32,
    /// Whether plain calls were found to sleep.
    sleeps: Option<bool>,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) way: Way,
    /// Wake processing threads that sleep.
    pub(crate) wake: bool,
    /// Take the time and [`Entry::record`] it.
    pub(crate) measure: bool,
}

impl Choice {
    const PLAIN: Choice = Choice { way: Way::Inline, wake: false, measure: false };
}

impl Entry {
    /// How to run a batch of `calls`.
    #[inline]
    pub(crate) fn choose(&mut self, calls: usize, prior: Prior, means: Means) -> Choice {
        if prior == Prior::Serial || !(means.others || means.pool || means.ring.is_some()) {
            return Choice::PLAIN;
        }
        self.batches = self.batches.wrapping_add(1);
        let plain = self.means[0];
        let sleeps = prior == Prior::Sleeps || self.sleeps == Some(true);
        if plain.samples < 2 && !sleeps {
            return Choice { measure: true, ..Choice::PLAIN };
        }
        let (best, estimate) = self.best(prior, sleeps, means);
        if let Some(way) = self.explore(best, estimate, prior, sleeps, means) {
            return Choice { way, wake: false, measure: true };
        }
        match best {
            Way::Inline => {
                let measure = self.batches < SETTLED || self.batches.is_multiple_of(SAMPLE);
                Choice { measure, ..Choice::PLAIN }
            }
            Way::Shared if !means.hot => {
                self.missed += (plain.ticks - estimate) * calls as f32;
                let wake = self.missed >= means.wake;
                if wake {
                    self.missed = 0.0;
                }
                // The caller helps: shared with nobody awake would be plain
                // calls, only dearer.
                let way = if wake { Way::Shared } else { Way::Inline };
                Choice { way, wake, measure: false }
            }
            way => Choice { way, wake: false, measure: true },
        }
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
            Way::Shared if prior == Prior::Contends => plain * BAD,
            Way::Shared => plain * 0.6,
            // Nothing has been measured: any number, so that it is tried.
            Way::Many(threads) if plain == 0.0 => 1.0 / f32::from(threads),
            Way::Many(threads) => plain / f32::from(threads),
            Way::Ring if plain == 0.0 => 1.0,
            Way::Ring => plain * means.ring.unwrap_or(BAD),
        }
    }

    /// Another way to try now, if it is time for it.
    fn explore(
        &self,
        best: Way,
        estimate: f32,
        prior: Prior,
        sleeps: bool,
        means: Means,
    ) -> Option<Way> {
        if !self.batches.is_multiple_of(EXPLORE) {
            return None;
        }
        let rare = self.batches.is_multiple_of(EXPLORE_BAD);
        // A sleeping processing thread would only be seen to be late.
        let open = |way: Way| is_open(way, sleeps, means) && (way != Way::Shared || means.hot);
        let others = WAYS.iter().enumerate().filter(|(_, way)| **way != best && open(**way));
        let worth =
            others.filter(|(at, _)| rare || self.estimate(*at, prior, means) < estimate * BAD);
        // In turn.
        let worth: Vec<Way> = worth.map(|(_, way)| *way).collect();
        let turn = (self.batches / EXPLORE) as usize;
        (!worth.is_empty()).then(|| worth[turn % worth.len()])
    }

    /// Notes that `calls` calls have taken `ticks` this way.
    #[inline]
    pub(crate) fn record(&mut self, way: Way, calls: usize, ticks: u64) {
        let at = WAYS.iter().position(|other| *other == way).expect("every way has a place");
        self.means[at].add(ticks as f32 / calls as f32);
    }

    /// Whether plain calls take so long that it is worth knowing if they sleep.
    pub(crate) fn asks_whether_sleeps(&self, means: Means) -> bool {
        self.sleeps.is_none() && self.means[0].samples > 0 && self.means[0].ticks > means.long
    }

    /// Notes how much of a plain batch's time the cpu was in use for it.
    pub(crate) fn record_sleep(&mut self, busy: f32) {
        self.sleeps = Some(busy < 0.5);
    }

    /// Ticks that a plain call takes; 0 if none has been measured.
    pub(crate) fn plain_ticks(&self) -> f32 {
        self.means[0].ticks
    }
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
mod tests {
    use super::*;

    const HOT: Means =
        Means { others: true, hot: true, pool: true, ring: None, wake: 1e5, long: 5e4 };

    /// Runs `batches` batches whose ways take what `cost` says, and returns how
    /// many times each was taken.
    fn run(entry: &mut Entry, prior: Prior, means: Means, cost: impl Fn(Way) -> u64) -> [u32; 6] {
        let mut taken = [0; WAYS.len()];
        for _ in 0..4096 {
            let choice = entry.choose(10, prior, means);
            taken[WAYS.iter().position(|way| *way == choice.way).unwrap()] += 1;
            if choice.measure {
                entry.record(choice.way, 10, cost(choice.way) * 10);
            }
        }
        taken
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_tried() {
        let shared_wins = |way| if way == Way::Shared { 60 } else { 100 };
        let taken = run(&mut Entry::default(), Prior::Scales, HOT, shared_wins);
        assert!(taken[1] > 3900 && taken[0] >= 2, "{taken:?}");
        let plain_wins = |way| if way == Way::Shared { 130 } else { 100 };
        let taken = run(&mut Entry::default(), Prior::Scales, HOT, plain_wins);
        assert!(taken[0] > 3900 && taken[1] >= 1, "{taken:?}");
    }

    #[test]
    fn a_contended_place_is_left_to_plain_calls_unless_sharing_proves_better() {
        let slower = |way| if way == Way::Shared { 200 } else { 100 };
        let taken = run(&mut Entry::default(), Prior::Contends, HOT, slower);
        assert!((1..=4).contains(&taken[1]), "{taken:?}");
        let better = |way| if way == Way::Shared { 60 } else { 100 };
        let taken = run(&mut Entry::default(), Prior::Contends, HOT, better);
        assert!(taken[1] > 1000, "{taken:?}");
    }

    #[test]
    fn the_address_space_is_never_shared() {
        let taken = run(&mut Entry::default(), Prior::Serial, HOT, |_| 1);
        assert_eq!(taken[0], 4096);
    }

    #[test]
    fn a_wake_waits_until_it_would_have_paid() {
        let cold = Means { hot: false, ..HOT };
        let mut entry = Entry::default();
        let mut woken = Vec::new();
        for batch in 0..1000 {
            let choice = entry.choose(10, Prior::Scales, cold);
            if choice.measure {
                entry.record(choice.way, 10, 1000);
            }
            if choice.wake {
                woken.push(batch);
            }
        }
        // Each batch would have saved 400 ticks: one wake of 100,000 in 250.
        assert!((3..=4).contains(&woken.len()), "{woken:?}");
        assert!(woken[0] >= 250);
    }

    #[test]
    fn calls_that_sleep_get_threads_at_once() {
        let mut entry = Entry::default();
        assert!(matches!(entry.choose(10, Prior::Sleeps, HOT).way, Way::Many(_)));
        let cost = |way| match way {
            Way::Many(16) => 100,
            Way::Inline => 1000,
            _ => 300,
        };
        let taken = run(&mut entry, Prior::Sleeps, HOT, cost);
        assert!(taken[3] > 3900, "{taken:?}");
    }

    #[test]
    fn io_uring_is_taken_where_it_is_faster_and_hardly_tried_where_it_is_not() {
        let ring = |guess| Means { others: false, hot: false, ring: Some(guess), ..HOT };
        let faster = |way| if way == Way::Ring { 70 } else { 100 };
        let taken = run(&mut Entry::default(), Prior::Scales, ring(0.9), faster);
        assert!(taken[5] > 3900, "{taken:?}");
        let slower = |way| if way == Way::Ring { 200 } else { 100 };
        for guess in [0.9, 2.0] {
            let taken = run(&mut Entry::default(), Prior::Scales, ring(guess), slower);
            assert!((1..=6).contains(&taken[5]), "{taken:?}");
        }
        // Beside processing threads that are twice as fast as plain calls.
        let beside = Means { ring: Some(0.9), ..HOT };
        let shared = |way| if way == Way::Shared { 50 } else { 100 };
        let taken = run(&mut Entry::default(), Prior::Scales, beside, shared);
        assert!((1..=4).contains(&taken[5]), "{taken:?}");
        // A call that sleeps has not been made plain when the first way is chosen.
        let taken = run(&mut Entry::default(), Prior::Sleeps, beside, |way| match way {
            Way::Ring => 50,
            _ => 200,
        });
        assert!(taken[5] > 3800, "{taken:?}");
    }

    #[test]
    fn one_preempted_batch_changes_little() {
        let mut mean = Mean::default();
        for _ in 0..10 {
            mean.add(100.0);
        }
        mean.add(1e6);
        assert!(mean.ticks < 120.0, "{}", mean.ticks);
    }

    #[test]
    fn without_other_cpus_everything_is_plain_and_unmeasured() {
        let alone = Means { others: false, hot: false, pool: false, ..HOT };
        let choice = Entry::default().choose(300, Prior::Scales, alone);
        assert_eq!(choice, Choice::PLAIN);
    }
}
