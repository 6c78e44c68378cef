//! `kumiki measure many` and `kumiki many`: calls and teams on one cpu and on all of them.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use kumiki_many::{Curve, Effort, LEAST, Record, Team};
use kumiki_report::format;
use kumiki_sys::{affinity, quota};

use crate::destination::Destination;
use crate::{Verdict, output};

#[derive(Debug, Args)]
pub(crate) struct Many {
    /// File to write, - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "kumiki-many.json")]
    output: PathBuf,
}

/// Shows the curves.
pub(crate) fn measure(json: bool) -> Result<Verdict> {
    output::check()?;
    let Some(record) = record()? else { return Ok(Verdict::Fine) };
    if json {
        output::json(&record)?
    } else {
        show(&record)?
    }
    Ok(Verdict::Fine)
}

/// Writes the file, and says how this machine stands beside what was predicted.
pub(crate) fn run(args: &Many) -> Result<Verdict> {
    let destination = Destination::new(&args.output)?;
    let Some(record) = record()? else { return Ok(Verdict::Fine) };
    let text = serde_json::to_string_pretty(&record)?;
    destination.write(|out| Ok(writeln!(out, "{text}")?))?;
    if args.output.as_os_str() != "-" {
        show(&record)?;
        output::line("")?;
        output::line(format_args!(
            "{} has all of it: curves, lines and the machine's shape, no name and no address. \
             docs/many-cpus.md says where to send it.",
            args.output.display()
        ))?;
    }
    Ok(Verdict::Fine)
}

/// Measures, or says why there is nothing to.
fn record() -> Result<Option<Record>> {
    let cpus = affinity::current()?.len();
    // More threads than a control group lets run would show when it stops them.
    let runs = quota::threads().map_or(cpus, |threads| threads.min(cpus));
    if runs < LEAST {
        let why = if runs < cpus { ", by its control group's quota" } else { "" };
        output::talk(format_args!(
            "a curve over cpus says something from {LEAST} cpus on, and this process may use {runs}{why}"
        ));
        return Ok(None);
    }
    let mut say = |what: &str| output::talk(format_args!("measuring {what}"));
    Ok(Some(kumiki_many::record(Effort::default(), &mut say)?))
}

fn show(record: &Record) -> Result<()> {
    for line in &record.lines {
        let (time, common) = (format::time(line.round_trip_ns), &line.common);
        output::line(format_args!("a line there and back, {common} in common: {time}"))?;
    }
    curves(&record.curves)?;
    teams(&record.teams, record)
}

/// A row a call: its throughput as a multiple of one cpu's.
fn curves(curves: &[Curve]) -> Result<()> {
    let sizes: Vec<String> = curves
        .first()
        .map(|curve| {
            curve.points.iter().skip(1).map(|point| format!("{} cpus", point.cpus)).collect()
        })
        .unwrap_or_default();
    let headings = ["call", "shares", "1 cpu, a second"].into_iter().map(str::to_owned);
    let headings: Vec<_> =
        headings.chain(sizes).chain(["bends at", "best"].map(str::to_owned)).collect();
    let mut rows = output::Rows::new(&headings.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    for curve in curves {
        let mut cells = vec![curve.call.to_owned(), curve.shares.to_owned()];
        cells.extend(curve.points.first().map(|one| format!("{:.0}", one.a_second)));
        cells.extend(curve.points.iter().skip(1).map(|point| format!("{:.2}", point.of_one)));
        cells.push(curve.bends_at.map_or("–".to_owned(), |at| format!("{at:.0}")));
        cells.push(curve.best.to_string());
        rows.add(&cells);
    }
    output::line("")?;
    rows.print()?;
    output::line(
        "best: the fewest cpus that do 95 % of the most; bends at: more do less, by a law of queues fitted to the row",
    )
}

fn teams(teams: &[Team], record: &Record) -> Result<()> {
    let mut rows = output::Rows::new(
        &["team of", "fork and join", "predicted", "with a barrier", "predicted"],
        1,
    );
    for team in teams {
        let of = |what: &str| {
            let is_it =
                |row: &&kumiki_many::Predicted| row.what == what && row.members == team.members;
            let row = record.predictions.iter().find(is_it);
            row.map_or("–".to_owned(), |row| format::time(row.predicted_ns))
        };
        rows.add([
            team.members.to_string(),
            format::time(team.broadcast_ns),
            of("broadcast"),
            format::time(team.barrier_ns),
            of("barrier"),
        ]);
    }
    output::line("")?;
    rows.print()
}
