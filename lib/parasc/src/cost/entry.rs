//! What is known of one key: how its plain calls and their rival compare, and when to
//! compare them again.

use super::helpers::Helpers;
use super::{
    Choice, EXPECTED, KEPT, MOVED, Means, PART, Prior, REPEATED_TICKS, SLEEPS, Sample, WEIGHT, Way,
};

/// Steps from one thread to two, to four, and on to all there are: 256 at most.
const STEPS: usize = 8;

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

/// Number of threads, as a step ends there: 1, 2, 4, … In place of two it may be the pool.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    mean: Mean,
    /// Shared calls, those before a probe a little less, and how long the requesting thread
    /// waited for others at the end of their batches, which is in no other figure: some wait long, and a
    /// probe sees few.
    waits: WayCosts,
    /// The part of a shared batch that the requesting thread keeps, once others have helped.
    own: Option<f32>,
    /// Time that it took as the rival of the last probe: half of the next step's first one.
    probed: WayCosts,
}

/// Level of so many threads.
fn level(threads: usize) -> usize {
    (threads.next_power_of_two().ilog2() as usize).min(STEPS)
}

/// Step from a level to the next, its rival.
#[derive(Clone, Copy, Debug, Default)]
struct LevelStep {
    /// Verdicts of probes for the rival, the last ones most: logarithms, and the sum of their weights.
    favour: f32,
    weight: f32,
    /// True if there was one.
    is_judged: bool,
    /// Sum of the ticks spent at which the next probe is due.
    due: f64,
    /// Probes in a row that changed nothing.
    doublings: u32,
    /// Ticks for which it was left after the last loss, and the sum of the ticks spent until then. A loss
    /// within as long again is of the same kind.
    pause: f32,
    left_until: f64,
}

impl LevelStep {
    /// A step of which nothing is known, to be probed at `due`.
    fn expected(due: f64) -> Self {
        let favour = -EXPECTED.ln();
        LevelStep { favour, weight: 1.0, due, ..LevelStep::default() }
    }

    /// Part of the lower level's time that the rival takes, but for its waits.
    fn part(&self) -> f32 {
        (-self.favour / self.weight).exp()
    }

    /// True if the rival is faster, but for its waits.
    fn is_faster(&self) -> bool {
        self.is_judged && self.favour > 0.0
    }

    /// Takes a verdict. What is expected counts beside it on the first step only.
    fn judge(&mut self, gain: f32, is_first: bool) {
        let kept = if self.is_judged || is_first { KEPT } else { 0.0 };
        let (favour, weight) = (kept * self.favour + gain, kept * self.weight + 1.0);
        *self = LevelStep { favour, weight, is_judged: true, ..*self };
    }

    /// Sets when the next probe is due, after `spent` and one that `agrees` with what was believed
    /// and has lost so much.
    fn settle(&mut self, agrees: bool, lost: f32, spent: f64, means: Means) {
        self.doublings = if agrees { (self.doublings + 1).min(PART.ilog2()) } else { 0 };
        let pause = (lost * PART as f32).max(means.wake());
        self.due = spent + f64::from(pause * (1 << self.doublings) as f32);
    }

    /// Leaves it for a while, as its rival's waits have lost so much.
    fn pause(&mut self, lost: f32, spent: f64) {
        let is_alike = spent < self.left_until + f64::from(self.pause);
        let again = if is_alike { 2.0 * self.pause } else { 0.0 };
        self.pause = again.clamp(lost * PART as f32, lost * (PART * PART / 2) as f32);
        self.left_until = spent + f64::from(self.pause);
        self.due = self.left_until;
    }
}

/// A comparison of a level with its rival.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    step: usize,
    /// The lower level: plain calls, if it is the first.
    plain: WayCosts,
    rival: WayCosts,
    /// Calls made for it, of both ways, also those that do not count.
    made: [f32; 2],
    /// True if it is the lower level's turn.
    turn: bool,
    /// A turn is half a batch.
    halves: bool,
    /// The first one of its step: the lower level is known from the probe that has led there.
    climbs: bool,
    /// Each batch needs a wake of its own, which counts.
    wakes: bool,
    /// Measures what comes now: each thread has the memory of its calls in its own cache.
    counts: bool,
}

