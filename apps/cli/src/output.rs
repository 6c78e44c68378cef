//! What goes to standard output: tables for people, JSON for programs.

use std::fmt::Display;

use anyhow::Result;
use kumiki_measure::schema::{Params, Results, Row, Skipped, Value};
use kumiki_report::format;
pub(crate) use kumiki_terminal::output::{
    Stream, WIDE, WIDTH, aside, check, data, hanging, help, is_broken_pipe, json, line, log, text,
    wrapped,
};
pub(crate) use kumiki_terminal::rows::{Rows, narrow};

/// Says something to a person, on standard error.
pub(crate) fn talk(text: impl Display) {
    kumiki_terminal::output::talk("kumiki", text);
}

/// Prints a result: a line a row, then how costs grow, then what was skipped.
pub(crate) fn table(results: &Results) -> Result<()> {
    let headings = ["", "case", "parameters", "median", "95 % CI", "p99", "cpu", "line"];
    let shown = if narrow(WIDE) { &headings[..5] } else { &headings[..] };
    let mut table = Rows::new(shown, 3);
    for row in &results.rows {
        let cells = [
            mark(row.disturbed).to_owned(),
            row.case.clone(),
            params(&row.params),
            format::quantity(row.median, row.unit),
            format::interval(row.ci, row.unit),
            format::quantity(row.p99, row.unit),
            format::time(row.cpu_ns),
            round_trip(row),
        ];
        table.add(&cells[..shown.len()]);
    }
    table.print()?;
    if shown.len() < headings.len() {
        talk(format_args!(
            "{} are shown from {WIDE} columns on",
            headings[shown.len()..].join(", ")
        ));
    }
    slopes(results)?;
    for skipped in Skipped::together(&results.skipped) {
        let which = match skipped.params[..] {
            [one] => params(one),
            ref several => format!("({} rows)", several.len()),
        };
        let name = format!("{} {which}", skipped.case);
        let text = format!("skipped {}: {}", name.trim_end(), skipped.reason);
        if narrow(WIDE) { self::text(wrapped(&text, ""))? } else { line(text)? }
    }
    Ok(())
}

/// Mark in a column of its own, beside a figure that other work disturbed.
pub(crate) fn mark(disturbed: bool) -> &'static str {
    if disturbed { "!" } else { "" }
}

fn slopes(results: &Results) -> Result<()> {
    if results.slopes.is_empty() {
        return Ok(());
    }
    let headings = ["growth", "by", "with", "a 4 KiB page", "95 % CI", "R²", "knee"];
    let shown = if narrow(WIDE) { &headings[..4] } else { &headings[..] };
    let mut table = Rows::new(shown, 3);
    for slope in &results.slopes {
        let cells = [
            slope.case.clone(),
            slope.param.trim_end_matches("_bytes").to_owned(),
            params(&slope.params),
            format::growth(slope),
            format::interval(slope.ci, kumiki_measure::schema::Unit::Nanoseconds),
            format!("{:.3}", slope.r2),
            format::breaks(slope),
        ];
        table.add(&cells[..shown.len()]);
    }
    line("")?;
    table.print()
}

/// The raw cache-line round trip, for rows of two cpus.
fn round_trip(row: &Row) -> String {
    match row.round_trip_ns {
        Some(ns) if row.cpus.len() > 1 => format::time(ns),
        _ => String::new(),
    }
}

/// Parameters in words without those that say "nothing": sizes of zero,
/// untouched, ordinary pages.
pub(crate) fn params(params: &Params) -> String {
    let telling = |(name, value): &(&String, &Value)| match value {
        Value::Number(0) => !name.ends_with("_bytes"),
        Value::Flag(false) => false,
        Value::Word(word) => word != "none",
        _ => true,
    };
    let differing = params.iter().filter(telling).map(|(k, v)| (k.clone(), v.clone())).collect();
    format::params(&differing)
}
