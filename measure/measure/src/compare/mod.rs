//! Compares two results: two machines, two kernels, two days.
//!
//! ```text
//!  rows of both ──▶ shift: quiet cost of B over A, in cycles of the core's clock
//!       │               its error: visits that differ, and what moves whole runs
//!       ├──▶ families: rows that differ in sizes only, pooled ──▶ verdict
//!       └──▶ each row by itself                               ──▶ verdict
//! ```
//!
//! A family or row is called worse where its B is above its A beyond doubt and by the
//! threshold or more. Beyond doubt means: if nothing has changed at all, the whole
//! comparison says worse of anything in at most [`LEVEL`] of all cases; half of that is
//! for the families together, half for the rows, each divided by their number (Bonferroni).
//! A row's visits must also rank apart (Mann–Whitney, p < 0.05), and, where the case runs
//! on two cpus, these must have been as far apart on both sides. Where other work disturbed
//! a side, the visits that nothing disturbed must say the same.
//!
//! It is called the same where its interval of 95 % lies within the threshold, or where it
//! holds no difference at all and does not reach far: then how far it reaches is said
//! ([`Family::same_within`]).
//!
//! Visits are what is compared, not samples: a thousand samples of one visit
//! share one placement of pages, and are no thousand experiments. And a run is one
//! experiment for what moves whole runs: [`crate::moves`] knows how far.

mod between;
mod clock;
mod doubt;
mod family;
mod runs;
mod shift;

use std::collections::HashMap;

use serde::Serialize;

pub use between::LEVEL;
use between::{Between, Moved};
pub use clock::Clock;
use doubt::Unclear;
pub use doubt::{Cause, Doubt};
pub use family::Family;
use family::Pooled;
pub use runs::{Basis, FamilyOfRuns, RunsCompared, compare_runs, quiet_cycles};
use shift::{Shift, Way};

use crate::check::identity;
use crate::moves::{self, Span};
use crate::schema::{Machine, Params, Results, Row, Run, Unit};
use crate::stats::quiet::LEAST;
use crate::stats::{false_discovery, mann_whitney};

/// p below which ranks count as apart.
const SIGNIFICANT: f64 = 0.05;

/// Cpus whose raw round trip differs by more than this factor between the
/// sides are not the same pair of cpus any more.
const MOVED: f64 = 1.25;

/// Largest move from run to run of a thing that may still be called the same.
const LARGEST: f64 = 0.35;

/// Half of an interval of 95 %, in standard errors that are well known.
const INTERVAL: f64 = 1.96;

/// A difference that runs tell is never said to be larger than this share: what only a twofold
/// difference would show in is said to be that, whatever Student's t of few visits makes of it.
pub const MOST_TOLD: f64 = 1.0;

/// An interval that reaches further than so many times its middle says nothing, and is none.
const FURTHEST: f64 = 100.0;

/// Verdict on one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// B is worse by more than the threshold.
    Regression,
    /// B is better by more than the threshold.
    Improvement,
    /// The difference is smaller than the threshold.
    Same,
    /// The visits do not tell.
    Unclear,
}

/// One side of a compared row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Median, in the row's unit.
    pub median: f64,
    /// Its 95 % confidence interval.
    pub ci: [f64; 2],
    /// Cost where others leave it alone.
    pub quiet: f64,
    /// Visits.
    pub visits: usize,
    /// True if a visit was disturbed.
    pub disturbed: bool,
    /// Raw cache-line round trip between the cpus used, nanoseconds.
    pub round_trip_ns: Option<f64>,
}

/// A row that both results have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Case.
    pub case: String,
    /// Parameters.
    pub params: Params,
    /// Unit of the medians.
    pub unit: Unit,
    /// The first result's row.
    pub a: Side,
    /// The second result's row.
    pub b: Side,
    /// Quiet cost of B over that of A, whether less is better or more.
    pub ratio: f64,
    /// 95 % confidence interval of `ratio`: what differs between visits, and what moves
    /// whole runs.
    pub ci: [f64; 2],
    /// Share within which the two sides are the same, where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_within: Option<f64>,
    /// Two-sided p of the Mann–Whitney test on the quiet costs of the visits.
    pub p: f64,
    /// `p` adjusted for the number of rows (Benjamini and Hochberg).
    pub q: f64,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason for which it is unclear, if it is, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
}

