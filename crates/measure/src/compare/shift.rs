//! How far a row moved from A to B, by the quiet costs of its visits.

use crate::schema::{Row, Unit, Visit};
use crate::stats::{describe, quiet};

/// Stands in for a cost of zero, so that every ratio is a number.
const NEARLY_ZERO: f64 = 1e-9;

/// The variance of a median over that of a mean, for values that are normal.
const MEDIAN: f64 = std::f64::consts::FRAC_PI_2;

/// Scaled, a median absolute deviation is a standard deviation.
const MAD: f64 = 1.4826;

/// A visit's clock further than this from the row's was not measured, but interrupted.
const CLOCK: [f64; 2] = [0.8, 1.25];

/// Which visits count, and in what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Costs are of cycles of the core's clock, not of time.
    pub(super) cycles: bool,
    /// Visits that other work disturbed do not count.
    pub(super) undisturbed: bool,
}

/// Of one row, or of several pooled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shift {
    /// ln of how many times worse B is.
    pub(super) worse: f64,
    /// Standard error of that by what differs between visits; NaN where a side has one.
    pub(super) within: f64,
    /// Degrees of freedom of `within`.
    pub(super) freedom: f64,
}

impl Shift {
    /// Nothing without a visit on each side that counts.
    pub(super) fn of(a: &Row, b: &Row, way: Way) -> Option<Self> {
        let cycles = way.cycles && timed(a.unit) && clocked(a, way) && clocked(b, way);
        let way = Way { cycles, ..way };
        let (of_a, of_b) = (logs(a, way), logs(b, way));
        if of_a.is_empty() || of_b.is_empty() {
            return None;
        }
        let middle = |logs: &[f64]| describe::median_of(logs.iter().copied());
        let sign = if a.unit.less_is_better() { 1.0 } else { -1.0 };
        let sides = [&of_a, &of_b].map(|logs| (variance(logs), freedom(logs)));
        Some(Shift {
            worse: sign * (middle(&of_b) - middle(&of_a)),
            within: sides.iter().map(|(variance, _)| variance).sum::<f64>().sqrt(),
            freedom: together(&sides),
        })
    }

    /// The middle of several. Rows that cannot tell how sure they are say nothing of it.
    pub(super) fn pooled(shifts: &[Shift]) -> Option<Self> {
        if shifts.is_empty() {
            return None;
        }
        let known: Vec<(f64, f64)> = shifts
            .iter()
            .filter(|shift| shift.within.is_finite())
            .map(|shift| (shift.within.powi(2), shift.freedom))
            .collect();
        let rows = known.len() as f64;
        // Two have no middle but their mean.
        let factor = if shifts.len() > 2 { MEDIAN } else { 1.0 };
        let sum: f64 = known.iter().map(|(variance, _)| variance).sum();
        Some(Shift {
            worse: describe::median_of(shifts.iter().map(|s| s.worse)),
            within: (factor * sum / rows / rows).sqrt(),
            freedom: together(&known),
        })
    }
}

/// Degrees of freedom of a sum of variances (Welch and Satterthwaite).
fn together(parts: &[(f64, f64)]) -> f64 {
    let sum: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let squares: f64 = parts.iter().map(|(variance, freedom)| variance.powi(2) / freedom).sum();
    if squares > 0.0 { sum.powi(2) / squares } else { f64::INFINITY }
}

/// Degrees of freedom of [`variance`]: a median absolute deviation knows as much of a spread
/// as 0.37 times as many values would otherwise.
fn freedom(logs: &[f64]) -> f64 {
    0.37 * (logs.len() as f64 - 1.0)
}

/// Whether a unit has to do with time.
fn timed(unit: Unit) -> bool {
    matches!(unit, Unit::Nanoseconds | Unit::GigabytesPerSecond)
}

fn counted(row: &Row, way: Way) -> impl Iterator<Item = &Visit> {
    let counts = move |visit: &&Visit| !way.undisturbed || visit.disturbances.is_empty();
    row.visits.iter().filter(|visit| !visit.samples.is_empty()).filter(counts)
}

/// Time of a cycle around a visit: an interruption only adds to it.
pub(super) fn cycle(visit: &Visit) -> Option<f64> {
    let positive = visit.cycle_ns.into_iter().flatten().filter(|ns| *ns > 0.0);
    positive.reduce(f64::min)
}

fn clocked(row: &Row, way: Way) -> bool {
    counted(row, way).all(|visit| cycle(visit).is_some())
}

/// ln of the quiet cost of each visit that counts.
pub(super) fn logs(row: &Row, way: Way) -> Vec<f64> {
    let usual = describe::median_of(counted(row, way).filter_map(cycle));
    let sign = if row.unit.less_is_better() { 1.0 } else { -1.0 };
    let log = |visit: &Visit| {
        let cost = quiet::of_visit(&visit.samples, row.unit).max(NEARLY_ZERO).ln();
        if !(way.cycles && usual > 0.0) {
            return cost;
        }
        let cycle = cycle(visit).unwrap_or(usual).clamp(CLOCK[0] * usual, CLOCK[1] * usual);
        // Fewer cycles where the clock was slow; more bytes a cycle.
        cost - sign * cycle.ln()
    };
    counted(row, way).map(log).collect()
}

/// Variance of the median of these; NaN of one.
fn variance(logs: &[f64]) -> f64 {
    let n = logs.len() as f64;
    if n < 2.0 {
        return f64::NAN;
    }
    let middle = describe::median_of(logs.iter().copied());
    // Of few values the deviation from their own median is too small (Croux and Rousseeuw,
    // *Time-Efficient Algorithms for Two Highly Robust Estimators of Scale*, 1992).
    let deviation = MAD * describe::mad(logs, middle) * n / (n - 0.8);
    MEDIAN * deviation.powi(2) / n
}
