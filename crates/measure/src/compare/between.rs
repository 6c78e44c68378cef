//! What changes from run to run, and so is in neither of two runs.
//!
//! Two runs of one machine in a row differ by more than their visits show: the tool's pages
//! lie elsewhere, memory is more or less in pieces, the host has put a virtual cpu on
//! another core. Five quick runs in a row of a virtual machine of two cpus, nothing else
//! running (2026-11-26; of each visit the quiet cost in cycles of the core): half of the
//! families moved by 2.5 to 3 %, nine of ten by 9 to 18 %, and these few by far more, in
//! jumps. A pair of runs cannot know that, so it is told: a standard error for each kind of
//! family, and where the pair itself moved by more, that.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::shift::Shift;
use crate::stats::describe;

/// In so many comparisons of a machine with itself something is called worse.
pub const LEVEL: f64 = 0.05;

/// Confidence of the interval of a family or row by itself.
const CONFIDENCE: f64 = 0.95;

/// Standard error of a difference of two runs in what runs on one cpu.
const USUAL: f64 = 0.03;

/// The same in what crosses from cpu to cpu.
const CROSSING: f64 = 0.08;

/// Cases, by the beginning of their names, that move by more, in jumps.
const JUMPY: [(&str, f64); 10] = [
    // A file system remembers what was removed, for minutes.
    ("file.create_unlink", 0.7),
    ("file.mkdir_rmdir", 0.7),
    // A disk has its own time.
    ("file.fsync", 0.3),
    ("file.fdatasync", 0.3),
    // Which cache sets a name's entry falls into is drawn once a run.
    ("file.stat", 0.08),
    // Page tables are moved whole where both places are aligned alike.
    ("memory.mremap.move", 0.2),
    // As many page tables as memory is in pieces.
    ("process.fork", 0.1),
    ("process.spawn", 0.15),
    ("resource.spawn", 0.2),
    // Writer and reader fall into step, or do not.
    ("ipc.unix_stream.bandwidth", 0.7),
];

/// The standard error, in ln, that a case brings with it.
pub(super) fn known(case: &str, crosses: bool) -> f64 {
    let jumpy = JUMPY.iter().filter(|(name, _)| case.starts_with(name)).map(|(_, error)| *error);
    let usual = if crosses { CROSSING } else { USUAL };
    jumpy.fold(usual, f64::max)
}

/// A moved thing: how far, what is known of its kind, and whether it crosses from cpu to cpu.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) shift: Shift,
    pub(super) known: f64,
    pub(super) crosses: bool,
}

/// What a pair of runs says of the errors of its own families.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Between {
    /// By how much all that is known has to be multiplied: at least 1, on one cpu and across;
    /// and how well that is known, as degrees of freedom.
    factors: [(f64, f64); 2],
    /// Probability that one of them is called worse where nothing has changed.
    tail: f64,
}

impl Between {
    /// From all that moved. `level` is the probability that any of them is called worse
    /// where nothing has changed.
    pub(super) fn of(all: &[Moved], level: f64) -> Self {
        let factors = [false, true].map(|crosses| {
            let own: Vec<&Moved> = all
                .iter()
                .filter(|moved| moved.crosses == crosses && moved.shift.within.is_finite())
                .collect();
            let factor = spread(&own);
            // A median absolute deviation knows as much as 0.37 times as many values would,
            // and half of them may be what really changed.
            (factor, if factor > 1.0 { 0.37 / 2.0 * own.len() as f64 } else { f64::INFINITY })
        });
        let tests = all.len().max(1) as f64;
        Between { factors, tail: level / tests }
    }

    /// What moves whole runs: its standard error, and how well that is known.
    fn between(&self, moved: &Moved) -> (f64, f64) {
        let (factor, freedom) = self.factors[usize::from(moved.crosses)];
        (moved.known * factor, freedom)
    }

    /// So many standard errors from zero it is beyond doubt. Errors that come from few
    /// visits are not well known themselves, so that it takes more of them (Student's t, by
    /// the degrees of freedom of Welch and Satterthwaite; what is known of a kind has many).
    pub(super) fn critical(&self, moved: &Moved) -> f64 {
        self.quantile(1.0 - self.tail, moved)
    }

