//! What a run leaves to the one after it.
//!
//! The second run of a pair comes after the other side. The first comes after whichever was
//! second in the pair before, and that was drawn:
//!
//! ```text
//!  … A B │ A B     A after B    ┐ if B leaves caches, files or a clock behind that cost the next
//!  … B A │ A B     A after A    ┘ run more, A costs more in the upper line
//! ```
//!
//! So first runs after B are held against first runs after A, each divided by its pair's other
//! run, whose predecessor is always the same. A difference between the commands themselves is the
//! same in both and drops out.

use kumiki_measure::stats::distance::distance;
use kumiki_measure::stats::{describe, mann_whitney};
use serde::{Deserialize, Serialize};

use crate::measure::Measure;
use crate::process::Sample;

/// A difference that chance makes this rarely is one; each of two measures has the half of it.
const CHANCE: f64 = 0.01;

/// First runs after each side, at least: of fewer nothing is known.
const LEAST: usize = 6;

/// Pairs that are looked at, the last ones.
const MOST: usize = 400;

/// Cost of a run after B beside that after A.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaves {
    /// Measure in which it shows most.
    pub by: Measure,
    /// Cost after B over cost after A.
    pub ratio: f64,
    /// Its interval, of 99.5 %.
    pub interval: [f64; 2],
    /// Beyond doubt one leaves more behind than the other.
    pub differs: bool,
}

impl Leaves {
    /// Nothing of few pairs.
    pub(crate) fn of(pairs: &[&[Sample; 2]]) -> Option<Self> {
        let all = [Measure::Wall, Measure::Cpu].into_iter().filter_map(|by| leaves(by, pairs));
        // What is sure goes before what is not, and what is narrow before what is wide.
        all.min_by(|a, b| {
            let width = |of: &Leaves| (of.interval[1] / of.interval[0]).ln();
            b.differs.cmp(&a.differs).then(width(a).total_cmp(&width(b)))
        })
    }
}

fn leaves(by: Measure, pairs: &[&[Sample; 2]]) -> Option<Leaves> {
    let pairs = &pairs[pairs.len().saturating_sub(MOST)..];
    // By whose first run it is: those after A, those after B.
    let mut after: [[Vec<f64>; 2]; 2] = Default::default();
    for window in pairs.windows(2) {
        let [before, pair] = [window[0], window[1]];
        let side = usize::from(!pair[0].first);
        let second = usize::from(before[0].first);
        let (first, other) = (by.of(&pair[side])?, by.of(&pair[1 - side])?);
        after[side][second].push((first / other).ln());
    }
    // The commands' own difference, and what the second run finds, is each side's middle.
    let mut both: [Vec<f64>; 2] = Default::default();
    for side in &after {
        let middle = describe::median_of(side.iter().flatten().copied());
        for (to, own) in both.iter_mut().zip(side) {
            to.extend(own.iter().map(|value| value - middle));
        }
    }
    let [of_a, of_b] = &both;
    if of_a.len().min(of_b.len()) < LEAST {
        return None;
    }
    let p = mann_whitney::p_value(of_a, of_b);
    let apart = distance(of_a, of_b, CHANCE / 2.0)?;
    let [low, high] = apart.interval?;
    Some(Leaves {
        by,
        ratio: apart.middle.exp(),
        interval: [low.exp(), high.exp()],
        differs: p < CHANCE / 2.0 && (low > 0.0 || high < 0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs whose B costs `ratio` and leaves the next run `harm` more.
    fn pairs(rng: &mut fastrand::Rng, n: usize, ratio: f64, harm: f64) -> Vec<[Sample; 2]> {
        let mut before = 0;
        let mut run = |side: usize, first: bool, noise: f64| {
            let cost = [1.0, ratio][side] * [1.0, harm][before] * noise;
            before = side;
            let (wall_ns, user_ns) = (1e7 * cost, 0.9e7 * cost);
            Sample { wall_ns, user_ns, first, ..Sample::none() }
        };
        let pair = |_| {
            let turned = usize::from(rng.bool());
            let mut noise = || 1.0 + 0.03 * (rng.f64() - 0.5);
            let first = run(turned, true, noise());
            let second = run(1 - turned, false, noise());
            if turned == 1 { [second, first] } else { [first, second] }
        };
        (0..n).map(pair).collect()
    }

    fn of(rng: &mut fastrand::Rng, n: usize, ratio: f64, harm: f64) -> Option<Leaves> {
        Leaves::of(&pairs(rng, n, ratio, harm).iter().collect::<Vec<_>>())
    }

    #[test]
    fn what_b_leaves_is_told_from_what_b_costs() {
        let mut rng = fastrand::Rng::with_seed(5);
        let spoils = of(&mut rng, 60, 1.0, 1.05).unwrap();
        assert!(spoils.differs && (spoils.ratio - 1.05).abs() < 0.015, "{spoils:?}");
        let slower = of(&mut rng, 60, 1.2, 1.0).unwrap();
        assert!(!slower.differs && (slower.ratio - 1.0).abs() < 0.015, "{slower:?}");
        assert_eq!(of(&mut rng, 8, 1.0, 2.0), None, "of few pairs nothing is known");
    }

    #[test]
    fn where_nothing_is_left_hardly_anything_is_said() {
        let mut rng = fastrand::Rng::with_seed(6);
        let said = (0..200).filter(|_| of(&mut rng, 40, 1.1, 1.0).is_some_and(|l| l.differs));
        let said = said.count();
        assert!(said <= 6, "{said} of 200");
    }
}
