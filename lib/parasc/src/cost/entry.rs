//! What is known of one key: how its plain calls and their rival compare, and when to
//! compare them again.

use super::helpers::Helpers;
use super::{
    BatchEnd, Choice, EXPECTED, KEPT, MOVED, Means, PART, Prior, REPEATED_TICKS, SLEEPS, Sample,
    WEIGHT, Way,
};

/// Mean time of a call, ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    ticks: f32,
    /// Its value when it was last looked at.
    seen: f32,
}

impl Mean {
    /// Takes a sample, and says whether the mean has moved by [`MOVED`] since that was last
    /// true. One accident does not do that, however long it took.
    fn add(&mut self, sample: f32) -> bool {
        if self.ticks == 0.0 {
            *self = Mean { ticks: sample, seen: sample };
        }
        let most = self.ticks * (1.0 + (MOVED - 1.0) / WEIGHT);
        self.ticks += (sample.min(most) - self.ticks) * WEIGHT;
        let moved = self.ticks > self.seen * MOVED || self.ticks * MOVED < self.seen;
        if moved {
            self.seen = self.ticks;
        }
        moved
    }
}

/// Calls of one way in a probe, and what they took.
#[derive(Clone, Copy, Debug, Default)]
struct WayCosts {
    calls: f32,
    ticks: f32,
}

impl WayCosts {
    fn add(&mut self, calls: usize, ticks: f32) {
        self.calls += calls as f32;
        self.ticks += ticks;
    }

    fn each(self) -> f32 {
        self.ticks / self.calls.max(1.0)
    }

    fn kept(self, part: f32) -> Self {
        WayCosts { calls: self.calls * part, ticks: self.ticks * part }
    }
}

/// A comparison of plain calls with their rival.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    plain: WayCosts,
    rival: WayCosts,
    /// Calls made for it, of both ways, also those that do not count.
    made: [f32; 2],
    /// True if it is the turn of plain calls.
    turn: bool,
    /// A turn is half a batch.
    halves: bool,
    /// Each batch needs a wake of its own, which counts.
    wakes: bool,
    /// Measures what comes now: each thread has the memory of its calls in its own cache.
    counts: bool,
}

/// One key's costs.
#[derive(Clone, Debug)]
pub(super) struct KeyCosts {
    /// Means of plain calls, and of their rival.
    means: [Mean; 2],
    /// Ticks of a call of the last measured batch.
    last: f32,
    /// Plain calls that were timed, until there are enough.
    known: usize,
    /// The rival: shared, or the pool.
    rival: Way,
    /// Verdicts of probes for the rival, the last ones most: logarithms.
    favour: f32,
    /// Verdict of the last one.
    gain: f32,
    probe: Option<Probe>,
    /// Shared calls, those before a probe a little less, and how long the requesting thread
    /// waited for others at the end of their batches: some wait long, and a probe sees few.
    waits: WayCosts,
    /// Time that it waited in the last one.
    waited: f32,
    /// Ticks that batches of this key took …
    spent: f64,
    /// Sum of these at which the next probe is due.
    due: f64,
    /// Probes in a row that changed nothing.
    doublings: u32,
    /// The part of a shared batch that the requesting thread keeps, once others have helped.
    own: Option<f32>,
    /// Number of batches that are shared as the last one, and not measured.
    pub(super) repeats: u32,
}

impl KeyCosts {
    /// Makes the entry of a call of which nothing is known.
    pub(super) fn new(prior: Prior) -> Self {
        let (rival, known) = match prior {
            Prior::Sleeps => (Way::Pool, PART as usize),
            _ => (Way::Shared, 0),
        };
        let mut entry = KeyCosts {
            means: [Mean::default(); 2],
            last: 0.0,
            known,
            rival,
            favour: 0.0,
            gain: 0.0,
            probe: None,
            waits: WayCosts::default(),
            waited: 0.0,
            spent: 0.0,
            due: 0.0,
            doublings: 0,
            own: None,
            repeats: 0,
        };
        entry.expect(rival);
        entry
    }

    /// Makes it from that of batches of another size, or beside other work or not.
    pub(super) fn anew(&self) -> Self {
        KeyCosts {
            probe: None,
            waits: WayCosts::default(),
            spent: 0.0,
            due: 0.0,
            doublings: 0,
            repeats: 0,
            ..self.clone()
        }
    }

    /// Another rival, of which nothing is known.
    fn expect(&mut self, rival: Way) {
        (self.rival, self.means[1], self.probe) = (rival, Mean::default(), None);
        (self.favour, self.gain) = (-EXPECTED.ln(), -EXPECTED.ln());
        (self.due, self.doublings) = (self.spent, 0);
        (self.waits, self.waited) = (WayCosts::default(), 0.0);
    }

