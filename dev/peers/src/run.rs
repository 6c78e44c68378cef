//! The whole bench: phases of rounds, in each round a turn for each subject in
//! a new order, and a turn of the raw round trip before and after every one.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::{Document, Row};
use kumiki_measure::machine;
use kumiki_measure::meter::Meter;
use kumiki_measure::stats::describe;
use kumiki_sys::clock::Clock;

use crate::busy::Busy;
use crate::case::Case;
use crate::pair::Pair;
use crate::raw::{RAW, RoundTrip};
use crate::subject::Subject;

/// One case at one size.
#[derive(Clone, Copy, Debug)]
pub struct Phase<C> {
    /// What is asked for.
    pub case: C,
    /// Turns of each subject.
    pub rounds: usize,
    /// The subject whose figure is the plain way.
    pub base: Option<&'static str>,
    /// So many turns has each instance of a subject before it is made anew, in a
    /// process of its own, as where memory and code lie makes some nanoseconds:
    /// their samples go together. `None`: one instance has them all, and the
    /// samples of each turn go together.
    ///
    /// Every other instance has the two cpus swapped: on a machine that others use too,
    /// one of them may be a fifth faster than the other for seconds, and what both take
    /// together would be that much less, or more, of what the first takes alone.
    pub turns_of_instance: Option<usize>,
}

/// Who is asked for what, and how often.
pub trait Plan {
    /// What is asked for.
    type Case: Case;

    /// The bench's name.
    const NAME: &'static str;

    /// Cases that a program of an older commit may not have.
    const RECENT: &'static [&'static str] = &[];

    /// Every subject of this build, without the raw round trip.
    fn subjects(&self) -> Vec<&'static str>;

    /// What all subjects get when they start.
    fn argument(&self) -> String;

    /// The program that serves as a subject, and the subject's name there: this one, and
    /// the same name.
    fn program(&self, subject: &'static str) -> Result<(PathBuf, &'static str)> {
        let program = std::env::current_exe().context("finding our own program")?;
        Ok((program, subject))
    }

    /// What tunes a subject from outside of its program.
    fn environment(&self, subject: &str, pair: Pair) -> Vec<(&'static str, String)> {
        let _ = (subject, pair);
        Vec::new()
    }

    /// Everything, in the order in which it is measured.
    fn phases(&self) -> Vec<Phase<Self::Case>>;

    /// Whether `subject` takes part in `case`.
    fn asks(&self, case: Self::Case, subject: &str) -> bool;

    /// The plain way in the process of `subject`, to be measured together with each of
    /// its turns: where memory lies, and what else the machine does, is the same.
    fn beside(&self, case: Self::Case, subject: &str) -> Option<Self::Case> {
        let _ = (case, subject);
        None
    }

    /// The request for the next turn of a phase, in this round of it.
    fn next(&mut self, phase: &Phase<Self::Case>, round: usize) -> Self::Case;

    /// A subject's name in the result.
    fn shown(subject: &'static str) -> &'static str {
        subject
    }
}

/// Samples of one subject in one phase, in groups that depend on each other.
#[derive(Debug, Default)]
pub struct Turns {
    pub samples: Vec<Vec<f64>>,
    /// Of the raw round trip just before and after the turns of each group.
    raw: Vec<Vec<f64>>,
    /// Of each turn, its median ÷ that of the plain way beside it.
    of_plain: Vec<f64>,
}

/// This machine and what `rows` measured on its two cpus.
///
/// # Errors
/// There are no two cpus, or `rows` fails.
pub fn document(rows: impl FnOnce(Pair) -> Result<Vec<Row>>) -> Result<Document> {
    let (pair, place) = Pair::choose()?;
    let machine = machine::describe(&place, &Meter::new(Clock::new()))?;
    Ok(Document::new(machine, rows(pair)?))
}

