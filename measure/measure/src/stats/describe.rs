//! Order statistics: what a set of samples looks like.

/// A scaled median absolute deviation equals the standard deviation of a
/// normal distribution: 1 / Φ⁻¹(¾).
const MAD_SCALE: f64 = 1.4826;

/// Factor for the mean absolute deviation: √(π/2).
const MEAN_DEVIATION_SCALE: f64 = 1.2533;

/// A sample further from the median than this many scaled MADs is an outlier.
pub const OUTLIER_MADS: f64 = 5.0;

/// The values in ascending order (NaN last).
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Quantile `q` (0 to 1) of ascending values, interpolated linearly between
/// the two nearest (type 7 of Hyndman and Fan, the default of R and NumPy).
/// NaN if there are no values.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = q.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    // Equal neighbours must not be rounded apart.
    if below == above { below } else { below + (above - below) * position.fract() }
}

/// Median of ascending values; NaN if there are none.
pub fn median(sorted: &[f64]) -> f64 {
    quantile(sorted, 0.5)
}

/// Median of values in any order; NaN if there are none.
pub fn median_of(values: impl IntoIterator<Item = f64>) -> f64 {
    median(&sorted(values))
}

/// Median absolute deviation from `center`, not scaled; NaN without values.
pub fn mad(values: &[f64], center: f64) -> f64 {
    median_of(values.iter().map(|v| (v - center).abs()))
}

/// Standard deviation by the distances between any two values: half of the values may be
/// anything, and it knows nearly as much as the sum of squares where none is (Croux and
/// Rousseeuw, *Time-Efficient Algorithms for Two Highly Robust Estimators of Scale*, 1992).
/// NaN of fewer than two.
pub fn qn(values: &[f64]) -> f64 {
    /// Factor from the quarter of all distances to the standard deviation, for a normal
    /// distribution.
    const SCALE: f64 = 2.2219;
    /// Factors by which that is off for two to nine values.
    const FEW: [f64; 8] = [0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872];
    let n = values.len();
    if n < 2 {
        return f64::NAN;
    }
    let distances = (0..n).flat_map(|i| (0..i).map(move |j| (values[i] - values[j]).abs()));
    let half = n / 2 + 1;
    let quarter = sorted(distances)[half * (half - 1) / 2 - 1];
    let many = n as f64 / (n as f64 + if n % 2 == 0 { 3.8 } else { 1.4 });
    SCALE * FEW.get(n - 2).copied().unwrap_or(many) * quarter
}

/// Number of values further than [`OUTLIER_MADS`] scaled MADs from `center`.
///
/// Where more than half of the values are equal the MAD is 0 and every other
/// value would count; then the mean absolute deviation is the scale (Iglewicz
/// and Hoaglin, *How to Detect and Handle Outliers*, 1993).
pub fn outliers(values: &[f64], center: f64, mad: f64) -> usize {
    let scale = if mad > 0.0 {
        MAD_SCALE * mad
    } else {
        let deviations = values.iter().map(|v| (v - center).abs());
        MEAN_DEVIATION_SCALE * deviations.sum::<f64>() / values.len() as f64
    };
    values.iter().filter(|&v| (v - center).abs() > OUTLIER_MADS * scale).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_deviation_by_distances_is_that_of_normal_values_and_half_may_be_anything() {
        let mut rng = fastrand::Rng::with_seed(6);
        for n in [2, 3, 5, 8, 12, 25] {
            let qns = (0..4000).map(|_| {
                let values: Vec<f64> =
                    (0..n).map(|_| crate::stats::bootstrap::normal(&mut rng)).collect();
                qn(&values)
            });
            let mean = qns.sum::<f64>() / 4000.0;
            assert!((mean - 1.0).abs() < 0.06, "{n}: {mean}");
        }
        let wild = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 50.0, 80.0, 9.0];
        assert!(qn(&wild) < 0.5, "{}", qn(&wild));
        assert!(qn(&[1.0]).is_nan() && qn(&[2.0, 2.0, 2.0]) == 0.0);
    }

    #[test]
    fn quantiles_are_those_of_r() {
        // R: quantile(c(1, 2, 4, 8, 16), c(.5, .25, .99, .1), type = 7)
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        assert_eq!(median(&values), 4.0);
        assert_eq!(quantile(&values, 0.25), 2.0);
        assert!((quantile(&values, 0.99) - 15.68).abs() < 1e-12);
        assert!((quantile(&values, 0.1) - 1.4).abs() < 1e-12);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn mad_is_not_moved_by_one_wild_value() {
        let values = [9.0, 10.0, 11.0, 12.0, 1e9];
        assert_eq!(mad(&values, 11.0), 1.0);
        assert_eq!(outliers(&values, 11.0, 1.0), 1);
    }

    #[test]
    fn equal_values_make_no_outlier_of_a_neighbour() {
        // A coarse clock: 87 or 88 and nothing between.
        let mut values = vec![87.0; 60];
        values.extend([88.0; 20]);
        assert_eq!(mad(&values, 87.0), 0.0);
        assert_eq!(outliers(&values, 87.0, 0.0), 0);
        values.push(500.0);
        assert_eq!(outliers(&values, 87.0, 0.0), 1);
        assert_eq!(outliers(&[5.0; 9], 5.0, 0.0), 0);
    }

    proptest! {
        #[test]
        fn quantiles_rise_and_stay_within(values in prop::collection::vec(-1e9..1e9f64, 1..200)) {
            let sorted = sorted(values);
            let at: Vec<f64> = (0..=20).map(|i| quantile(&sorted, f64::from(i) / 20.0)).collect();
            prop_assert!(at.is_sorted());
            prop_assert_eq!(at[0], sorted[0]);
            prop_assert_eq!(at[20], sorted[sorted.len() - 1]);
        }
    }
}
