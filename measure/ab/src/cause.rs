//! Where a difference stands: in what the kernel and the processor count of each run.
//!
//! Each count has an interval of its own, and together they leave out the truth in [`MISSES`] of
//! all comparisons. What is within its interval the same has not moved, and is never named as a
//! cause.

use serde::{Deserialize, Serialize};

use kumiki_measure::stats::describe;

use crate::process::Sample;
use crate::sequence::{MISSES, Sequence};

/// Count of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Processor time in user mode, nanoseconds.
    User,
    /// Processor time in the kernel, nanoseconds.
    Kernel,
    /// Page faults without a disk.
    MinorFaults,
    /// Page faults with a disk.
    MajorFaults,
    /// Times that it gave its cpu up.
    Yields,
    /// Times that its cpu was taken from it.
    Preemptions,
    /// Blocks of 512 bytes read from a disk.
    BlocksRead,
    /// Blocks of 512 bytes written to one.
    BlocksWritten,
    /// Peak of memory, bytes.
    Memory,
    /// Instructions in user mode.
    Instructions,
    /// Cycles in user mode.
    Cycles,
    /// Reads that the last cache had not.
    CacheMisses,
    /// Branches that were guessed wrongly.
    BranchMisses,
}

impl Counted {
    /// All of them, in the order in which they are told.
    pub const ALL: [Counted; 13] = [
        Counted::User,
        Counted::Kernel,
        Counted::MinorFaults,
        Counted::MajorFaults,
        Counted::Yields,
        Counted::Preemptions,
        Counted::BlocksRead,
        Counted::BlocksWritten,
        Counted::Memory,
        Counted::Instructions,
        Counted::Cycles,
        Counted::CacheMisses,
        Counted::BranchMisses,
    ];

    /// Count of a run, where it is known.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        let known = |count: u64| Some(count as f64);
        match self {
            Counted::User => Some(sample.user_ns),
            Counted::Kernel => Some(sample.system_ns),
            Counted::MinorFaults => known(sample.faults[0]),
            Counted::MajorFaults => known(sample.faults[1]),
            Counted::Yields => known(sample.switches[0]),
            Counted::Preemptions => known(sample.switches[1]),
            Counted::BlocksRead => known(sample.blocks[0]),
            Counted::BlocksWritten => known(sample.blocks[1]),
            Counted::Memory => sample.max_rss_bytes.and_then(known),
            Counted::Instructions => sample.counts.instructions.and_then(known),
            Counted::Cycles => sample.counts.cycles.and_then(known),
            Counted::CacheMisses => sample.counts.cache_misses.and_then(known),
            Counted::BranchMisses => sample.counts.branch_misses.and_then(known),
        }
    }
}

/// Difference of a count between the sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The count.
    pub of: Counted,
    /// Usual count of A.
    pub a: f64,
    /// B less A, a run.
    pub more: f64,
    /// Its interval.
    pub interval: [f64; 2],
}

impl Cause {
    /// True if it moved beyond doubt.
    pub fn moved(&self) -> bool {
        self.interval[0] > 0.0 || self.interval[1] < 0.0
    }
}

/// Differences of each count after these pairs, in the order in which they were run.
pub(crate) fn causes(pairs: &[&[Sample; 2]]) -> Vec<Cause> {
    let known: Vec<(Counted, Vec<[f64; 2]>)> = Counted::ALL
        .into_iter()
        .map(|of| {
            let both = pairs.iter().filter_map(|[a, b]| Some([of.of(a)?, of.of(b)?]));
            (of, both.collect::<Vec<_>>())
        })
        // Of what is known of few runs it is known of the large ones only.
        .filter(|(_, both)| !both.is_empty() && both.len() == pairs.len())
        .collect();
    let misses = MISSES / known.len().max(1) as f64;
    known.iter().filter_map(|(of, both)| cause(*of, both, misses)).collect()
}

fn cause(of: Counted, both: &[[f64; 2]], misses: f64) -> Option<Cause> {
    let (first, rest) = both.split_first()?;
    // Known before the pairs that are judged.
    let unit = ((first[0] + first[1]) / 2.0).max(1.0);
    let mut sequence = Sequence::missing(misses);
    rest.iter().for_each(|[a, b]| sequence.push((b - a) / unit));
    let interval = sequence.interval();
    interval[1].is_finite().then(|| Cause {
        of,
        a: describe::median_of(both.iter().map(|[a, _]| *a)),
        more: sequence.estimate() * unit,
        interval: interval.map(|end| end * unit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of a command whose B does `faults` more page faults that cost `each` nanoseconds.
    fn pairs(rng: &mut fastrand::Rng, n: usize, faults: u64, each: f64) -> Vec<[Sample; 2]> {
        let mut run = |more: u64| {
            let noise = 1.0 + 0.01 * (rng.f64() - 0.5);
            let some = if rng.f64() < 0.3 { rng.u64(0..3) } else { 0 };
            Sample {
                user_ns: 2e7 * noise,
                system_ns: 1e6 * noise + more as f64 * each,
                faults: [80 + some + more, 0],
                switches: [1, rng.u64(0..20)],
                ..Sample::none()
            }
        };
        (0..n).map(|_| [run(0), run(faults)]).collect()
    }

    #[test]
    fn what_moved_is_named_and_nothing_else() {
        let mut rng = fastrand::Rng::with_seed(3);
        let pairs = pairs(&mut rng, 25, 40, 5e3);
        let all = causes(&pairs.iter().collect::<Vec<_>>());
        let moved: Vec<Counted> =
            all.iter().filter(|cause| cause.moved()).map(|cause| cause.of).collect();
        assert_eq!(moved, [Counted::Kernel, Counted::MinorFaults], "{all:?}");
        let faults = all.iter().find(|cause| cause.of == Counted::MinorFaults).unwrap();
        assert!((faults.more - 40.0).abs() < 1.0 && (faults.a - 80.0).abs() < 2.0, "{faults:?}");
        assert!(all.iter().all(|cause| cause.of != Counted::Instructions), "not counted here");
    }

    #[test]
    fn of_equal_commands_hardly_anything_is_named() {
        let mut rng = fastrand::Rng::with_seed(4);
        let named = (0..100).filter(|_| {
            let pairs = pairs(&mut rng, 40, 0, 0.0);
            causes(&pairs.iter().collect::<Vec<_>>()).iter().any(Cause::moved)
        });
        let named = named.count();
        assert!(named <= 5, "{named} of 100");
        assert_eq!(causes(&[]), []);
    }
}
