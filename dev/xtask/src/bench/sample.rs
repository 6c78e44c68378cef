//! Rows and verdicts for the tests of what a bench promises.

use super::{Must, Row};

/// A row of nanoseconds, whose limit is 100.
pub(super) fn row(case: &str, subject: &str, n: usize, median: f64) -> Row {
    Row {
        case: case.to_owned(),
        subject: subject.to_owned(),
        n,
        unit: "ns".to_owned(),
        median,
        p99: 2.0 * median,
        ci: [median, median],
        limit: Some(100.0),
        ..Row::default()
    }
}

/// Name and figure of each promise that does not hold.
pub(super) fn broken(musts: Vec<Must>) -> Vec<String> {
    let broken = musts.into_iter().filter(|must| !must.holds);
    broken.map(|must| format!("{}: {}", must.name, must.figure)).collect()
}
