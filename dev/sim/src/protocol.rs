//! The protocols that are counted: real code of Kumiki's crates, an operation each.

mod barriers;
mod copy;
mod owner;
mod parasc;
mod shadow;
mod slot;

use crate::place::Place;
use crate::report::Report;

/// An operation whose lines are counted on machines of several sizes.
#[derive(Debug)]
pub struct Protocol {
    /// Its name in the table.
    pub name: &'static str,
    /// Operation that is counted.
    pub about: &'static str,
    /// Sizes of the machines, cpus.
    pub sizes: &'static [usize],
    /// Runs it there.
    pub run: fn(&Place) -> Report,
}

/// Sizes of machines for what needs two.
const TWO: &[usize] = &[2];
/// Sizes for what takes as many as there are.
const MANY: &[usize] = &[2, 8, 64, 256];
/// Sizes for a barrier beside others.
const MORE: &[usize] = &[8, 64, 256];

/// All of them.
pub const PROTOCOLS: &[Protocol] = &[
    Protocol { name: "raw", about: "a word there and back", sizes: TWO, run: slot::raw },
    Protocol {
        name: "contended",
        about: "a swap in a line that two cpus swap all the time",
        sizes: TWO,
        run: slot::contended,
    },
    Protocol {
        name: "lane",
        about: "a request and its answer, a lane of one line",
        sizes: TWO,
        run: slot::lane,
    },
    Protocol {
        name: "two-lines",
        about: "the same with status and request on two lines: the control",
        sizes: TWO,
        run: slot::two_lines,
    },
    Protocol {
        name: "fork",
        about: "Shadow: fork and join of nothing",
        sizes: TWO,
        run: shadow::fork,
    },
    Protocol {
        name: "broadcast",
        about: "Team: nothing on each member",
        sizes: MANY,
        run: shadow::broadcast,
    },
    Protocol {
        name: "lanes",
        about: "the same by a lane a helper, one after the other: what a team does better",
        sizes: MORE,
        run: slot::lanes,
    },
    Protocol {
        name: "for-each",
        about: "Team: 4,096 elements of 1 ns",
        sizes: MANY,
        run: shadow::for_each,
    },
    Protocol {
        name: "barrier",
        about: "Team: a barrier within a broadcast",
        sizes: MANY,
        run: shadow::barrier,
    },
    Protocol {
        name: "meet",
        about: "Barrier: one of 32 in a broadcast",
        sizes: MORE,
        run: barriers::ours,
    },
    Protocol {
        name: "meet-counter",
        about: "the same by one counter, and a line that all wait at",
        sizes: MORE,
        run: barriers::counter,
    },
    Protocol {
        name: "meet-groups",
        about: "the same by a counter for each eight",
        sizes: MORE,
        run: barriers::groups,
    },
    Protocol {
        name: "meet-tree",
        about: "the same by a tree: four come to one, one wakes two",
        sizes: MORE,
        run: barriers::tree,
    },
    Protocol {
        name: "meet-spread",
        about: "the same by dissemination",
        sizes: MORE,
        run: barriers::dissemination,
    },
    Protocol {
        name: "split",
        about: "copy: 16 MiB, a part of 1 MiB in 20 µs, by two",
        sizes: TWO,
        run: copy::split,
    },
    Protocol {
        name: "owner",
        about: "resource: an answer of an owner whom all others ask, 200 ns of work each",
        sizes: MANY,
        run: owner::asked,
    },
    Protocol {
        name: "each",
        about: "resource: a request to an owner on each other cpu, 200 ns of work each",
        sizes: MORE,
        run: owner::each,
    },
    Protocol {
        name: "claims",
        about: "parasc: 300 calls of 200 ns, shared by all",
        sizes: MANY,
        run: parasc::by_all,
    },
    Protocol {
        name: "claims-two",
        about: "the same by two, beside others that spin",
        sizes: MANY,
        run: parasc::by_two,
    },
];
