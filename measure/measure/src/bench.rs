//! Rows of `cargo xtask bench`: what `dev/bench/` writes, and what judges it reads.

use serde::{Deserialize, Serialize};

use crate::schema::{Machine, SCHEMA};
use crate::stats::{bootstrap, describe};

/// A bench's result, in the shape that every bench writes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Document {
    schema: u32,
    /// Machine on which it was measured.
    pub machine: Machine,
    /// Rows of the bench.
    pub rows: Vec<Row>,
}

impl Document {
    /// Rows of this machine.
    pub fn new(machine: Machine, rows: Vec<Row>) -> Self {
        Document { schema: SCHEMA, machine, rows }
    }
}

/// One figure of one subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Case, with its parameters.
    pub case: String,
    /// Subject: `kumiki`, or a peer measured beside it.
    pub subject: String,
    /// The case's size (elements, bytes, nanoseconds of a gap); of a case
    /// without one, samples.
    pub n: usize,
    /// `ns`, `ms`, `GB/s`, `share`, or `cpu`: processor seconds a second.
    pub unit: String,
    /// Median of all samples.
    pub median: f64,
    /// The slow tail.
    pub p99: f64,
    /// 95 % confidence interval of the median.
    pub ci: [f64; 2],
    /// The raw reference of the same interleaved run, e.g. the cache-line round
    /// trip: nothing can be better.
    pub limit: Option<f64>,
    /// The plain way to do the same, of the same run.
    pub base: Option<f64>,
    /// Median of each instance of the subject, where it was made anew at times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<f64>,
    /// `limit` of each instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<f64>,
    /// Median of each turn ÷ that of the plain way in the same process just before and after, where
    /// it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_plain: Vec<f64>,
    /// Samples that ended without what was asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Row {
    /// Makes a row from times. Samples of one group depend on each other.
    pub fn of(who: (&str, &str), unit: &str, groups: &[Vec<f64>], base: Option<f64>) -> Self {
        Row::with_tail(who, unit, (groups, 0.99), base)
    }

    /// Makes a row from rates: the slow tail is that of the small ones.
    pub fn rate(who: (&str, &str), unit: &str, groups: &[Vec<f64>], base: Option<f64>) -> Self {
        Row::with_tail(who, unit, (groups, 0.01), base)
    }

    /// Makes a row from samples whose slow tail begins at quantile `slow`.
    pub fn with_tail(
        (case, subject): (&str, &str),
        unit: &str,
        (groups, slow): (&[Vec<f64>], f64),
        base: Option<f64>,
    ) -> Self {
        let samples = describe::sorted(groups.iter().flatten().copied());
        Row {
            case: case.to_owned(),
            subject: subject.to_owned(),
            n: samples.len(),
            unit: unit.to_owned(),
            median: describe::median(&samples),
            p99: describe::quantile(&samples, slow),
            ci: bootstrap::median_ci(groups.iter().map(Vec::as_slice)),
            base,
            ..Row::default()
        }
    }

    /// Sets the case's size.
    pub fn of_size(self, n: usize) -> Self {
        Row { n, ..self }
    }

    /// Sets how many of its samples failed.
    pub fn failed(self, failed: usize) -> Self {
        Row { failed, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_common_shape_and_reads_back() {
        let row = Row::of(("idle_burn", "park"), "cpu", &[vec![0.5]], Some(4.0));
        let document = Document::new(Machine::default(), vec![row.clone()]);
        let value = serde_json::to_value(&document).unwrap();
        assert_eq!(value["schema"], 1);
        assert!(value["machine"].is_object());
        assert_eq!(
            value["rows"],
            serde_json::json!([{
                "case": "idle_burn", "subject": "park", "n": 1, "unit": "cpu", "median": 0.5,
                "p99": 0.5, "ci": [0.5, 0.5], "limit": null, "base": 4.0,
            }])
        );
        let read: Document = serde_json::from_value(value).unwrap();
        assert_eq!(read.rows, [row]);
    }

    #[test]
    fn the_slow_tail_of_a_rate_is_the_small_one() {
        let groups = [vec![5.0, 6.0], vec![7.0]];
        assert!(Row::rate(("x", "y"), "GB/s", &groups, None).p99 < 5.1);
        let time = Row::of(("x", "y"), "ns", &groups, None);
        assert!(time.p99 > 6.9 && time.n == 3 && time.median == 6.0);
    }
}
