//! A result as CSV, Markdown and JSON.

use std::fmt::Write as _;
use std::io::{self, Write};

use indexmap::IndexSet;
use kumiki_measure::schema::{Results, Row};
use kumiki_sys::visible::visible;

use crate::format::{self, count, fixed, interval, number, params, quantity, time, times};
use crate::headline::headline;
use crate::{machine, rows};

/// Columns of a CSV file: of every result the same, so that files can be put together.
const COLUMNS: [&str; 20] = [
    "host",
    "started",
    "label",
    "case",
    "parameters",
    "unit",
    "n",
    "median",
    "p99",
    "ci_low",
    "ci_high",
    "min",
    "mad",
    "outliers",
    "cpu_ns",
    "disturbed",
    "round_trip_ns",
    "quiet",
    "quiet_low",
    "quiet_high",
];

/// Writes one line a row below a head: where and when it was measured (`host`, `started`,
/// `label`), `case`, its `parameters` as `name=value` with `;` between them, then `unit`, `n`,
/// `median`, `p99`, `ci_low`, `ci_high`, `min`, `mad`, `outliers`, `cpu_ns`, `disturbed`,
/// `round_trip_ns`, `quiet`, `quiet_low` and `quiet_high`. The columns are those of every
/// result. Figures are in the row's unit, unrounded; what is not known is empty. A text that a
/// spreadsheet would take for a formula begins with an apostrophe.
///
/// # Errors
///
/// Fails if `out` does.
pub fn csv(results: &Results, out: impl Write) -> io::Result<()> {
    write_csv(results, out).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        // Each record has as many fields as the head.
        other => io::Error::other(format!("{other:?}")),
    })
}

fn write_csv(results: &Results, out: impl Write) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    let label = results.run.label.as_deref().unwrap_or_default();
    let origin = [&results.machine.hostname, &results.run.started, label].map(cell);
    for row in &results.rows {
        let params = row.params.iter().map(|(name, value)| format!("{name}={value}"));
        let params = params.collect::<Vec<_>>().join(";");
        let own = [cell(&row.case), cell(&params)].into_iter().chain(figures(row));
        csv.write_record(origin.iter().cloned().chain(own))?;
    }
    Ok(csv.flush()?)
}

/// A cell of text that stays text: in a spreadsheet one that begins with one of these
/// is a formula (<https://owasp.org/www-community/attacks/CSV_Injection>), unless it is
/// a number.
fn cell(text: &str) -> String {
    let text = visible(text).to_string();
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err();
    if is_formula { format!("'{text}") } else { text }
}

/// A row's [`COLUMNS`] from its unit on.
fn figures(row: &Row) -> impl Iterator<Item = String> {
    let end = |at: usize| row.quiet_ci.map(|ends| ends[at].to_string()).unwrap_or_default();
    [
        row.unit.as_str().to_owned(),
        row.n.to_string(),
        row.median.to_string(),
        row.p99.to_string(),
        row.ci[0].to_string(),
        row.ci[1].to_string(),
        row.min.to_string(),
        row.mad.to_string(),
        row.outliers.to_string(),
        row.cpu_ns.to_string(),
        row.disturbed.to_string(),
        row.round_trip_ns.map(|ns| ns.to_string()).unwrap_or_default(),
        row.quiet.to_string(),
        end(0),
        end(1),
    ]
    .into_iter()
}

/// Writes the whole result, every sample of it, as one line of JSON.
///
/// # Errors
///
/// Fails if `out` does.
pub fn json(results: &Results, out: impl Write) -> io::Result<()> {
    kumiki_measure::json::line(results, out)
}

/// The result as a Markdown document: first figures, machine, tables by part, slopes,
/// what could not run, and how to make it again.
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_markdown(results, &mut out);
    out
}

