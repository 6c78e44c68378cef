//! A verdict on sides that were run in blocks.

use kumiki_measure::stats::{describe, mann_whitney};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

use super::Runs;
use crate::sequence::MISSES;
use crate::verdict::Verdict;

/// Comparison of one benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocks {
    /// The benchmark; nothing where a side is one command.
    pub name: String,
    /// Processes of A and of B.
    pub processes: [usize; 2],
    /// B over A, by the middle of all pairs of processes.
    pub ratio: f64,
    /// Its interval of 95 %; nothing where there are too few processes to say anything.
    pub interval: Option<[f64; 2]>,
    /// Two-sided p of the Mann–Whitney test, shared among all benchmarks.
    pub p: f64,
    /// Verdict. That it can be given at all takes four processes a side.
    pub verdict: Verdict,
}

/// Compares two sides, benchmark by benchmark, those that both have. Together they call something
/// slower in [`MISSES`] of comparisons at most, if nothing moved the machine between the sides.
pub fn blocks(a: &Runs, b: &Runs, detect: f64) -> Vec<Blocks> {
    let both: Vec<(&String, &Vec<f64>, &Vec<f64>)> =
        a.iter().filter_map(|(name, of_a)| Some((name, of_a, b.get(name)?))).collect();
    let tests = both.len().max(1) as f64;
    both.iter().map(|(name, a, b)| one(name, a, b, detect, tests)).collect()
}

fn one(name: &str, a: &[f64], b: &[f64], detect: f64, tests: f64) -> Blocks {
    let ln = |times: &[f64]| times.iter().map(|ns| ns.ln()).collect::<Vec<_>>();
    let (a, b) = (ln(a), ln(b));
    let apart = describe::sorted(b.iter().flat_map(|b| a.iter().map(move |a| b - a)));
    let middle = describe::median(&apart);
    // So few that the furthest order is no surprise: their p says nothing.
    let tells = mann_whitney::smallest_p(a.len(), b.len()) * tests < MISSES;
    let p = (mann_whitney::p_value(&a, &b) * tests).min(1.0);
    let interval = tells.then(|| interval(&apart, a.len(), b.len(), MISSES / tests)).flatten();
    let sided = |ends: [f64; 2]| match p < MISSES {
        true => ends,
        // The test decides, of ties and few processes it is the more exact.
        false => [ends[0].min(0.0), ends[1].max(0.0)],
    };
    let ends = interval.map(sided);
    let verdict = ends.map_or(Verdict::CannotSay, |ends| Verdict::of(middle, ends, detect));
    Blocks {
        name: name.to_owned(),
        processes: [a.len(), b.len()],
        ratio: middle.exp(),
        interval: ends.map(|ends| ends.map(f64::exp)),
        p,
        verdict,
    }
}

/// Interval of the shift by the ranks of all distances (Moses, 1953).
fn interval(apart: &[f64], n: usize, m: usize, misses: f64) -> Option<[f64; 2]> {
    let (n, m) = (n as f64, m as f64);
    let z = Normal::standard().inverse_cdf(1.0 - misses / 2.0);
    let rank = (n * m / 2.0 - z * (n * m * (n + m + 1.0) / 12.0).sqrt()).floor().max(0.0) as usize;
    Some([*apart.get(rank)?, *apart.get(apart.len().checked_sub(1 + rank)?)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(times: &[f64]) -> Runs {
        Runs::from([("x".to_owned(), times.to_vec())])
    }

    fn verdict(a: &[f64], b: &[f64]) -> (Verdict, Option<[f64; 2]>) {
        let all = blocks(&side(a), &side(b), 0.02);
        (all[0].verdict, all[0].interval)
    }

    #[test]
    fn processes_decide_and_one_of_each_side_does_not() {
        let near = |middle: f64| [0.999, 1.001, 1.0, 1.002, 0.998, 1.0005].map(|n| n * middle);
        assert_eq!(verdict(&near(100.0), &near(110.0)).0, Verdict::Slower);
        assert_eq!(verdict(&near(110.0), &near(100.0)).0, Verdict::Faster);
        assert_eq!(verdict(&near(100.0), &near(100.0)).0, Verdict::Same);
        // However many loops it had, a process is one.
        assert_eq!(verdict(&[100.0], &[200.0]), (Verdict::CannotSay, None));
        assert_eq!(verdict(&[100.0; 3], &[200.0; 3]), (Verdict::CannotSay, None));
        assert_eq!(verdict(&[100.0; 4], &[200.0; 4]).0, Verdict::Slower);
        let other = Runs::from([("y".to_owned(), vec![1.0; 9])]);
        assert_eq!(blocks(&side(&[1.0; 9]), &other, 0.02), [], "they have none in common");
    }

    #[test]
    fn equal_sides_are_called_slower_as_rarely_as_promised() {
        let mut rng = fastrand::Rng::with_seed(41);
        let slower = (0..400).filter(|_| {
            let mut draw = || {
                Runs::from([0, 1, 2].map(|at| {
                    (format!("x{at}"), (0..8).map(|_| 100.0 * (1.0 + 0.1 * rng.f64())).collect())
                }))
            };
            blocks(&draw(), &draw(), 0.0).iter().any(|one| one.verdict == Verdict::Slower)
        });
        let slower = slower.count();
        // 2.5 % on this side, and two and a half standard deviations.
        assert!(slower <= 18, "{slower} of 400");
    }
}