    #[inline]
    pub(super) fn choose(
        &mut self,
        calls: usize,
        means: Means,
        helpers: &mut Helpers,
        now: impl Fn() -> u64,
    ) -> Choice {
        if self.repeats > 0 && helpers.come(means) {
            self.repeats -= 1;
            self.spent += f64::from(self.means[1].ticks * calls as f32);
            return Choice { measure: false, ..Choice::of(Way::Shared, calls) };
        }
        self.repeats = 0;
        if self.known < PART as usize {
            let first = calls.min(PART as usize - self.known);
            return Choice { pass: 0, ..self.plain(first, means) };
        }
        if self.probe.is_some_and(|probe| probe.turn) {
            return self.probe(calls, means);
        }
        let is_open = match self.rival {
            Way::Pool => means.pool,
            _ => means.others && !helpers.paused(now),
        };
        if !is_open {
            self.probe = None;
            return self.plain(calls, means);
        }
        let shares = self.rival == Way::Shared;
        let is_due = self.probe.is_some() || self.spent >= self.due;
        let can = if shares { helpers.come(means) && helpers.helped } else { calls > 1 };
        if is_due && can {
            return self.probe(calls, means);
        }
        self.probe = None;
        let takes = self.favour > 0.0;
        if shares && !helpers.come(means) {
            // Where the plain way is the better one as far as is known, a wake is for a
            // probe: once so much has been spent that it is a small part.
            let probes = self.spent >= self.due + f64::from(means.wake()) * f64::from(PART);
            helpers.missed(match takes {
                true => self.saves(calls),
                false if probes => means.wake(),
                false => 0.0,
            });
            if !helpers.wakes(means) {
                return self.plain(calls, means);
            }
            let mut choice = Choice::of(Way::Shared, calls);
            if is_due && helpers.in_vain {
                self.probe = Some(Probe { wakes: true, counts: true, ..Probe::default() });
                choice = self.probe(calls, means);
            }
            self.due = if takes { self.due } else { self.spent };
            return Choice { wake: true, ..choice };
        }
        // Shared to see whether somebody comes, if a probe is to follow.
        if !(takes || shares && is_due) {
            return self.plain(calls, means);
        }
        if shares && takes {
            self.repeats = self.repeated(self.means[1].ticks * calls as f32);
        }
        Choice::of(self.rival, calls)
    }

    /// The next part of a probe.
    fn probe(&mut self, calls: usize, means: Means) -> Choice {
        let probe = self.probe.get_or_insert_default();
        if !probe.turn {
            probe.halves = calls >= PART as usize;
            // Who spins would sleep before the next batch.
            probe.counts |= self.means[0].ticks * calls as f32 / 2.0 > means.sleep;
        }
        match (probe.turn, self.rival) {
            (true, Way::Pool) => self.plain(1, means),
            (true, _) => self.plain(calls, means),
            // The plain one comes after it.
            (false, Way::Pool) => Choice::of(Way::Pool, calls - 1),
            (false, way) => Choice::of(way, if probe.halves { calls.div_ceil(2) } else { calls }),
        }
    }

    /// Plain calls, watched if they may sleep.
    fn plain(&self, calls: usize, means: Means) -> Choice {
        let likely = self.last * calls as f32;
        let watch = self.last == 0.0 || likely > SLEEPS * means.sleep;
        let pass = if self.probe.is_some() { 0 } else { self.repeated(likely) };
        Choice { watch, pass, ..Choice::of(Way::Plain, calls) }
    }

    /// Number of batches of so many ticks that do as the last one did.
    fn repeated(&self, ticks: f32) -> u32 {
        if ticks > 0.0 { (REPEATED_TICKS / ticks) as u32 } else { 0 }
    }

    /// Ticks that sharing a batch would save, as the last probe says.
    fn saves(&self, calls: usize) -> f32 {
        let gain = self.gain.max(self.favour / 4.0);
        self.means[0].ticks * calls as f32 * (1.0 - (-gain).exp())
    }

    pub(super) fn pass(&mut self, batches: u32, calls: usize, helpers: &mut Helpers) {
        self.spent += f64::from(self.means[0].ticks * calls as f32 * batches as f32);
        if self.rival == Way::Shared && self.favour > 0.0 {
            helpers.missed(self.saves(calls) * batches as f32);
        }
    }

    #[inline]
    pub(super) fn record(&mut self, way: Way, sample: Sample, means: Means) {
        let ticks = sample.ticks.max(1) as f32;
        let each = ticks / sample.calls as f32;
        self.spent += f64::from(ticks);
        self.last = each;
        let plain = way == Way::Plain;
        if plain {
            self.known += sample.calls;
        }
        let wakes = self.probe.is_some_and(|probe| probe.wakes);
        if way == Way::Shared && (sample.helped == 0 || sample.woke) && !wakes {
            // Who was called is on the way: that is not what sharing takes.
            self.probe = None;
            return;
        }
        if way == Way::Shared && sample.helped > 0 {
            self.keep(sample);
        }
        let moved = self.means[usize::from(!plain)].add(each);
        match self.probe.take() {
            Some(probe) => self.compare(probe, plain, sample, means),
            None if moved => {
                self.doublings /= 2;
                self.due = self.due.min(self.spent + f64::from(means.wake()));
            }
            None => (),
        }
        let rival = match sample.slept {
            Some(true) if means.pool => Way::Pool,
            _ => Way::Shared,
        };
        // What was not slept in may have been a probe's one call beside many that sleep.
        let better = self.favour <= 0.0 || rival == Way::Pool;
        if plain && self.probe.is_none() && self.rival != rival && better {
            self.expect(rival);
        }
    }