/// A row that one result has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unmatched {
    /// Case.
    pub case: String,
    /// Parameters.
    pub params: Params,
    /// Unit.
    pub unit: Unit,
}

/// Origin of one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    /// Settings and times of the run.
    pub run: Run,
    /// Machine on which it ran.
    pub machine: Machine,
}

/// Two results side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first result.
    pub a: Origin,
    /// The second result.
    pub b: Origin,
    /// The difference that matters, as a share: 0.05 is 5 %.
    pub threshold: f64,
    /// Share of comparisons, at most, in which anything is called worse where nothing changed.
    pub level: f64,
    /// The core's clock on both sides, where it was measured.
    pub clock: Option<Clock>,
    /// The least difference that these runs tell, as a share, for most families on one cpu
    /// and for most of those that cross from cpu to cpu: [`MOST_TOLD`] is that or more. Nothing
    /// where no family has [`LEAST`] visits on each side.
    pub tells: [Option<f64>; 2],
    /// Rows of both that differ in their sizes only, pooled.
    pub families: Vec<Family>,
    /// Rows of both, in the order of A.
    pub rows: Vec<Compared>,
    /// Rows of A only.
    pub only_a: Vec<Unmatched>,
    /// Rows of B only.
    pub only_b: Vec<Unmatched>,
}

impl Comparison {
    /// Number of rows that have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Number of families that have it.
    pub fn families(&self, verdict: Verdict) -> usize {
        self.families.iter().filter(|family| family.verdict == verdict).count()
    }
}

/// Compares `b` to `a`, by families and row by row. `threshold` is the relative difference
/// that matters: 0.05 calls a row worse when it costs at least 1.05 times as
/// much (a bandwidth: when it is at most 1/1.05), beyond doubt.
pub fn compare(a: &Results, b: &Results, threshold: f64) -> Comparison {
    let key = |row: &Row| identity(&row.case, &row.params, row.unit);
    let mut of_b: HashMap<String, &Row> = b.rows.iter().map(|row| (key(row), row)).collect();
    let (mut both, mut only_a) = (Vec::new(), Vec::new());
    for row in &a.rows {
        match of_b.remove(&key(row)) {
            Some(other) => both.push((row, other)),
            None => only_a.push(unmatched(row)),
        }
    }
    let clock = Clock::of(a, b);
    let cycles = clock.is_some_and(|clock| clock.cycles);
    let limits = Limits { asked: threshold.ln_1p() };
    let shift = |a: &Row, b: &Row, undisturbed| Shift::of(a, b, Way { cycles, undisturbed });

    let (families, between) = pooled(family::families(&both), shift);
    let tells = [false, true].map(|crosses| tells(&families, &between, crosses));
    let families = families.iter().map(|family| family.judged(&between, &limits)).collect();

    let (each, between) = pooled(both.iter().map(|pair| vec![*pair]).collect(), shift);
    let way = Way { cycles, undisturbed: false };
    let mut rows: Vec<Compared> =
        each.iter().map(|row| compare_row(row, &between, &limits, way)).collect();
    let p: Vec<f64> = rows.iter().map(|row| row.p).collect();
    for (row, q) in rows.iter_mut().zip(false_discovery::adjust(&p)) {
        row.q = q;
    }
    let left = b.rows.iter().filter(|row| of_b.contains_key(&key(row)));
    let origin = |r: &Results| Origin { run: r.run.clone(), machine: r.machine.clone() };
    Comparison {
        a: origin(a),
        b: origin(b),
        threshold,
        level: LEVEL,
        clock,
        tells,
        families,
        rows,
        only_a,
        only_b: left.map(unmatched).collect(),
    }
}

