//! How far what a case costs moves from run to run, where nothing was changed.
//!
//! Two runs of one machine in a row differ by more than their visits show: the tool's pages
//! lie elsewhere, memory is more or less in pieces, the host has put a virtual cpu on
//! another core. Neither of two runs can know that, so it is told here: a standard error
//! for each kind of case. `cargo xtask bench verdicts` prints, beside what is known, how far
//! each case moved over its runs; `docs/design/measure.md` has the runs that the table is of.

/// Move of a case that runs on one cpu.
pub(crate) const USUAL: f64 = 0.03;

/// Move of a case that crosses from cpu to cpu.
pub(crate) const CROSSING: f64 = 0.055;

/// Cases, by the beginning of their names (the longest counts), that move by more, in jumps: on one
/// cpu, and from cpu to cpu.
const JUMPY: [(&str, f64, f64); 25] = [
    // A file system remembers what was removed, for minutes.
    ("file.create_unlink", 0.9, 0.9),
    ("file.mkdir_rmdir", 0.9, 0.9),
    ("file.symlink_unlink", 0.9, 0.9),
    // A disk has its own time.
    ("file.fsync", 0.22, 0.22),
    ("file.fdatasync", 0.22, 0.22),
    // Which cache sets a name's entry falls into is drawn once a run.
    ("file.stat", 0.08, 0.08),
    // Page tables are moved whole where both places are aligned alike.
    ("memory.mremap.move", 0.2, 0.2),
    // A file's pages lie in the cache in pieces of other sizes.
    ("process.exec_text", 0.08, CROSSING),
    // As many page tables as memory is in pieces.
    ("process.fork", 0.05, CROSSING),
    ("process.spawn", 0.05, CROSSING),
    ("resource.spawn", 0.07, 0.07),
    // Writer and reader fall into step, or do not.
    ("ipc.unix_stream.bandwidth", USUAL, 0.7),
    ("ipc.unix_datagram.bandwidth", 0.25, 0.1),
    ("ipc.mqueue.bandwidth", 0.3, CROSSING),
    ("ipc.shared_memory.bandwidth", 0.6, CROSSING),
    ("ipc.pipe.bandwidth", 0.08, 0.12),
    ("ipc.tcp.bandwidth", 0.15, 0.25),
    ("ipc.tcp.latency", USUAL, 0.1),
    ("ipc.unix_stream.latency", USUAL, 0.1),
    // So do requester and processing thread where each request is handed over by itself.
    ("parasc.requests", USUAL, 0.12),
    // A thread arrives before the other cpu has fallen asleep, or after.
    ("thread.migrate", USUAL, 0.12),
    // Two threads meet at one lock, or pass each other.
    ("resource.memory", 0.15, 0.15),
    ("resource.memory_paper", 0.05, 0.15),
    ("resource.process", USUAL, 0.12),
    // Whether a waiter sleeps at all is decided by its first waits.
    ("shadow.idle", 0.25, 0.25),
];

/// A part of a cycle of each round, by where a loop's code lies among the processor's lines:
/// what takes less than a nanosecond moved by half.
const LAYOUT_NS: f64 = 0.1;

/// The standard error that comes of it, in ln, in what costs so much each time.
pub fn of_layout(ns: f64) -> f64 {
    LAYOUT_NS / ns
}

/// The core's clock from run to run, which two runs are compared without, and which is in the
/// time that one of them took: of the five runs the middle pair of neighbours moved by 4 to 8 %
/// in time and by 3 % in cycles.
const CLOCK: f64 = 0.05;

/// Cpus that a case works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    /// One.
    One,
    /// Several: it crosses from cpu to cpu.
    Several,
}

impl Span {
    /// Span of so many cpus.
    pub fn of(cpus: usize) -> Self {
        if cpus > 1 { Span::Several } else { Span::One }
    }
}

/// The standard error of a difference of two runs in cycles of the core, in ln.
pub fn of_a_pair(case: &str, span: Span) -> f64 {
    let known = JUMPY.iter().filter(|(name, ..)| case.starts_with(name));
    let known = known.max_by_key(|(name, ..)| name.len());
    let (on_one, across) =
        known.map_or((USUAL, CROSSING), |(_, on_one, across)| (*on_one, *across));
    match span {
        Span::One => on_one,
        Span::Several => across,
    }
}

/// The standard error of what one run took, in ln: both of a pair move, and the clock does.
pub fn of_a_run(case: &str, span: Span) -> f64 {
    (of_a_pair(case, span) / std::f64::consts::SQRT_2).hypot(CLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_to_jump_is_known_by_its_name() {
        assert_eq!(of_a_pair("entry.getppid", Span::One), USUAL);
        assert_eq!(of_a_pair("ipc.pipe.latency", Span::Several), CROSSING);
        assert_eq!(of_a_pair("file.create_unlink", Span::One), 0.9);
        assert_eq!(of_a_pair("process.fork_cow", Span::One), 0.05);
        assert_eq!(of_a_pair("ipc.pipe.latency", Span::One), USUAL);
        assert_eq!(of_a_pair("ipc.pipe.bandwidth", Span::Several), 0.12);
        assert_eq!(of_a_pair("resource.memory_paper", Span::One), 0.05);
        // Half of it more is no change, in what takes a cycle; in a system call layout is nothing.
        assert!(1.96 * of_layout(0.29) > 1.5_f64.ln() && of_layout(100.0) < USUAL / 10.0);
        let run = of_a_run("entry.getppid", Span::One);
        assert!(CLOCK < run && run < CLOCK + USUAL, "{run}");
    }
}
