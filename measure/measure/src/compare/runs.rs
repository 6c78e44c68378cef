//! Several results a side, by what moves whole runs as these runs themselves show it.
//!
//! A run is one experiment, so a run has one figure of each family of rows: the middle of its
//! rows' quiet costs, beside what they cost over all runs. If nothing has changed, any of the runs
//! might have been called A as well as B:
//!
//! ```text
//!  runs      1    2    3    4    5    6
//!  as named  A    A    A    B    B    B   ──▶ furthest family: 6.1 errors
//!  otherwise A    A    B    A    B    B   ──▶                  2.3
//!  …         20 ways for three and three  ──▶ p = share of ways that reach as far
//! ```
//!
//! So all families together are called worse where nothing changed in at most [`LEVEL`] of
//! comparisons, however runs are distributed and whatever moves families together (Westfall and
//! Young, *Resampling-Based Multiple Testing*, 1993). Each family's error is of its own spread
//! and, as six runs know little of that, of all families' (Smyth, 2004), for which
//! [`crate::moves`] says how far its kind moves beside others: where that is wrong less is found,
//! and no more is called worse. What changes over hours
//! is another matter: sides that were not run in turns are told.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::between::LEVEL;
use super::family::common;
use super::shift::{Way, cycle, cycles_of, logs};
use super::{Origin, Verdict};
use crate::check::identity;
use crate::moves::{self, Span};
use crate::schema::{Params, Results, Row, Unit};
use crate::stats::describe;

/// The spread of all families counts as that of so many further runs.
const PRIOR: f64 = 6.0;

/// Middle of a spread's square over its expectation, for four degrees of freedom about.
const MIDDLE: f64 = 0.84;

/// Ways to name the runs that are looked at, at most.
const WAYS: usize = 4_000;

/// Clocks that differ by more are not compared in cycles.
const ALIKE: f64 = 0.10;

/// Least spread that a family has: what is alike to the last digit is no experiment.
const LEAST: f64 = 1e-4;

/// Seed of the ways, where there are too many for all.
const SEED: u64 = 0x6b75_6d69_6b69;

/// A family over all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FamilyOfRuns {
    /// Case; nothing for all rows together, and for the core's clock.
    pub case: String,
    /// Parameters that its rows have in common.
    pub params: Params,
    /// Rows.
    pub rows: usize,
    /// Cost of B over that of A: more is worse, whatever the unit.
    pub ratio: f64,
    /// Its interval of 95 %.
    pub ci: [f64; 2],
    /// Share of the ways to name the runs in which any family is as far on that side.
    pub p: f64,
    /// Verdict.
    pub verdict: Verdict,
}

/// Several results a side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunsCompared {
    /// Results of A.
    pub a: Vec<Origin>,
    /// Results of B.
    pub b: Vec<Origin>,
    /// Difference that matters, as a share.
    pub threshold: f64,
    /// Share of comparisons, at most, in which anything is called worse where nothing changed.
    pub level: f64,
    /// True if costs are in cycles of the core's clock.
    pub cycles: bool,
    /// True if one side was measured before the other began.
    pub apart: bool,
    /// True if there are too few runs for any verdict: three and three tell.
    pub few: bool,
    /// All rows together.
    pub everything: Option<FamilyOfRuns>,
    /// The core's clock, where it was measured: time of a cycle.
    pub clock: Option<FamilyOfRuns>,
    /// Rows that differ in sizes and counts only.
    pub families: Vec<FamilyOfRuns>,
}

impl RunsCompared {
    /// True if anything has this verdict.
    pub fn any(&self, verdict: Verdict) -> bool {
        let whole = self.everything.iter().chain(&self.clock);
        whole.chain(&self.families).any(|family| family.verdict == verdict)
    }
}

/// Measure by which costs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Cycles of the core's clock, where that is known and alike.
    Cycles,
    /// Time, as users feel it.
    Time,
}