fn write_markdown(results: &Results, out: &mut String) -> std::fmt::Result {
    let name = machine::names(std::slice::from_ref(results)).remove(0);
    let name = machine::title(&name, results);
    writeln!(out, "# What the operating system costs on {}\n", escape(&name))?;
    for warning in machine::warnings(results) {
        writeln!(out, "> ⚠ {}\n", escape(&warning))?;
    }
    markdown_headline(results, out)?;

    writeln!(out, "\n## Machine\n\n| | |\n|---|---|")?;
    for (name, value) in machine::facts(&results.machine).iter().chain(&machine::run_facts(results))
    {
        writeln!(out, "| {name} | {} |", escape(value))?;
    }

    let mut notes = IndexSet::new();
    for part in rows::by_part(results) {
        writeln!(out, "\n## {}\n", escape(part.title))?;
        writeln!(
            out,
            "| case | parameters | median | 95 % CI | p99 | min | cpu time | n | outliers | round trip |\n\
             |---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        )?;
        for row in part.cases.iter().flat_map(|(_, rows)| rows) {
            markdown_row(row, &mut notes, out)?;
        }
    }
    if !notes.is_empty() {
        writeln!(out, "\n## Disturbed rows\n")?;
        for (i, note) in notes.iter().enumerate() {
            writeln!(out, "- ⚠{} {}", i + 1, escape(note))?;
        }
    }
    markdown_slopes(results, out)?;
    if !results.skipped.is_empty() {
        writeln!(out, "\n## Not measured here\n")?;
        for skipped in &results.skipped {
            let what = format!("{} {}", skipped.case, params(&skipped.params));
            writeln!(out, "- {}: {}", escape(what.trim()), escape(&skipped.reason))?;
        }
    }
    writeln!(out, "\n## How to reproduce\n")?;
    let version = &results.run.version;
    writeln!(
        out,
        "With Kumiki {} on the machine above:\n",
        if version.is_empty() { "(version not recorded)".to_owned() } else { escape(version) }
    )?;
    // An indented block cannot be closed by what is in it.
    writeln!(out, "    {}", visible(results.run.command.replace(['\n', '\r'], " ")))
}

/// The first figures with their standing, and what to do.
fn markdown_headline(results: &Results, out: &mut String) -> std::fmt::Result {
    let headline = headline(results);
    if headline.figures.is_empty() {
        return Ok(());
    }
    writeln!(out, "| figure | value | 95 % CI | standing | |\n|---|--:|--:|---|---|")?;
    for figure in &headline.figures {
        let mark = if figure.disturbed { " ⚠" } else { "" };
        let standing = match &figure.standing {
            Some(s) => {
                let other =
                    s.otherwise.map(|(name, grade)| format!("; {} by {name}", grade.word()));
                let other = other.unwrap_or_default();
                format!("{}, {} {}{other}", s.grade.word(), s.times(), s.reference)
            }
            None => String::new(),
        };
        writeln!(
            out,
            "| {} | **{}**{mark} | {} | {} | {} |",
            figure.name,
            figure.quantity(),
            figure.interval_text(),
            escape(&standing),
            escape(&figure.meaning),
        )?;
    }
    writeln!(out)?;
    for advice in &headline.advice {
        writeln!(out, "- **{}** {}", escape(&advice.finding), escape(&advice.action))?;
    }
    Ok(())
}

fn markdown_row(row: &Row, notes: &mut IndexSet<String>, out: &mut String) -> std::fmt::Result {
    let mut mark = String::new();
    if row.disturbed {
        let why = row.disturbances.join("; ");
        let why = if why.is_empty() { "no reason recorded".to_owned() } else { why };
        let (at, _) = notes.insert_full(why);
        mark = format!(" ⚠{}", at + 1);
    }
    let round_trip = match (rows::round_trips(row), row.round_trip_ns) {
        (Some(ratio), Some(ns)) => format!("{} ({})", times(ratio), time(ns)),
        _ => String::new(),
    };
    writeln!(
        out,
        "| {} | {} | **{}**{mark} | {} | {} | {} | {} | {} | {} | {round_trip} |",
        escape(&row.case),
        escape(&params(&row.params)),
        quantity(row.median, row.unit),
        interval(row.ci, row.unit),
        quantity(row.p99, row.unit),
        quantity(row.min, row.unit),
        time(row.cpu_ns),
        count(row.n as u64),
        count(row.outliers as u64),
    )
}

fn markdown_slopes(results: &Results, out: &mut String) -> std::fmt::Result {
    if results.slopes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n## Slopes\n\n| case | grows with | parameters | per 4 KiB page | 95 % CI | at size 0 | R² | knee | beyond it |\n\
         |---|---|---|--:|--:|--:|--:|--:|--:|"
    )?;
    for slope in &results.slopes {
        writeln!(
            out,
            "| {} | {} | {} | **{}** | {} | {} | {} | {} | {} |",
            escape(&slope.case),
            escape(&crate::format::words(&slope.param)),
            escape(&fixed(&slope.params)),
            format::growth(slope),
            interval(slope.ci, kumiki_measure::schema::Unit::Nanoseconds),
            time(slope.base_ns),
            number(slope.r2),
            crate::format::breaks(slope),
            slope.ns_per_page_beyond.map(time).unwrap_or_default(),
        )?;
    }
    Ok(())
}

/// Text that stays text in Markdown, in a table's cell too.
fn escape(text: &str) -> String {
    let text = visible(text.replace(['\n', '\r'], " ")).to_string();
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let in_word = before.is_alphanumeric() && rest.peek().is_some_and(|c| c.is_alphanumeric());
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '_' if in_word => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => out.extend(['\\', c]),
            _ => out.push(c),
        }
        before = c;
    }
    out
}
