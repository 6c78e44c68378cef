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

use crate::error::Result;
use crate::estimate::TOLERATED;
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
    /// The least difference that they can see, as a share; nothing before the tenth pair.
    pub tells: Option<f64>,
}

impl Seen {
    /// Interval that as many pairs as `seconds` hold would give: it shrinks with their root.
    pub fn in_seconds(&self, seconds: f64) -> Option<f64> {
        self.tells.map(|tells| tells * (self.seconds / seconds).sqrt())
    }
}

/// Pairs that are put together.
#[derive(Default)]
struct Pooled {
    sequence: Sequence,
    seconds: f64,
    struck: usize,
}

impl Pooled {
    fn add(&mut self, [a, b]: &[Sample; 2]) {
        self.sequence.push((b.wall_ns / a.wall_ns).ln());
        self.seconds += (a.wall_ns + b.wall_ns) * 1e-9;
        let struck = |sample: &Sample| sample.others.is_some_and(|others| others > TOLERATED);
        self.struck += [a, b].into_iter().filter(|sample| struck(sample)).count();
    }

    fn seen(&self) -> Seen {
        let [low, high] = self.sequence.interval();
        let pairs = self.sequence.len();
        Seen {
            pairs,
            seconds: self.seconds,
            disturbed: self.struck as f64 / (2 * pairs).max(1) as f64,
            tells: high.is_finite().then(|| ((high - low) / 2.0).exp_m1()),
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
    let mut all = Pooled::default();
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
            by_hour.entry(hour).or_insert_with(Pooled::default).add(pair);
            if let Some(cpu) = cpu {
                by_cpu.entry(cpu).or_insert_with(Pooled::default).add(pair);
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
        let seen = Seen { pairs: 50, seconds: 30.0, disturbed: 0.0, tells: Some(0.02) };
        assert!((seen.in_seconds(120.0).unwrap() - 0.01).abs() < 1e-9);
    }
}
