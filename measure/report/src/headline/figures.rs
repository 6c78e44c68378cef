//! The dozen figures of the first screen, and where a result has each of them. Drawings are in
//! `figures/`.

use kumiki_measure::schema::{Results, Row, Slope, Trend, Unit, Value};

use crate::format::{bytes, count, time, times};
use crate::parasc::against;
use crate::rows::{self, find, row};

/// A figure as a result has it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) value: f64,
    pub(super) unit: Unit,
    pub(super) interval: [f64; 2],
    pub(super) meaning: String,
    pub(super) disturbed: bool,
    /// True if it follows from a line through what was measured, beyond its end.
    pub(super) extrapolated: bool,
    /// The raw cache-line round trip beside it, if that is what it consists of.
    pub(super) trip_ns: Option<f64>,
    /// Only figures that say the same here are compared.
    pub(super) like: String,
}

impl Found {
    fn of(row: &Row, meaning: impl Into<String>) -> Self {
        Found {
            value: row.median,
            unit: row.unit,
            interval: row.ci,
            meaning: meaning.into(),
            disturbed: row.disturbed,
            extrapolated: false,
            trip_ns: None,
            like: String::new(),
        }
    }
}

/// Question that is put to a result.
pub(super) struct HeadlineQuestion {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) find: fn(&Results) -> Option<Found>,
}

/// Questions in the order in which they are shown: costs of every call, processes, threads, and
/// Kumiki's answers to them.
pub(super) const QUESTIONS: [HeadlineQuestion; 12] = [
    HeadlineQuestion { key: "system-call", name: "system call", find: system_call },
    HeadlineQuestion { key: "clock", name: "reading the clock", find: clock },
    HeadlineQuestion { key: "page-fault", name: "first write to a page", find: page_fault },
    HeadlineQuestion { key: "open", name: "opening and closing a file", find: open },
    HeadlineQuestion { key: "fork", name: "fork, smallest process", find: fork },
    HeadlineQuestion { key: "fork-gib", name: "fork with 1 GiB written", find: fork_gib },
    HeadlineQuestion { key: "spawn", name: "starting a program", find: spawn },
    HeadlineQuestion { key: "switch", name: "context switch", find: switch },
    HeadlineQuestion { key: "wake", name: "waking a thread and back", find: wake },
    HeadlineQuestion { key: "line", name: "cache line, there and back", find: line },
    HeadlineQuestion { key: "shadow", name: "shadow fork and join", find: shadow },
    HeadlineQuestion { key: "parasc", name: "300 reads in parallel", find: requests },
];

const GIB: f64 = (1_u64 << 30) as f64;

/// Widest interval, as a factor, of a figure that a line gives beyond the measured sizes: a wider
/// one is left out.
const WIDEST: f64 = 2.0;

/// True if an extrapolated interval is narrow enough to be shown.
fn is_narrow([low, high]: [f64; 2]) -> bool {
    low > 0.0 && high <= WIDEST * low
}

/// A case's row with the least size.
fn least<'a>(r: &'a Results, case: &str) -> Option<&'a Row> {
    find(r, case, &[]).min_by_key(|row| rows::size(row))
}

fn system_call(r: &Results) -> Option<Found> {
    let mut meaning = "into the kernel and back, by getppid".to_owned();
    if let Some(libc) = row(r, "entry.getppid.libc", &[]) {
        meaning += &format!("; through the C library {}", time(libc.median));
    }
    Some(Found::of(row(r, "entry.getppid", &[])?, meaning))
}

fn clock(r: &Results) -> Option<Found> {
    let mut meaning = "CLOCK_MONOTONIC by the vDSO".to_owned();
    if let Some(slow) = row(r, "entry.clock.syscall", &[]) {
        meaning += &format!("; by a system call {}", time(slow.median));
    }
    Some(Found::of(row(r, "entry.clock.vdso", &[])?, meaning))
}

fn page_fault(r: &Results) -> Option<Found> {
    let mut meaning = "the page fault of fresh memory, 4\u{202f}KiB".to_owned();
    if let Some(huge) = row(r, "memory.fault.huge", &[]) {
        meaning += &format!("; of 2\u{202f}MiB at once {}", time(huge.median));
    }
    Some(Found::of(row(r, "memory.fault.anon", &[("touch", "write".into())])?, meaning))
}

fn open(r: &Results) -> Option<Found> {
    let depth = |row: &&Row| rows::number(&row.params, "depth");
    let mut meaning = "a file in the scratch folder, by its whole name".to_owned();
    if let Some(stat) = row(r, "file.stat", &[]) {
        meaning += &format!("; stat {}", time(stat.median));
    }
    Some(Found::of(find(r, "file.open_close", &[]).min_by_key(depth)?, meaning))
}

fn fork(r: &Results) -> Option<Found> {
    let fork = least(r, "process.fork").filter(|row| rows::size(row) == 0)?;
    let mut meaning = "with the child’s exit and the wait for it".to_owned();
    if let Some(exec) = least(r, "process.exec") {
        meaning += &format!("; exec of a program as small {}", time(exec.median));
    }
    Some(Found::of(fork, meaning))
}

