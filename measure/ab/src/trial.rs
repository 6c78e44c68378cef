//! Runs pairs until a verdict stands or the time is up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kumiki_measure::schema::Machine;
use kumiki_sys::affinity;

use crate::cause::causes;
use crate::error::{Error, Result};
use crate::estimate::Figures;
use crate::finding::Finding;
use crate::judge::{self, Judge};
use crate::leaves::Leaves;
use crate::measure::Measure;
use crate::note::notes;
use crate::outcome::{Outcome, SCHEMA};
use crate::plan::Plan;
pub use crate::process::end_running;
use crate::process::{End, Runner, Sample, prepare};
use crate::verdict::Verdict;

/// A side that fails in more than this share of its runs is broken.
const BROKEN: f64 = 0.1;

/// Failures that are no share yet.
const FAILURES: usize = 3;

/// Pairs in a round, by how many rounds there were: a machine that is quiet shows it in the
/// first, and beside a neighbour the least of some times is far steadier than each of them.
const ROUNDS: [(usize, usize); 4] = [(15, 1), (30, 2), (45, 4), (usize::MAX, 8)];

/// Pairs of which causes have intervals.
const CAUSES: usize = 20;

/// Progress of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Pairs until now.
    pub pairs: usize,
    /// Largest number of pairs.
    pub of: Option<usize>,
    /// Seconds since the start, and at most.
    pub seconds: [f64; 2],
    /// Measure that answers.
    pub by: Measure,
    /// B over A.
    pub ratio: f64,
    /// Its interval, once there is one.
    pub interval: Option<[f64; 2]>,
}

/// Runs the plan. A stop ends it after the run in progress; what there is is returned.
///
/// # Errors
/// A command cannot be started, fails at its first run or in more than a tenth of them, or
/// a preparation fails.
pub fn run(plan: Plan, stop: &AtomicBool, mut progress: impl FnMut(Progress)) -> Result<Outcome> {
    let os =
        |what, source: kumiki_sys::Error| Error::Os { what, source: std::io::Error::other(source) };
    let _bound = match plan.cpu {
        Some(cpu) => Some(affinity::bind(cpu).map_err(|e| os("binding to --cpu", e))?),
        None => None,
    };
    let allowed = affinity::current().map_err(|e| os("asking for the cpus allowed", e))?;
    let cpus: Vec<usize> = allowed.iter().collect();
    let runner = Runner::new(&cpus)?;
    if plan.by == Some(Measure::Instructions) && !runner.counts_instructions() {
        return Err(Error::Uncounted);
    }
    if plan.against.is_some() && judge::measures(&plan, runner.counts_instructions()).is_empty() {
        return Err(unkept(&plan, runner.counts_instructions()));
    }
    let mut trial = Trial {
        judge: Judge::new(&plan, runner.counts_instructions()),
        runner,
        plan,
        pairs: Vec::new(),
        settled: None,
        rng: fastrand::Rng::new(),
        start: Instant::now(),
    };
    let is_warm = trial.warm_up(stop)?;
    trial.start = Instant::now();
    while is_warm && !trial.is_over(stop) {
        if !trial.round(stop)? {
            break;
        }
        trial.look_for_failures()?;
        progress(trial.progress());
    }
    Ok(trial.outcome(stop.load(Ordering::Relaxed)))
}

/// Says by which measures B was kept, and by which it is judged here.
fn unkept(plan: &Plan, instructions: bool) -> Error {
    let words = |measures: Vec<Measure>| match measures.is_empty() {
        true => "no measure with an interval".to_owned(),
        false => measures.into_iter().map(Measure::word).collect::<Vec<_>>().join(" and "),
    };
    let kept = plan.against.iter().flatten().filter(|kept| kept.interval.is_some());
    let asked = judge::asked(plan, instructions).into_iter().map(|(by, _)| by);
    Error::Unkept { kept: words(kept.map(|kept| kept.by).collect()), asked: words(asked.collect()) }
}

