//! Promises of benches that are one figure, or one figure ÷ another's: the data file
//! `dev/bench/promises.toml`, and its judge.

use anyhow::{Context, Result, ensure};
use kumiki_measure::stats::describe;
use serde::Deserialize;

use super::judge::{Bound, Figures, KUMIKI, of, worst_at};
use super::{Must, Row};

const FILE: &str = include_str!("../../../bench/promises.toml");

/// In place of a subject: the raw round trip of the same turns.
const LIMIT: &str = "limit";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    promise: Vec<Promise>,
}

/// A figure, what it is divided by, and its bound.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Promise {
    bench: String,
    pub(super) name: String,
    pub(super) case: String,
    #[serde(default = "kumiki")]
    subject: String,
    n: Option<Sizes>,
    #[serde(default)]
    figure: Figure,
    pub(super) over: Option<String>,
    /// Case and size of the divisor's row, if they are others.
    over_case: Option<String>,
    over_n: Option<usize>,
    /// Of a figure that is not divided; `µs` of nanoseconds.
    unit: Option<String>,
    at_most: Option<f64>,
    below: Option<f64>,
    at_least: Option<f64>,
}

fn kumiki() -> String {
    KUMIKI.to_owned()
}

/// Rows of a case that a promise is about.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Sizes {
    At(usize),
    Any(Any),
    Range { from: usize, to: Option<usize> },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Any {
    Any,
}

impl Sizes {
    fn has(self, n: usize) -> bool {
        match self {
            Sizes::At(at) => n == at,
            Sizes::Any(Any::Any) => true,
            Sizes::Range { from, to } => n >= from && to.is_none_or(|to| n <= to),
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Figure {
    #[default]
    Median,
    P99,
    /// Median of the ratios, instance by instance.
    Instances,
}

impl Promise {
    fn bound(&self) -> Option<Bound> {
        match (self.at_most, self.below, self.at_least) {
            (Some(limit), None, None) => Some(Bound::AtMost(limit)),
            (None, Some(limit), None) => Some(Bound::Below(limit)),
            (None, None, Some(limit)) => Some(Bound::AtLeast(limit)),
            _ => None,
        }
    }

    fn row<'a>(&self, figures: &Figures<'a>, subject: &str, other: bool) -> Option<&'a Row> {
        let case = self.over_case.as_ref().filter(|_| other).unwrap_or(&self.case);
        match (self.over_n.filter(|_| other), self.n) {
            (Some(n), _) | (None, Some(Sizes::At(n))) => figures.at(case, subject, n),
            _ => figures.one(case, subject),
        }
    }

    /// The one figure.
    fn figure(&self, figures: &Figures) -> Option<f64> {
        let own = self.row(figures, &self.subject, false)?;
        let of = |row: &Row| if self.figure == Figure::P99 { row.p99 } else { row.median };
        match (self.over.as_deref(), self.unit.as_deref()) {
            (None, Some("µs")) => Some(of(own) / 1e3),
            (None, _) => Some(of(own)),
            (Some(LIMIT), _) => Some(of(own) / own.limit?),
            (Some(other), _) if self.figure == Figure::Instances => {
                Some(of_instances(own, self.row(figures, other, true)?))
            }
            (Some(other), _) => Some(of(own) / of(self.row(figures, other, true)?)),
        }
    }

    /// The worst of its figures, and the size that was worst.
    fn judge(&self, figures: &Figures, bound: Bound) -> (Must, Option<usize>) {
        match (self.n, self.over.as_deref()) {
            (Some(sizes @ (Sizes::Any(_) | Sizes::Range { .. })), Some(other)) => {
                let subjects = [self.subject.as_str(), other];
                let ratios = figures.ratios(&self.case, subjects, |n| sizes.has(n));
                worst_at(&self.name, ratios, bound)
            }
            _ => {
                let unit = self.unit.as_deref().unwrap_or("×");
                (of(&self.name, || Some((self.figure(figures)?, bound, unit))), None)
            }
        }
    }
}

/// Median of the ratios: what is compared was measured in turns in each instance.
fn of_instances(row: &Row, other: &Row) -> f64 {
    describe::median_of(row.instances.iter().zip(&other.instances).map(|(one, other)| one / other))
}

/// Promises of a bench, as the file has them.
fn promises(text: &str, bench: &str) -> Result<Vec<(Promise, Bound)>> {
    let File { promise } = toml::from_str(text).context("reading dev/bench/promises.toml")?;
    let of_bench = promise.into_iter().filter(|promise| promise.bench == bench);
    of_bench
        .map(|promise| {
            let bound = promise.bound();
            let bound = bound.with_context(|| {
                format!("{}: one of at_most, below, at_least is needed", promise.name)
            })?;
            let one = !matches!(promise.n, Some(Sizes::Any(_) | Sizes::Range { .. }));
            let ratio = promise.over.as_deref().is_some_and(|other| other != LIMIT);
            let plain = promise.figure == Figure::Median
                && promise.over_case.is_none()
                && promise.over_n.is_none();
            ensure!(one || ratio && plain, "{}: several sizes need another subject", promise.name);
            ensure!(
                promise.over.is_some() != promise.unit.is_some(),
                "{}: one of over and unit is needed",
                promise.name
            );
            Ok((promise, bound))
        })
        .collect()
}

/// Judges the promises of a bench; `beside` adds to what is told of one, by the size that was
/// worst.
pub(super) fn musts(
    bench: &str,
    figures: &Figures,
    beside: impl Fn(&Promise, usize) -> Option<String>,
) -> Vec<Must> {
    let all = promises(FILE, bench).expect("a test reads the file");
    let judged = all.into_iter().map(|(promise, bound)| {
        let (mut must, at) = promise.judge(figures, bound);
        if let Some(more) = at.and_then(|n| beside(&promise, n)) {
            must.figure += &more;
        }
        must
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_promise_of_the_file_is_of_a_bench_and_told_once() {
        let File { promise } = toml::from_str(FILE).unwrap();
        let benches = ["shadow", "servers", "node", "resource", "process", "lab"];
        let known: usize = benches.iter().map(|bench| promises(FILE, bench).unwrap().len()).sum();
        assert_eq!(known, promise.len());
        let told: BTreeSet<_> = promise.iter().map(|one| (&one.bench, &one.name)).collect();
        assert_eq!(told.len(), promise.len());
    }

    #[test]
    fn what_says_too_little_or_too_much_is_refused() {
        let of = |text: &str| {
            let text = format!("[[promise]]\nbench = \"b\"\nname = \"p\"\ncase = \"c\"\n{text}");
            promises(&text, "b").map(|all| all.len()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(of("over = \"loop\"\nat_most = 1.0"), Ok(1));
        assert!(of("over = \"loop\"").unwrap_err().contains("at_most"));
        assert!(of("over = \"loop\"\nat_most = 1.0\nbelow = 2.0").is_err());
        assert!(of("at_most = 1.0").unwrap_err().contains("over and unit"));
        assert!(of("n = \"any\"\nunit = \"ns\"\nat_most = 1.0").unwrap_err().contains("sizes"));
        assert!(of("over = \"loop\"\nat_mots = 1.0").is_err());
    }
}
