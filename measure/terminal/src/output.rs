//! What goes to standard output and error: lines for people, JSON for programs.
//!
//! Names, labels, paths and errors hold what others wrote: programs of other users,
//! result files, nodes. Whatever goes out here for people passes
//! [`visible`](kumiki_sys::visible), so that none of it is carried out by a terminal or
//! forges a row; [`data`] alone writes bytes as they are.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use kumiki_measure::{format, json};
use kumiki_sys::stdio::{print, stdout_was_closed};
use kumiki_sys::visible::{visible, visible_lines};

/// Columns of the narrowest terminal that texts are made for.
pub const WIDTH: usize = 80;

/// Columns of a terminal in which a table has all of its columns.
pub const WIDE: usize = 110;

/// Says something to a person by the program's name, on standard error. Unlike `eprintln!` it goes
/// on where nobody listens: a closed pipe or a full disk there is no reason to lose a measurement.
pub fn talk(program: &str, text: impl Display) {
    aside(&message(program, text, io::stderr().is_terminal()));
}

/// Message, line by line; lines after the first are indented, so that none of them looks like a
/// message of its own.
fn message(program: &str, text: impl Display, is_terminal: bool) -> String {
    let text = format!("{program}: {text}");
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
pub fn aside(text: &str) {
    let lines = spaced(visible_lines(text).to_string(), &io::stderr());
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// Text in one line as lines that fit a terminal of 80 columns, each after `indent`.
pub fn wrapped(text: &str, indent: &str) -> String {
    hanging(text, indent, indent)
}

/// Text with a hanging indent, and another indent for the first line.
pub fn hanging(text: &str, first: &str, indent: &str) -> String {
    let options = textwrap::Options::new(WIDTH)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .initial_indent(first)
        .subsequent_indent(indent);
    textwrap::fill(&visible(text).to_string(), options) + "\n"
}

/// Prints any value as JSON.
pub fn json(value: &impl serde::Serialize) -> Result<()> {
    let mut line = Vec::new();
    json::line(value, &mut line)?;
    data(&line)
}

/// Prints lines for people.
pub fn text(lines: impl Display) -> Result<()> {
    data(spaced(visible_lines(lines).to_string(), &io::stdout()).as_bytes())
}

/// Text with plain spaces between numbers, units and thousands, where a program reads it.
fn spaced(lines: String, to: &impl IsTerminal) -> String {
    if to.is_terminal() { lines } else { lines.replace(format::THIN, " ") }
}

/// Prints lines that another machine wrote: to a terminal what they are, elsewhere as
/// they are.
pub fn log(bytes: &[u8]) -> Result<()> {
    if !io::stdout().is_terminal() {
        return data(bytes);
    }
    text(String::from_utf8_lossy(bytes).replace("\r\n", "\n"))
}

/// Prints these bytes as they are.
///
/// # Errors
/// They went nowhere: the disk is full, or there is no standard output.
pub fn data(bytes: &[u8]) -> Result<()> {
    print(bytes).context("writing to standard output")
}

/// Standard output for what goes on and on: each piece arrives, or is an error.
#[derive(Clone, Copy, Debug)]
pub struct Stream;

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
pub fn check() -> Result<()> {
    has_stdout().context("standard output is closed, and what is measured goes there")
}

/// Prints what clap has to say, with its colours where they are wanted.
pub fn help(shown: &clap::Error) -> Result<()> {
    let text = shown.render();
    let plain = !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    let text = if plain { text.to_string() } else { text.ansi().to_string() };
    data(text.as_bytes())
}

/// Prints a line.
pub fn line(line: impl Display) -> Result<()> {
    text(format_args!("{}\n", visible(line)))
}

/// True if the reader of our output is gone.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