struct Trial {
    plan: Plan,
    runner: Runner,
    pairs: Vec<[Sample; 2]>,
    judge: Judge,
    /// Time after which the verdict stood.
    settled: Option<Duration>,
    rng: fastrand::Rng,
    start: Instant,
}

impl Trial {
    /// Each side once, to fill caches and to see that it works; false if it was broken off.
    fn warm_up(&mut self, stop: &AtomicBool) -> Result<bool> {
        for at in [0, 1] {
            let Some(sample) = self.unless_stopped(at, true, stop)? else { return Ok(false) };
            if sample.end != End::Success && !self.plan.ignore_failure {
                return Err(self.fails(at, sample.end.words()));
            }
        }
        Ok(true)
    }

    /// One run; `None` if it was broken off: the signal that ended us may have ended the command or its preparation, too.
    fn unless_stopped(
        &mut self,
        at: usize,
        first: bool,
        stop: &AtomicBool,
    ) -> Result<Option<Sample>> {
        let sample = self.once(at, first);
        if stop.load(Ordering::Relaxed) { Ok(None) } else { sample.map(Some) }
    }

    fn once(&mut self, at: usize, first: bool) -> Result<Sample> {
        if let Some(line) = &self.plan.prepare {
            prepare(line)?;
        }
        self.runner.run(self.plan.side(at), name(at), first)
    }

    fn is_over(&mut self, stop: &AtomicBool) -> bool {
        let passed = self.start.elapsed();
        let enough = self.plan.pairs.is_some_and(|most| self.pairs.len() >= most);
        if enough || stop.load(Ordering::Relaxed) || passed >= self.plan.span {
            return true;
        }
        self.judge.look(self.pairs.len());
        if self.plan.all {
            return false;
        }
        let findings = self.judge.findings();
        let (waits, against) = (self.waits(), self.plan.against.is_some());
        if !judge::is_settled(&findings, waits, against) {
            self.settled = None;
            return false;
        }
        let settled = *self.settled.get_or_insert(passed);
        // Of a difference a reader asks why, and causes take some more pairs.
        let apart = judge::answer(&findings, waits, against)
            .is_some_and(|answer| matches!(answer.verdict, Verdict::Slower | Verdict::Faster));
        !apart || self.pairs.len() >= CAUSES || passed >= 2 * settled
    }

    /// True if a command waits by itself.
    fn waits(&self) -> bool {
        judge::waits(&self.counted(), self.plan.detect)
    }

    /// Pairs that count.
    fn counted(&self) -> Vec<&[Sample; 2]> {
        self.pairs.iter().filter(|pair| self.counts(pair)).collect()
    }

    /// Some pairs in a row, each side's least time; false if it was broken off.
    fn round(&mut self, stop: &AtomicBool) -> Result<bool> {
        let begin = self.pairs.len();
        // Known before the round: what it shows must not decide how long it is.
        let size = ROUNDS.iter().find(|(until, _)| self.judge.rounds() < *until);
        let left = self.plan.pairs.map_or(usize::MAX, |most| most - begin);
        for _ in 0..size.map_or(1, |(_, size)| *size).min(left) {
            if !self.pair(stop)? {
                return Ok(false);
            }
            if self.start.elapsed() >= self.plan.span {
                break;
            }
        }
        let counted = self.pairs[begin..].iter().filter(|pair| counts(pair, &self.plan));
        self.judge.round(counted.clone());
        counted.for_each(|pair| self.judge.pair(pair));
        Ok(true)
    }

    /// One pair; false if it was broken off.
    fn pair(&mut self, stop: &AtomicBool) -> Result<bool> {
        let turned = self.rng.bool();
        let order = if turned { [1, 0] } else { [0, 1] };
        let Some(first) = self.unless_stopped(order[0], true, stop)? else { return Ok(false) };
        let Some(second) = self.unless_stopped(order[1], false, stop)? else { return Ok(false) };
        let pair = if turned { [second, first] } else { [first, second] };
        self.pairs.push(pair);
        Ok(true)
    }

