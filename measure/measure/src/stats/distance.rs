//! How far two sets of values are apart, by the ranks of their distances.
//!
//! The estimate is the middle of all distances (Hodges and Lehmann, *Estimates of Location Based on
//! Rank Tests*, 1963). Its interval ends at the distances whose rank the Mann–Whitney test would just
//! refuse (Moses, 1953): the truth lies below the distance of rank k where U is at most k.

use statrs::distribution::{ContinuousCDF, Normal};

use super::{describe, mann_whitney};

/// Distance of one set above another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// The middle of all distances between a value of the one and one of the other.
    pub middle: f64,
    /// Interval that misses as rarely as was asked; nothing where there are too few values for that.
    pub interval: Option<[f64; 2]>,
}

/// Distance of `b` above `a`, with an interval that misses in at most the share `misses`. Values that
/// are no number are left out; nothing where a side has none.
pub fn distance(a: &[f64], b: &[f64], misses: f64) -> Option<Distance> {
    let finite = |side: &[f64]| -> Vec<f64> {
        side.iter().copied().filter(|value| value.is_finite()).collect()
    };
    let (a, b) = (finite(a), finite(b));
    let apart = describe::sorted(b.iter().flat_map(|b| a.iter().map(move |a| b - a)));
    let last = apart.len().checked_sub(1)?;
    let interval = rank(a.len(), b.len(), misses).map(|rank| [apart[rank], apart[last - rank]]);
    Some(Distance { middle: describe::median(&apart), interval })
}

/// The largest rank, from 0, of a distance that lies above the truth in at most half of `misses`;
/// nothing where even the least distance does more often.
fn rank(n: usize, m: usize, misses: f64) -> Option<usize> {
    if n + m > mann_whitney::EXACT {
        let (n, m) = (n as f64, m as f64);
        let z = Normal::standard().inverse_cdf(1.0 - misses / 2.0);
        let rank = n * m / 2.0 - z * (n * m * (n + m + 1.0) / 12.0).sqrt() - 0.5;
        let few = mann_whitney::smallest_p(n as usize, m as usize) > misses;
        return (rank >= 0.0 && !few).then_some(rank as usize);
    }
    let ways = mann_whitney::ways_of_u(n, m);
    let all: f64 = ways.iter().sum();
    let below = ways.iter().scan(0.0, |below, ways| {
        *below += ways;
        Some(*below)
    });
    below.take_while(|below| 2.0 * below / all <= misses).count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::bootstrap::normal;

    /// Critical values of U at 5 %, two-sided, as tables of the test have them.
    #[test]
    fn ranks_are_those_of_tables() {
        let of = |n, m| rank(n, m, 0.05);
        assert_eq!([of(3, 3), of(4, 4), of(5, 5), of(6, 6)], [None, Some(0), Some(2), Some(5)]);
        assert_eq!([of(8, 8), of(10, 10), of(20, 20)], [13, 23, 127].map(Some));
        assert_eq!([of(4, 10), of(10, 4), of(2, 8)], [5, 5, 0].map(Some));
        // Beyond that by the normal distribution: 317 in an exact table.
        assert!(of(30, 30).is_some_and(|rank| (315..=317).contains(&rank)), "{:?}", of(30, 30));
        assert_eq!(rank(1, 60, 0.01), None);
    }

    #[test]
    fn few_values_miss_as_rarely_as_many() {
        let mut rng = fastrand::Rng::with_seed(19);
        for (n, m) in [(4, 4), (4, 5), (5, 5), (6, 7), (25, 30)] {
            let missed = (0..4000).filter(|_| {
                let mut draw =
                    |n: usize, by: f64| (0..n).map(|_| by + normal(&mut rng)).collect::<Vec<_>>();
                let found = distance(&draw(n, 0.0), &draw(m, 3.0), 0.05).unwrap();
                let [low, high] = found.interval.unwrap();
                !(low..=high).contains(&3.0)
            });
            let missed = missed.count();
            // 5 % of 4,000, and two and a half standard deviations.
            assert!(missed <= 234, "{n} and {m}: {missed}");
        }
    }

    #[test]
    fn what_is_no_number_is_no_value() {
        let a = [1.0, f64::NAN, 1.0, 1.0, 1.0, f64::NEG_INFINITY];
        let b = [2.0, 2.0, f64::NAN, 2.0, 2.0, f64::INFINITY];
        let found = distance(&a, &b, 0.05).unwrap();
        assert_eq!(found, Distance { middle: 1.0, interval: Some([1.0; 2]) });
        assert_eq!(distance(&[f64::NAN], &[1.0], 0.05), None);
        let one = distance(&[1.0], &[2.0], 0.05).unwrap();
        assert_eq!((one.middle, one.interval), (1.0, None));
    }
}
