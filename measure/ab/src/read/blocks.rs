//! A verdict on sides that were run in blocks.

use kumiki_measure::stats::distance::distance;
use kumiki_measure::stats::mann_whitney;
use serde::Serialize;

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
    // A process that took no time was not timed.
    let ln = |times: &[f64]| -> Vec<f64> {
        times.iter().map(|ns| ns.ln()).filter(|ln| ln.is_finite()).collect()
    };
    let (a, b) = (ln(a), ln(b));
    let p = (mann_whitney::p_value(&a, &b) * tests).min(1.0);
    let apart = distance(&a, &b, MISSES / tests);
    let middle = apart.map_or(f64::NAN, |apart| apart.middle);
    let interval = apart.and_then(|apart| apart.interval);
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
        // Four and four tell by the furthest of their distances, not by the second.
        let four = verdict(&[100.0, 101.0, 102.0, 103.0], &[210.0, 212.0, 214.0, 216.0]).1.unwrap();
        assert!(
            (four[0] - 210.0 / 103.0).abs() < 1e-9 && (four[1] - 2.16).abs() < 1e-9,
            "{four:?}"
        );
        // What was not timed is no process.
        let untimed = [0.0, f64::NAN, 100.0, 100.0];
        assert_eq!(verdict(&untimed, &[200.0; 5]), (Verdict::CannotSay, None));
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
