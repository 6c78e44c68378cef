//! What to do, each step with the figures that it stands on. A step whose figures are not
//! there, or do not show it beyond their intervals, is not given.

use kumiki_measure::schema::{Results, Row, Trend, Value};

use crate::parasc::{Against, against};
use crate::rows::{self, Verdict, compare, find, row};

/// Nanoseconds that a half of a request is worth handing over from.
const HALF_NS: f64 = 1000.0;

/// Ordinary pages in a huge one.
const ORDINARY: f64 = 512.0;

/// One thing to do.
pub(crate) struct Step {
    /// Step to take.
    pub(crate) text: &'static str,
    /// True if a result's figures say so.
    pub(crate) holds: fn(&Results) -> bool,
}

/// True if both are there and the first costs less beyond doubt.
fn cheaper(one: Option<&Row>, other: Option<&Row>) -> bool {
    let both = one.zip(other);
    both.is_some_and(|(one, other)| compare(other, one).1 == Verdict::Better)
}

fn largest<'a>(r: &'a Results, case: &str, wanted: &[(&str, Value)]) -> Option<&'a Row> {
    find(r, case, wanted).max_by_key(|row| rows::size(row))
}

fn on<'a>(r: &'a Results, case: &str, cpu: &str) -> Option<&'a Row> {
    row(r, case, &[("cpu", cpu.into())])
}

/// Compares both from the largest parent that they were measured with.
pub(crate) fn spawn_beats_fork(r: &Results) -> bool {
    let spawn = largest(r, "process.spawn.posix_spawn", &[]);
    let fork = largest(r, "process.spawn.fork_exec", &[]);
    let alike = spawn.zip(fork).is_some_and(|(a, b)| rows::size(a) == rows::size(b));
    alike && cheaper(spawn, fork)
}

pub(crate) fn huge_pages_fork_cheaper(r: &Results) -> bool {
    let slope = |huge: bool| {
        let wanted = [("touch", "write".into()), ("huge", huge.into())];
        rows::slope(r, "process.fork", "anon_bytes", &wanted)
    };
    let both = slope(false).zip(slope(true));
    both.is_some_and(|(o, huge)| o.trend == Trend::Grows && o.is_graded() && o.ci[0] > huge.ci[1])
}

pub(crate) fn same_cpu_wakes_cheaper(r: &Results) -> bool {
    let case = "thread.wake.round_trip";
    cheaper(on(r, case, "same"), on(r, case, "other"))
}

pub(crate) fn a_wake_is_long(r: &Results) -> bool {
    let other = on(r, "thread.wake.round_trip", "other");
    other.is_some_and(|row| row.round_trip_ns.is_some_and(|trip| row.ci[0] > 2.0 * trip))
}

fn copies<'a>(r: &'a Results, way: &str) -> Option<&'a Row> {
    largest(r, "shadow.copy", &[("way", way.into())])
}

pub(crate) fn a_shadow_answers_soon(r: &Results) -> bool {
    let null = |way: &str| row(r, "shadow.null", &[("way", way.into())]);
    let soon = null("two_phase").or_else(|| null("spin"));
    let soon = soon.filter(|row| row.ci[1] < HALF_NS);
    let copy = copies(r, "libc").zip(copies(r, "auto"));
    // Where the half of a copy is no gain, no half is promised to be one.
    soon.is_some() && copy.is_none_or(|(libc, auto)| compare(libc, auto).1 != Verdict::Worse)
}

pub(crate) fn a_shadow_copies_faster(r: &Results) -> bool {
    cheaper(copies(r, "auto"), copies(r, "libc"))
}

pub(crate) fn an_adaptive_wait_idles(r: &Results) -> bool {
    let wait = |word: &str| row(r, "shadow.idle", &[("threshold_ticks", word.into())]);
    cheaper(wait("adaptive"), wait("infinite"))
}

/// The requests by as many processing threads as there are cpus for.
fn batches<'a>(r: &'a Results, files: &str) -> Option<Against<'a>> {
    against(r, files).pop()
}