/// Compares several results a side. By cycles of the core's clock where all sides' clocks are
/// about alike, unless time is asked for.
pub fn compare_runs(a: &[Results], b: &[Results], threshold: f64, basis: Basis) -> RunsCompared {
    let runs: Vec<&Results> = a.iter().chain(b).collect();
    let clocks: Option<Vec<f64>> = runs.iter().map(|run| clock(run)).collect();
    let alike = |clocks: &Vec<f64>| {
        let sorted = describe::sorted(clocks.iter().map(|ns| ns.ln()));
        sorted[sorted.len() - 1] - sorted[0] <= ALIKE
    };
    let cycles = basis == Basis::Cycles && !runs.is_empty() && clocks.as_ref().is_some_and(alike);
    let families = families(&runs, cycles);
    let mut values: Vec<Vec<f64>> = families.iter().map(|family| family.values.clone()).collect();
    let everything = middle(&values, runs.len());
    values.extend(everything.clone());
    let clocks = clocks.filter(|_| cycles);
    let clocks: Option<Vec<f64>> = clocks.map(|all| all.iter().map(|ns| ns.ln()).collect());
    values.extend(clocks.clone());
    // What all rows have in common moves by less than most of them do.
    let usual = describe::median_of(families.iter().map(|family| family.known)) / 2.0;
    let mut known: Vec<f64> = families.iter().map(|family| family.known).collect();
    known.resize(values.len(), usual);
    let judged = judge(&values, &known, a.len(), threshold);
    let mut judged = judged.into_iter();
    let named = |case: &str, params: Params, rows: usize, (ratio, ci, p, verdict): FamilyJudged| {
        FamilyOfRuns { case: case.to_owned(), params, rows, ratio, ci, p, verdict }
    };
    let each = families.iter().zip(judged.by_ref());
    let each: Vec<FamilyOfRuns> = each
        .map(|(family, judged)| named(&family.case, family.params.clone(), family.rows, judged))
        .collect();
    let all = each.iter().map(|family| family.rows).sum();
    let mut whole = |there: bool, rows: usize| {
        there.then(|| judged.next()).flatten().map(|one| named("", Params::new(), rows, one))
    };
    let everything = whole(everything.is_some(), all);
    let clock = whole(clocks.is_some(), 0);
    let started = |side: &[Results]| {
        let times = describe_times(side);
        (times.first().cloned(), times.last().cloned())
    };
    let ((first_a, last_a), (first_b, last_b)) = (started(a), started(b));
    let origin = |r: &Results| Origin { run: r.run.clone(), machine: r.machine.clone() };
    RunsCompared {
        a: a.iter().map(origin).collect(),
        b: b.iter().map(origin).collect(),
        threshold,
        level: LEVEL,
        cycles,
        apart: last_a < first_b || last_b < first_a,
        few: ways(a.len(), b.len()) < 1.0 / LEVEL,
        everything,
        clock,
        families: each,
    }
}

/// Dates of RFC 3339 in UTC sort as texts.
fn describe_times(side: &[Results]) -> Vec<String> {
    let mut times: Vec<String> = side.iter().map(|r| r.run.started.clone()).collect();
    times.sort();
    times
}

/// Time of a cycle of a run's core, nanoseconds.
fn clock(run: &Results) -> Option<f64> {
    let cycles = run.rows.iter().flat_map(|row| &row.visits).filter_map(cycle);
    let middle = describe::median_of(cycles);
    (middle > 0.0).then_some(middle)
}

/// ln of a row's cost in a run, such that more is worse.
fn cost(row: &Row, cycles: bool) -> Option<f64> {
    let sign = if row.unit.less_is_better() { 1.0 } else { -1.0 };
    let way = Way { cycles: cycles && cycles_of(row), undisturbed: false };
    let cost = describe::median_of(logs(row, way).into_iter().map(|ln| sign * ln));
    cost.is_finite().then_some(cost)
}

/// Cost of a row in cycles of the core's clock, where it is of time and the clock was measured.
pub fn quiet_cycles(row: &Row) -> Option<f64> {
    let way = Way { cycles: true, undisturbed: false };
    let cost = cycles_of(row).then(|| describe::median_of(logs(row, way)).exp())?;
    cost.is_finite().then_some(cost)
}

/// Case, unit and common parameters of a family.
type RowKey = (String, Unit, Params);

/// A family's figure in each run.
struct Values {
    case: String,
    params: Params,
    rows: usize,
    values: Vec<f64>,
    /// Move of its kind from run to run, as is known of one kind of machine.
    known: f64,
}

