//! Answers to the page's questions, in sentences. Each is given only when its
//! rows are there, and each carries its interval.

use kumiki_measure::compare::{Comparison, Verdict as Found};
use kumiki_measure::schema::{Results, Row, Slope, Trend, Unit, Value};

use crate::format::{bytes, count, interval, quantity, time, times};
use crate::parasc::against;
use crate::rows::{self, Verdict, find, row};

/// Pages of 4 KiB in a MiB.
const PAGES_PER_MIB: f64 = 256.0;

/// One sentence: `before`, the figure it is about, `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// Text up to the figure.
    pub(crate) before: String,
    /// The figure with its unit.
    pub(crate) figure: String,
    /// Text after it.
    pub(crate) after: String,
    /// 95 % confidence interval of the figure.
    pub(crate) ci: String,
    /// True if a row below it was disturbed.
    pub(crate) disturbed: bool,
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

/// A case's row with the least size.
fn least<'a>(r: &'a Results, case: &str) -> Option<&'a Row> {
    find(r, case, &[]).min_by_key(|row| rows::size(row))
}

pub(crate) fn system_call(r: &Results) -> Option<Sentence> {
    let row = row(r, "entry.getppid", &[])?;
    Some(Sentence::of_row(row, "A system call costs ", "."))
}

/// The answer as most programs call it, through the C library, where that is another figure.
pub(crate) fn through_libc(r: &Results) -> Option<Sentence> {
    let (bare, libc) = (row(r, "entry.getppid", &[])?, row(r, "entry.getppid.libc", &[])?);
    let after = match rows::compare(bare, libc) {
        (ratio, Verdict::Worse) => format!(
            ", {} the instruction alone: some processors empty their return predictor at each \
             entry to the kernel, so the library’s own return is mispredicted.",
            times(ratio)
        ),
        _ => ".".to_owned(),
    };
    Some(Sentence::of_row(
        libc,
        "Through the C library, as most programs make it, it costs ",
        after,
    ))
}

pub(crate) fn clock(r: &Results) -> Option<Sentence> {
    let fast = row(r, "entry.clock.vdso", &[])?;
    let after = match row(r, "entry.clock.syscall", &[]) {
        Some(slow) => format!(", {} by a system call.", time(slow.median)),
        None => ".".to_owned(),
    };
    Some(Sentence::of_row(fast, "Reading the clock costs ", after))
}

pub(crate) fn page_fault(r: &Results) -> Option<Sentence> {
    let row = row(r, "memory.fault.anon", &[("touch", "write".into())])?;
    Some(Sentence::of_row(row, "The first write to a page of fresh memory costs ", "."))
}

pub(crate) fn fork_base(r: &Results) -> Option<Sentence> {
    let row = least(r, "process.fork")?;
    let before = match rows::size(row) {
        0 => "The smallest process forks in ".to_owned(),
        n => format!("A process of {} forks in ", bytes(n)),
    };
    Some(Sentence::of_row(row, before, ", its child’s exit and the wait included."))
}