pub(crate) fn batches_pay(r: &Results) -> bool {
    batches(r, "own").is_some_and(|own| own.faster_from().is_some())
}

pub(crate) fn batches_do_not_pay(r: &Results) -> bool {
    batches(r, "own").is_some_and(|own| own.never_pays())
}

pub(crate) fn own_files_are_faster(r: &Results) -> bool {
    let last = |files| batches(r, files)?.rows.last().map(|(n, _, row)| (*n, *row));
    let both = last("own").zip(last("one"));
    both.is_some_and(|((n, own), (m, one))| n == m && cheaper(Some(own), Some(one)))
}

pub(crate) fn owning_is_cheaper(r: &Results) -> bool {
    let cores = |row: &&Row| rows::number(&row.params, "cores");
    let memory =
        |kind: &str| find(r, "resource.memory", &[("type", kind.into())]).max_by_key(cores);
    let (own, shared) = (memory("per_core"), memory("shared"));
    own.as_ref().and_then(cores) == shared.as_ref().and_then(cores)
        && own.as_ref().and_then(cores) > Some(1)
        && cheaper(own, shared)
}

pub(crate) fn several_calls_are_cheaper(r: &Results) -> bool {
    let calls = |n: u64| row(r, "resource.call", &[("in_flight", n.into())]);
    cheaper(calls(32), calls(1))
}

fn first_write(r: &Results) -> Option<&Row> {
    row(r, "memory.fault.anon", &[("touch", "write".into())])
}

pub(crate) fn faults_cost(r: &Results) -> bool {
    cheaper(row(r, "entry.getppid", &[]), first_write(r))
}

pub(crate) fn huge_faults_are_cheaper(r: &Results) -> bool {
    let both = first_write(r).zip(row(r, "memory.fault.huge", &[]));
    both.is_some_and(|(page, huge)| huge.ci[1] < ORDINARY * page.ci[0])
}

pub(crate) fn opening_costs(r: &Results) -> bool {
    let depth = |row: &&Row| rows::number(&row.params, "depth");
    cheaper(row(r, "file.fstat", &[]), find(r, "file.open_close", &[]).min_by_key(depth))
}

/// A byte of 64 KiB or more against one of 4 KiB.
pub(crate) fn large_reads_are_cheaper(r: &Results) -> bool {
    let of = |bytes: u64| row(r, "file.read", &[("bytes", bytes.into())]);
    let (small, large) = (4096, 65536);
    let both = of(small).zip(of(large));
    both.is_some_and(|(few, many)| many.ci[1] / large as f64 * (small as f64) < few.ci[0])
}

pub(crate) fn fsync_costs(r: &Results) -> bool {
    let write = find(r, "file.write", &[]).max_by(|a, b| a.median.total_cmp(&b.median));
    cheaper(write, row(r, "file.fsync", &[]))
}

/// The quickest way to talk on one cpu against the quickest between two.
pub(crate) fn one_cpu_talks_quicker(r: &Results) -> bool {
    let quickest = |cpu: &str| crate::answers::quickest_row(r, cpu);
    cheaper(quickest("same"), quickest("other"))
}

pub(crate) fn signals_cost_more(r: &Results) -> bool {
    cheaper(on(r, "ipc.eventfd.latency", "same"), on(r, "signal.other_process", "same"))
}

pub(crate) fn the_vdso_is_cheaper(r: &Results) -> bool {
    cheaper(row(r, "entry.clock.vdso", &[]), row(r, "entry.clock.syscall", &[]))
}

/// A byte of 4 KiB by one call against a byte by a call each.
pub(crate) fn large_calls_are_cheaper(r: &Results) -> bool {
    let of = |bytes: u64| row(r, "file.read", &[("bytes", bytes.into())]);
    let both = of(1).zip(of(4096));
    both.is_some_and(|(one, page)| page.ci[1] < 4096.0 * one.ci[0])
}
