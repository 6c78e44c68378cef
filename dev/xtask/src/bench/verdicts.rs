//! How often `kumiki compare` and `kumiki ab` are wrong, as a user runs them, and what other
//! rules say of the same samples.
//!
//! ```text
//!  until the minutes are over, whatever lacks most:
//!    a run of `kumiki measure` ──▶ FOLDER/runs/   ┐
//!    some comparisons by `ab`  ──▶ FOLDER/ab      ┴──▶ shares of all that is kept
//! ```
//!
//! What is kept may be of many calls, so that hours are collected in slices.

mod kept;
mod pairs;
mod rules;
mod trials;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::judge::{Figures, NOT_MEASURED};
use super::{BenchOutcome, Must, Row, promises};
use crate::Slice;
use crate::run::{cargo, program, run, target_folder};
use kept::Kept;
use trials::KINDS;

/// Cases of which one a time is slowed; quick runs have them, too.
const CASES: [&str; 5] =
    ["signal.catch", "process.exec", "file.read", "memory.mmap_munmap", "thread.create.pthread"];

/// Cases that come from runs.
const OF_RUNS: [&str; 3] = ["compare_same", "compare_slowed", "intervals"];

/// Runs of a whole bench: ten pairs; of short ones two hundred.
const RUNS: usize = 20;
const SHORT_RUNS: usize = 400;

/// Length of the runs that are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    /// Five cases, a few seconds.
    Short,
    /// All cases by `--quick`.
    Quick,
    /// Runs as `kumiki measure` makes them.
    Default,
}

impl Length {
    fn of(slice: &Slice) -> Self {
        match (slice.short_runs, slice.default_runs) {
            (true, _) => Length::Short,
            (_, true) => Length::Default,
            _ => Length::Quick,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Length::Short => "short",
            Length::Quick => "quick",
            Length::Default => "default",
        }
    }

    /// Runs of a whole bench.
    fn runs(self) -> usize {
        if self == Length::Short { SHORT_RUNS } else { RUNS }
    }
}

/// Builds the tool and lets it compare until the minutes are over, or these cases only.
pub(super) fn verdicts(slice: &Slice, cases: &[String]) -> Result<BenchOutcome> {
    let cases = &named(cases)?[..];
    ensure!(slice.minutes >= 0.0, "--minutes {}: a number from 0", slice.minutes);
    run(&mut cargo("build --release --locked --package kumiki-cli"))?;
    let scratch = tempfile::tempdir().context("making a folder for this bench's files")?;
    let folder = slice.keep.as_deref().unwrap_or(scratch.path());
    let tool = Tool { binary: target_folder()?.join("release/kumiki") };
    let length = Length::of(slice);
    let mut kept = Kept::open(folder, length)?;
    let asked = |case: &str| cases.is_empty() || cases.iter().any(|asked| asked == case);
    let runs_asked = OF_RUNS.iter().any(|case| asked(case));
    let end = Instant::now() + Duration::from_secs_f64(60.0 * slice.minutes);
    while Instant::now() < end {
        let runs = runs_asked.then(|| (kept.runs().len() as f64 / length.runs() as f64, None));
        let trials = KINDS.iter().filter(|kind| asked(kind.name));
        let trials = trials.map(|kind| (kept.count(kind) as f64 / kind.quota as f64, Some(kind)));
        let due = runs.into_iter().chain(trials).min_by(|(a, _), (b, _)| a.total_cmp(b));
        match due {
            Some((done, None)) if done < 1.0 => kept.add_run(&tool)?,
            Some((done, Some(kind))) if done < 1.0 => kept.add_trials(kind, &tool)?,
            _ => break,
        }
    }
    let mut rows = Vec::new();
    if runs_asked && kept.runs().len() > 1 {
        let own = pairs::rows(&kept, &tool)?.into_iter();
        rows.extend(
            own.filter(|row| cases.is_empty() || cases.iter().any(|c| row.case.starts_with(c))),
        );
    }
    for kind in KINDS.iter().filter(|kind| asked(kind.name) && kept.count(kind) > 0) {
        rows.extend(kept.rows(kind));
    }
    for Row { case, subject, n, median, ci: [low, high], .. } in &rows {
        println!("{case:24} {subject:10} {median:.3} [{low:.3}, {high:.3}] of {n}");
    }
    println!("runs compared: {} {} ones", kept.runs().len(), length.name());
    Ok(BenchOutcome { machine: tool.machine(folder)?, musts: musts(&rows), rows })
}

/// The cases of these names: where none has the whole of it, those that begin with it.
fn named(cases: &[String]) -> Result<Vec<String>> {
    let names = || OF_RUNS.into_iter().chain(KINDS.iter().map(|kind| kind.name));
    let mut all = Vec::new();
    for asked in cases {
        let is_whole = names().any(|name| name == asked);
        let fits = |name: &&str| *name == asked || (!is_whole && name.starts_with(&**asked));
        let own: Vec<String> = names().filter(fits).map(str::to_owned).collect();
        ensure!(
            !own.is_empty(),
            "no case {asked:?}; there are {}",
            names().collect::<Vec<_>>().join(", ")
        );
        all.extend(own);
    }
    Ok(all)
}

/// `kumiki`, as it was built.
struct Tool {
    binary: PathBuf,
}

impl Tool {
    fn command(&self, words: &[&str]) -> Command {
        program(&self.binary.to_string_lossy(), words.iter().copied())
    }

    /// What it prints, whatever its verdict.
    fn json(&self, words: &[&str]) -> Result<(Value, i32)> {
        let output = self.command(words).stderr(Stdio::inherit()).output()?;
        let code = output.status.code().unwrap_or(-1);
        ensure!(code != 2 && code >= 0, "kumiki {words:?} failed");
        Ok((serde_json::from_slice(&output.stdout).context("result of `kumiki`")?, code))
    }

    fn machine(&self, folder: &Path) -> Result<kumiki_measure::schema::Machine> {
        let db = folder.join("results.db").display().to_string();
        let words = ["measure", "entry.getppid", "--quick", "--time", "1", "--json", "--db", &db];
        let (value, _) = self.json(&words)?;
        Ok(serde_json::from_value(value["machine"].clone())?)
    }
}

/// Of what was not asked for nothing is told.
fn musts(rows: &[Row]) -> Vec<Must> {
    let mut musts = promises::musts("verdicts", &Figures(rows));
    musts.retain(|must| must.figure != NOT_MEASURED);
    musts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_case_or_the_beginning_of_some() {
        let of = |case: &str| named(&[case.to_owned()]).unwrap();
        assert_eq!(of("ab_same_busy"), ["ab_same_busy"]);
        let busy = ["", "_2", "_4", "_8"].map(|more| format!("ab_same_busy{more}"));
        assert_eq!(of("ab_same"), busy);
        assert!(named(&["nosuch".to_owned()]).is_err());
    }
}