    fn compare(&mut self, mut probe: Probe, plain: bool, sample: Sample, means: Means) {
        if plain != probe.turn {
            return;
        }
        let ticks = sample.ticks.max(1) as f32;
        let sleeps = self.rival == Way::Pool;
        probe.made[usize::from(!plain)] += sample.calls as f32;
        let (part, waited) = match plain {
            true => (&mut probe.plain, 0.0),
            // A whole batch has one wake, whose price is half of what it costs both threads.
            false if probe.wakes && probe.halves => (&mut probe.rival, self.waited + means.wake()),
            false => (&mut probe.rival, self.waited),
        };
        if probe.counts || sleeps {
            part.add(sample.calls, (ticks - waited).max(1.0));
        }
        let enough = sleeps || part.ticks >= means.wake() / 2.0;
        if probe.halves || enough {
            probe.turn = !plain;
        }
        probe.counts = if probe.halves { probe.counts || plain } else { !enough };
        if !(plain && enough) {
            self.probe = Some(probe);
            return;
        }
        let (plain, rival) = (probe.plain.each(), probe.rival.each() + self.waits.each());
        self.waits = self.waits.kept(1.0 - 1.0 / PART as f32);
        let taken = self.favour > 0.0;
        // Of the way that is not taken.
        let lost = match taken {
            true => (plain - rival) * probe.made[0],
            false => (rival - plain) * probe.made[1],
        };
        // Who spun meanwhile sleeps by now, and has to be woken.
        let asleep = !sleeps && !probe.wakes && ticks > means.sleep;
        let lost = lost.max(0.0) + if asleep { means.sleep } else { 0.0 };
        let agrees = taken == (plain > rival);
        self.judge((plain / rival).ln().clamp(-1.0, 1.0));
        self.settle(agrees, lost, means);
        self.means.iter_mut().for_each(|mean| mean.seen = mean.ticks);
    }

    fn judge(&mut self, gain: f32) {
        self.gain = gain;
        self.favour = KEPT * self.favour + gain;
    }

    /// Notes that sharing has lost so much that it pauses: as good as a probe.
    pub(super) fn lost(&mut self, ticks: f32, means: Means) {
        let before = self.favour > 0.0;
        self.judge(-1.0);
        let taken = self.favour > 0.0;
        // Twice, as who finds out anew pays for probes and wakes beside the next such loss.
        self.settle(!before, if taken { 0.0 } else { 2.0 * ticks }, means);
    }

    /// Sets when the next probe is due, after one that `agrees` with what was believed and
    /// has lost so much.
    fn settle(&mut self, agrees: bool, lost: f32, means: Means) {
        self.doublings = if agrees { (self.doublings + 1).min(PART.ilog2()) } else { 0 };
        let pause = (lost * PART as f32).max(means.wake());
        self.due = self.spent + f64::from(pause * (1 << self.doublings) as f32);
    }

    /// Returns ticks of a plain call, and how many the batch has saved at most, as far as is known;
    /// one that nobody helped with asks next time.
    #[inline]
    pub(super) fn shared(&mut self, end: BatchEnd) -> (f32, f32) {
        if end.helped == 0 {
            self.repeats = 0;
        }
        self.waited = end.waited as f32;
        // A longer one is for the account.
        self.waits.add(end.calls, self.waited.min(self.means[0].ticks * end.calls as f32));
        let [plain, shared] = self.means.map(|mean| mean.ticks);
        // Of batches that began with a wake probes alone tell.
        let most = match end.woke {
            true => self.saves(end.calls),
            false => (plain - shared) * end.calls as f32,
        };
        (plain, most.max(0.0))
    }

    /// Number of `calls` that the requesting thread keeps, such that it and `others` are ready at
    /// the same time.
    pub(super) fn kept(&self, calls: usize, others: usize) -> usize {
        (self.own.unwrap_or(1.0 / (1 + others) as f32) * calls as f32) as usize
    }

    /// Learns that from a batch that others have helped with. A call that it could have kept
    /// has to be claimed, at the price of a line's way or two; for one too many the others
    /// wait.
    fn keep(&mut self, Sample { calls, helped, kept, .. }: Sample) {
        let part = |count: usize| count as f32 / calls as f32;
        let own = self.own.get_or_insert(part(kept));
        let change = if helped == calls - kept { -1.0 } else { part(calls - helped) - *own };
        let step = WEIGHT / 2.0;
        *own = (*own + change.clamp(-step, step) * WEIGHT).clamp(0.0, 1.0 - part(1));
    }

    /// Number of calls that are claimed at once, at most: as many as take as long as a wake.
    pub(super) fn claimed(&self, means: Means) -> usize {
        ((means.wake() / self.means[0].ticks.max(1.0)) as usize).clamp(1, PART as usize)
    }
}
