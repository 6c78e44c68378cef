//! What a run is judged by.

use serde::{Deserialize, Serialize};

use crate::process::Sample;
use crate::sequence::MISSES;

/// Least processor time that is told from none, nanoseconds: what wait4(2) counts in.
const LEAST_NS: f64 = 1e3;

/// Figure by which two runs are compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time from start to end: what a user waits for, and what other programs add to.
    #[default]
    Wall,
    /// Time that processors worked for it, in user mode and in the kernel.
    Cpu,
    /// Instructions in user mode.
    Instructions,
    /// Figure that the command measures by itself.
    Own,
}

impl Measure {
    /// Its name in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Measure::Wall => "wall time",
            Measure::Cpu => "processor time",
            Measure::Instructions => "instructions",
            Measure::Own => "a case's own figure",
        }
    }

    /// Figure of a run, where it has one.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Measure::Wall => Some(sample.wall_ns),
            Measure::Cpu => Some(sample.cpu_ns().max(LEAST_NS)),
            Measure::Instructions => {
                sample.counts.instructions.filter(|n| *n > 0).map(|n| n as f64)
            }
            Measure::Own => sample.cost,
        }
    }

    /// Measures that judge when none is asked for, and the share of comparisons in which each may
    /// miss: together [`MISSES`].
    pub(crate) fn all(own: bool, instructions: bool) -> Vec<(Measure, f64)> {
        match (own, instructions) {
            (true, _) => vec![(Measure::Own, MISSES)],
            (false, false) => vec![(Measure::Wall, MISSES / 2.0), (Measure::Cpu, MISSES / 2.0)],
            (false, true) => vec![
                (Measure::Wall, 0.4 * MISSES),
                (Measure::Cpu, 0.4 * MISSES),
                (Measure::Instructions, 0.2 * MISSES),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_miss_is_shared() {
        for (own, instructions) in [(true, false), (false, false), (false, true)] {
            let all = Measure::all(own, instructions);
            let sum: f64 = all.iter().map(|(_, misses)| misses).sum();
            assert!((sum - MISSES).abs() < 1e-12, "{all:?}");
        }
    }
}