/// Runs everything in the plan, or the cases in `only` if it names some.
///
/// # Errors
/// A subject fails, or nothing has such a name.
pub fn run<P: Plan>(plan: &mut P, pair: Pair, only: &[&str]) -> Result<Vec<Row>> {
    let mut phases = plan.phases();
    phases.retain(|phase| only.is_empty() || only.contains(&phase.case.name()));
    phases.retain(|phase| plan.subjects().iter().any(|name| plan.asks(phase.case, name)));
    ensure!(!phases.is_empty(), "the bench {} has no case {only:?}", P::NAME);
    let begin = Instant::now();
    let argument = plan.argument();
    let start = |plan: &P, name, pair| {
        let program = plan.program(name)?;
        Subject::start(program, P::NAME, name, pair, &argument, plan.environment(name, pair))
    };
    let mut raw = start(plan, RAW, pair)?;
    raw.ready()?;
    let mut names = plan.subjects();
    names.retain(|name| phases.iter().any(|phase| plan.asks(phase.case, name)));
    let mut subjects =
        names.into_iter().map(|name| start(plan, name, pair)).collect::<Result<Vec<_>>>()?;
    subjects.iter_mut().try_for_each(Subject::ready)?;
    let mut rng = fastrand::Rng::new();
    let mut rows = Vec::new();
    for phase in phases {
        let size = phase.case.size().map_or(String::new(), |n| format!(" {n}"));
        eprintln!("{:4} s  {}{size}", begin.elapsed().as_secs(), phase.case.name());
        rng.shuffle(&mut subjects);
        let measured = measure(plan, phase, &mut raw, &mut subjects, &start, pair, &mut rng)?;
        // What stands is seen, should the rest not be waited for.
        for Row { subject, median, unit, .. } in &measured {
            eprintln!("        {subject} {median:.4} {unit}");
        }
        rows.extend(measured);
    }
    eprintln!("{:4} s  done", begin.elapsed().as_secs());
    Ok(rows)
}