fn written(huge: bool) -> [(&'static str, Value); 2] {
    [("touch", "write".into()), ("huge", huge.into())]
}

/// A slope as a sentence about a MiB, as far as its interval goes.
fn per_mib(r: &Results, slope: &Slope, before: &str, after: String) -> Sentence {
    let most = || time(slope.ci[1].max(0.0) * PAGES_PER_MIB);
    let (figure, after) = match slope.trend {
        Trend::Grows if !slope.is_graded() => (
            format!("at most {} more", most()),
            " per MiB; it grows, and only how fast is unclear.".to_owned(),
        ),
        Trend::Falls if !slope.is_graded() => {
            ("less the larger it is".to_owned(), "; how much less per MiB is unclear.".to_owned())
        }
        Trend::Grows => (time(slope.ns_per_page * PAGES_PER_MIB), after),
        Trend::Falls => {
            (format!("{} less", time(-slope.ns_per_page * PAGES_PER_MIB)), " per MiB.".to_owned())
        }
        Trend::Flat => (
            "about the same whatever the size".to_owned(),
            format!(", at most {} more per MiB.", most()),
        ),
        Trend::Unclear => (
            format!("at most {} more", most()),
            " per MiB; whether it grows at all is unclear.".to_owned(),
        ),
    };
    Sentence {
        before: before.to_owned(),
        figure,
        after,
        ci: interval(slope.ci.map(|ns| ns * PAGES_PER_MIB), Unit::Nanoseconds),
        disturbed: rows::below(r, slope).iter().any(|row| row.disturbed),
    }
}

pub(crate) fn fork_slope(r: &Results) -> Option<Sentence> {
    let slope = rows::slope(r, "process.fork", "anon_bytes", &written(false))?;
    let mut after = format!(" per resident MiB here, {} a page", time(slope.ns_per_page));
    if let (Some(knee), Some(beyond)) = (slope.knee_bytes, slope.ns_per_page_beyond) {
        after += &format!(", and {} a page beyond {}", time(beyond), bytes(knee));
    }
    Some(per_mib(r, slope, "fork costs ", after + "."))
}

pub(crate) fn fork_huge(r: &Results) -> Option<Sentence> {
    let huge = rows::slope(r, "process.fork", "anon_bytes", &written(true))?;
    let ordinary = rows::slope(r, "process.fork", "anon_bytes", &written(false));
    // A ratio to nothing, or to noise below nothing, says nothing.
    let grows = |slope: &Slope| slope.trend == Trend::Grows && slope.is_graded();
    let ordinary = ordinary.filter(|o| grows(o) && grows(huge) && o.ci[0] > huge.ci[1]);
    let after = match ordinary.map(|o| o.ns_per_page / huge.ns_per_page) {
        Some(less) => format!(" per MiB, {} less.", times(less)),
        None => " per MiB.".to_owned(),
    };
    Some(per_mib(r, huge, "In huge pages the same memory costs fork ", after))
}

/// Comparison of each further result with the first: its families of rows, counted.
pub(crate) fn compared(comparisons: &[Comparison], names: &[String]) -> Vec<Sentence> {
    let sentence = |(comparison, name): (&Comparison, &String)| {
        let of = |verdict| count(comparison.families(verdict) as u64);
        Sentence {
            before: match comparison.families.len() {
                1 => format!("Of the one family of rows that {name} and {} have both, ", names[0]),
                all => format!(
                    "Of {} families of rows that {name} and {} have both, ",
                    count(all as u64),
                    names[0]
                ),
            },
            figure: format!(
                "{} are better and {} worse",
                of(Found::Improvement),
                of(Found::Regression)
            ),
            after: format!(
                " beyond doubt; {} show no difference, and of {} these runs do not tell.",
                of(Found::Same),
                of(Found::Unclear)
            ),
            ci: String::new(),
            disturbed: comparison.rows.iter().any(|row| row.a.disturbed || row.b.disturbed),
        }
    };
    comparisons.iter().zip(&names[1..]).map(sentence).collect()
}

/// Answer to whether the cost of starting a program depends on the size of the process that starts
/// it.
pub(crate) fn spawn(r: &Results) -> Option<Sentence> {
    let sized = |case| {
        let mut rows: Vec<_> = find(r, case, &[])
            .filter_map(|row| Some((rows::number(&row.params, "anon_bytes")?, row)))
            .collect();
        rows.sort_by_key(|(size, _)| *size);
        rows
    };
    let flat = sized("process.spawn.posix_spawn");
    let ((_, first), (largest, last)) = (*flat.first()?, *flat.last()?);
    let mut after = match largest {
        0 => " from a small parent".to_owned(),
        _ => format!(" from a parent of {}", bytes(largest)),
    };
    if flat.len() > 1 {
        after += &format!(" and in {} from a small one", time(first.median));
    }
    let fork = sized("process.spawn.fork_exec");
    if let Some((_, fork)) = fork.iter().find(|(size, _)| *size == largest) {
        after += &format!("; fork and exec take {}", time(fork.median));
    }
    Some(Sentence::of_row(last, "posix_spawn starts a program in ", after + "."))
}

pub(crate) fn exec_base(r: &Results) -> Option<Sentence> {
    let row = least(r, "process.exec")?;
    Some(Sentence::of_row(row, "exec of the smallest static program costs ", "."))
}

pub(crate) fn exec_data(r: &Results) -> Option<Sentence> {
    let slope = rows::slope(r, "process.exec", "data_bytes", &[("touch", "write".into())])?;
    let after = " per MiB of initialised data that the new program writes to.".to_owned();
    Some(per_mib(r, slope, "exec costs ", after))
}

pub(crate) fn wake(r: &Results) -> Option<Sentence> {
    let case = "thread.wake.round_trip";
    let other = row(r, case, &[("cpu", "other".into())])?;
    let mut after = String::new();
    if let Some(ratio) = rows::round_trips(other) {
        after += &format!(", {} the cache line’s round trip", times(ratio));
    }
    if let Some(same) = row(r, case, &[("cpu", "same".into())]) {
        after += &format!("; on the same cpu {}", time(same.median));
    }
    let before = "Waking a thread on another cpu and being woken by it takes ";
    Some(Sentence::of_row(other, before, after + "."))
}

pub(crate) fn switch(r: &Results) -> Option<Sentence> {
    let ring = |n: u64| [("processes", n.into()), ("working_set_bytes", 0u64.into())];
    let case = "thread.context_switch";
    let two = row(r, case, &ring(2))?;
    let after = match row(r, case, &ring(1)) {
        Some(one) => format!("; without the switch {}.", time(one.median)),
        None => ".".to_owned(),
    };
    let before = "Handing a byte to another process on the same cpu takes ";
    Some(Sentence::of_row(two, before, after))
}

pub(crate) fn thread(r: &Results) -> Option<Sentence> {
    let case = "thread.create.pthread";
    let row = row(r, case, &[("cpu", "same".into())]).or_else(|| least(r, case))?;
    Some(Sentence::of_row(row, "A thread is created and joined in ", "."))
}

pub(crate) fn signal(r: &Results) -> Option<Sentence> {
    let row = row(r, "signal.catch", &[])?;
    Some(Sentence::of_row(row, "A signal to oneself is sent and caught in ", "."))
}

pub(crate) fn file(r: &Results) -> Option<Sentence> {
    let depth = |row: &&Row| rows::number(&row.params, "depth");
    let row = find(r, "file.open_close", &[]).min_by_key(depth)?;
    Some(Sentence::of_row(row, "A file is opened and closed in ", "."))
}

pub(crate) fn on_disk(r: &Results) -> Option<Sentence> {
    let row = row(r, "file.fsync", &[])?;
    Some(Sentence::of_row(row, "4 KiB are written over a file and are on disk after ", "."))
}

/// The row of the way with the least round trip.
pub(crate) fn quickest_row<'a>(r: &'a Results, cpu: &str) -> Option<&'a Row> {
    let talks = |row: &&Row| {
        row.case.starts_with("ipc.")
            && row.case.ends_with(".latency")
            && row.params.get("cpu") == Some(&cpu.into())
    };
    r.rows.iter().filter(talks).min_by(|a, b| a.median.total_cmp(&b.median))
}