/// One key's costs.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyCosts {
    levels: [Level; STEPS + 1],
    steps: [LevelStep; STEPS],
    /// The level that batches are for.
    used: usize,
    /// Ticks of a call of the last measured batch.
    last: f32,
    /// Plain calls that were timed, until there are enough.
    known: usize,
    /// The rival of plain calls: shared, or the pool.
    rival: Way,
    probe: Option<Probe>,
    /// Time that the requesting thread waited for others in the last shared batch.
    waited: f32,
    /// Ticks that batches of this key took.
    spent: f64,
    /// Number of batches that are shared as the last one, and not measured …
    pub(super) repeats: u32,
    /// … by so many threads.
    threads: usize,
}

impl KeyCosts {
    /// Makes the entry of a call of which nothing is known.
    pub(super) fn new(prior: Prior) -> Self {
        let (rival, known) = match prior {
            Prior::Sleeps => (Way::Pool, PART as usize),
            _ => (Way::Shared, 0),
        };
        let steps = [LevelStep::expected(0.0); STEPS];
        KeyCosts { steps, known, rival, threads: 2, ..KeyCosts::default() }
    }

    /// Makes it from that of batches of another size, or beside other work or not.
    pub(super) fn anew(&self) -> Self {
        let mut entry = KeyCosts { probe: None, spent: 0.0, repeats: 0, ..self.clone() };
        entry.levels.iter_mut().for_each(|level| level.waits = WayCosts::default());
        let steps = entry.steps.iter_mut();
        steps.for_each(|it| *it = LevelStep { due: 0.0, left_until: 0.0, doublings: 0, ..*it });
        entry
    }

    /// Another rival, of which nothing is known.
    fn expect(&mut self, rival: Way) {
        (self.rival, self.probe, self.waited) = (rival, None, 0.0);
        self.levels[1..].iter_mut().for_each(|it| *it = Level { own: it.own, ..Level::default() });
        (self.steps, self.used) = ([LevelStep::expected(self.spent); STEPS], 0);
    }

    /// True if the rival of a step is used, or expected to be.
    fn takes(&self, at: usize) -> bool {
        at < self.used || !self.steps[at].is_judged
    }

    /// Uses the cheapest of the levels that probes have led to, each with its waits.
    fn weigh(&mut self) {
        let mut ticks = self.levels[0].mean.ticks;
        let (mut least, mut waits) = (ticks, 0.0_f32);
        self.used = 0;
        for (at, step) in self.steps.iter().enumerate().take_while(|(_, step)| step.is_faster()) {
            ticks *= step.part();
            // More threads make nobody wait less: where it looks so, too few batches were seen.
            waits = waits.max(self.levels[at + 1].waits.each());
            if ticks + waits < least {
                (self.used, least) = (at + 1, ticks + waits);
            }
        }
    }

    /// The step to be taken, or looked at: up from the level that is used, as long as nothing is
    /// known of that; else the one whose probe is due.
    fn step(&self, means: Means) -> usize {
        let most = if self.rival == Way::Pool { 1 } else { level(means.most).max(1) };
        if let Some(probe) = self.probe.filter(|probe| probe.step < most) {
            return probe.step;
        }
        let up = self.used.min(most);
        let is_due =
            |step: usize| !self.steps[step].is_judged || self.spent >= self.steps[step].due;
        match up.checked_sub(1) {
            Some(down) if up == most || !is_due(up) && is_due(down) => down,
            _ => up,
        }
    }