fn written(huge: bool) -> [(&'static str, Value); 2] {
    [("touch", "write".into()), ("huge", huge.into())]
}

/// Cost by the line through the sizes that were measured, if that says enough about a GiB.
fn fork_gib(r: &Results) -> Option<Found> {
    let slope = rows::slope(r, "process.fork", "anon_bytes", &written(false))?;
    if slope.trend != Trend::Grows || !slope.is_graded() {
        return None;
    }
    let pages = |bytes: f64| bytes / 4096.0;
    // Beyond a knee each page costs what the second line says.
    let growth_ns = match (slope.knee_bytes, slope.ns_per_page_beyond) {
        (Some(knee), Some(beyond)) if (knee as f64) < GIB => {
            let jump = slope.jump.map_or(0.0, |jump| jump.ns);
            slope.ns_per_page * pages(knee as f64) + jump + beyond * pages(GIB - knee as f64)
        }
        _ => slope.ns_per_page * pages(GIB),
    };
    // Of the second line no interval is known: it is taken to be as wide.
    let end = |ns_per_page: f64| slope.base_ns + growth_ns * ns_per_page / slope.ns_per_page;
    let below = rows::below(r, slope);
    let largest = below.iter().map(|row| rows::size(row)).max()?;
    let extrapolated = (largest as f64) < GIB;
    let interval = slope.ci.map(end);
    if extrapolated && !is_narrow(interval) {
        return None;
    }
    let mut meaning = match extrapolated {
        true => format!(
            "extrapolated from sizes up to {}, {} a page of 4\u{202f}KiB",
            bytes(largest),
            time(slope.ns_per_page)
        ),
        false => format!(
            "{} a page of 4\u{202f}KiB, by sizes up to {}",
            time(slope.ns_per_page),
            bytes(largest)
        ),
    };
    let huge = rows::slope(r, "process.fork", "anon_bytes", &written(true));
    let of_huge = |ns_per_page: f64, huge: &Slope| huge.base_ns + ns_per_page * pages(GIB);
    let huge = huge.filter(|huge| is_narrow(huge.ci.map(|end| of_huge(end, huge))));
    if let Some(huge) = huge {
        meaning += &format!("; in huge pages {}", time(of_huge(huge.ns_per_page, huge)));
    }
    Some(Found {
        value: slope.base_ns + growth_ns,
        unit: Unit::Nanoseconds,
        interval,
        meaning,
        disturbed: below.iter().any(|row| row.disturbed),
        extrapolated,
        trip_ns: None,
        like: String::new(),
    })
}

/// Cost from the largest parent: it depends on none.
fn spawn(r: &Results) -> Option<Found> {
    let of = |case| find(r, case, &[]).max_by_key(|row| rows::size(row));
    let row = of("process.spawn.posix_spawn")?;
    let mut meaning = match rows::size(row) {
        0 => "posix_spawn from a small process".to_owned(),
        size => format!("posix_spawn from a process of {}", bytes(size)),
    };
    let fork = of("process.spawn.fork_exec").filter(|fork| rows::size(fork) == rows::size(row));
    if let Some(fork) = fork {
        meaning += &format!("; fork and exec {}", time(fork.median));
    }
    Some(Found::of(row, meaning))
}

fn switch(r: &Results) -> Option<Found> {
    let ring = |n: u64| [("processes", n.into()), ("working_set_bytes", 0u64.into())];
    let two = row(r, "thread.context_switch", &ring(2))?;
    let mut meaning = "a byte handed to another process on the same cpu".to_owned();
    if let Some(one) = row(r, "thread.context_switch", &ring(1)) {
        meaning += &format!("; without the switch {}", time(one.median));
    }
    Some(Found::of(two, meaning))
}

fn wake(r: &Results) -> Option<Found> {
    let on = |cpu: &str| row(r, "thread.wake.round_trip", &[("cpu", cpu.into())]);
    let mut meaning = "from sleep, on another cpu".to_owned();
    if let Some(same) = on("same") {
        meaning += &format!("; on the same cpu {}", time(same.median));
    }
    Some(Found::of(on("other")?, meaning))
}

/// Every measurement of the raw round trip that the run made beside its rows.
fn line(r: &Results) -> Option<Found> {
    let visits = r.rows.iter().flat_map(|row| &row.visits);
    let trips = visits.flat_map(|v| [v.round_trip_before_ns, v.round_trip_after_ns]).flatten();
    let mut trips: Vec<f64> = trips.chain(r.machine.round_trip_ns).collect();
    trips.sort_by(f64::total_cmp);
    let last = trips.len().checked_sub(1)?;
    let at = |share: f64| trips[(share * last as f64).round() as usize];
    let meaning = format!("between two cpus, {} times during the run", count(trips.len() as u64));
    Some(Found {
        value: at(0.5),
        unit: Unit::Nanoseconds,
        interval: [at(0.05), at(0.95)],
        meaning,
        disturbed: false,
        extrapolated: false,
        trip_ns: None,
        like: String::new(),
    })
}

/// Fork and join to a helper that waits, awake.
fn shadow(r: &Results) -> Option<Found> {
    let way = |way: &str| row(r, "shadow.null", &[("way", way.into())]);
    let row = way("two_phase").or_else(|| way("spin"))?;
    let mut meaning = match rows::round_trips(row) {
        Some(ratio) => format!("a shadow thread that waits awake, {} the cache line", times(ratio)),
        None => "a shadow thread that waits awake".to_owned(),
    };
    if let Some(thread) = way("pthread") {
        meaning += &format!("; a new thread {}", time(thread.median));
    }
    Some(Found { trip_ns: row.round_trip_ns.filter(|ns| *ns > 0.0), ..Found::of(row, meaning) })
}

/// The paper's reads by as many processing threads as there are cpus for.
fn requests(r: &Results) -> Option<Found> {
    let against = against(r, "own").pop()?;
    let (_, plain, row) = against.rows.iter().find(|(requests, ..)| *requests == 300)?;
    let threads = match against.threads {
        1 => "1 processing thread".to_owned(),
        n => format!("{} processing threads", count(n)),
    };
    let ratio = times(row.median / plain.median);
    let meaning = format!("{ratio} the plain calls’ {}, with {threads}", time(plain.median));
    Some(Found { like: threads, ..Found::of(row, meaning) })
}
