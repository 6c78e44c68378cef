//! What goes to standard output: tables for people, JSON for programs.
//!
//! Names, labels, paths and errors hold what others wrote: programs of other users,
//! result files, nodes. Whatever goes out here for people passes
//! [`visible`](kumiki_sys::visible), so that none of it is carried out by a terminal or
//! forges a row; [`data`] alone writes bytes as they are.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets::NOTHING};
use kumiki_measure::schema::{Params, Results, Row, Skipped, Value};
use kumiki_report::{export, format};
use kumiki_sys::stdio::{print, stdout_was_closed};
use kumiki_sys::visible::{visible, visible_lines};

/// Columns of the narrowest terminal that texts are made for.
pub(crate) const WIDTH: usize = 80;

/// Columns of a terminal in which a table has all of its columns.
pub(crate) const WIDE: usize = 110;

/// Says something to a person, on standard error. Unlike `eprintln!` it goes on
/// where nobody listens: a closed pipe or a full disk there is no reason to
/// lose a measurement.
pub(crate) fn talk(text: impl Display) {
    aside(&message(text, io::stderr().is_terminal()));
}

/// Message, line by line; lines after the first are indented, so that none of them looks like a
/// message of its own.
fn message(text: impl Display, is_terminal: bool) -> String {
    let text = format!("kumiki: {text}");
    let lines = text.trim_end().lines().enumerate();
    let indented = lines.map(|(n, line)| match (n, is_terminal) {
        (0, true) => wrapped(line, ""),
        (_, true) => wrapped(line, "  "),
        // Lines that programs read stay whole.
        (0, false) => format!("{line}\n"),
        (_, false) => format!("  {line}\n"),
    });
    indented.collect()
}

/// Shows text to a person beside data, on standard error.
pub(crate) fn aside(text: &str) {
    let lines = spaced(visible_lines(text).to_string(), &io::stderr());
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Text in one line as lines that fit a terminal of 80 columns, each after `indent`.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    hanging(text, indent, indent)
}

/// Text with a hanging indent, and another indent for the first line.
pub(crate) fn hanging(text: &str, first: &str, indent: &str) -> String {
    let options = textwrap::Options::new(WIDTH)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .initial_indent(first)
        .subsequent_indent(indent);
    textwrap::fill(&visible(text).to_string(), options) + "\n"
}

/// Prints any value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<()> {
    let mut line = Vec::new();
    export::json_line(value, &mut line)?;
    data(&line)
}

/// Prints lines for people.
pub(crate) fn text(lines: impl Display) -> Result<()> {
    data(spaced(visible_lines(lines).to_string(), &io::stdout()).as_bytes())
}

/// Text with plain spaces between numbers, units and thousands, where a program reads it.
fn spaced(lines: String, to: &impl IsTerminal) -> String {
    if to.is_terminal() { lines } else { lines.replace(format::THIN, " ") }
}

/// Prints lines that another machine wrote: to a terminal what they are, elsewhere as
/// they are.
pub(crate) fn log(bytes: &[u8]) -> Result<()> {
    if !io::stdout().is_terminal() {
        return data(bytes);
    }
    text(String::from_utf8_lossy(bytes).replace("\r\n", "\n"))
}

/// Prints these bytes as they are.
///
/// # Errors
/// They went nowhere: the disk is full, or there is no standard output.
pub(crate) fn data(bytes: &[u8]) -> Result<()> {
    print(bytes).context("writing to standard output")
}

/// Standard output for what goes on and on: each piece arrives, or is an error.
pub(crate) struct Stream;

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        has_stdout()?;
        io::stdout().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Checks that printed text arrives anywhere. The standard library lets writes to a standard output
/// that was closed succeed.
fn has_stdout() -> io::Result<()> {
    if stdout_was_closed() {
        return Err(rustix::io::Errno::BADF.into());
    }
    Ok(())
}

/// Fails where [`data`] would, before long work whose result is to be printed.
pub(crate) fn check() -> Result<()> {
    has_stdout().context("standard output is closed, and what is measured goes there")
}

/// Prints what clap has to say, with its colours where they are wanted.
pub(crate) fn help(shown: &clap::Error) -> Result<()> {
    let text = shown.render();
    let plain = !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    let text = if plain { text.to_string() } else { text.ansi().to_string() };
    data(text.as_bytes())
}

/// Prints a line.
pub(crate) fn line(line: impl Display) -> Result<()> {
    text(format_args!("{}\n", visible(line)))
}

/// True if the reader of our output is gone.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// A table for people; each cell is one line.
pub(crate) struct Rows(Table);

impl Rows {
    /// None yet, with these headings; all columns but the first `left` are aligned to
    /// the right.
    pub(crate) fn new(headings: &[&str], left: usize) -> Rows {
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(headings);
        // Where the terminal is too narrow parameters are broken, between words.
        let parameters = headings.iter().position(|name| ["parameters", "with"].contains(name));
        if let (Some(parameters), Some(_)) = (parameters, table.width()) {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            for i in (0..headings.len()).filter(|i| *i != parameters) {
                if let Some(column) = table.column_mut(i) {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                }
            }
        }
        for i in left..headings.len() {
            if let Some(column) = table.column_mut(i) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Rows(table)
    }

    /// Indents the rows; there is no room before the first column: its cells bring their own.
    pub(crate) fn indented(mut self) -> Rows {
        if let Some(column) = self.0.column_mut(0) {
            column.set_padding((0, 1));
        }
        self
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, cells: impl IntoIterator<Item: Display>) {
        self.0.add_row(cells.into_iter().map(|cell| visible(cell).to_string()));
    }

    /// Prints the table.
    pub(crate) fn print(&self) -> Result<()> {
        text(format_args!("{self}\n"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.row_iter().next().is_none()
    }
}

impl Display for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.trim_fmt())
    }
}

/// True if standard output is a terminal of fewer columns.
pub(crate) fn narrow(columns: usize) -> bool {
    Table::new().width().is_some_and(|width| usize::from(width) < columns)
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
