//! The machine: its cpus, how far they are from each other, and what each step takes.

/// Picoseconds.
pub(crate) type Time = u64;

/// A machine of lines. Times are nanoseconds.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Number of cpus.
    pub cpus: usize,
    /// Groups of cpus, the smallest first: of so many, and the transfer of a line within one.
    pub groups: Vec<(usize, f64)>,
    /// A transfer between cpus that no group has in common.
    pub far: f64,
    /// A line that no cpu has, from memory.
    pub memory: f64,
    /// An access to a line that the cpu has.
    pub hit: f64,
    /// The part of a transfer that it takes to invalidate others' copies.
    pub upgrade: f64,
    /// An owner keeps its line for so long before another one gets it.
    pub hold: f64,
    /// Another reader is served after so long.
    pub read_busy: f64,
    /// A swap in a line that the cpu has.
    pub swap: f64,
    /// Stores that a cpu does not wait for, at most.
    pub stores: usize,
    /// A thread whose looks find nothing looks again after so long, if no line has changed.
    pub park: f64,
    /// A system call.
    pub syscall: f64,
    /// Time from a wake to the sleeper's first step.
    pub wake: f64,
    /// An interrupt of all other cpus.
    pub interrupt: f64,
    /// A run is ended after so long, as one that hangs.
    pub limit: f64,
}

impl Machine {
    /// Groups of eight cpus, and of as many as there are, by the transfers that public
    /// measurements have of a server of 64 cores and more: 45 ns within a group, 200 between two.
    pub fn of(cpus: usize) -> Machine {
        Machine {
            cpus,
            groups: vec![(8, 45.0)],
            far: 200.0,
            memory: 90.0,
            hit: 1.0,
            upgrade: 0.5,
            hold: 15.0,
            read_busy: 10.0,
            swap: 6.0,
            stores: 12,
            park: 100.0,
            syscall: 150.0,
            wake: 3000.0,
            interrupt: 3000.0,
            limit: 1e9,
        }
    }

    /// All cpus equally far from each other: a transfer takes `ns`, as an invalidation does.
    pub fn flat(cpus: usize, ns: f64) -> Machine {
        Machine { groups: vec![(cpus, ns)], far: ns, ..Machine::of(cpus) }
    }

    /// Time of a transfer between two cpus.
    pub(crate) fn distance(&self, a: usize, b: usize) -> Time {
        if a == b {
            return 0;
        }
        let near = self.groups.iter().find(|(size, _)| a / size == b / size);
        picoseconds(near.map_or(self.far, |(_, ns)| *ns))
    }
}

/// Picoseconds of so many nanoseconds.
pub(crate) fn picoseconds(ns: f64) -> Time {
    (ns * 1000.0).round() as Time
}
