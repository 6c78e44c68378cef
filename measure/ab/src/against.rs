//! A comparison beside one that was kept.
//!
//! Times of another day cannot be paired with those of today: the machine is not the same
//! any more. Ratios can: both comparisons ran the same A, in turns with their B, and
//! whatever the machine is like now, A feels it, too. So what is compared is B over A now
//! with B over A then.

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// Difference from a kept outcome.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// B over A then.
    pub then: f64,
    /// Its interval.
    pub then_interval: [f64; 2],
    /// B now over B then, as far as A stayed what it was.
    pub ratio: f64,
    /// Its interval: as wide as both together, which misses in fewer than 10 of 100.
    pub interval: [f64; 2],
    /// Judgement of the difference.
    pub verdict: Verdict,
}

impl Against {
    /// B over A then and now, with the intervals of both; nothing where one is no number.
    pub(crate) fn of(
        [then, now]: [f64; 2],
        [then_interval, interval]: [[f64; 2]; 2],
        detect: f64,
    ) -> Option<Self> {
        let apart = (now / then).ln();
        let ends = [interval[0] / then_interval[1], interval[1] / then_interval[0]];
        let verdict = Verdict::of(apart, ends.map(f64::ln), detect);
        let known = apart.is_finite() && ends.iter().all(|end| *end > 0.0 && end.is_finite());
        known.then(|| Against { then, then_interval, ratio: apart.exp(), interval: ends, verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_feels_too_is_no_change() {
        let of = |now, interval| Against::of([1.10, now], [[1.09, 1.11], interval], 0.02);
        let same = of(1.10, [1.095, 1.105]).unwrap();
        assert!((same.ratio - 1.0).abs() < 1e-9 && same.verdict == Verdict::Same, "{same:?}");
        assert_eq!(of(1.3, [1.28, 1.32]).unwrap().verdict, Verdict::Slower);
        assert!(of(f64::NAN, [1.0, 1.1]).is_none());
    }
}