/// Pools these rows, and the moves of all of them from run to run.
fn pooled<'a>(
    rows: Vec<Vec<(&'a Row, &'a Row)>>,
    shift: impl Fn(&Row, &Row, bool) -> Option<Shift>,
) -> (Vec<Pooled<'a>>, Between) {
    let pooled: Vec<Pooled> = rows.into_iter().map(|rows| Pooled::of(rows, &shift)).collect();
    let moved: Vec<Moved> = pooled.iter().filter_map(|one| one.moved).collect();
    let between = Between::of(&moved, LEVEL / 2.0);
    (pooled, between)
}

/// Least difference that most families of a kind tell: the middle one.
fn tells(families: &[Pooled], between: &Between, crosses: bool) -> Option<f64> {
    let moved = families.iter().filter_map(|family| family.moved);
    let errors = moved
        .filter(|moved| moved.crosses == crosses && moved.visits >= LEAST)
        .filter(|moved| moved.shift.within.variance.is_finite())
        .map(|moved| (between.critical(&moved) * between.error(&moved)).exp_m1());
    let middle = crate::stats::describe::median_of(errors);
    middle.is_finite().then_some(middle.min(MOST_TOLD))
}

/// Least difference that is seen, in words, from its logarithm.
fn percent_seen(least: f64) -> String {
    match least.exp_m1() {
        share if share > MOST_TOLD => format!("more than {:.0} %", 100.0 * MOST_TOLD),
        share => format!("{:.0} % and more", 100.0 * share),
    }
}

/// The least threshold at which an interval of logarithms is called the same, as a share; none
/// where that is a twofold difference or none at all.
fn same_at([low, high]: [f64; 2]) -> Option<f64> {
    let share = high.max(-low).exp_m1();
    (share <= MOST_TOLD).then_some(share)
}

/// Visits of the side that has fewer.
fn visits(a: &Row, b: &Row) -> usize {
    a.visits.len().min(b.visits.len())
}

fn unmatched(row: &Row) -> Unmatched {
    Unmatched { case: row.case.clone(), params: row.params.clone(), unit: row.unit }
}

/// Differences that matter, as logarithms.
#[derive(Clone, Copy, Debug)]
struct Limits {
    asked: f64,
}

impl Limits {
    /// True if a difference is as large as was asked for.
    fn beyond(&self, worse: f64) -> bool {
        /// Error of rounding.
        const HARDLY: f64 = 1e-9;
        worse >= self.asked - HARDLY
    }

    /// Side beyond doubt: 1 for worse, −1 for better, or neither.
    fn side(&self, moved: &Moved, between: &Between) -> i8 {
        let doubt = between.critical(moved) * between.error(moved);
        let worse = moved.shift.worse;
        match () {
            () if worse > doubt && self.beyond(worse) => 1,
            () if -worse > doubt && self.beyond(-worse) => -1,
            () => 0,
        }
    }

    /// True if the undisturbed rest of a disturbed thing says so, too.
    fn holds(&self, quiet: Option<Moved>, between: &Between) -> bool {
        quiet.is_some_and(|moved| self.side(&moved, between) != 0)
    }

    /// The logarithm within which it is the same, if it is.
    fn same(&self, [low, high]: [f64; 2]) -> Option<f64> {
        let reach = high.max(-low);
        let fits = low <= 0.0 && high >= 0.0 && reach <= LARGEST.ln_1p();
        (reach <= self.asked || fits).then(|| reach.max(self.asked))
    }
}

/// Largest error of a thing that may be called the same, unless more was asked for.
fn largest() -> f64 {
    LARGEST.ln_1p() / INTERVAL
}

/// Factor by which more visits would tell: the visits' part of the error shrinks with their root,
/// the part of whole runs stays. Nothing where no number of visits would do.
fn times_visits(within: f64, error: f64) -> Option<f64> {
    let left = largest().powi(2) - (error.powi(2) - within.powi(2));
    (left > 0.0).then(|| (within.powi(2) / left).max(1.0))
}

/// A verdict, in logarithms of how many times worse B is.
struct Judged {
    worse: f64,
    ci: [f64; 2],
    verdict: Verdict,
    same_within: Option<f64>,
}