/// Each family's figure in each run, of rows that all runs have.
fn families(runs: &[&Results], cycles: bool) -> Vec<Values> {
    let key = |row: &Row| identity(&row.case, &row.params, row.unit);
    let rows: Vec<HashMap<String, &Row>> =
        runs.iter().map(|run| run.rows.iter().map(|row| (key(row), row)).collect()).collect();
    let mut all: IndexMap<RowKey, (Vec<Vec<f64>>, usize)> = IndexMap::new();
    for row in runs.first().into_iter().flat_map(|run| &run.rows) {
        let every: Option<Vec<&Row>> = rows.iter().map(|of| of.get(&key(row)).copied()).collect();
        let Some(every) = every else { continue };
        let cycles = cycles && every.iter().all(|row| cycles_of(row));
        let costs: Option<Vec<f64>> = every.iter().map(|row| cost(row, cycles)).collect();
        let Some(costs) = costs else { continue };
        let mean = costs.iter().sum::<f64>() / costs.len() as f64;
        let family = (row.case.clone(), row.unit, common(&row.params));
        let (values, cpus) = all.entry(family).or_default();
        values.push(costs.iter().map(|cost| cost - mean).collect());
        *cpus = row.cpus.len().max(*cpus);
    }
    all.into_iter()
        .filter_map(|((case, _, params), (rows, cpus))| {
            let values = middle(&rows, runs.len())?;
            let known = moves::of_a_pair(&case, Span::of(cpus));
            Some(Values { case, params, rows: rows.len(), values, known })
        })
        .collect()
}

/// The middle of several figures, run by run.
fn middle(values: &[Vec<f64>], runs: usize) -> Option<Vec<f64>> {
    let of = |run: usize| describe::median_of(values.iter().map(|values| values[run]));
    (!values.is_empty() && runs > 0).then(|| (0..runs).map(of).collect())
}

/// Number of ways to name `a` and `b` runs, or more than are looked at.
fn ways(a: usize, b: usize) -> f64 {
    (1..=a.min(b)).map(|i| (a + b + 1 - i) as f64 / i as f64).product()
}

type FamilyJudged = (f64, [f64; 2], f64, Verdict);

/// Judges figures of runs, of which the first `a` are A. `known` says how far each is thought to
/// move beside the others.
fn judge(values: &[Vec<f64>], known: &[f64], a: usize, threshold: f64) -> Vec<FamilyJudged> {
    let n = values.first().map_or(0, Vec::len);
    let named: Vec<bool> = (0..n).map(|run| run < a).collect();
    let observed = Errors::of(values, known, &named);
    let others: Vec<[f64; 2]> = all_ways(n, a)
        .iter()
        .map(|named| {
            let all = Errors::of(values, known, named).apart;
            let far = |sign: f64| all.iter().map(|t| sign * t).fold(f64::NEG_INFINITY, f64::max);
            [far(1.0), far(-1.0)]
        })
        .collect();
    let enough = ways(a, n - a.min(n)) >= 1.0 / LEVEL;
    let limit = threshold.ln_1p();
    let freedom = (n as f64 - 2.0).max(1.0) + PRIOR;
    let reach = StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975));
    let one = |at: usize| {
        let (t, error, moved) = (observed.apart[at], observed.error[at], observed.moved[at]);
        let side = usize::from(moved < 0.0);
        let as_far = others.iter().filter(|far| far[side] >= t.abs() - 1e-9).count();
        let p = as_far as f64 / others.len().max(1) as f64;
        let ends = [moved - reach * error, moved + reach * error];
        let sure = enough && p <= LEVEL + 1e-9 && moved.abs() >= limit;
        let verdict = match () {
            () if sure && moved > 0.0 => Verdict::Regression,
            () if sure => Verdict::Improvement,
            () if ends[0] >= -limit && ends[1] <= limit => Verdict::Same,
            () => Verdict::Unclear,
        };
        (moved.exp(), ends.map(f64::exp), p, verdict)
    };
    (0..values.len()).map(one).collect()
}

/// Distances of families for one way to name the runs.
struct Errors {
    /// B less A.
    moved: Vec<f64>,
    /// Its standard error.
    error: Vec<f64>,
    /// The one in the other.
    apart: Vec<f64>,
}

impl Errors {
    fn of(values: &[Vec<f64>], known: &[f64], named: &[bool]) -> Self {
        let own: Vec<(f64, f64)> = values.iter().map(|values| spread(values, named)).collect();
        let [a, b] = [true, false].map(|side| named.iter().filter(|is_a| **is_a == side).count());
        let freedom = (named.len() as f64 - 2.0).max(0.0);
        let beside = |(own, known): (&(f64, f64), &f64)| own.1 / known.powi(2);
        let prior = describe::median_of(own.iter().zip(known).map(beside)) / MIDDLE;
        let scale = 1.0 / a as f64 + 1.0 / b as f64;
        let error = |(own, known): (&(f64, f64), &f64)| {
            let all = PRIOR * prior * known.powi(2);
            let both = (all + freedom * own.1) / (PRIOR + freedom);
            (both.max(LEAST * LEAST) * scale).sqrt()
        };
        let error: Vec<f64> = own.iter().zip(known).map(error).collect();
        let moved: Vec<f64> = own.into_iter().map(|(moved, _)| moved).collect();
        let apart = moved.iter().zip(&error).map(|(moved, error)| moved / error).collect();
        Errors { moved, error, apart }
    }
}

