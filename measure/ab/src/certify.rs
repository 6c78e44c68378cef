//! How small a difference can this machine see?
//!
//! A command is compared with itself, in pairs, on each cpu in turns, for as long as one
//! likes: the interval that is left is what cannot be seen. Pairs are put together by cpu
//! and by the hour of the day, so that a cpu to which all interrupts go and an hour at which
//! backups run show.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::counters::Counters;
use crate::error::Result;
use crate::estimate::TOLERATED;
use crate::measure::Measure;
use crate::plan::Plan;
use crate::process::Sample;
use crate::sequence::Sequence;
use crate::side::Side;
use crate::trial;

/// A cpu's turn: long enough for some pairs, short enough that an hour has many.
const TURN: Duration = Duration::from_secs(2);

/// Findings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// The command that was compared with itself.
    pub command: String,
    /// All pairs, whatever their cpu and hour.
    pub all: Seen,
    /// Pairs by cpu.
    pub cpus: BTreeMap<usize, Seen>,
    /// Pairs by hour of the day, UTC.
    pub hours: BTreeMap<u32, Seen>,
    /// True if a person ended it.
    pub interrupted: bool,
}

/// Some pairs, and the time that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seen {
    /// Pairs.
    pub pairs: usize,
    /// Time that they took, seconds.
    pub seconds: f64,
    /// Share of the runs beside which others used more than a twentieth of the cpus.
    pub disturbed: f64,
    /// The least difference by the clock that they can see, as a share; nothing before the tenth pair.
    /// As sure as a comparison is, whose measures share what may miss.
    pub tells: Option<f64>,
    /// The least difference of processor time.
    pub tells_cpu: Option<f64>,
}

impl Seen {
    /// Expects what as many pairs as `seconds` hold would see: an interval shrinks with their root.
    pub fn in_seconds(&self, seconds: f64) -> Self {
        let scaled =
            |tells: Option<f64>| tells.map(|tells| tells * (self.seconds / seconds).sqrt());
        Seen { tells: scaled(self.tells), tells_cpu: scaled(self.tells_cpu), ..*self }
    }
}

/// Pairs that are put together.
struct Pooled {
    by: Vec<(Measure, Sequence)>,
    pairs: usize,
    seconds: f64,
    struck: usize,
}

impl Pooled {
    /// Judges as a comparison does; `instructions` says whether they are counted.
    fn new(instructions: bool) -> Self {
        let all = Measure::all(false, instructions).into_iter();
        let by = all.map(|(by, misses)| (by, Sequence::missing(misses))).collect();
        Pooled { by, pairs: 0, seconds: 0.0, struck: 0 }
    }

    fn add(&mut self, [a, b]: &[Sample; 2]) {
        self.pairs += 1;
        for (by, sequence) in &mut self.by {
            if let Some((a, b)) = by.of(a).zip(by.of(b)) {
                sequence.push((b / a).ln());
            }
        }
        self.seconds += (a.wall_ns + b.wall_ns) * 1e-9;
        let struck = |sample: &Sample| sample.others.is_some_and(|others| others > TOLERATED);
        self.struck += [a, b].into_iter().filter(|sample| struck(sample)).count();
    }

    fn seen(&self) -> Seen {
        let tells = |measure: Measure| {
            let (_, sequence) = self.by.iter().find(|(by, _)| *by == measure)?;
            let [low, high] = sequence.interval();
            high.is_finite().then(|| ((high - low) / 2.0).exp_m1())
        };
        Seen {
            pairs: self.pairs,
            seconds: self.seconds,
            disturbed: self.struck as f64 / (2 * self.pairs).max(1) as f64,
            tells: tells(Measure::Wall),
            tells_cpu: tells(Measure::Cpu),
        }
    }
}

