//! `kumiki resource top`: where a person would look.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use kumiki_report::format;

use super::Sort;
use super::row::Row;
use crate::{output, screen};

/// Process and resource whose calls are counted.
type Key = (Option<u32>, String);

/// The last look: when, and how often each had been called.
struct Before {
    at: Instant,
    calls: HashMap<Key, u64>,
}

/// Shows them until a signal comes, or so many times.
pub(crate) fn run(
    look: impl Fn() -> Result<Vec<Row>>,
    every: Duration,
    count: Option<u64>,
    sort: Sort,
) -> Result<()> {
    let mut before = None;
    screen::run(every, count, || page(&look()?, &mut before, sort))
}

fn page(rows: &[Row], before: &mut Option<Before>, sort: Sort) -> Result<String> {
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
    Ok(text)
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
