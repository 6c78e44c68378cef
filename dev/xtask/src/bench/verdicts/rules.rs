//! Rules by which others decide, on samples that are given, and shares of what is decided.

use kumiki_measure::stats::doubt::Variance;
use serde_json::Value;

use crate::bench::Row;

/// How often something was said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    said: usize,
    of: usize,
}

impl Share {
    pub(super) fn add(&mut self, said: bool) {
        self.said += usize::from(said);
        self.of += 1;
    }

    pub(super) fn all(&mut self, values: &Value, said: impl Fn(&Value) -> bool) {
        values.as_array().into_iter().flatten().for_each(|value| self.add(said(value)));
    }

    pub(super) fn row(self, case: &str, subject: &str) -> Row {
        let share = self.said as f64 / self.of.max(1) as f64;
        Row {
            case: case.to_owned(),
            subject: subject.to_owned(),
            n: self.of,
            unit: "share".to_owned(),
            median: share,
            p99: share,
            ci: wilson(share, self.of as f64),
            ..Row::default()
        }
    }
}

/// 95 % interval of a share (Wilson, 1927).
fn wilson(share: f64, n: f64) -> [f64; 2] {
    const Z: f64 = 1.96;
    let (middle, scale) = (share + Z * Z / (2.0 * n), 1.0 + Z * Z / n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    [(middle - half) / scale, (middle + half) / scale]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// As a reader of hyperfine's last line decides: B ÷ A, less its error by that of both
/// means, is above 1 (`scaled mean ± standard deviation`, src/benchmark/relative_speed.rs).
pub(super) fn hyperfine(a: &[f64], b: &[f64]) -> bool {
    let relative = |values: &[f64]| variance(values) / mean(values).powi(2);
    let ratio = mean(b) / mean(a);
    ratio - ratio * (relative(a) + relative(b)).sqrt() > 1.0
}

/// Welch's t-test at 5 %, two-sided; B above A.
pub(super) fn t_test(a: &[f64], b: &[f64]) -> bool {
    let of = |values: &[f64]| {
        let n = values.len() as f64;
        Variance { variance: variance(values) / n, freedom: n - 1.0 }
    };
    let both = Variance::sum([of(a), of(b)]);
    mean(b) - mean(a) > both.quantile(0.975) * both.error()
}

/// As criterion decides: the change of the mean is beyond chance at 5 %, and its interval of 95 %
/// lies beyond the noise threshold of 1 % (`report.rs`, `NoChange`, `WithinNoise`); both by normal
/// approximations of its bootstrap.
pub(super) fn criterion(a: &[f64], b: &[f64]) -> bool {
    const NOISE: f64 = 0.01;
    let part = |values: &[f64]| variance(values) / mean(values).powi(2) / values.len() as f64;
    let ratio = mean(b) / mean(a);
    let low = ratio - 1.96 * ratio * (part(a) + part(b)).sqrt();
    t_test(a, b) && low > 1.0 + NOISE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_find_what_is_far_apart_and_nothing_in_the_same() {
        let a: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i % 5)).collect();
        let b: Vec<f64> = a.iter().map(|v| v * 1.02).collect();
        let far: Vec<f64> = a.iter().map(|v| v * 2.0).collect();
        assert!(hyperfine(&a, &far) && t_test(&a, &far) && criterion(&a, &far));
        // 2 % are within the spread and beyond the error of the mean.
        assert!(!hyperfine(&a, &b) && t_test(&a, &b));
        assert!(!hyperfine(&a, &a) && !t_test(&a, &a) && !t_test(&far, &a));
        // Less than its noise is nothing to criterion.
        let hardly: Vec<f64> = a.iter().map(|v| v * 1.005).collect();
        assert!(!criterion(&a, &hardly) && !criterion(&a, &a));
    }

    #[test]
    fn a_share_has_an_interval() {
        let mut share = Share::default();
        (0..20).for_each(|at| share.add(at < 1));
        let row = share.row("x", "kumiki");
        assert_eq!((row.median, row.n), (0.05, 20));
        assert!(row.ci[0] < 0.02 && row.ci[1] > 0.2, "{:?}", row.ci);
    }
}
