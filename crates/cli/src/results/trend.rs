//! `kumiki results trend CASE`.

use std::path::Path;

use anyhow::{Result, bail};
use kumiki_measure::schema::{Machine, Params, Unit};
use kumiki_measure::stats::change;
use kumiki_report::format;
use serde::Serialize;

use super::{NOTHING, existing, minute};
use crate::{Verdict, output};

/// A row's cost in each result that has it.
#[derive(Serialize)]
struct Trend {
    case: String,
    params: Params,
    unit: Unit,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    result: i64,
    label: Option<String>,
    started: String,
    kernel: String,
    /// What it costs where others leave it alone, in the row's unit.
    quiet: f64,
    interval: [f64; 2],
    disturbed: bool,
    /// The cost begins here to be another one, and stays.
    changed: bool,
}

/// What stays of a machine whatever is installed on it, and however it is called.
fn identity(machine: &Machine) -> (&str, usize, usize, u64, Option<&str>) {
    let gib = machine.memory_bytes >> 30;
    let hypervisor = machine.hypervisor.as_deref();
    (&machine.cpu_model, machine.cpus, machine.numa_nodes, gib, hypervisor)
}

pub(super) fn run(words: &[String], db: Option<&Path>, json: bool) -> Result<Verdict> {
    let Some(store) = existing(db)? else { bail!(NOTHING) };
    let mut listed = store.list()?;
    // A date of RFC 3339 in UTC sorts as a text.
    listed.sort_by(|a, b| a.run.started.cmp(&b.run.started).then(a.id.cmp(&b.id)));
    let Some(latest) = listed.last() else { bail!(NOTHING) };
    let machine = latest.machine.clone();
    let mut trends: Vec<Trend> = Vec::new();
    let mut others = 0;
    for entry in &listed {
        if identity(&entry.machine) != identity(&machine) {
            others += 1;
            continue;
        }
        let results = store.load(entry.id)?;
        for row in results.rows.iter().filter(|row| fits(words, &row.case, &row.params)) {
            let point = Point {
                result: entry.id.0,
                label: entry.run.label.clone(),
                started: entry.run.started.clone(),
                kernel: entry.machine.kernel.clone(),
                quiet: row.quiet,
                interval: row.quiet_ci,
                disturbed: row.disturbed,
                changed: false,
            };
            let same = |trend: &&mut Trend| {
                trend.case == row.case && trend.params == row.params && trend.unit == row.unit
            };
            match trends.iter_mut().find(same) {
                Some(trend) => trend.points.push(point),
                None => trends.push(Trend {
                    case: row.case.clone(),
                    params: row.params.clone(),
                    unit: row.unit,
                    points: vec![point],
                }),
            }
        }
    }
    if trends.is_empty() {
        bail!(
            "no stored result of this machine has a row that fits {}: `kumiki measure ls` names \
             cases",
            words.join(" ")
        );
    }
    for trend in &mut trends {
        let logs: Vec<f64> =
            trend.points.iter().map(|point| point.quiet.max(f64::MIN_POSITIVE).ln()).collect();
        for at in change::points(&logs) {
            trend.points[at].changed = true;
        }
    }
    if json {
        output::json(&trends)?;
    } else {
        print(&trends, &machine, others)?;
    }
    Ok(Verdict::Fine)
}

/// Every word is a part of the case's name or a parameter with its value.
fn fits(words: &[String], case: &str, params: &Params) -> bool {
    words.iter().all(|word| match word.split_once('=') {
        Some((name, value)) => params.get(name).is_some_and(|own| own.to_string() == value),
        None => case.contains(word.as_str()),
    })
}

fn print(trends: &[Trend], machine: &Machine, others: usize) -> Result<()> {
    for trend in trends {
        output::line(format!("{} {}", trend.case, output::params(&trend.params)).trim_end())?;
        let mut table =
            output::Rows::new(&["", "result", "started", "kernel", "quiet", "interval", ""], 4);
        let most = trend.points.iter().map(|point| point.quiet).fold(0.0, f64::max);
        for point in &trend.points {
            let name = point.label.clone().unwrap_or_else(|| point.result.to_string());
            let mark = if point.changed { "▶" } else { output::mark(point.disturbed) };
            table.add([
                mark.to_owned(),
                name,
                minute(&point.started),
                point.kernel.clone(),
                format::quantity(point.quiet, trend.unit),
                format::interval(point.interval, trend.unit),
                bar(point.quiet / most),
            ]);
        }
        table.indented().print()?;
        for (at, point) in trend.points.iter().enumerate().filter(|(_, point)| point.changed) {
            let before = &trend.points[at - 1];
            let text = format!(
                "▶ from {} on it costs {:.2} × of what it was until {}",
                minute(&point.started),
                level(&trend.points[at..]) / level(&trend.points[..at]),
                minute(&before.started),
            );
            output::text(output::wrapped(&text, "  "))?;
        }
        output::line("")?;
    }
    let mut text = format!(
        "On {}, {} cpus. ▶ marks where a cost changed and stayed (p < 0.01; it takes three results \
         on each side, and six or more tell).",
        machine.cpu_model, machine.cpus
    );
    if others > 0 {
        text += &format!(" {others} results of other machines are left out.");
    }
    output::text(output::wrapped(&text, ""))
}

/// The middle of a level: until the next change.
fn level(points: &[Point]) -> f64 {
    let own = points.iter().enumerate().take_while(|(at, point)| *at == 0 || !point.changed);
    kumiki_measure::stats::describe::median_of(own.map(|(_, point)| point.quiet))
}

/// A bar of at most twenty columns.
fn bar(share: f64) -> String {
    "▪".repeat((share.clamp(0.0, 1.0) * 20.0).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_named_by_words_and_values() {
        let params = Params::from([("bytes".to_owned(), 4096_u64.into())]);
        let fits = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            fits(&words, "ipc.pipe.latency", &params)
        };
        assert!(fits(&["pipe"]) && fits(&["ipc", "bytes=4096"]));
        assert!(!fits(&["tcp"]) && !fits(&["pipe", "bytes=1"]));
    }

    #[test]
    fn another_name_or_kernel_is_the_same_machine() {
        let machine = Machine { cpu_model: "X".to_owned(), cpus: 2, ..Machine::default() };
        let mut other =
            Machine { hostname: "b".to_owned(), kernel: "7".to_owned(), ..machine.clone() };
        assert_eq!(identity(&machine), identity(&other));
        other.cpus = 4;
        assert_ne!(identity(&machine), identity(&other));
    }
}
