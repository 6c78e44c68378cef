//! `kumiki resource top`: where a person would look.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Result;
use kumiki_report::format;

use super::Sort;
use super::row::Row;
use crate::{interrupt, output};

/// The other screen of the terminal, without a cursor; and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Whose calls are counted.
type Key = (Option<u32>, String);

/// The last look: when, and how often each had been called.
struct Before {
    at: Instant,
    calls: HashMap<Key, u64>,
}

/// Shows them until a signal comes, or so many times.
pub(crate) fn run(
    look: impl Fn() -> Result<Vec<Row>>,
    every: u64,
    count: Option<u64>,
    sort: Sort,
) -> Result<()> {
    let (tell, ended) = channel();
    interrupt::each(move |_| _ = tell.send(()))?;
    // What is wrong with the question is said on the screen that stays.
    let mut rows = look()?;
    let terminal = io::stdout().is_terminal();
    if terminal {
        output::data(ENTER)?;
    }
    let mut before = None;
    let outcome = (1..).try_for_each(|shown: u64| {
        let outcome = show(&rows, &mut before, sort, terminal).and_then(|()| {
            if count.is_some_and(|count| shown >= count) {
                return Ok(None);
            }
            match ended.recv_timeout(Duration::from_secs(every)) {
                Err(RecvTimeoutError::Timeout) => look().map(Some),
                _ => Ok(None),
            }
        });
        match outcome {
            Ok(Some(next)) => {
                rows = next;
                Ok(())
            }
            Ok(None) => Err(None),
            Err(error) => Err(Some(error)),
        }
    });
    if terminal {
        output::data(LEAVE)?;
    }
    match outcome {
        Err(Some(error)) => Err(error),
        _ => Ok(()),
    }
}

fn show(rows: &[Row], before: &mut Option<Before>, sort: Sort, terminal: bool) -> Result<()> {
    let now = Instant::now();
    let key = |row: &Row| (row.process, row.name.clone());
    let rate = |row: &Row| {
        let before = before.as_ref()?;
        let calls = row.calls.saturating_sub(*before.calls.get(&key(row))?);
        Some((calls as f64 / now.duration_since(before.at).as_secs_f64()) as u64)
    };
    let mut all: Vec<(&Row, Option<u64>)> = rows.iter().map(|row| (row, rate(row))).collect();
    let by_name = |row: &Row| (row.process.unwrap_or(u32::MAX), row.name.clone());
    match sort {
        Sort::Calls => all.sort_by_key(|(row, rate)| {
            (Reverse(*rate), Reverse(row.calls), Reverse(row.bytes), by_name(row))
        }),
        Sort::Memory => all.sort_by_key(|(row, _)| (Reverse(row.bytes), by_name(row))),
        Sort::Name => all.sort_by_key(|(row, _)| by_name(row)),
    }
    // What a process says of itself may be any number.
    let sum = |of: fn(&(&Row, Option<u64>)) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
    let mut processes: Vec<_> = rows.iter().filter_map(|row| row.process).collect();
    processes.dedup();
    let mut text = format!(
        "{}  {}, {}, {}, {} calls/s\n\n",
        jiff::Zoned::now().strftime("%H:%M:%S"),
        counted(processes.len(), "process", "processes"),
        counted(all.len(), "resource", "resources"),
        format::bytes(sum(|(row, _)| row.bytes)),
        format::count(sum(|(_, rate)| rate.unwrap_or(0))),
    );
    write!(text, "{}", table(&all))?;
    text.push('\n');
    *before =
        Some(Before { at: now, calls: rows.iter().map(|row| (key(row), row.calls)).collect() });
    if terminal { output::data(fitted(&text).as_bytes()) } else { output::text(text) }
}

fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn table(all: &[(&Row, Option<u64>)]) -> output::Rows {
    let mut table = output::Rows::new(&["process", "name", "state", "calls/s", "memory"], 3);
    for (row, rate) in all {
        table.add([
            row.process.map(|process| process.to_string()).unwrap_or_default(),
            row.name.clone(),
            row.state.clone(),
            rate.map(format::count).unwrap_or_default(),
            format::bytes(row.bytes),
        ]);
    }
    table
}

/// Lines of a table for the whole screen: its first lines, none longer than a line of the screen.
fn fitted(text: &str) -> String {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let (lines, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
    let (lines, columns) = (usize::from(lines.max(2)), usize::from(columns.max(20)));
    let mut screen = "\x1b[H".to_owned();
    for (n, line) in text.lines().take(lines).enumerate() {
        let line: String = line.chars().take(columns).collect();
        screen += if n > 0 { "\r\n" } else { "" };
        screen += &line;
        screen += "\x1b[K";
    }
    screen + "\x1b[J"
}
