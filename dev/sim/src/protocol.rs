//! The protocols that are counted: real code of Kumiki's crates, an operation each.

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
