//! `kumiki results trend CASE`.

use std::path::Path;

use anyhow::{Result, bail};
use indexmap::IndexMap;
use kumiki_measure::compare::quiet_cycles;
use kumiki_measure::schema::{Machine, Params, Unit};
use kumiki_report::format::{self, minute};
use kumiki_report::{Point, Trend, mark_changes, trend_html};

use super::{NOTHING, existing};
use crate::args::FailOnTrend;
use crate::destination::Destination;
use crate::{Verdict, output};

/// Identity of a machine, which stays whatever is installed on it, and however it is called.
fn identity(machine: &Machine) -> (&str, usize, usize, u64, Option<&str>) {
    let gib = machine.memory_bytes >> 30;
    let hypervisor = machine.hypervisor.as_deref();
    (&machine.cpu_model, machine.cpus, machine.numa_nodes, gib, hypervisor)
}

pub(super) fn run(
    words: &[String],
    db: Option<&Path>,
    page: Option<&Path>,
    json: bool,
    fail_on: FailOnTrend,
) -> Result<Verdict> {
    let page = page.map(Destination::new).transpose()?;
    let Some(store) = existing(db)? else { bail!(NOTHING) };
    let mut listed = store.list()?;
    // A date of RFC 3339 in UTC sorts as a text.
    listed.sort_by(|a, b| a.run.started.cmp(&b.run.started).then(a.id.cmp(&b.id)));
    let Some(latest) = listed.last() else { bail!(NOTHING) };
    let machine = latest.machine.clone();
    let mut trends: IndexMap<(String, Params, Unit), Vec<Point>> = IndexMap::new();
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
                cycles: quiet_cycles(row),
                interval: row.quiet_ci,
                disturbed: row.disturbed,
                changed: false,
            };
            let key = (row.case.clone(), row.params.clone(), row.unit);
            trends.entry(key).or_default().push(point);
        }
    }
    let trend = |((case, params, unit), points)| Trend { case, params, unit, points, least: None };
    let mut trends: Vec<Trend> = trends.into_iter().map(trend).collect();
    if trends.is_empty() {
        bail!(
            "no stored result of this machine has a row that fits {}: `kumiki measure ls` names \
             cases",
            words.join(" ")
        );
    }
    mark_changes(&mut trends);
    let fails = trends.iter().any(match fail_on {
        FailOnTrend::Rise => Trend::has_risen,
        FailOnTrend::Change => Trend::has_changed,
    });
    let verdict = if fails { Verdict::Negative } else { Verdict::Fine };
    if let Some(page) = page {
        let html = trend_html(&trends, &machine);
        page.write(|out| Ok(out.write_all(html.as_bytes())?))?;
        return Ok(verdict);
    }
    if json {
        output::json(&trends)?;
    } else {
        print(&trends, &machine, others)?;
    }
    Ok(verdict)
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
                point.interval.map_or_else(none, |ends| format::interval(ends, trend.unit)),
                bar(point.quiet / most),
            ]);
        }
        table.indented().print()?;
        for change in trend.changes() {
            output::text(output::wrapped(&format!("▶ {change}"), "  "))?;
        }
        output::text(output::wrapped(&tells(trend), "  "))?;
        output::line("")?;
    }
    let mut text = format!(
        "On {}, {} cpus. quiet is the cost where others leave it alone. A bar is as long as the \
         cost beside the row's largest, ! says that others disturbed it, and – that fewer than \
         three visits have no interval. ▶ marks where a cost changed and stayed; where \
         nothing changed, whatever drifts from night to night, one stands in at most 5 of 100 such \
         tables. The exit status is 1 where a row's last change was a rise (--fail-on change: \
         where any changed).",
        machine.cpu_model, machine.cpus
    );
    if others > 0 {
        text += &format!(" {others} results of other machines are left out.");
    }
    output::text(output::wrapped(&text, ""))
}

/// Size of a change that these results would show, in words.
fn tells(trend: &Trend) -> String {
    let results = trend.points.len();
    let cycles = if trend.is_in_cycles() { ", in cycles of the core's clock" } else { "" };
    match trend.least {
        Some(least) => {
            format!(
                "{results} results tell a change in their middle from {:.0} % on{cycles}.",
                (100.0 * least).ceil()
            )
        }
        None if results >= 6 => {
            "So many rows at once tell no change: name a case of them.".to_owned()
        }
        None => format!("{results} results tell no change: it takes three on each side."),
    }
}

/// Stands where there is no interval.
fn none() -> String {
    "–".to_owned()
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