    #[inline]
    pub(super) fn choose(
        &mut self,
        calls: usize,
        means: Means,
        helpers: &mut Helpers,
        now: impl Fn() -> u64,
    ) -> Choice {
        let means = Means { most: means.most.min(calls.max(2)), ..means };
        if self.repeats > 0 && helpers.come(means, self.threads) {
            self.repeats -= 1;
            let each = self.levels[level(self.threads)].mean.ticks;
            self.spent += f64::from(each * calls as f32);
            return Choice { measure: false, ..self.shared_by(self.threads, calls) };
        }
        self.repeats = 0;
        if self.known < PART as usize {
            let first = calls.min(PART as usize - self.known);
            return Choice { pass: 0, ..self.plain(first, means) };
        }
        // Where each batch needs a wake of its own, one is woken.
        let at = if helpers.in_vain && means.hot == 0 { 0 } else { self.step(means) };
        if self.probe.is_some_and(|probe| probe.turn) {
            return self.probe(at, calls, means, helpers);
        }
        let shares = self.rival == Way::Shared;
        let is_open = if shares { means.others && !helpers.paused(now) } else { means.pool };
        if !is_open {
            self.probe = None;
            return self.plain(calls, means);
        }
        let [low, high] = [1_usize << at, (2 << at).min(means.most.max(2))];
        let is_due = self.probe.is_some() || self.spent >= self.steps[at].due;
        let can = if shares { helpers.come(means, high) && helpers.helped } else { calls > 1 };
        if is_due && can {
            return self.probe(at, calls, means, helpers);
        }
        self.probe = None;
        let takes = self.takes(at);
        if shares && !helpers.come(means, high) {
            let awake = self.awake(at, means, helpers);
            // Where the lower level is the better one as far as is known, a wake is for a
            // probe: once so much has been spent that it is a small part.
            let asleep = (high - 1).saturating_sub(means.hot).max(1) as f32;
            let probes = f64::from(means.wake() * asleep) * f64::from(PART);
            let probes = self.spent >= self.steps[at].due + probes;
            let called = helpers.woken && at > 0;
            let climbs = takes || probes || at == 0 || (called && self.threads > low);
            let wanted = if climbs { high } else { low };
            // One by each that is awake: those that spin would sleep while this thread wakes many.
            let threads = wanted.min(2 + 2 * means.hot);
            helpers.missed += match takes || awake < at {
                true => self.saves(at, awake, calls),
                false if probes => means.wake(),
                false => 0.0,
            };
            if wanted == 1 << awake || !helpers.wakes(means) {
                // Those that were woken stay awake until all are, and those that were called are on the way.
                let spin = wanted.min(if called { self.threads } else { 1 + means.hot });
                return match spin > 1 << awake && (called || helpers.come(means, spin)) {
                    true => Choice { measure: false, ..self.shared_by(spin, calls) },
                    false => self.lower(at, calls, means, helpers),
                };
            }
            let mut choice = self.shared_by(threads, calls);
            if is_due && helpers.in_vain && at == 0 {
                self.probe = Some(Probe { wakes: true, counts: true, ..Probe::default() });
                choice = self.probe(at, calls, means, helpers);
            }
            let due = &mut self.steps[at].due;
            *due = if takes { *due } else { self.spent };
            self.threads = threads;
            return Choice { wake: true, ..choice };
        }
        // Shared to see whether somebody comes, if a probe is to follow.
        if !(takes || shares && is_due) {
            return self.lower(at, calls, means, helpers);
        }
        match self.rival {
            Way::Pool => Choice::of(Way::Pool, calls),
            _ if takes => self.repeated_by(high, calls),
            _ => self.shared_by(high, calls),
        }
    }

    fn shared_by(&self, threads: usize, calls: usize) -> Choice {
        Choice { threads, ..Choice::of(Way::Shared, calls) }
    }

    /// Shared, and the next ones as well, without a question.
    fn repeated_by(&mut self, threads: usize, calls: usize) -> Choice {
        self.repeats = self.repeated(self.levels[level(threads)].mean.ticks * calls as f32);
        self.threads = threads;
        self.shared_by(threads, calls)
    }

    /// The highest level up to the one below a step whose threads are awake.
    fn awake(&self, at: usize, means: Means, helpers: &Helpers) -> usize {
        let awake = ((means.hot + 1).ilog2() as usize).min(at);
        if helpers.come(means, 1 << awake) { awake } else { 0 }
    }

    /// The way below a step, by as many as are awake.
    fn lower(&mut self, at: usize, calls: usize, means: Means, helpers: &Helpers) -> Choice {
        match self.awake(at, means, helpers) {
            0 => self.plain(calls, means),
            awake => self.repeated_by(1 << awake, calls),
        }
    }

