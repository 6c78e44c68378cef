//! The Mann–Whitney U test: do two sets of values come from one distribution?
//!
//! It uses ranks only, so that neither skew nor a wild value decides.

use statrs::distribution::{ContinuousCDF, Normal};

/// Up to this many values on both sides together, p is exact.
pub(super) const EXACT: usize = 40;

/// Two-sided p: how often values that do not differ would separate at least
/// as far. 1 if a side is empty; values that are no number are left out.
///
/// Exact over all ways to split the ranks, ties included, for up to 40 values
/// in all; the normal approximation with corrections for ties and continuity
/// beyond. (statrs 0.19 has this test, but its exact p is the complement where
/// the first side is the smaller: 1 for values that are wholly apart.)
///
/// The smallest p that `n` and `m` values can give is 2 / C(n+m, n): 0.1 for
/// three against three, 0.029 for four against four.
pub fn p_value(a: &[f64], b: &[f64]) -> f64 {
    let number = |side: &[f64]| -> Vec<f64> {
        side.iter().copied().filter(|value| !value.is_nan()).collect()
    };
    let (a, b) = (&number(a), &number(b));
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let (ranks, ties) = double_ranks(a, b);
    let observed: usize = ranks[..a.len()].iter().sum();
    if ranks.len() <= EXACT {
        exact(&ranks, a.len(), observed)
    } else {
        approximate(a.len() as f64, b.len() as f64, observed as f64 / 2.0, ties)
    }
}

/// Twice the rank of every value, those of `a` first (twice, because equal
/// values share the mean of their ranks), and Σ(t³−t) over groups of t ties.
fn double_ranks(a: &[f64], b: &[f64]) -> (Vec<usize>, f64) {
    let values: Vec<f64> = a.iter().chain(b).copied().collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0; values.len()];
    let (mut before, mut ties) = (0, 0.0);
    for group in order.chunk_by(|&i, &j| values[i] == values[j]) {
        for &i in group {
            ranks[i] = 2 * before + group.len() + 1;
        }
        before += group.len();
        ties += (group.len() as f64).powi(3) - group.len() as f64;
    }
    (ranks, ties)
}

/// Share of the choices of `n` ranks whose sum is at least as far from the middle as the observed one.
fn exact(ranks: &[usize], n: usize, observed: usize) -> f64 {
    let all: usize = ranks.iter().sum();
    let ways = ways(ranks, n);
    // The mean of the sum is n · all / N; times N to stay in integers.
    let distance = |sum: usize| (sum * ranks.len()).abs_diff(n * all);
    let as_far = ways.iter().enumerate().filter(|&(sum, _)| distance(sum) >= distance(observed));
    as_far.map(|(_, ways)| ways).sum::<f64>() / ways.iter().sum::<f64>()
}

/// Number of ways to choose `n` of these ranks, by their sum.
fn ways(ranks: &[usize], n: usize) -> Vec<f64> {
    let all: usize = ranks.iter().sum();
    // ways[k][s]: choices of k ranks with sum s. At most C(40, 20) ≈ 1.4e11,
    // which an f64 counts exactly.
    let mut ways = vec![vec![0.0; all + 1]; n + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for k in (1..=n).rev() {
            for sum in rank..=all {
                ways[k][sum] += ways[k - 1][sum - rank];
            }
        }
    }
    ways.swap_remove(n)
}

/// Number of orders of `n` and `m` values without ties, by U: from 0 to `n` · `m`.
pub(super) fn ways_of_u(n: usize, m: usize) -> Vec<f64> {
    let ranks: Vec<usize> = (1..=n + m).collect();
    ways(&ranks, n).split_off(n * (n + 1) / 2).into_iter().take(n * m + 1).collect()
}

fn approximate(n: f64, m: f64, rank_sum: f64, ties: f64) -> f64 {
    let u = rank_sum - n * (n + 1.0) / 2.0;
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    2.0 * Normal::standard().cdf(-distance / variance.sqrt())
}

/// The smallest p that `n` against `m` values can give.
pub fn smallest_p(n: usize, m: usize) -> f64 {
    let choices = (1..=n).fold(1.0, |choices, k| choices * (m + k) as f64 / k as f64);
    (2.0 / choices).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-4
    }

    #[test]
    fn agrees_with_scipy() {
        // scipy.stats.mannwhitneyu, exact: its own example.
        let p = p_value(&[19.0, 22.0, 16.0, 29.0, 24.0], &[20.0, 11.0, 17.0, 12.0]);
        assert!(close(p, 0.11111), "{p}");
        // Wholly apart, either way round: 2 / C(8, 4), 2 / C(9, 4).
        assert!(close(p_value(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]), 2.0 / 70.0));
        assert!(close(p_value(&[5.0, 6.0, 7.0, 8.0, 9.0], &[1.0, 2.0, 3.0, 4.0]), 2.0 / 126.0));
    }

    #[test]
    fn ties_are_exact_too() {
        // Sums of two of {1.5, 1.5, 3.5, 3.5}: 3 once, 5 four times, 7 once.
        assert!(close(p_value(&[1.0, 1.0], &[2.0, 2.0]), 2.0 / 6.0));
        assert_eq!(p_value(&[1.0; 5], &[1.0; 5]), 1.0);
        assert_eq!(p_value(&[1.0; 50], &[1.0; 50]), 1.0);
        assert_eq!(p_value(&[], &[1.0]), 1.0);
    }

    #[test]
    fn what_is_no_number_is_no_value() {
        // As the largest of all they would be far apart from anything.
        assert_eq!(p_value(&[f64::NAN; 9], &[1.0; 9]), 1.0);
        let some = [f64::NAN, 1.0, 2.0, 3.0, 4.0];
        assert!(close(p_value(&some, &[5.0, 6.0, f64::NAN, 7.0, 8.0]), 2.0 / 70.0));
    }

    #[test]
    fn approximation_meets_the_exact_value() {
        let a: Vec<f64> = (0..20).map(|i| f64::from(i) * 1.01).collect();
        let b: Vec<f64> = (0..20).map(|i| f64::from(i) + 4.4).collect();
        let (ranks, ties) = double_ranks(&a, &b);
        let sum: usize = ranks[..20].iter().sum();
        let (exact, near) =
            (exact(&ranks, 20, sum), approximate(20.0, 20.0, sum as f64 / 2.0, ties));
        assert!((exact - near).abs() < 0.05 * exact, "{exact} {near}");
    }

    #[test]
    fn three_visits_cannot_reach_five_percent() {
        assert!(close(smallest_p(3, 3), 0.1));
        assert!(close(smallest_p(4, 4), 2.0 / 70.0));
        assert!(close(p_value(&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0]), smallest_p(3, 3)));
    }

    proptest! {
        #[test]
        fn p_is_a_probability_and_has_no_direction(
            a in prop::collection::vec(0..20u8, 1..30),
            b in prop::collection::vec(0..20u8, 1..30),
        ) {
            let [a, b] = [a, b].map(|v| v.into_iter().map(f64::from).collect::<Vec<_>>());
            let p = p_value(&a, &b);
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!((p - p_value(&b, &a)).abs() < 1e-9);
        }
    }
}
