//! What one side costs, by all of its runs.

use kumiki_measure::stats::{bootstrap, describe};
use serde::{Deserialize, Serialize};

use crate::process::Sample;

/// The quiet cost is this quantile: others only ever add to a run's time. Lower ones are
/// of the luckiest moments, and move more from one experiment to the next.
const QUIET: f64 = 0.25;

/// A side's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Runs.
    pub runs: usize,
    /// Cost where others leave the command alone, nanoseconds: the lower quartile.
    pub quiet_ns: f64,
    /// Median wall time, nanoseconds.
    pub median_ns: f64,
    /// Its 95 % interval.
    pub ci: [f64; 2],
    /// 99 % of the runs took at most this.
    pub p99_ns: f64,
    /// Median processor time in user mode and in the kernel, nanoseconds.
    pub cpu_ns: [f64; 2],
    /// Median of the most memory, bytes; nothing where it is too little to be known.
    pub max_rss_bytes: Option<f64>,
    /// Median page faults.
    pub faults: f64,
    /// Median of switches, asked for and not.
    pub switches: [f64; 2],
    /// Share of the runs beside which others used more than a twentieth of the cpus.
    pub disturbed: f64,
}

/// Share of the cpus that others may use beside a run before it counts as disturbed.
pub(crate) const TOLERATED: f64 = 0.05;

/// Known of a run only if it had more than the measuring process: of most or of none.
fn memory(samples: &[&Sample]) -> Option<f64> {
    let known: Vec<f64> =
        samples.iter().filter_map(|s| s.max_rss_bytes).map(|bytes| bytes as f64).collect();
    (2 * known.len() > samples.len()).then(|| describe::median_of(known))
}

impl Figures {
    pub(crate) fn of(samples: &[&Sample]) -> Self {
        let median = |of: fn(&Sample) -> f64| describe::median_of(samples.iter().map(|s| of(s)));
        let wall: Vec<f64> = samples.iter().map(|s| s.compared()).collect();
        let sorted = describe::sorted(wall.iter().copied());
        let struck = samples.iter().filter(|s| s.others.is_some_and(|o| o > TOLERATED)).count();
        Figures {
            runs: samples.len(),
            quiet_ns: describe::quantile(&sorted, QUIET),
            median_ns: describe::median(&sorted),
            ci: bootstrap::median_ci([wall.as_slice()]),
            p99_ns: describe::quantile(&sorted, 0.99),
            cpu_ns: [median(|s| s.user_ns), median(|s| s.system_ns)],
            max_rss_bytes: memory(samples),
            faults: median(|s| (s.faults[0] + s.faults[1]) as f64),
            switches: [median(|s| s.switches[0] as f64), median(|s| s.switches[1] as f64)],
            disturbed: struck as f64 / samples.len().max(1) as f64,
        }
    }
}
