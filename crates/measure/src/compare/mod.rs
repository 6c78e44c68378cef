//! Compares two results: two machines, two kernels, two days.
//!
//! A row is called better or worse only if three things hold: the confidence
//! interval of the ratio lies wholly beyond the threshold, the visits of one
//! side rank above those of the other (Mann–Whitney, p < 0.05), and, where the
//! case runs on two cpus, these were as far apart on both sides.
//!
//! Of a row that other work disturbed, on either side, the visits that nothing disturbed
//! must say the same; else it is unclear.
//!
//! Visits are what is compared, not samples: a thousand samples of one visit
//! share one placement of pages, and are no thousand experiments.
//!
//! Many rows are tested at once, and p alone would call one in twenty of those
//! that did not change. The interval is what keeps them out: it must clear the
//! threshold, not merely 1. Each row also carries p adjusted for the number of
//! rows (`q`); it is not part of the verdict, because ranks of five visits a
//! side cannot give a p small enough for some hundred rows, not even where the
//! cost has doubled. In simulations of two runs of one machine, false alarms
//! (either way, 5 % threshold) came in none of 2000 rows that wander by 3 %
//! between visits; of rows that wander by 10 %, in 0.9 % with four visits a
//! side, 0.3 % with five, 0.05 % with ten; by 30 %, in 2, 0.8 and 0.4 %.

mod doubt;

use std::collections::HashMap;

use serde::Serialize;

use doubt::Unclear;
pub use doubt::{Cause, Doubt};

use crate::check::identity;
use crate::schema::{Machine, Params, Results, Row, Run, Unit};
use crate::stats::bootstrap::{self, Resampler};
use crate::stats::widen::widen;
use crate::stats::{describe, false_discovery, mann_whitney};

/// p below which ranks count as apart.
const SIGNIFICANT: f64 = 0.05;

/// Cpus whose raw round trip differs by more than this factor between the
/// sides are not the same pair of cpus any more.
const MOVED: f64 = 1.25;

/// Stands in for a median of zero, so that every ratio is a number.
const NEARLY_ZERO: f64 = 1e-9;

/// What to think of one row.
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
    /// Visits.
    pub visits: usize,
    /// Whether a visit was disturbed.
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
    /// Median of B over median of A, whether less is better or more.
    pub ratio: f64,
    /// 95 % confidence interval of `ratio`, by bootstrap over both sides' visits,
    /// widened by how far the core's clock wandered on each side.
    pub ci: [f64; 2],
    /// Two-sided p of the Mann–Whitney test on the medians of the visits.
    pub p: f64,
    /// `p` adjusted for the number of rows (Benjamini and Hochberg).
    pub q: f64,
    /// What to think of it.
    pub verdict: Verdict,
    /// Why it is unclear, if it is, and what would clear it.
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

/// How and where one side was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    /// How.
    pub run: Run,
    /// Where.
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
    /// Rows of both, in the order of A.
    pub rows: Vec<Compared>,
    /// Rows of A only.
    pub only_a: Vec<Unmatched>,
    /// Rows of B only.
    pub only_b: Vec<Unmatched>,
}

impl Comparison {
    /// How many rows have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }
}

/// Compares `b` to `a`, row by row. `threshold` is the relative difference
/// that matters: 0.05 calls a row worse when it costs more than 1.05 times as
/// much (a bandwidth: when it is below 1/1.05).
pub fn compare(a: &Results, b: &Results, threshold: f64) -> Comparison {
    let key = |row: &Row| identity(&row.case, &row.params, row.unit);
    let mut of_b: HashMap<String, &Row> = b.rows.iter().map(|row| (key(row), row)).collect();
    let (mut rows, mut only_a) = (Vec::new(), Vec::new());
    for row in &a.rows {
        match of_b.remove(&key(row)) {
            Some(other) => rows.push(compare_row(row, other, threshold)),
            None => only_a.push(unmatched(row)),
        }
    }
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
        rows,
        only_a,
        only_b: left.map(unmatched).collect(),
    }
}

fn unmatched(row: &Row) -> Unmatched {
    Unmatched { case: row.case.clone(), params: row.params.clone(), unit: row.unit }
}