/// B's mean less A's, and the square of the spread within both.
fn spread(values: &[f64], named: &[bool]) -> (f64, f64) {
    let side = |is_a: bool| {
        let own: Vec<f64> = values
            .iter()
            .zip(named)
            .filter(|(_, named)| **named == is_a)
            .map(|(value, _)| *value)
            .collect();
        let mean = own.iter().sum::<f64>() / own.len().max(1) as f64;
        (mean, own.iter().map(|value| (value - mean).powi(2)).sum::<f64>())
    };
    let ((a, squares_a), (b, squares_b)) = (side(true), side(false));
    let freedom = (values.len() as f64 - 2.0).max(1.0);
    (b - a, (squares_a + squares_b) / freedom)
}

/// Ways to name `a` of `n` runs A: all, or many that are drawn, the one that was named first.
fn all_ways(n: usize, a: usize) -> Vec<Vec<bool>> {
    let first: Vec<bool> = (0..n).map(|run| run < a).collect();
    if a == 0 || a >= n {
        return vec![first];
    }
    if ways(a, n - a) > WAYS as f64 {
        let mut rng = fastrand::Rng::with_seed(SEED);
        let mut drawn = first.clone();
        let mut more = |_| {
            rng.shuffle(&mut drawn);
            drawn.clone()
        };
        return std::iter::once(first.clone()).chain((1..WAYS).map(&mut more)).collect();
    }
    let mut all = Vec::new();
    let mut named = vec![false; n];
    choose(&mut named, 0, a, &mut all);
    all
}

