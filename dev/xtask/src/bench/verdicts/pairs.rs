//! Runs of one machine compared with each other: first with second, third with fourth.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use kumiki_measure::file::read_results;
use kumiki_measure::moves;
use kumiki_measure::schema::{Results, Unit};
use kumiki_measure::stats::describe;
use serde_json::Value;

use super::CASES;
use super::Tool;
use super::kept::Kept;
use super::rules::Share;
use crate::bench::Row;
use crate::bench::judge::KUMIKI;

/// A case of a run is slowed by this.
const SLOWED: f64 = 1.15;

/// Of normal values the middle distance from the middle, in standard deviations.
const HALF: f64 = 0.6745;

/// Shares over all pairs and all runs.
pub(super) fn rows(kept: &Kept, tool: &Tool) -> Result<Vec<Row>> {
    let (mut alarms, mut found) = (Share::default(), Share::default());
    let (mut families, mut rows) = (Share::default(), Share::default());
    let slow = kept.scratch("slow.json");
    for (at, pair) in kept.runs().chunks_exact(2).enumerate() {
        let names = [&pair[0], &pair[1], &slow].map(|path| path.display().to_string());
        let [a, b, slow] = names.each_ref().map(String::as_str);
        let (value, code) = tool.json(&["compare", a, b, "--json"])?;
        alarms.add(code == 1);
        families.all(&value["families"], |family| family["verdict"] == "same");
        tell_alarms(&value);
        let (value, _) = tool.json(&["compare", a, b, "--json", "--threshold", "10"])?;
        rows.all(&value["rows"], |row| row["verdict"] == "same");
        let case = CASES[at % CASES.len()];
        slowed(&pair[1], case, slow.as_ref())?;
        let (value, code) = tool.json(&["compare", a, slow, "--json"])?;
        let worse = |family: &Value| family["case"] == case && family["verdict"] == "regression";
        let told = value["families"].as_array().is_some_and(|all| all.iter().any(worse));
        if !told {
            println!("not found in pair {at}: {case}, slowed");
        }
        found.add(code == 1 && told);
    }
    let runs: Vec<Results> = kept
        .runs()
        .iter()
        .map(|path| read_results(path).map_err(anyhow::Error::from))
        .collect::<Result<_>>()?;
    tell_moves(&runs);
    Ok(vec![
        alarms.row("compare_same", KUMIKI),
        families.row("compare_same_families", KUMIKI),
        rows.row("compare_same_rows", KUMIKI),
        intervals(&runs).row("intervals", KUMIKI),
        found.row("compare_slowed", KUMIKI),
    ])
}

/// Names what is called worse though nothing changed.
fn tell_alarms(value: &Value) {
    for part in ["families", "rows"] {
        let all = value[part].as_array().into_iter().flatten();
        for one in all.filter(|one| one["verdict"] == "regression") {
            println!("falsely worse: {} {} ({part}): {}", one["case"], one["params"], one["ratio"]);
        }
    }
}

/// The result with one case's samples multiplied.
fn slowed(from: &Path, case: &str, to: &Path) -> Result<()> {
    let mut value: Value = serde_json::from_slice(&std::fs::read(from)?)?;
    let mut rows = 0;
    for row in value["rows"].as_array_mut().into_iter().flatten() {
        if row["case"] != case {
            continue;
        }
        rows += 1;
        for visit in row["visits"].as_array_mut().into_iter().flatten() {
            for sample in visit["samples"].as_array_mut().into_iter().flatten() {
                *sample = (sample.as_f64().unwrap_or_default() * SLOWED).into();
            }
        }
    }
    ensure!(
        rows > 0,
        "{} has no row of {case}: what is not there is not found slower",
        from.display()
    );
    Ok(std::fs::write(to, value.to_string())?)
}

/// A row's quiet cost and its interval in each run that has it.
type Costs<'a> = BTreeMap<String, Vec<(&'a kumiki_measure::schema::Row, f64)>>;

fn by_row(runs: &[Results]) -> Costs<'_> {
    let mut all = Costs::new();
    for row in runs.iter().flat_map(|run| &run.rows) {
        let key = format!("{}{:?}{:?}", row.case, row.params, row.unit);
        all.entry(key).or_default().push((row, row.quiet.max(f64::MIN_POSITIVE).ln()));
    }
    all.retain(|_, rows| rows.len() == runs.len());
    all
}

/// How many intervals of the quiet cost hold the middle of all runs.
fn intervals(runs: &[Results]) -> Share {
    let mut share = Share::default();
    for rows in by_row(runs).into_values() {
        let grand = describe::median_of(rows.iter().map(|(row, _)| row.quiet));
        for [low, high] in rows.iter().filter_map(|(row, _)| row.quiet_ci) {
            share.add((low..=high).contains(&grand));
        }
    }
    share
}

/// How far cases move from run to run beside what is known of them: from this the table in
/// `kumiki_measure::moves` is made.
fn tell_moves(runs: &[Results]) {
    let mut cases: BTreeMap<(&str, moves::Span), Vec<f64>> = BTreeMap::new();
    for rows in by_row(runs).into_values() {
        let (first, _) = rows[0];
        if !matches!(first.unit, Unit::Nanoseconds | Unit::GigabytesPerSecond) {
            continue;
        }
        let middle = describe::median_of(rows.iter().map(|(_, ln)| *ln));
        let own = cases.entry((&first.case, moves::Span::of(first.cpus.len()))).or_default();
        own.extend(rows.iter().map(|(_, ln)| (ln - middle).abs()));
    }
    println!("{:36} {:>8} {:>8} {:>8}", "standard error of a run", "known", "middle", "95 %");
    for ((case, span), apart) in cases {
        let sorted = describe::sorted(apart);
        let middle = describe::quantile(&sorted, 0.5) / HALF;
        let far = describe::quantile(&sorted, 0.95) / 1.96;
        let known = moves::of_a_run(case, span);
        let mark = if far > known { "<" } else { "" };
        println!("{case:36} {known:8.3} {middle:8.3} {far:8.3} {mark}");
    }
}