/// The way with the quickest round trip, each at its smallest message.
fn quickest(r: &Results, cpu: &str, before: &str) -> Option<Sentence> {
    let row = quickest_row(r, cpu)?;
    let way = row.case.trim_start_matches("ipc.").trim_end_matches(".latency").replace('_', " ");
    Some(Sentence::of_row(
        row,
        format!("{before}, the quickest way there and back is {way}: "),
        ".",
    ))
}

pub(crate) fn quickest_on_one_cpu(r: &Results) -> Option<Sentence> {
    quickest(r, "same", "On one cpu")
}

pub(crate) fn quickest_between_cpus(r: &Results) -> Option<Sentence> {
    quickest(r, "other", "Between two cpus")
}

/// Fork and join to a helper, awake and asleep.
pub(crate) fn shadow(r: &Results) -> Option<Sentence> {
    let row = ["two_phase", "spin"]
        .iter()
        .find_map(|way| row(r, "shadow.null", &[("way", (*way).into())]))?;
    let mut after = String::new();
    if let Some(ratio) = rows::round_trips(row) {
        after += &format!(", {} the cache line’s round trip", times(ratio));
    }
    let asleep = [("wait", "sleep".into())];
    if let Some(asleep) = find(r, "shadow.pair", &asleep).find(|pair| pair.cpus == row.cpus) {
        after += &format!("; with a helper that must be woken first {}", time(asleep.median));
    }
    if let Some(thread) = self::row(r, "shadow.null", &[("way", "pthread".into())]) {
        after += &format!("; a new thread takes {}", time(thread.median));
    }
    let before = "Fork and join to a shadow thread on the nearest cpu take ";
    Some(Sentence::of_row(row, before, after + "."))
}