fn choose(named: &mut Vec<bool>, from: usize, left: usize, all: &mut Vec<Vec<bool>>) {
    if left == 0 {
        all.push(named.clone());
        return;
    }
    for at in from..=named.len() - left {
        named[at] = true;
        choose(named, at + 1, left - 1, all);
        named[at] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Machine, Run, Visit};
    use crate::stats::bootstrap::normal;

    /// Draw of how far a run moves a family as a whole.
    type Kind = fn(&mut fastrand::Rng) -> f64;

    /// Kinds of machines.
    const KINDS: [(&str, Kind); 3] = [
        ("normal", |rng| 0.02 * normal(rng)),
        ("Student's t, 3 degrees", |rng| {
            let square: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
            0.012 * normal(rng) / (square / 3.0).max(1e-9).sqrt()
        }),
        ("bimodal", |rng| 0.03 * f64::from(u8::from(rng.bool())) + 0.005 * normal(rng)),
    ];

    /// Spread of a family beside the others.
    fn wide(family: usize) -> f64 {
        [0.5, 1.0, 2.0][family % 3]
    }

    /// Spreads as the table knows them, or as if nothing were known.
    fn known(table: bool) -> Vec<f64> {
        (0..40).map(|family| if table { wide(family) } else { 1.0 }).collect()
    }

    /// Figures of 40 families in `runs` runs; what moves all of them drifts from run to run.
    fn figures(rng: &mut fastrand::Rng, runs: usize, drift: f64, kind: Kind) -> Vec<Vec<f64>> {
        let mut all = 0.0;
        let common: Vec<f64> = (0..runs)
            .map(|_| {
                all = 0.7 * all + drift * normal(rng);
                all
            })
            .collect();
        let one = |family: usize| common.iter().map(|all| all + wide(family) * kind(rng)).collect();
        (0..40).map(one).collect()
    }

    /// Puts runs that were made in turns, A first, into the order of sides.
    fn in_turns(values: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let side = |values: &[f64], from: usize| -> Vec<f64> {
            values.iter().skip(from).step_by(2).copied().collect()
        };
        values.iter().map(|values| [side(values, 0), side(values, 1)].concat()).collect()
    }

    fn worse(judged: &[FamilyJudged]) -> bool {
        judged.iter().any(|(_, _, _, verdict)| *verdict == Verdict::Regression)
    }

    #[test]
    fn where_nothing_changed_it_is_said_as_rarely_as_promised_on_any_kind_of_machine() {
        const COMPARISONS: usize = 300;
        let mut rng = fastrand::Rng::with_seed(31);
        for (name, kind) in KINDS {
            for drift in [0.0, 0.02] {
                let alarms = (0..COMPARISONS).filter(|_| {
                    let values = in_turns(&figures(&mut rng, 6, drift, kind));
                    worse(&judge(&values, &known(false), 3, 0.0))
                });
                let alarms = alarms.count();
                // 5 % of 300, and two and a half standard deviations.
                assert!(alarms <= 24, "{name}, drift {drift}: {alarms} of {COMPARISONS}");
            }
        }
    }

    #[test]
    fn a_tenth_in_one_family_is_found_by_three_and_three() {
        const COMPARISONS: usize = 100;
        let mut rng = fastrand::Rng::with_seed(32);
        let mut found = |table: bool| {
            let found = (0..COMPARISONS).filter(|_| {
                let mut values = figures(&mut rng, 6, 0.0, KINDS[0].1);
                // One that spreads as most do: by 2 % from run to run.
                values[1][3..].iter_mut().for_each(|value| *value += 1.10_f64.ln());
                judge(&values, &known(table), 3, 0.05)[1].3 == Verdict::Regression
            });
            found.count()
        };
        let [table, nothing] = [true, false].map(&mut found);
        assert!(table >= 80, "{table} of {COMPARISONS}");
        assert!(nothing >= 60, "{nothing} of {COMPARISONS} where the table knows nothing");
    }

    fn result(started: &str, factor: f64, cycle: f64) -> Results {
        let row = |bytes: u64, touch: &str| {
            let params = [("bytes".to_owned(), bytes.into()), ("touch".to_owned(), touch.into())];
            let slow = if touch == "write" { factor } else { 1.0 };
            let visit = |at: u64| Visit {
                samples: vec![100.0 * slow * cycle * (1.0 + at as f64 / 1e3); 5],
                cycle_ns: [Some(0.25 * cycle); 2],
                ..Visit::default()
            };
            let visits = (0..5).map(visit).collect();
            Row::summarise("x", params.into(), Unit::Nanoseconds, vec![0], visits)
        };
        let run = Run { started: started.to_owned(), ..Run::default() };
        let sizes = [1, 2, 3].map(|bytes| [row(bytes, "read"), row(bytes, "write")]);
        Results::new(run, Machine::default(), sizes.concat(), Vec::new())
    }

    #[test]
    fn results_are_pooled_by_family_and_run_and_a_clock_that_moved_is_said() {
        let side = |at: u64, factor: f64, cycle: f64| {
            [0, 2, 4].map(|run| {
                let wobble = 1.0 + 0.002 * ((run * 3 + at) % 5) as f64;
                result(&format!("2026-11-29T10:0{}:00Z", run + at), factor * wobble, cycle * wobble)
            })
        };
        let found = compare_runs(&side(0, 1.0, 1.0), &side(1, 1.2, 1.06), 0.05, Basis::Cycles);
        assert!(found.cycles && !found.apart && !found.few, "{found:?}");
        let told: Vec<Verdict> = found.families.iter().map(|family| family.verdict).collect();
        assert_eq!(told[1], Verdict::Regression, "{:?}", found.families);
        assert!(told[0] != Verdict::Regression && found.families[1].rows == 3);
        assert!((found.families[1].ratio - 1.2).abs() < 0.03, "{:?}", found.families);
        // Users feel the clock, too.
        let clock = found.clock.unwrap();
        assert!((clock.ratio - 1.06).abs() < 0.01 && clock.verdict == Verdict::Regression);
        let timed = compare_runs(&side(0, 1.0, 1.0), &side(1, 1.2, 1.06), 0.05, Basis::Time);
        assert!(!timed.cycles && timed.clock.is_none());
        assert!((timed.families[1].ratio - 1.2 * 1.06).abs() < 0.03, "{:?}", timed.families);
        let two =
            compare_runs(&side(0, 1.0, 1.0)[..2], &side(1, 2.0, 1.0)[..2], 0.05, Basis::Cycles);
        assert!(two.few && !two.any(Verdict::Regression), "six ways are too few");
        let apart =
            compare_runs(&side(0, 1.0, 1.0)[..1], &side(1, 1.0, 1.0)[1..], 0.05, Basis::Cycles);
        assert!(apart.apart);
    }
}
