//! What a pair of runs says of how far runs move, beside what is known of that.
//!
//! Where a pair moved by more than [`crate::moves`] knows, that counts.

use super::shift::Shift;
use crate::stats::describe;
use crate::stats::doubt::Variance;

/// Share of comparisons of a machine with itself in which something is called worse.
pub const LEVEL: f64 = 0.05;

/// The middle of the distances from the middle knows as much of a spread as so many times as
/// many values would.
const KNOWS: f64 = 0.37;

/// Share of the knowledge of a spread that holds as far out as many tests at once need it.
const FAR_OUT: f64 = 0.8;

/// Confidence of the interval of a family or row by itself.
const CONFIDENCE: f64 = 0.95;

/// A moved thing: how far, what is known of its kind, and whether it crosses from cpu to cpu.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) shift: Shift,
    pub(super) known: f64,
    pub(super) crosses: bool,
    /// Visits of the side that has fewer, of the row that has most.
    pub(super) visits: usize,
}

/// Errors of its own families, as a pair of runs shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Between {
    /// Factors by which all that is known has to be multiplied: at least 1, on one cpu and across;
    /// and how well that is known, as degrees of freedom.
    factors: [(f64, f64); 2],
    /// Probability that one of them is called worse where nothing has changed.
    tail: f64,
}

impl Between {
    /// Learns from all that moved. `level` is the probability that any of them is called worse
    /// where nothing has changed.
    pub(super) fn of(all: &[Moved], level: f64) -> Self {
        let factors = [false, true].map(|crosses| {
            let own: Vec<&Moved> = all
                .iter()
                .filter(|moved| moved.crosses == crosses && moved.shift.within.variance.is_finite())
                .collect();
            let factor = spread(&own);
            // Half of them may be what really changed.
            (factor, if factor > 1.0 { KNOWS / 2.0 * own.len() as f64 } else { f64::INFINITY })
        });
        let tests = all.len().max(1) as f64;
        Between { factors, tail: level / tests }
    }

    /// Doubt that moves whole runs.
    fn runs(&self, moved: &Moved) -> Variance {
        let (factor, freedom) = self.factors[usize::from(moved.crosses)];
        Variance { freedom, ..Variance::known(moved.known * factor) }
    }

    fn all(&self, moved: &Moved) -> Variance {
        Variance::sum([moved.shift.within, self.runs(moved)])
    }

    /// Standard errors from zero at which it is beyond doubt. Errors that come from few visits are
    /// not well known themselves, so that it takes more of them.
    pub(super) fn critical(&self, moved: &Moved) -> f64 {
        let all = self.all(moved);
        Variance { freedom: FAR_OUT * all.freedom, ..all }.quantile(1.0 - self.tail)
    }

    /// The length of half its interval by itself, in standard errors.
    pub(super) fn alone(&self, moved: &Moved) -> f64 {
        self.all(moved).quantile((1.0 + CONFIDENCE) / 2.0)
    }

    /// The standard error of one.
    pub(super) fn error(&self, moved: &Moved) -> f64 {
        self.all(moved).error()
    }
}

/// Factor by which the known spread has to be multiplied so that the half that lies nearest to the
/// middle is as near as that of a normal distribution: real changes, as long as they are less than
/// half of everything, do not count. The middle does not count either: what moves all alike is a
/// change.
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
            let runs = Variance::known(factor * moved.known);
            (moved.shift.worse - middle).abs() / Variance::sum([moved.shift.within, runs]).error()
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
    use statrs::distribution::{ContinuousCDF, Normal};

    use super::*;
    use crate::moves::USUAL;

    fn moved(worse: f64) -> Moved {
        let within = Variance { variance: 0.0, freedom: 10.0 };
        Moved { shift: Shift { worse, within }, known: USUAL, crosses: false, visits: 10 }
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
        let within = Variance { freedom: 3.0, ..Variance::known(0.1) };
        let few = Moved { shift: Shift { within, ..slower[0].shift }, ..slower[0] };
        assert!(between.critical(&few) > 2.0 * critical, "{}", between.critical(&few));
    }
}