/// What two rows' visits say of their ratio.
struct Evidence {
    /// Ratio of the medians.
    ratio: f64,
    /// Its interval by resampling alone.
    resampled: [f64; 2],
    /// Its interval, widened by how far the core's clock wandered on each side.
    ci: [f64; 2],
    /// Of the ranks of the visits.
    p: f64,
}

impl Evidence {
    fn of(a: &Row, b: &Row) -> Self {
        let ratio = quotient(b.median, a.median);
        let [mut from_a, mut from_b] = [a, b].map(|row| Resampler::new(samples(row)));
        let independent = from_a.independent().min(from_b.independent());
        let resampled = bootstrap::interval(ratio, independent, |rng| {
            quotient(from_b.median(rng), from_a.median(rng))
        });
        // What the core's clock does to one side it does not do to the other.
        let ci = widen(resampled, ratio, &[a.wander, b.wander]);
        let p = mann_whitney::p_value(&visit_medians(a), &visit_medians(b));
        Evidence { ratio, resampled, ci, p }
    }
}

/// The row by the visits that nothing disturbed.
fn undisturbed(row: &Row) -> Row {
    let quiet = row.visits.iter().filter(|visit| visit.disturbances.is_empty()).cloned();
    Row::summarise(&row.case, row.params.clone(), row.unit, row.cpus.clone(), quiet.collect())
}

fn compare_row(a: &Row, b: &Row, threshold: f64) -> Compared {
    let Evidence { ratio, resampled, ci, p } = Evidence::of(a, b);
    let (verdict, doubt) = judge(a, b, [ratio, ci[0], ci[1]], resampled, p, threshold);
    Compared {
        case: a.case.clone(),
        params: a.params.clone(),
        unit: a.unit,
        a: side(a),
        b: side(b),
        ratio,
        ci,
        p,
        q: p,
        verdict,
        doubt,
    }
}

/// `ratio` is the estimate and its interval, `steady` the interval without what
/// the core's clock added.
fn judge(
    a: &Row,
    b: &Row,
    ratio: [f64; 3],
    steady: [f64; 2],
    p: f64,
    threshold: f64,
) -> (Verdict, Option<Doubt>) {
    // How many times worse B is, at least and at most.
    let worse = |[low, high]: [f64; 2]| {
        if a.unit.less_is_better() { [low, high] } else { [1.0 / high, 1.0 / low] }
    };
    let [estimate, low, high] = ratio;
    let (ci, limit) = (worse([low, high]), 1.0 + threshold);
    let [least, most] = ci;
    let apart = p < SIGNIFICANT && moved(a, b).is_none();
    // Of a row that was disturbed the other visits have to say the same.
    let holds = |verdict: fn([f64; 2], f64) -> bool| {
        if !a.disturbed && !b.disturbed {
            return true;
        }
        let [a, b] = [a, b].map(undisturbed);
        if a.visits.is_empty() || b.visits.is_empty() {
            return false;
        }
        let quiet = Evidence::of(&a, &b);
        quiet.p < SIGNIFICANT && verdict(worse(quiet.ci), limit)
    };
    let verdict = if least > limit && apart && holds(|[least, _], limit| least > limit) {
        Verdict::Regression
    } else if most < 1.0 / limit && apart && holds(|[_, most], limit| most < 1.0 / limit) {
        Verdict::Improvement
    } else if least >= 1.0 / limit && most <= limit && a.visits.len().min(b.visits.len()) > 1 {
        // One visit knows nothing about the next one.
        Verdict::Same
    } else {
        Verdict::Unclear
    };
    let unclear = || {
        let [estimate, _] = worse([estimate, estimate]);
        Unclear { a, b, worse: estimate, ci, steady: worse(steady), p, limit }
    };
    (verdict, (verdict == Verdict::Unclear).then(|| unclear().doubt()))
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
        visits: row.visits.len(),
        disturbed: row.disturbed,
        round_trip_ns: row.round_trip_ns,
    }
}

fn quotient(b: f64, a: f64) -> f64 {
    b.max(NEARLY_ZERO) / a.max(NEARLY_ZERO)
}

fn samples(row: &Row) -> impl Iterator<Item = &[f64]> {
    row.visits.iter().map(|visit| visit.samples.as_slice())
}

fn visit_medians(row: &Row) -> Vec<f64> {
    samples(row).map(|samples| describe::median_of(samples.to_vec())).collect()
}

#[cfg(test)]
mod tests;
