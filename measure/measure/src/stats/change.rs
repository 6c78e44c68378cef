//! Where a series changed its level, and stayed.
//!
//! *E-divisive means* (Matteson and James, *A Nonparametric Approach for Multiple Change
//! Point Analysis of Multivariate Data*, 2014; used on performance results by Daly and others,
//! *The Use of Change Point Detection to Identify Software Performance Regressions*, 2020):
//! a series is cut where both sides are furthest apart by the energy distance, the cut
//! stands if a series in any order would be cut as clearly in few cases only, and each
//! side is cut again. It asks nothing of the distribution, and one wild value is no level.

use fastrand::Rng;

/// Values on each side of a cut, at least: of fewer nothing is known.
const LEAST: usize = 3;

/// Orders that are tried.
const ORDERS: usize = 499;

/// A cut that this share of the orders has as clear a one as is chance.
const CHANCE: f64 = 0.01;

/// Seed of the permutations: a series has the same cuts each time.
const SEED: u64 = 0x6b75_6d69_6b69;

/// Places at which values begin that differ from those before, in ascending order.
pub fn points(values: &[f64]) -> Vec<usize> {
    let mut points = Vec::new();
    let mut rng = Rng::with_seed(SEED);
    cut(values, 0, &mut rng, &mut points);
    points.sort_unstable();
    points
}

fn cut(values: &[f64], offset: usize, rng: &mut Rng, points: &mut Vec<usize>) {
    let Some((at, clear)) = clearest(values) else { return };
    let mut order = values.to_vec();
    let as_clear = (0..ORDERS)
        .filter(|_| {
            rng.shuffle(&mut order);
            clearest(&order).is_some_and(|(_, other)| other >= clear)
        })
        .count();
    if (as_clear + 1) as f64 / (ORDERS + 1) as f64 > CHANCE {
        return;
    }
    points.push(offset + at);
    cut(&values[..at], offset, rng, points);
    cut(&values[at..], offset + at, rng, points);
}

/// The cut whose sides are furthest apart, and how far.
fn clearest(values: &[f64]) -> Option<(usize, f64)> {
    let cuts = LEAST..=values.len().checked_sub(LEAST)?;
    cuts.map(|at| (at, apart(&values[..at], &values[at..])))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// The energy distance, weighted by the lengths.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    let mean = |of: &[f64], to: &[f64]| {
        let sum: f64 = of.iter().flat_map(|x| to.iter().map(move |y| (x - y).abs())).sum();
        sum / (of.len() * to.len()) as f64
    };
    let (n, m) = (a.len() as f64, b.len() as f64);
    n * m / (n + m) * (2.0 * mean(a, b) - mean(a, a) - mean(b, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::bootstrap::normal;

    fn noisy(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut rng = Rng::with_seed(seed);
        let each = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
        each.map(|level| level + 0.02 * normal(&mut rng)).collect()
    }

    #[test]
    fn levels_are_found_where_they_begin() {
        assert_eq!(points(&noisy(&[(10, 1.0), (8, 1.2)], 1)), [10]);
        assert_eq!(points(&noisy(&[(8, 1.0), (8, 1.2), (8, 0.9)], 2)), [8, 16]);
    }

    #[test]
    fn noise_and_one_wild_value_are_no_change() {
        // One in a hundred, as is asked for.
        let found = (0..60).filter(|seed| !points(&noisy(&[(15, 1.0)], *seed)).is_empty()).count();
        assert!(found <= 3, "{found} of 60");
        let mut wild = noisy(&[(12, 1.0)], 3);
        wild[6] = 9.0;
        assert_eq!(points(&wild), [] as [usize; 0]);
        assert_eq!(points(&[1.0, 1.0, 2.0, 2.0]), [] as [usize; 0], "too few to tell");
    }
}
