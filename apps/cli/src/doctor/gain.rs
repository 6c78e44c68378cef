//! What would gain most: the one place that says so.

/// A thing that a machine may lack.
#[derive(Debug)]
pub(super) struct Gain {
    /// [`Finding::thing`](kumiki_doctor::Finding::thing).
    pub(super) thing: &'static str,
    /// Cost of the lack as it was seen, from `docs/design` or `docs/results`; empty if nobody has
    /// measured it.
    pub(super) costs: &'static str,
}

const fn gain(thing: &'static str, costs: &'static str) -> Gain {
    Gain { thing, costs }
}

/// Gains from the largest to the smallest: first those that make programs faster, by the figures;
/// then those that make figures worth more; then those that leave single cases out; then the needs
/// of nodes and the lab, which most programs do without.
pub(super) const GAINS: &[Gain] = &[
    // docs/results/2026-11-24-parasc-runs.md, statx at 300; docs/design/copy.md, 16 MiB.
    gain(
        "two allowed cpus",
        "with two, 300 statx take 0.50 of the time, and 16 MiB are copied 2.5 times as fast",
    ),
    // The kernel's default period, Documentation/scheduler/sched-bwc.rst.
    gain("cpu time without quota", "a pause of up to 100 ms each time it is used up"),
    // docs/design/measure.md, the paper's findings beside ours.
    gain(
        "transparent huge pages",
        "fork takes 124 ns for each 4 KiB written on ordinary pages, 1.8 ns on huge ones: 33 ms \
         or 0.5 ms from 1 GiB",
    ),
    // docs/design/shadow.md, table of forks; docs/design/measure.md, "What can be wrong".
    gain(
        "bare metal",
        "a wake of another cpu takes 35 to 68 µs, and the round trip of a cache line was seen to \
         move between 90 and 360 ns within seconds",
    ),
    // docs/design/wait.md, table of phases; docs/design/shadow.md, after 100 µs and 1 ms.
    gain(
        "UMWAIT or MWAITX",
        "after a pause of 0.1 to 1 ms a fork and join takes 35 to 68 µs where the helper sleeps in \
         the kernel; one that rests in user mode comes 0.5 µs late",
    ),
    gain("SMT siblings", ""),
    // docs/design/wait.md, "Alternatives".
    gain("private expedited membarrier", "20 to 130 ns for each call to another thread"),
    gain("unfiltered system calls (no seccomp)", ""),
    gain("backend user", ""),
    gain("backend kernel", ""),
    gain("/proc", ""),
    gain("performance governor", ""),
    // docs/design/measure.md, "Bounds".
    gain("steady clock rate (boost off)", "two runs in a row were seen 2 to 3 % apart"),
    gain("trusted TSC", ""),
    gain("open file limit", ""),
    gain("process limit", ""),
    gain("files in memory (memfd)", ""),
    gain("stack size limit", ""),
    gain("POSIX message queues", ""),
    gain("System V IPC", ""),
    gain("energy counters", ""),
    gain("QEMU", ""),
    gain("KVM", ""),
    gain("module osnode", ""),
    gain("module osnode-eventfd", "half of an echo more, between a node and its host"),
    gain("kernel headers", ""),
    gain("loadable modules", ""),
    gain("cpu hotplug", ""),
    gain("CAP_SYS_ADMIN", ""),
    gain("CAP_SYS_RAWIO", ""),
    gain("memory hot-remove", ""),
    gain("watchman", ""),
];

/// Rank of a thing among them.
pub(super) fn rank(thing: &str) -> Option<usize> {
    GAINS.iter().position(|gain| gain.thing == thing)
}
