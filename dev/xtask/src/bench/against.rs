//! A bench of two commits in turns: how much slower or faster this one is.
//!
//! Both programs serve in one run, each subject's turn beside the same one's of the other
//! commit, so what the machine does meanwhile is nobody's advantage.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::judge::{Figures, KUMIKI, digits, measured_by};
use super::{BenchOutcome, Row, promises};
use crate::run::{cargo, program, run, target_folder};

/// Marks the other program's subjects (`dev/peers/src/against.rs`).
const OTHER: &str = "other:";

/// A bench that can be held against another commit's.
pub(super) struct Bench {
    pub(super) name: &'static str,
    /// What is built of either commit.
    pub(super) packages: &'static str,
    /// Its promises: of the worst row, and of all as a geometric mean.
    pub(super) promises: &'static str,
}

pub(super) const SHADOW: Bench =
    Bench { name: "shadow", packages: "--package kumiki-bench", promises: "against shadow" };
/// Calls and the walker that makes them.
pub(super) const PARASC: Bench = Bench {
    name: "parasc",
    packages: "--package kumiki-bench --package kumiki-du",
    promises: "against parasc",
};

/// Measures these cases, or all; says what the worst row and the mean are.
pub(super) fn against(bench: &Bench, commit: &str, cases: &[String]) -> Result<BenchOutcome> {
    let target = target_folder()?;
    let build = format!("build --profile dist --locked {}", bench.packages);
    let other = built(&build, commit, &target)?;
    run(&mut cargo(&build))?;
    let words = [bench.name, "--against", &*other.to_string_lossy()];
    let words = words.into_iter().chain(cases.iter().map(String::as_str));
    let mut outcome = measured_by(&target.join("dist/kumiki-bench"), words)?;
    let ratios = ratios(&outcome.rows);
    println!();
    for (row, ratio) in &ratios {
        println!("{} × {:15} {:>9}  {}", digits(*ratio), row.case, row.n, row.subject);
    }
    let worst = ratios.iter().map(|(_, ratio)| *ratio).reduce(f64::max);
    let logs: f64 = ratios.iter().map(|(_, ratio)| ratio.ln()).sum();
    let mean = worst.map(|_| (logs / ratios.len() as f64).exp());
    let of_both = |case: &str, figure: Option<f64>| {
        let row = |subject: &str, median| Row {
            case: case.to_owned(),
            subject: subject.to_owned(),
            median,
            ..Row::default()
        };
        figure.map(|figure| [row(KUMIKI, figure), row("other", 1.0)])
    };
    let all = [of_both("worst", worst), of_both("mean", mean)];
    let all: Vec<Row> = all.into_iter().flatten().flatten().collect();
    outcome.musts = promises::musts(bench.promises, &Figures(&all));
    Ok(outcome)
}

/// The bench program of that commit, by this `build`. Its sources are gone again afterwards.
fn built(build: &str, commit: &str, target: &Path) -> Result<std::path::PathBuf> {
    let (sources, built) = (target.join("against/sources"), target.join("against/built"));
    let [sources_text, built_text] = [&sources, &built].map(|path| path.to_string_lossy());
    if sources.exists() {
        // Of a run that was interrupted.
        run(&mut program("git", ["worktree", "remove", "--force", &sources_text]))?;
    }
    fs::create_dir_all(target.join("against"))?;
    run(&mut program("git", ["worktree", "add", "--detach", &sources_text, commit]))?;
    let mut build = cargo(build);
    let outcome = run(build.arg("--target-dir").arg(&*built_text).current_dir(&sources));
    run(&mut program("git", ["worktree", "remove", "--force", &sources_text]))?;
    outcome.map(|()| built.join("dist/kumiki-bench"))
}

/// Of each row that both have, how much of the other's time this one takes. What an idle
/// helper burns is next to nothing in both.
fn ratios(rows: &[Row]) -> Vec<(&Row, f64)> {
    let both = rows.iter().filter(|row| row.unit != "cpu").filter_map(|row| {
        let other = rows.iter().find(|other| {
            other.subject.strip_prefix(OTHER) == Some(&row.subject)
                && (&other.case, other.n) == (&row.case, row.n)
        })?;
        let ratio = row.median / other.median;
        // Of a bandwidth more is better.
        Some((row, if row.unit == "GB/s" { ratio.recip() } else { ratio }))
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, subject: &str, n: usize, unit: &str, median: f64) -> Row {
        let json = serde_json::json!({
            "case": case, "subject": subject, "n": n, "unit": unit, "median": median,
            "p99": median, "ci": [median, median], "limit": null, "base": null,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_row_is_held_against_the_same_one_of_the_other() {
        let rows = [
            row("sum", "kumiki", 1, "ns", 10.0),
            row("sum", "other:kumiki", 1, "ns", 8.0),
            row("sum", "kumiki", 2, "ns", 10.0),
            row("copy", "kumiki/split", 1, "GB/s", 10.0),
            row("copy", "other:kumiki/split", 1, "GB/s", 5.0),
            row("idle", "kumiki", 1, "cpu", 0.2),
            row("idle", "other:kumiki", 1, "cpu", 0.1),
        ];
        let all = ratios(&rows);
        let figures: Vec<_> = all.iter().map(|(row, ratio)| (&*row.case, *ratio)).collect();
        assert_eq!(figures, [("sum", 1.25), ("copy", 0.5)]);
    }
}
