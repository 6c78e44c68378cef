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

/// Decision of a rule that looks again after more pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Looked {
    /// Side that it calls slower, if any: A or B by its index.
    pub(super) slower: Option<usize>,
    /// Pairs after which it was over.
    pub(super) pairs: usize,
}

/// Decides as perfgate 0.17 does on pairs in turns if significance is required (`perfgate-domain`'s
/// `paired.rs`): the mean difference in whole milliseconds is beyond two errors of it, 1.96 from
/// thirty pairs on. It begins with ten pairs and looks again after each further one.
pub(super) fn perfgate(pairs: &[[f64; 2]]) -> Looked {
    const FIRST: usize = 10;
    let ms = |ns: f64| (ns / 1e6).floor();
    let apart: Vec<f64> = pairs.iter().map(|[a, b]| ms(*b) - ms(*a)).collect();
    let decides = |pairs: &usize| {
        let own = &apart[..*pairs];
        let n = own.len() as f64;
        // Of all of them, not of a sample of more.
        let error = (variance(own) * (n - 1.0) / n / n).sqrt();
        mean(own).abs() > if n >= 30.0 { 1.96 } else { 2.0 } * error
    };
    let over = (FIRST..=pairs.len()).find(decides);
    let side = |pairs: usize| usize::from(mean(&apart[..pairs]) > 0.0);
    Looked { slower: over.map(side), pairs: over.unwrap_or(pairs.len()) }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hash, Hasher};

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
    fn who_looks_again_and_again_finds_what_is_not_there() {
        let ms = |a: f64, b: f64| [a * 1e6, b * 1e6];
        let apart: Vec<_> = (0..20).map(|at| ms(10.0, 12.0 + f64::from(at % 2))).collect();
        assert_eq!(perfgate(&apart), Looked { slower: Some(1), pairs: 10 });
        let turned: Vec<_> = apart.iter().map(|[a, b]| [*b, *a]).collect();
        assert_eq!(perfgate(&turned), Looked { slower: Some(0), pairs: 10 });
        // Less than a millisecond is nothing to it.
        let near = vec![ms(10.1, 10.9); 20];
        assert_eq!(perfgate(&near), Looked { slower: None, pairs: 20 });
        // Drawn by a hash: the same each time, and as good as independent.
        let mut at = 0_u64;
        let mut noisy = || {
            at += 1;
            let mut hasher = DefaultHasher::new();
            at.hash(&mut hasher);
            20.0 + 10.0 * (hasher.finish() as f64 / u64::MAX as f64)
        };
        let found = (0..200).filter(|_| {
            let pairs: Vec<_> = (0..60).map(|_| ms(noisy(), noisy())).collect();
            perfgate(&pairs).slower.is_some()
        });
        let found = found.count();
        assert!(found > 30, "{found} of 200, where one look would find some 10");
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
