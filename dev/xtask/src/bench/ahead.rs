//! Programs with calls asked ahead beside plain ones, measured by `dev/bench/`, and what is promised of it.

use anyhow::Result;

use super::judge::{Figures, measured};
use super::{BenchOutcome, promises};
use crate::debian;
use crate::run::{cargo, run};

/// Measures all cases, or these; with `judge` says whether the promises hold.
pub(super) fn ahead(judge: bool, cases: &[String]) -> Result<BenchOutcome> {
    debian::install("bench-ahead")?;
    // Not among the programs of all benches, whose features it would change.
    run(&mut cargo("build --profile dist --locked --package kumiki-ahead"))?;
    let mut outcome = measured("ahead", cases)?;
    if judge {
        outcome.musts = promises::musts("ahead", &Figures(&outcome.rows));
    }
    Ok(outcome)
}