    fn counts(&self, pair: &[Sample; 2]) -> bool {
        counts(pair, &self.plan)
    }

    fn look_for_failures(&mut self) -> Result<()> {
        if self.plan.ignore_failure {
            return Ok(());
        }
        for at in [0, 1] {
            let ends = self.pairs.iter().map(|pair| pair[at].end);
            let failed: Vec<End> =
                ends.filter(|end| !matches!(end, End::Success | End::Slept)).collect();
            let share = failed.len() as f64 / self.pairs.len() as f64;
            if failed.len() >= FAILURES && share > BROKEN {
                let how = format!(
                    "{} of {} runs, the last by {}",
                    failed.len(),
                    self.pairs.len(),
                    failed[failed.len() - 1].words()
                );
                return Err(self.fails(at, how));
            }
        }
        Ok(())
    }

    fn fails(&mut self, at: usize, how: String) -> Error {
        let said = self.runner.said();
        Error::Fails {
            side: name(at),
            command: self.plan.side(at).command(),
            how,
            said: if said.is_empty() { said } else { format!(", it says {said:?}") },
        }
    }

    /// The finding that answers.
    fn answer(&self) -> Option<Finding> {
        judge::answer(&self.judge.findings(), self.waits(), self.plan.against.is_some())
    }

    fn progress(&self) -> Progress {
        let answer = self.answer();
        Progress {
            pairs: self.pairs.len(),
            of: self.plan.pairs,
            seconds: [self.start.elapsed().as_secs_f64(), self.plan.span.as_secs_f64()],
            by: answer.map_or(Measure::Wall, |finding| finding.by),
            ratio: answer.map_or(f64::NAN, |finding| finding.ratio),
            interval: answer.and_then(|finding| finding.interval),
        }
    }

    fn outcome(mut self, interrupted: bool) -> Outcome {
        self.judge.look(self.pairs.len());
        let seconds = self.start.elapsed().as_secs_f64();
        let (answer, waits) = (self.answer(), self.waits());
        let detect = self.plan.detect;
        let said =
            answer.map_or(Verdict::CannotSay, |answer| answer.said(self.plan.against.is_some()));
        let by = answer.map_or(Measure::Wall, |answer| answer.by);
        let clear = (said == Verdict::CannotSay)
            .then(|| self.judge.clear(by, self.pairs.len(), seconds))
            .flatten();
        let counted = self.counted();
        let measures = self.plan.a.measures || self.plan.b.measures;
        let figures = (!counted.is_empty()).then(|| {
            [0, 1].map(|at| {
                let side: Vec<&Sample> = counted.iter().map(|pair| &pair[at]).collect();
                Figures::of(&side)
            })
        });
        Outcome {
            schema: SCHEMA,
            detect,
            by,
            verdict: answer.map_or(Verdict::CannotSay, |answer| answer.verdict),
            ratio: answer.map(|answer| answer.ratio),
            interval: answer.and_then(|answer| answer.interval),
            findings: self.judge.findings(),
            waits,
            // What whoever measures a case counts of itself is not the case's.
            causes: if measures { Vec::new() } else { causes(&counted) },
            leaves: Leaves::of(&counted),
            clear,
            figures,
            notes: notes(&self.pairs, self.runner.left(), detect),
            pairs_counted: counted.len(),
            rounds: self.judge.rounds(),
            interrupted,
            against: answer.and_then(|answer| answer.against),
            seconds,
            started: String::new(),
            machine: Machine::default(),
            a: self.plan.a,
            b: self.plan.b,
            pairs: self.pairs,
        }
    }
}

/// True if a pair counts.
fn counts(pair: &[Sample; 2], plan: &Plan) -> bool {
    pair.iter().all(|sample| match sample.end {
        End::Success => true,
        End::Slept => false,
        End::Status(_) | End::Signal(_) => plan.ignore_failure,
    })
}

fn name(at: usize) -> char {
    if at == 0 { 'A' } else { 'B' }
}
