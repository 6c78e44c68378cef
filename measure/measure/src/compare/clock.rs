//! The core's clock on both sides.
//!
//! It moves all rows of a run together by some percent, on any machine with boost, heat or
//! neighbours, and is no change of what is compared. So where both sides' clocks are about
//! alike, costs are compared in cycles; where they are not (another machine, another
//! governor) the clock is a part of the answer, and costs are compared in time.

use serde::Serialize;

use super::shift::cycle;
use crate::schema::Results;
use crate::stats::describe;

/// Clocks that differ by more are not the same clock that wandered.
const ALIKE: f64 = 0.10;

/// A cycle of the core's clock, by all visits of each side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Clock {
    /// Nanoseconds in A.
    pub a_ns: f64,
    /// Nanoseconds in B.
    pub b_ns: f64,
    /// True if costs are compared in cycles.
    pub cycles: bool,
}

impl Clock {
    /// Nothing where a side did not measure it.
    pub(super) fn of(a: &Results, b: &Results) -> Option<Self> {
        let side = |results: &Results| {
            let visits = results.rows.iter().flat_map(|row| &row.visits);
            let cycles = describe::sorted(visits.filter_map(cycle));
            // Not the middle one: of a clock that jumps between two that is either, by a hair.
            let inner = &cycles[cycles.len() / 20..cycles.len() - cycles.len() / 20];
            let mean = inner.iter().sum::<f64>() / inner.len() as f64;
            (mean > 0.0).then_some(mean)
        };
        let (a_ns, b_ns) = (side(a)?, side(b)?);
        Some(Clock { a_ns, b_ns, cycles: (b_ns / a_ns).ln().abs() <= ALIKE })
    }
}
