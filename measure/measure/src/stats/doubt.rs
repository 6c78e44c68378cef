//! Errors that come from few values, and so are not well known themselves.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::describe;

/// The variance of a median over that of a mean, for values that are normal.
pub const MEDIAN: f64 = std::f64::consts::FRAC_PI_2;

/// [`describe::qn`] knows as much of a spread as so many times as many values would
/// otherwise: found by simulating what a median is divided by it, of 3 to 20 normal values, at
/// its 99th and 99.9th percentile.
const KNOWS: f64 = 0.55;

/// A variance, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variance {
    /// The square of a standard error; NaN where nothing is known of it.
    pub variance: f64,
    /// Degrees of freedom of `variance`.
    pub freedom: f64,
}

impl Variance {
    /// A standard error that is known.
    pub fn known(error: f64) -> Self {
        Variance { variance: error.powi(2), freedom: f64::INFINITY }
    }

    /// Doubt of the median of these, by a deviation that values far off do not move; NaN of one.
    pub fn of_median(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let freedom = KNOWS * (n - 1.0);
        if n < 2.0 {
            return Variance { variance: f64::NAN, freedom };
        }
        Variance { variance: MEDIAN * describe::qn(values).powi(2) / n, freedom }
    }

    /// Doubt of a sum of the things that these belong to (Welch and Satterthwaite).
    pub fn sum(parts: impl IntoIterator<Item = Self> + Clone) -> Self {
        let variance: f64 = parts.clone().into_iter().map(|part| part.variance).sum();
        let squares: f64 = parts.into_iter().map(|part| part.variance.powi(2) / part.freedom).sum();
        let freedom = if squares > 0.0 { variance.powi(2) / squares } else { f64::INFINITY };
        Variance { variance, freedom }
    }

    /// The standard error.
    pub fn error(self) -> f64 {
        self.variance.sqrt()
    }

    /// Standard errors that are exceeded upwards with probability `1 − probability`: Student's t,
    /// or the normal distribution where much is known.
    pub fn quantile(self, probability: f64) -> f64 {
        /// Degrees of freedom from which on it is the normal distribution.
        const MANY: f64 = 1000.0;
        if self.freedom >= MANY {
            return Normal::standard().inverse_cdf(probability);
        }
        let t = StudentsT::new(0.0, 1.0, self.freedom.max(1.0));
        t.map_or(f64::INFINITY, |t| t.inverse_cdf(probability))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_few_values_reaches_further() {
        let few = Variance { variance: 1.0, freedom: 4.0 };
        assert!((few.quantile(0.975) - 2.776).abs() < 0.001);
        assert!((Variance::known(1.0).quantile(0.975) - 1.960).abs() < 0.001);
        let both = Variance::sum([few, few]);
        assert_eq!((both.variance, both.freedom), (2.0, 8.0));
        let sure = Variance::sum([few, Variance::known(100.0)]);
        assert!(sure.freedom > 1000.0, "{sure:?}");
        assert!(Variance::of_median(&[1.0]).variance.is_nan());
        assert_eq!(Variance::sum([Variance::of_median(&[1.0, 1.0, 1.0])]).freedom, f64::INFINITY);
    }
}
