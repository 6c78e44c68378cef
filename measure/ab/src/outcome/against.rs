//! A comparison beside one that was kept.
//!
//! Times of another day cannot be paired with those of today: the machine is not the same
//! any more. Ratios can: both comparisons ran the same A, in turns with their B, and
//! whatever the machine is like now, A feels it, too. So what is compared is B over A now
//! with B over A then.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::outcome::Outcome;
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
    /// Checks that `now` may be compared with the outcome kept in `path`.
    ///
    /// # Errors
    /// It was made on another machine, or of another A.
    pub fn check(kept: &Outcome, now: &Outcome, path: &Path) -> Result<()> {
        let failed = |why: String| Error::File { path: path.to_owned(), why };
        let (there, here) = (&kept.machine, &now.machine);
        if (&there.cpu_model, there.cpus) != (&here.cpu_model, here.cpus) {
            return Err(failed(format!(
                "of another machine ({}, {} cpus; here {}, {} cpus): how B compares to A there \
                 says nothing of here; compare both on one",
                there.cpu_model, there.cpus, here.cpu_model, here.cpus
            )));
        }
        if kept.a != now.a {
            return Err(failed(format!(
                "its A was {}, here it is {}: they have no command in common",
                kept.a.command(),
                now.a.command()
            )));
        }
        if kept.interval.is_none() || kept.ratio.is_none() {
            return Err(failed(
                "it has no interval: too few of its pairs count; keep one with more".to_owned(),
            ));
        }
        Ok(())
    }

    /// Nothing where one of them has no interval.
    pub fn of(kept: &Outcome, now: &Outcome) -> Option<Self> {
        let (then, ratio) = (kept.ratio?, now.ratio?);
        let (then_interval, interval) = (kept.interval?, now.interval?);
        let apart = (ratio / then).ln();
        let ends = [interval[0] / then_interval[1], interval[1] / then_interval[0]];
        let verdict = Verdict::of(apart, ends.map(f64::ln), now.detect);
        Some(Against { then, then_interval, ratio: apart.exp(), interval: ends, verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Side;

    fn outcome(ratio: f64, interval: Option<[f64; 2]>) -> Outcome {
        Outcome {
            ratio: Some(ratio),
            interval,
            a: Side::new(["true"]),
            detect: 0.02,
            ..Outcome::none()
        }
    }

    #[test]
    fn what_a_feels_too_is_no_change() {
        let kept = outcome(1.10, Some([1.09, 1.11]));
        let same = Against::of(&kept, &outcome(1.10, Some([1.095, 1.105]))).unwrap();
        assert!((same.ratio - 1.0).abs() < 1e-9 && same.verdict == Verdict::Same, "{same:?}");
        let slower = Against::of(&kept, &outcome(1.3, Some([1.28, 1.32]))).unwrap();
        assert_eq!(slower.verdict, Verdict::Slower);
        assert!(Against::of(&kept, &outcome(1.1, None)).is_none());
    }

    #[test]
    fn another_machine_or_another_a_is_refused() {
        let (kept, path) = (outcome(1.1, Some([1.0, 1.2])), Path::new("kept.json"));
        let mut now = kept.clone();
        assert!(Against::check(&kept, &now, path).is_ok());
        now.machine.cpu_model = "Other".to_owned();
        let error = Against::check(&kept, &now, path).unwrap_err().to_string();
        assert!(error.contains("another machine") && error.contains("Other"), "{error}");
        now = Outcome { a: Side::new(["false"]), ..kept.clone() };
        let error = Against::check(&kept, &now, path).unwrap_err().to_string();
        assert!(error.contains("false") && error.contains("kept.json"), "{error}");
        let error = Against::check(&outcome(1.1, None), &kept, path).unwrap_err().to_string();
        assert!(error.contains("no interval"), "{error}");
    }
}