/// `quiet` is what the undisturbed visits say, where others were disturbed.
fn judge(
    moved: &Moved,
    quiet: Option<Option<Moved>>,
    between: &Between,
    limits: &Limits,
) -> Judged {
    let (worse, error) = (moved.shift.worse, between.error(moved));
    // Of one visit or two nothing is known.
    let known = moved.visits >= LEAST && !error.is_nan();
    let reach = if known { between.alone(moved) * error } else { f64::INFINITY };
    let reach = if reach > FURTHEST.ln() { f64::INFINITY } else { reach };
    let [low, high] = [worse - reach, worse + reach];
    let holds = quiet.is_none_or(|quiet| limits.holds(quiet, between));
    let within = limits.same([low, high]);
    let verdict = match limits.side(moved, between) {
        1 if holds => Verdict::Regression,
        -1 if holds => Verdict::Improvement,
        0 if within.is_some() => Verdict::Same,
        _ => Verdict::Unclear,
    };
    let same_within = within.filter(|_| verdict == Verdict::Same).map(f64::exp_m1);
    Judged { worse, ci: [low, high], verdict, same_within }
}

fn compare_row(row: &Pooled, between: &Between, limits: &Limits, way: Way) -> Compared {
    let (a, b) = row.rows[0];
    let [of_a, of_b] = shift::costs(a, b, way);
    let p = mann_whitney::p_value(&of_a, &of_b);
    let near = moved(a, b).is_none();
    let known = row.moved.or_else(|| far(a, b, way));
    let judged = known.map(|moved| (moved, judge(&moved, row.quiet, between, limits)));
    let less = a.unit.less_is_better();
    let (mut verdict, mut same_within) = (Verdict::Unclear, None);
    let (mut worse, mut ci) = (f64::NAN, [f64::NAN; 2]);
    if let Some((_, judged)) = &judged {
        (worse, ci) = (judged.worse, judged.ci);
        let apart = p < SIGNIFICANT && near;
        verdict = match judged.verdict {
            Verdict::Regression | Verdict::Improvement if !apart => Verdict::Unclear,
            Verdict::Same if !near => Verdict::Unclear,
            other => other,
        };
        same_within = judged.same_within.filter(|_| verdict == Verdict::Same);
    }
    let unclear = || {
        let (error, critical) = judged.as_ref().map_or(([f64::NAN; 2], f64::NAN), |(moved, _)| {
            ([moved.shift.within.error(), between.error(moved)], between.critical(moved))
        });
        Unclear { a, b, worse, ci, error, critical, p, limit: limits.asked }
    };
    let [low, high] = ci.map(f64::exp);
    Compared {
        case: a.case.clone(),
        params: a.params.clone(),
        unit: a.unit,
        a: side(a),
        b: side(b),
        ratio: if less { worse.exp() } else { (-worse).exp() },
        ci: if less { [low, high] } else { [1.0 / high, 1.0 / low] },
        same_within,
        p,
        q: p,
        verdict,
        doubt: (verdict == Verdict::Unclear).then(|| unclear().doubt()),
    }
}

/// Move of a row whose cpus moved, too: to be shown, not to be judged.
fn far(a: &Row, b: &Row, way: Way) -> Option<Moved> {
    let span = Span::of(a.cpus.len());
    let crosses = span == Span::Several;
    let shift = Shift::of(a, b, way)?;
    Some(Moved { shift, known: moves::of_a_pair(&a.case, span), crosses, visits: visits(a, b) })
}

/// The raw round trips of both sides if a case of two cpus ran on cpus that were
/// not as far apart on both: then the machine differs, and perhaps nothing else.
fn moved(a: &Row, b: &Row) -> Option<(f64, f64)> {
    let (from, to) = (a.round_trip_ns?, b.round_trip_ns?);
    let factor = quotient(from, to);
    let differs = factor.max(factor.recip()) > MOVED;
    (a.cpus.len().max(b.cpus.len()) > 1 && differs).then_some((from, to))
}

fn side(row: &Row) -> Side {
    Side {
        median: row.median,
        ci: row.ci,
        quiet: row.quiet,
        visits: row.visits.len(),
        disturbed: row.disturbed,
        round_trip_ns: row.round_trip_ns,
    }
}

fn quotient(b: f64, a: f64) -> f64 {
    b.max(f64::MIN_POSITIVE) / a.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests;
