//! What is to be compared, and how long.

use std::time::Duration;

use crate::finding::Finding;
use crate::measure::Measure;
use crate::sequence::MISSES;
use crate::side::Side;

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Side A, the command as it is.
    pub a: Side,
    /// Side B, which may be slower.
    pub b: Side,
    /// The least difference that matters, as a share: 0.02 is 2 %.
    pub detect: f64,
    /// The measure that decides; nothing if wall and processor time both may.
    pub by: Option<Measure>,
    /// Share of comparisons in which it may miss: 0.05 where it is the only one.
    pub misses: f64,
    /// Findings on a B that was kept: B now against it then decides.
    pub against: Option<Vec<Finding>>,
    /// Largest number of pairs.
    pub pairs: Option<usize>,
    /// No pair is begun after this.
    pub span: Duration,
    /// Go on to the last pair even if the verdict stands.
    pub all: bool,
    /// A shell line before each run, outside its time.
    pub prepare: Option<String>,
    /// The one cpu that both run on.
    pub cpu: Option<usize>,
    /// A run that fails is a run like any other.
    pub ignore_failure: bool,
}

impl Plan {
    /// Two minutes at most, for a difference of 2 %.
    pub fn new(a: Side, b: Side) -> Self {
        Plan {
            a,
            b,
            detect: 0.02,
            by: None,
            misses: MISSES,
            against: None,
            pairs: None,
            span: Duration::from_secs(120),
            all: false,
            prepare: None,
            cpu: None,
            ignore_failure: false,
        }
    }

    /// A side by its index in a pair.
    pub fn side(&self, at: usize) -> &Side {
        if at == 0 { &self.a } else { &self.b }
    }
}