fn measure<P: Plan>(
    plan: &mut P,
    phase: Phase<P::Case>,
    raw: &mut Subject,
    subjects: &mut [Subject],
    start: &impl Fn(&P, &'static str, Pair) -> Result<Subject>,
    pair: Pair,
    rng: &mut fastrand::Rng,
) -> Result<Vec<Row>> {
    let case = phase.case;
    let mut order: Vec<_> = subjects.iter_mut().filter(|s| plan.asks(case, s.name())).collect();
    let mut turns: Vec<(&'static str, Turns)> =
        order.iter().map(|s| (s.name(), Turns::default())).collect();
    let mut limit = || Ok::<_, anyhow::Error>(raw.turn(&RoundTrip)?.unwrap_or_default());
    let mut all_raw = Turns::default();
    let _busy = Busy::start(case.busy())?;
    for round in 0..phase.rounds {
        if let Some(turns) = phase.turns_of_instance
            && round % turns == 0
        {
            let pair = if round / turns % 2 == 1 { pair.swapped() } else { pair };
            // All at once: each takes a while to know its clock.
            order.iter_mut().try_for_each(|s| start(plan, s.name(), pair).map(|new| **s = new))?;
            order.iter_mut().try_for_each(|s| s.ready())?;
        }
        rng.shuffle(&mut order);
        let mut before = limit()?;
        for subject in &mut order {
            let case = plan.next(&phase, round);
            let [samples, plain] = both(subject, case, plan.beside(case, subject.name()))?;
            let Some(samples) = samples else { continue };
            let after = limit()?;
            let name = subject.name();
            let (_, its) = turns.iter_mut().find(|(other, _)| *other == name).expect("asked");
            its.of_plain.extend(plain.map(|plain| median(&samples) / median(&plain)));
            let same = phase.turns_of_instance.is_some_and(|turns| round % turns != 0);
            its.add(samples, [&before[..], &after].concat(), same);
            before = after;
            all_raw.samples.push(before.clone());
        }
    }
    turns.retain(|(_, its)| !its.samples.is_empty());
    turns.sort_by_key(|(name, _)| *name);
    let base = turns.iter().find(|(name, _)| Some(*name) == phase.base);
    let base = base.map(|(_, its)| its.median());
    let of = |(name, its): &(&'static str, Turns)| {
        let mut row = row(case, P::shown(name), its, base);
        if phase.turns_of_instance.is_some() {
            row.instances = its.samples.iter().map(|group| median(group)).collect();
            row.limits = its.raw.iter().map(|group| median(group)).collect();
        }
        row.of_plain.clone_from(&its.of_plain);
        row
    };
    let mut rows: Vec<Row> = turns.iter().map(of).collect();
    if case.shows_raw() {
        // Its slow tail is a limit too.
        rows.insert(0, row(case, RAW, &all_raw, base));
    }
    Ok(rows)
}

/// Samples of a turn, and of the plain way just before and just after it: what the machine
/// does besides changes from millisecond to millisecond.
fn both<C: Case>(
    subject: &mut Subject,
    case: C,
    plain: Option<C>,
) -> Result<[Option<Vec<f64>>; 2]> {
    let beside = |subject: &mut Subject| plain.as_ref().map(|plain| subject.turn(plain));
    let before = beside(subject).transpose()?.flatten();
    let samples = subject.turn(&case)?;
    let after = beside(subject).transpose()?.flatten();
    Ok([samples, before.zip(after).map(|(before, after)| [before, after].concat())])
}

impl Turns {
    /// Of samples in groups that depend on each other.
    pub fn of(samples: Vec<Vec<f64>>) -> Self {
        Turns { samples, ..Turns::default() }
    }

    /// Median of all samples.
    pub fn median(&self) -> f64 {
        median_of(&self.samples)
    }

    /// Adds a turn's samples and the raw ones beside it, to those of the turn before if
    /// `same` instance.
    fn add(&mut self, samples: Vec<f64>, raw: Vec<f64>, same: bool) {
        for (groups, more) in [(&mut self.samples, samples), (&mut self.raw, raw)] {
            match groups.last_mut() {
                Some(group) if same => group.extend(more),
                _ => groups.push(more),
            }
        }
    }
}

fn median(samples: &[f64]) -> f64 {
    describe::median_of(samples.iter().copied())
}

/// The row of a subject; `base` is the median of the plain way.
pub fn row(case: impl Case, subject: &str, turns: &Turns, base: Option<f64>) -> Row {
    let slow = if case.less_is_better() { 0.99 } else { 0.01 };
    let limit = turns.raw.iter().any(|group| !group.is_empty()).then(|| median_of(&turns.raw));
    let who = (case.name(), subject);
    let row = Row::with_tail(who, case.unit(), (&turns.samples, slow), base);
    Row { n: case.size().map_or(row.n, |n| n as usize), limit, ..row }
}

/// Median of samples in groups.
pub fn median_of(groups: &[Vec<f64>]) -> f64 {
    describe::median_of(groups.iter().flatten().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::request::{Request, State};

    fn turns(samples: &[&[f64]], raw: &[&[f64]]) -> Turns {
        let own = |visits: &[&[f64]]| visits.iter().map(|visit| visit.to_vec()).collect();
        Turns { samples: own(samples), raw: own(raw), of_plain: Vec::new() }
    }

    #[test]
    fn a_row_has_the_medians_of_its_own_turns_and_of_the_raw_ones_beside_them() {
        let its = turns(&[&[1.0, 2.0], &[3.0]], &[&[0.5], &[0.7, 0.9]]);
        let row = row(Request::ForkJoinGap { ns: 10_000 }, "futex", &its, None);
        assert_eq!((row.median, row.limit, row.base), (2.0, Some(0.7), None));
        assert_eq!((&*row.case, row.n, &*row.unit), ("fork_join_gap", 10_000, "ns"));
        assert!(row.p99 > 2.9 && row.ci[0] <= 2.0 && row.ci[1] >= 2.0);
    }

    #[test]
    fn the_slow_tail_of_a_bandwidth_is_the_small_one() {
        let request = Request::Copy { state: State::Cold, bytes: 4096, offset: 0 };
        let row = row(request, "libc", &turns(&[&[5.0, 6.0, 7.0]], &[]), Some(6.0));
        assert!(row.p99 < 5.1);
        assert_eq!((&*row.unit, row.n, row.limit, row.base), ("GB/s", 4096, None, Some(6.0)));
    }

    #[test]
    fn a_case_without_a_size_counts_its_samples() {
        let row = row(Request::ForkJoinNull, "raw", &turns(&[&[5.0, 6.0], &[7.0]], &[]), None);
        assert_eq!(row.n, 3);
    }

    #[test]
    fn samples_of_one_instance_go_together() {
        let mut its = Turns::default();
        for (round, sample) in [1.0, 2.0, 3.0, 4.0, 5.0].into_iter().enumerate() {
            its.add(vec![sample], vec![10.0 * sample; 2], round % 2 != 0);
        }
        assert_eq!(its.samples, [vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0]]);
        assert_eq!(its.raw[1..], [vec![30.0, 30.0, 40.0, 40.0], vec![50.0, 50.0]]);
    }
}