    /// The next part of a probe.
    fn probe(&mut self, at: usize, calls: usize, means: Means, helpers: &Helpers) -> Choice {
        let Level { mean: Mean { ticks: plain, .. }, probed, .. } = self.levels[at];
        let climbs = !self.steps[at].is_judged && probed.calls > 0.0;
        let lower = if climbs { probed } else { WayCosts::default() };
        let new = Probe { step: at, plain: lower, climbs, ..Probe::default() };
        let probe = self.probe.get_or_insert(new);
        if !probe.turn {
            // Below, what an offer to so many costs is too much of a half.
            probe.halves = !probe.climbs && calls >= (PART as usize) << at;
            // Who spins would sleep before the next batch.
            probe.counts |= plain * calls as f32 / 2.0 > means.sleep;
        }
        let high = (2 << at).min(means.most.max(2));
        match (probe.turn, self.rival, probe.halves) {
            (true, Way::Pool, _) => self.plain(1, means),
            (true, ..) => {
                let choice = self.lower(at, calls, means, helpers);
                self.repeats = 0;
                choice
            }
            // The plain one comes after it.
            (false, Way::Pool, _) => Choice::of(Way::Pool, calls - 1),
            (false, _, true) => self.shared_by(high, calls.div_ceil(2)),
            (false, ..) => self.shared_by(high, calls),
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

    /// Ticks that a step would save beside a level that is awake, as the last probe says; or the level
    /// below it, where the step is not worth it.
    fn saves(&self, at: usize, awake: usize, calls: usize) -> f32 {
        let (step, ticks) = (&self.steps[at], |at: usize| self.levels[at].mean.ticks);
        let part = if self.takes(at) || at == 0 { step.part() } else { 1.0 };
        let saves = ticks(awake) - ticks(at) * part;
        // On the way up a part of what is saved by now goes into the next look.
        let spare = if step.is_judged { saves } else { (ticks(0) - ticks(awake)) / SLEEPS };
        saves.max(spare) * calls as f32
    }

    pub(super) fn pass(&mut self, batches: u32, calls: usize, helpers: &mut Helpers) {
        self.spent += f64::from(self.levels[0].mean.ticks * calls as f32 * batches as f32);
        if self.rival == Way::Shared && self.takes(0) {
            helpers.missed += self.saves(0, 0, calls) * batches as f32;
        }
    }

    #[inline]
    pub(super) fn record(&mut self, way: Way, sample: Sample, means: Means) {
        let ticks = sample.ticks.max(1) as f32;
        let each = ticks / sample.calls as f32;
        self.spent += f64::from(ticks);
        self.last = each;
        let plain = way == Way::Plain;
        self.known += if plain { sample.calls } else { 0 };
        let wakes = self.probe.is_some_and(|probe| probe.wakes);
        if way == Way::Shared && (sample.helped == 0 || sample.woke) && !wakes {
            // Who was called is on the way: that is not what sharing takes.
            self.probe = None;
            return;
        }
        if way == Way::Shared && sample.helped > 0 {
            self.keep(sample);
        }
        let at = level(sample.threads);
        let waited = if way == Way::Shared { self.waited.min(ticks - 1.0) } else { 0.0 };
        let moved = self.levels[at].mean.add((ticks - waited) / sample.calls as f32);
        match self.probe.take() {
            Some(probe) => self.compare(probe, at, sample, means),
            None if moved => {
                let soon = self.spent + f64::from(means.wake());
                for step in &mut self.steps[at.saturating_sub(1)..STEPS.min(at + 1)] {
                    step.doublings /= 2;
                    step.due = step.due.min(soon);
                }
            }
            None => (),
        }
        let rival = if sample.slept == Some(true) && means.pool { Way::Pool } else { Way::Shared };
        // What was not slept in may have been a probe's one call beside many that sleep.
        let better = !self.takes(0) || rival == Way::Pool;
        if plain && self.probe.is_none() && self.rival != rival && better {
            self.expect(rival);
        }
    }

    fn compare(&mut self, mut probe: Probe, at: usize, sample: Sample, means: Means) {
        let (step, is_low) = (probe.step, at == probe.step);
        if is_low != probe.turn {
            return;
        }
        let ticks = sample.ticks.max(1) as f32;
        let sleeps = self.rival == Way::Pool;
        probe.made[usize::from(!is_low)] += sample.calls as f32;
        let (part, waited) = match is_low {
            true if at == 0 => (&mut probe.plain, 0.0),
            true => (&mut probe.plain, self.waited),
            // A whole batch has one wake, whose price is half of what it costs both threads.
            false if probe.wakes && probe.halves => (&mut probe.rival, self.waited + means.wake()),
            false => (&mut probe.rival, self.waited),
        };
        if probe.counts || sleeps {
            part.add(sample.calls, (ticks - waited).max(1.0));
        }
        let enough = sleeps || part.ticks >= means.wake() / 2.0;
        probe.turn = is_low != (probe.halves || enough);
        probe.counts = if probe.halves { probe.counts || is_low } else { !enough };
        if !(enough && (is_low || probe.climbs)) {
            self.probe = Some(probe);
            return;
        }
        let (plain, rival) = (probe.plain.each(), probe.rival.each());
        for level in &mut self.levels[step..step + 2] {
            level.waits = level.waits.kept(1.0 - 1.0 / PART as f32);
            level.mean.seen = level.mean.ticks;
        }
        self.levels[step + 1].probed = probe.rival;
        let (is_first, taken) = (step == 0, self.takes(step));
        // Of the way that is not taken.
        let lost =
            if taken { (plain - rival) * probe.made[0] } else { (rival - plain) * probe.made[1] };
        // Those that spun meanwhile sleep by now, and have to be woken.
        let lower = if is_first { ticks } else { probe.plain.ticks };
        let asleep = !sleeps && !probe.wakes && lower > means.sleep;
        let lost = lost.max(0.0) + if asleep { means.sleep * (1 << at) as f32 } else { 0.0 };
        let agrees = taken == (plain > rival);
        self.steps[step].judge((plain / rival).ln().clamp(-1.0, 1.0), is_first);
        self.steps[step].settle(agrees, lost, self.spent, means);
        if !taken {
            // What made them wait may be over.
            self.levels[step + 1].waits = WayCosts::default();
        }
        self.weigh();
    }

    /// Notes that sharing has lost so much that it is weighed anew; true if it is done by fewer from now on.
    pub(super) fn lost(&mut self, ticks: f32, threads: usize) -> bool {
        let (at, before) = (level(threads).max(1), self.used);
        // Expected, but not with this.
        (self.steps[at - 1].is_judged, self.used) = (true, before.max(at));
        self.weigh();
        let fell = self.used < before.max(at);
        if fell {
            // Twice, as who finds out anew pays for probes and wakes beside the next such loss.
            self.steps[self.used].pause(2.0 * ticks, self.spent);
            self.probe = None;
        }
        fell && self.used > 0
    }

    /// Its calls sleep by now: their rival is the pool, and the next plain ones are watched.
    #[cold]
    pub(super) fn slept(&mut self) {
        if self.rival != Way::Pool {
            self.expect(Way::Pool);
        }
        (self.last, self.repeats, self.probe) = (0.0, 0, None);
    }

    /// Returns ticks of a plain call, and how many the batch has saved at most, as far as is known;
    /// one that nobody helped with asks next time.
    #[inline]
    pub(super) fn shared(&mut self, end: Sample) -> (f32, f32) {
        if end.helped == 0 {
            self.repeats = 0;
        }
        self.waited = end.waited as f32;
        let (plain, at) = (self.levels[0].mean.ticks, level(end.threads));
        self.levels[at].waits.add(end.calls, self.waited);
        // Of batches that began with a wake probes alone tell.
        let most = match end.woke {
            true => self.saves(at.saturating_sub(1), 0, end.calls),
            false => (plain - self.levels[at].mean.ticks) * end.calls as f32,
        };
        (plain, most.max(0.0))
    }

    /// Number of `calls` that the requesting thread keeps, such that it and the others of `threads` are
    /// ready at the same time.
    pub(super) fn kept(&self, calls: usize, threads: usize) -> usize {
        let own = self.levels[level(threads)].own;
        (own.unwrap_or(1.0 / threads as f32) * calls as f32) as usize
    }

    /// Learns that from a batch that others have helped with. A call that it could have kept
    /// has to be claimed, at the price of a line's way or two; for one too many the others
    /// wait.
    fn keep(&mut self, Sample { calls, threads, helped, kept, .. }: Sample) {
        let part = |count: usize| count as f32 / calls as f32;
        let own = self.levels[level(threads)].own.get_or_insert(part(kept));
        let change = if helped == calls - kept { -1.0 } else { part(calls - helped) - *own };
        let step = WEIGHT / 2.0;
        *own = (*own + change.clamp(-step, step) * WEIGHT).clamp(0.0, 1.0 - part(1));
    }

    /// Number of calls that are claimed at once, at most: as many as take as long as a wake.
    pub(super) fn claimed(&self, means: Means) -> usize {
        ((means.wake() / self.levels[0].mean.ticks.max(1.0)) as usize).clamp(1, PART as usize)
    }
}
