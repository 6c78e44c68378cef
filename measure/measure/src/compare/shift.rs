//! How far a row moved from A to B, by the quiet costs of its visits.

use crate::schema::{Row, Unit, Visit};
use crate::stats::doubt::{MEDIAN, Variance};
use crate::stats::{describe, quiet};

/// Stands in for a cost of zero, so that every ratio is a number.
const NEARLY_ZERO: f64 = 1e-9;

/// A visit's clock further than this from the row's was not measured, but interrupted.
const CLOCK: [f64; 2] = [0.8, 1.25];

/// Visits that count, and the unit they are compared in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Costs are of cycles of the core's clock, not of time.
    pub(super) cycles: bool,
    /// Visits that other work disturbed do not count.
    pub(super) undisturbed: bool,
}

/// Shift of one row, or of several pooled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shift {
    /// ln of how many times worse B is.
    pub(super) worse: f64,
    /// Part of that which differs between visits; NaN where a side has one.
    pub(super) within: Variance,
}

impl Shift {
    /// Nothing without a visit on each side that counts.
    pub(super) fn of(a: &Row, b: &Row, way: Way) -> Option<Self> {
        let [of_a, of_b] = costs(a, b, way);
        if of_a.is_empty() || of_b.is_empty() {
            return None;
        }
        let middle = |logs: &[f64]| describe::median_of(logs.iter().copied());
        Some(Shift {
            worse: middle(&of_b) - middle(&of_a),
            within: Variance::sum([&of_a, &of_b].map(|logs| Variance::of_median(logs))),
        })
    }

    /// The middle of several. Rows that cannot tell how sure they are say nothing of it.
    pub(super) fn pooled(shifts: &[Shift]) -> Option<Self> {
        if shifts.is_empty() {
            return None;
        }
        let known = shifts.iter().map(|shift| shift.within);
        let known: Vec<Variance> = known.filter(|within| within.variance.is_finite()).collect();
        let rows = known.len() as f64;
        // Two have no middle but their mean.
        let factor = if shifts.len() > 2 { MEDIAN } else { 1.0 };
        let sum = Variance::sum(known);
        Some(Shift {
            worse: describe::median_of(shifts.iter().map(|s| s.worse)),
            within: Variance { variance: factor * sum.variance / rows / rows, ..sum },
        })
    }
}

/// ln of the quiet costs of both sides' visits, such that more is worse.
pub(super) fn costs(a: &Row, b: &Row, way: Way) -> [Vec<f64>; 2] {
    let cycles = way.cycles && timed(a) && clocked(a, way) && clocked(b, way);
    let sign = if a.unit.less_is_better() { 1.0 } else { -1.0 };
    [a, b].map(|row| {
        let logs = logs(row, Way { cycles, ..way });
        logs.into_iter().map(|ln| sign * ln).collect()
    })
}

/// True if a row takes time, of which the core's clock decides.
fn timed(row: &Row) -> bool {
    // A timer's is the clock's of the board.
    row.case != "thread.nanosleep"
        && matches!(row.unit, Unit::Nanoseconds | Unit::GigabytesPerSecond)
}

fn counted(row: &Row, way: Way) -> impl Iterator<Item = &Visit> {
    let counts = move |visit: &&Visit| !way.undisturbed || visit.disturbances.is_empty();
    row.visits.iter().filter(|visit| !visit.samples.is_empty()).filter(counts)
}

/// Time of a cycle beside the quiet samples of a visit; of results that have it not, around
/// the visit: an interruption only adds to it.
pub(super) fn cycle(visit: &Visit) -> Option<f64> {
    if let Some(beside) = visit.quiet_cycle_ns.filter(|ns| *ns > 0.0) {
        return Some(beside);
    }
    let positive = visit.cycle_ns.into_iter().flatten().filter(|ns| *ns > 0.0);
    positive.reduce(f64::min)
}

/// True if a row's cost may be told in cycles.
pub(super) fn cycles_of(row: &Row) -> bool {
    timed(row) && clocked(row, Way { cycles: true, undisturbed: false })
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