pub(crate) fn idle_helper(r: &Results) -> Option<Sentence> {
    let wait = |word: &str| row(r, "shadow.idle", &[("threshold_ticks", word.into())]);
    let row = wait("adaptive")?;
    let after = match wait("infinite") {
        Some(spins) => {
            format!(" while it waits, one that only spins {}.", quantity(spins.median, spins.unit))
        }
        None => " while it waits.".to_owned(),
    };
    Some(Sentence::of_row(row, "A shadow thread takes ", after))
}

pub(crate) fn shadow_copy(r: &Results) -> Option<Sentence> {
    let copies = |way: &str| {
        find(r, "shadow.copy", &[("way", way.into())]).max_by_key(|row| rows::size(row))
    };
    let (auto, libc) = (copies("auto")?, copies("libc")?);
    let bytes = bytes(rows::size(auto));
    if rows::size(libc) != rows::size(auto) {
        return None;
    }
    let after = format!(", by the C library alone at {}.", quantity(libc.median, libc.unit));
    let before = format!("With a shadow thread {bytes} that are in no cache are copied at ");
    Some(Sentence::of_row(auto, before, after))
}

/// A call to what another core owns, alone and with others under way.
pub(crate) fn core_call(r: &Results) -> Option<Sentence> {
    let calls = |n: u64| row(r, "resource.call", &[("in_flight", n.into())]);
    let row = calls(1)?;
    let mut after = String::new();
    if let Some(ratio) = rows::round_trips(row) {
        after += &format!(", {} the cache line’s round trip", times(ratio));
    }
    if let Some(many) = calls(32) {
        after += &format!("; with 32 under way {} each", time(many.median));
    }
    Some(Sentence::of_row(row, "A call to the core that owns a resource takes ", after + "."))
}

/// 4 KiB of memory as a resource: of most cores, each with tables of its own, and with one.
pub(crate) fn owned_memory(r: &Results) -> Option<Sentence> {
    let cores = |row: &Row| rows::number(&row.params, "cores");
    let memory = |kind: &str| {
        let wanted = [("type", kind.into())];
        find(r, "resource.memory", &wanted).max_by_key(|row| cores(row))
    };
    let (own, shared) = (memory("per_core")?, memory("shared")?);
    if cores(own) != cores(shared) {
        return None;
    }
    let before = match cores(own)? {
        1 => "On one core 4 KiB of named memory are allocated and freed in ".to_owned(),
        n => format!("On {n} cores at once each allocates and frees 4 KiB of named memory in "),
    };
    let after = format!("; with tables that all share in {}.", time(shared.median));
    Some(Sentence::of_row(own, before, after))
}

/// A call made by a processing thread, awake and asleep.
pub(crate) fn handed_over(r: &Results) -> Option<Sentence> {
    let step = |word: &str| row(r, "parasc.steps", &[("step", word.into())]);
    let awake = step("gettid_awake")?;
    let mut after = String::new();
    if let Some(ratio) = rows::round_trips(awake) {
        after += &format!(", {} the cache line’s round trip", times(ratio));
    }
    if let Some(asleep) = step("gettid_asleep") {
        after += &format!("; one that must be woken first takes {}", time(asleep.median));
    }
    if let Some(plain) = step("normal") {
        after += &format!("; the plain call {}", time(plain.median));
    }
    let before = "A processing thread that spins makes a system call for another thread in ";
    Some(Sentence::of_row(awake, before, after + "."))
}

/// The paper's reads by as many processing threads as there are cpus for.
pub(crate) fn requests(r: &Results) -> Option<Sentence> {
    let against = against(r, "own").pop()?;
    let (most, _, row) = against.rows.last()?;
    let before = format!("{} parallel reads of a page of /dev/zero take ", count(*most));
    Some(Sentence::of_row(row, before, format!(". {}", against.sentence())))
}
