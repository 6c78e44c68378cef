//! What a machine costs, in sentences. Each is said only when its rows are
//! there, and each carries its interval.

use kumiki_measure::schema::{Results, Row, Slope, Unit, Value};

use crate::format::{bytes, interval, number, quantity, time, times};
use crate::rows::{self, find};

/// Pages of 4 KiB in a MiB.
const PAGES_PER_MIB: f64 = 256.0;

/// One sentence: `before`, the figure it is about, `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Text up to the figure.
    pub before: String,
    /// The figure with its unit.
    pub figure: String,
    /// Text after it.
    pub after: String,
    /// 95 % confidence interval of the figure.
    pub ci: String,
    /// Whether a row below it was disturbed.
    pub disturbed: bool,
}

impl Sentence {
    fn of_row(row: &Row, before: impl Into<String>, after: impl Into<String>) -> Self {
        Sentence {
            before: before.into(),
            figure: quantity(row.median, row.unit),
            after: after.into(),
            ci: interval(row.ci, row.unit),
            disturbed: row.disturbed,
        }
    }
}

/// Every sentence that the result can say, the most general first.
pub fn sentences(results: &Results) -> Vec<Sentence> {
    let say: [fn(&Results) -> Option<Sentence>; 13] = [
        system_call,
        clock,
        page_fault,
        fork_base,
        fork_slope,
        fork_huge,
        spawn,
        exec_base,
        exec_data,
        wake,
        thread,
        switch,
        file,
    ];
    say.iter().filter_map(|sentence| sentence(results)).collect()
}

/// The first row of a case that says `wanted`.
fn row<'a>(r: &'a Results, case: &str, wanted: &[(&str, Value)]) -> Option<&'a Row> {
    find(r, case, wanted).next()
}

fn system_call(r: &Results) -> Option<Sentence> {
    let row = row(r, "entry.getppid", &[])?;
    Some(Sentence::of_row(row, "A system call costs ", "."))
}

fn clock(r: &Results) -> Option<Sentence> {
    let fast = row(r, "entry.clock.vdso", &[])?;
    let after = match row(r, "entry.clock.syscall", &[]) {
        Some(slow) => format!(", {} by a system call.", time(slow.median)),
        None => ".".to_owned(),
    };
    Some(Sentence::of_row(fast, "Reading the clock costs ", after))
}

fn page_fault(r: &Results) -> Option<Sentence> {
    let row = row(r, "memory.fault.anon", &[("huge", false.into())])?;
    Some(Sentence::of_row(row, "The first touch of a page costs ", "."))
}

/// Sum of the sizes that a row asks for.
fn size(row: &Row) -> u64 {
    let sizes = row.params.iter().filter(|(name, _)| name.ends_with("_bytes"));
    sizes.filter_map(|(name, _)| rows::number(&row.params, name)).sum()
}

fn fork_base(r: &Results) -> Option<Sentence> {
    let row = find(r, "process.fork", &[]).min_by_key(|row| size(row))?;
    let what = match size(row) {
        0 => "A small process forks".to_owned(),
        n => format!("A process of {} forks", bytes(n)),
    };
    Some(Sentence::of_row(row, what, ", its child's exit and the wait included."))
        .map(|s| Sentence { before: format!("{} in ", s.before), ..s })
}

fn written(huge: bool) -> [(&'static str, Value); 2] {
    [("touch", "write".into()), ("huge", huge.into())]
}

/// A slope as a sentence about a MiB.
fn per_mib(r: &Results, slope: &Slope, before: &str, after: String) -> Sentence {
    Sentence {
        before: before.to_owned(),
        figure: time(slope.ns_per_page * PAGES_PER_MIB),
        after,
        ci: interval(slope.ci.map(|ns| ns * PAGES_PER_MIB), Unit::Nanoseconds),
        disturbed: rows::below(r, slope).iter().any(|row| row.disturbed),
    }
}

fn fork_slope(r: &Results) -> Option<Sentence> {
    let slope = rows::slope(r, "process.fork", "anon_bytes", &written(false))?;
    let mut after = format!(" per resident MiB here, {} a page", time(slope.ns_per_page));
    if let (Some(knee), Some(beyond)) = (slope.knee_bytes, slope.ns_per_page_beyond) {
        after += &format!(", and {} a page beyond {}", time(beyond), bytes(knee));
    }
    Some(per_mib(r, slope, "fork costs ", after + "."))
}

fn fork_huge(r: &Results) -> Option<Sentence> {
    let huge = rows::slope(r, "process.fork", "anon_bytes", &written(true))?;
    let ordinary = rows::slope(r, "process.fork", "anon_bytes", &written(false));
    let gain = ordinary.map(|o| o.ns_per_page / huge.ns_per_page).filter(|gain| *gain > 0.0);
    let after = match gain {
        Some(gain) => format!(" per MiB, 1/{} of that.", number(gain)),
        None => " per MiB.".to_owned(),
    };
    Some(per_mib(r, huge, "In huge pages the same memory costs fork ", after))
}

/// The best way to spawn that does not depend on the parent's size.
fn spawn(r: &Results) -> Option<Sentence> {
    let sized = |case| {
        let mut rows: Vec<_> = find(r, case, &[])
            .filter_map(|row| Some((rows::number(&row.params, "anon_bytes")?, row)))
            .collect();
        rows.sort_by_key(|(size, _)| *size);
        rows
    };
    let flat = sized("process.spawn.posix_spawn");
    let ((_, first), (largest, last)) = (*flat.first()?, *flat.last()?);
    let mut after = format!(" from a parent of {}", bytes(largest));
    if flat.len() > 1 {
        after += &format!(" and {} from a small one", time(first.median));
    }
    let fork = sized("process.spawn.fork");
    if let Some((_, fork)) = fork.iter().find(|(size, _)| *size == largest) {
        after += &format!("; fork and exec take {}", time(fork.median));
    }
    Some(Sentence::of_row(last, "posix_spawn starts a program in ", after + "."))
}

fn exec_base(r: &Results) -> Option<Sentence> {
    let row = find(r, "process.exec", &[]).min_by_key(|row| size(row))?;
    Some(Sentence::of_row(row, "exec of a small static program costs ", "."))
}

fn exec_data(r: &Results) -> Option<Sentence> {
    let slope = rows::slope(r, "process.exec", "data_bytes", &[("touch", "write".into())])?;
    let after = " per MiB of initialised data that the new program writes to.".to_owned();
    Some(per_mib(r, slope, "exec costs ", after))
}

fn wake(r: &Results) -> Option<Sentence> {
    let row = row(r, "ipc.futex", &[("cpu", "other".into())])?;
    let after = match (rows::round_trips(row), row.round_trip_ns) {
        (Some(ratio), Some(ns)) => {
            format!(", {} the raw cache-line round trip of {}.", times(ratio), time(ns))
        }
        _ => ".".to_owned(),
    };
    Some(Sentence::of_row(row, "Waking a thread on the other cpu takes ", after))
}

fn thread(r: &Results) -> Option<Sentence> {
    let row = row(r, "thread.create", &[])?;
    Some(Sentence::of_row(row, "A thread is created and joined in ", "."))
}

fn switch(r: &Results) -> Option<Sentence> {
    let row = find(r, "thread.switch", &[]).min_by_key(|row| size(row))?;
    Some(Sentence::of_row(row, "A context switch costs ", "."))
}

fn file(r: &Results) -> Option<Sentence> {
    let row = row(r, "file.open_close", &[])?;
    Some(Sentence::of_row(row, "Opening and closing a file costs ", "."))
}