/// Compares a command with itself for `span`, on each of these cpus in turns. `hour` says
/// which hour of the day it is.
///
/// # Errors
/// As [`trial::run`].
pub fn certify(
    side: &Side,
    cpus: &[usize],
    span: Duration,
    stop: &AtomicBool,
    hour: impl Fn() -> u32,
    mut progress: impl FnMut(f64),
) -> Result<Certificate> {
    let start = Instant::now();
    let instructions = Counters::open().instructions();
    let pooled = || Pooled::new(instructions);
    let mut all = pooled();
    let (mut by_cpu, mut by_hour) = (BTreeMap::new(), BTreeMap::new());
    let mut turn = 0;
    while start.elapsed() < span && !stop.load(Ordering::Relaxed) {
        let cpu = cpus.get(turn % cpus.len().max(1)).copied();
        let plan = Plan {
            span: TURN.min(span - start.elapsed()),
            all: true,
            cpu,
            ..Plan::new(side.clone(), side.clone())
        };
        let outcome = trial::run(plan, stop, |_| ())?;
        let hour = hour();
        for pair in &outcome.pairs {
            all.add(pair);
            by_hour.entry(hour).or_insert_with(pooled).add(pair);
            if let Some(cpu) = cpu {
                by_cpu.entry(cpu).or_insert_with(pooled).add(pair);
            }
        }
        turn += 1;
        progress(start.elapsed().as_secs_f64());
    }
    Ok(Certificate {
        command: side.command(),
        all: all.seen(),
        cpus: by_cpu.into_iter().map(|(cpu, kept)| (cpu, kept.seen())).collect(),
        hours: by_hour.into_iter().map(|(hour, kept)| (hour, kept.seen())).collect(),
        interrupted: stop.load(Ordering::Relaxed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judge;

    #[test]
    fn a_command_is_compared_with_itself_on_each_cpu() {
        let cpus: Vec<usize> = kumiki_sys::affinity::current().unwrap().iter().collect();
        let side = Side::new(["true"]);
        let stop = AtomicBool::new(false);
        // Ended from within, once every cpu has had a turn: no time is asked for.
        let turns = std::cell::Cell::new(0);
        let found = certify(
            &side,
            &cpus,
            Duration::from_secs(600),
            &stop,
            || 7,
            |_| {
                turns.set(turns.get() + 1);
                stop.store(turns.get() >= cpus.len(), Ordering::Relaxed);
            },
        );
        let found = found.unwrap();
        assert_eq!(found.cpus.keys().copied().collect::<Vec<_>>(), cpus);
        assert_eq!(found.hours.keys().copied().collect::<Vec<_>>(), [7]);
        assert_eq!(found.cpus.values().map(|seen| seen.pairs).sum::<usize>(), found.all.pairs);
        assert!(found.interrupted && found.all.pairs >= cpus.len(), "{found:?}");
    }

    #[test]
    fn four_times_as_long_sees_half() {
        let seen = Seen { pairs: 50, seconds: 30.0, tells: Some(0.02), ..Seen::default() };
        let longer = seen.in_seconds(120.0);
        assert!((longer.tells.unwrap() - 0.01).abs() < 1e-9, "{longer:?}");
        assert_eq!(longer.tells_cpu, None);
    }

    /// A certificate is of what a comparison sees, which shares its level among its measures.
    #[test]
    fn it_is_as_sure_as_a_comparison() {
        let mut rng = fastrand::Rng::with_seed(23);
        let pairs: Vec<[Sample; 2]> = (0..40)
            .map(|_| {
                [(); 2].map(|()| {
                    let wall_ns = 1e7 * (1.0 + 0.05 * rng.f64());
                    Sample { wall_ns, user_ns: 0.8 * wall_ns, ..Sample::none() }
                })
            })
            .collect();
        for instructions in [false, true] {
            let mut pooled = Pooled::new(instructions);
            let plan = Plan::new(Side::new(["a"]), Side::new(["a"]));
            let mut judge = Judge::new(&plan, instructions);
            for pair in &pairs {
                pooled.add(pair);
                judge.pair(pair);
                judge.round([pair.clone()].iter());
            }
            let seen = pooled.seen();
            for (by, tells) in [(Measure::Wall, seen.tells), (Measure::Cpu, seen.tells_cpu)] {
                let findings = judge.findings();
                let own = findings.iter().find(|finding| finding.by == by).unwrap();
                let [low, high] = own.interval.unwrap();
                let half = (high / low).sqrt() - 1.0;
                assert!((tells.unwrap() - half).abs() < 1e-9, "{by:?} {tells:?} {half}");
            }
        }
    }
}