    /// The length of half its interval by itself, in standard errors.
    pub(super) fn alone(&self, moved: &Moved) -> f64 {
        self.quantile((1.0 + CONFIDENCE) / 2.0, moved)
    }

    /// Of Student's t, by the degrees of freedom of both parts of the error.
    fn quantile(&self, probability: f64, moved: &Moved) -> f64 {
        /// From so many on it is the normal distribution.
        const MANY: f64 = 1000.0;
        let (between, known) = self.between(moved);
        let parts = [(moved.shift.within, moved.shift.freedom), (between, known)];
        let inverse: f64 =
            parts.iter().map(|(part, freedom)| (part / self.error(moved)).powi(4) / freedom).sum();
        if inverse > 1.0 / MANY {
            let t = StudentsT::new(0.0, 1.0, (1.0 / inverse).max(1.0));
            t.map_or(f64::INFINITY, |t| t.inverse_cdf(probability))
        } else {
            Normal::standard().inverse_cdf(probability)
        }
    }

    /// The standard error of one.
    pub(super) fn error(&self, moved: &Moved) -> f64 {
        error(moved.shift.within, self.between(moved).0)
    }
}

/// Independent errors: squares add.
fn error(within: f64, between: f64) -> f64 {
    (within.powi(2) + between.powi(2)).sqrt()
}

/// By how much what is known has to be multiplied so that the half that lies nearest to
/// the middle is as near as that of a normal distribution: what really changed, as long as it
/// is less than half of everything, does not count. The middle does not count either: what
/// moves all alike is a change.
fn spread(all: &[&Moved]) -> f64 {
    /// Fewer say nothing of a spread.
    const FEW: usize = 12;
    /// Half of a normal distribution lies within so many standard deviations.
    const HALF: f64 = 0.6745;
    /// No machine is so restless.
    const MOST: f64 = 64.0;
    /// Halvings of that range: 2 % are near enough.
    const TURNS: usize = 12;
    if all.len() < FEW {
        return 1.0;
    }
    let middle = describe::median_of(all.iter().map(|moved| moved.shift.worse));
    let too_wide = |factor: f64| {
        let apart = all.iter().map(|moved| {
            (moved.shift.worse - middle).abs() / error(moved.shift.within, factor * moved.known)
        });
        describe::median_of(apart) > HALF
    };
    let (mut low, mut high) = (1.0, MOST);
    if !too_wide(low) {
        return low;
    }
    for _ in 0..TURNS {
        let middle: f64 = (low + high) / 2.0;
        if too_wide(middle) { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(worse: f64) -> Moved {
        Moved { shift: Shift { worse, within: 0.0, freedom: 10.0 }, known: USUAL, crosses: false }
    }

    #[test]
    fn what_is_known_to_jump_is_known_by_its_name() {
        assert_eq!(known("entry.getppid", false), USUAL);
        assert_eq!(known("ipc.pipe.latency", true), CROSSING);
        assert_eq!(known("file.create_unlink", false), 0.7);
        assert_eq!(known("process.fork_cow", false), 0.1);
    }

    #[test]
    fn a_pair_that_moved_by_more_says_so_and_one_that_really_changed_does_not() {
        // Steps of a normal distribution of twice the usual error.
        let normal = Normal::standard();
        let wide: Vec<Moved> = (1..100)
            .map(|i| moved(2.0 * USUAL * normal.inverse_cdf(f64::from(i) / 100.0)))
            .collect();
        let between = Between::of(&wide, LEVEL);
        assert!((between.error(&wide[0]) / USUAL - 2.0).abs() < 0.1, "{between:?}");
        // Everything 30 % slower by the same factor is a change, no error.
        let slower: Vec<Moved> = wide.iter().map(|m| moved(m.shift.worse / 2.0 + 0.3)).collect();
        let between = Between::of(&slower, LEVEL);
        assert!((between.error(&slower[0]) / USUAL - 1.0).abs() < 0.1, "{between:?}");
        let critical = between.critical(&slower[0]);
        assert!((3.2..3.4).contains(&critical), "{critical}");
        // Of few visits that differ it takes more.
        let few =
            Moved { shift: Shift { within: 0.1, freedom: 3.0, ..slower[0].shift }, ..slower[0] };
        assert!(between.critical(&few) > 2.0 * critical, "{}", between.critical(&few));
    }
}
