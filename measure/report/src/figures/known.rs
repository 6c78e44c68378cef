//! The sweeps that this page knows: the paper's six figures in its order, then
//! ours. Cases that none of them names are drawn by part, see
//! [`super::sweep::figures`].

use kumiki_measure::schema::{Slope, Trend, Unit};

/// A figure of cost, or rate, against one size.
pub(super) struct Known {
    /// Anchor's name.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// True if a case belongs here.
    pub cases: fn(&str) -> bool,
    /// Only rows whose parameter has this word, if they have it at all.
    pub only: Option<(&'static str, &'static str)>,
    /// The size.
    pub param: &'static str,
    /// Label of the axis.
    pub axis: &'static str,
    /// Unit of the rows.
    pub unit: Unit,
    /// Caption of the figure.
    pub caption: &'static str,
    /// Finding of the paper, and what that makes of a slope here.
    pub found: Option<Finding>,
    /// The parameter and word of the line by whose values all are divided, if they are.
    pub against: Option<(&'static str, &'static str)>,
    /// Logarithmic axes from the start: of the size, of the values.
    pub log: [bool; 2],
}

/// A finding of the paper's.
pub(super) struct Finding {
    /// Finding in the paper's words, about its systems.
    pub there: &'static str,
    /// Agreement of this machine, by the slope of what is not touched.
    pub here: fn(&Slope) -> &'static str,
}

/// Words for a jump, which only SunOS 3.2 had.
fn jumps(slope: &Slope) -> Option<&'static str> {
    slope.jump.map(|jump| match jump.ns < 0.0 {
        true => "Here it falls at a threshold, as with SunOS 3.2.",
        false => "Here it jumps up at a threshold.",
    })
}

const COPIED_DATA: Finding = Finding {
    there: "There it grew where fork copied pages, in SunOS 3.2 up to a threshold at some hundred KB \
            at which it fell steeply (smaller programs were swapped in, larger ones paged in), and \
            was flat with copy-on-write (SunOS 4.0.3).",
    ..COPIES
};

const COPIES: Finding = Finding {
    there: "There it grew where fork copied pages (SunOS 3.2, System V) and was flat with \
            copy-on-write (SunOS 4.0.3).",
    here: |slope| {
        jumps(slope).unwrap_or(match slope.trend {
            Trend::Flat | Trend::Falls => "Here as with copy-on-write.",
            Trend::Grows => "Here it grows.",
            Trend::Unclear => "Here it is unclear.",
        })
    },
};

const FLAT_BSS: Finding = Finding {
    there: "There the slopes were small, and zero on SunOS 4.0.3.",
    here: |slope| {
        jumps(slope).unwrap_or(match slope.trend {
            Trend::Flat | Trend::Falls => "Here, too.",
            Trend::Grows => "Here it grows.",
            Trend::Unclear => "Here it is unclear.",
        })
    },
};

const THRESHOLD: Finding = Finding {
    there: "There SunOS had a threshold at some hundred KB, and HP-UX loaded all data at exec.",
    here: |slope| match (slope.jump, slope.knee_bytes, slope.trend) {
        (Some(jump), ..) if jump.ns < 0.0 => "Here there is a threshold, too, and it falls there.",
        (Some(_), ..) => "Here there is a threshold, too, and it jumps up there.",
        (None, Some(_), _) => "Here there is a knee and no threshold.",
        (None, None, Trend::Grows) => "Here there is no threshold, and it grows.",
        (None, None, Trend::Flat | Trend::Falls) => "Here there is neither.",
        (None, None, Trend::Unclear) => "Here there is no threshold; the slope is unclear.",
    },
};

const LINEAR: Finding = Finding {
    there: "There it was linear on every system.",
    here: |slope| match slope.trend {
        _ if slope.jump.is_some() => "Here there is a threshold, and no one line.",
        Trend::Grows if slope.knee_bytes.is_none() && slope.r2 >= 0.95 => "Here, too.",
        Trend::Grows => "Here it grows, not along one line.",
        Trend::Flat | Trend::Falls => "Here it does not grow.",
        Trend::Unclear => "Here it is unclear.",
    },
};

fn fork(case: &str) -> bool {
    case == "process.fork"
}

fn exec(case: &str) -> bool {
    case == "process.exec"
}

fn round_trip(case: &str) -> bool {
    case.starts_with("ipc.") && case.ends_with(".latency")
}

fn bandwidth(case: &str) -> bool {
    case.starts_with("ipc.") && case.ends_with(".bandwidth")
}

/// Fields that most figures have in common.
const COMMON: Known = Known {
    id: "",
    title: "",
    cases: fork,
    only: None,
    param: "bytes",
    axis: "size",
    unit: Unit::Nanoseconds,
    caption: "",
    found: None,
    against: None,
    log: [false, false],
};

/// All of them.
pub(super) const KNOWN: [Known; 19] = [
    Known {
        id: "fork-data",
        title: "fork against initialised data",
        param: "data_bytes",
        axis: "initialised data",
        caption: "Figure 3-2 of the paper. The parent forks, the child exits at once, the parent \
                  waits: one time for all three, as in the paper.",
        found: Some(COPIED_DATA),
        ..COMMON
    },
    Known {
        id: "fork-bss",
        title: "fork against bss",
        param: "bss_bytes",
        axis: "bss",
        caption: "Figure 3-3 of the paper. Pages of bss that were never touched do not exist yet, \
                  so fork finds nothing to copy.",
        found: Some(FLAT_BSS),
        ..COMMON
    },
    Known {
        id: "fork-stack",
        title: "fork against stack",
        param: "stack_bytes",
        axis: "stack",
        caption: "Figure 3-4 of the paper.",
        found: Some(COPIES),
        ..COMMON
    },
    Known {
        id: "exec-data",
        title: "exec against initialised data",
        cases: exec,
        param: "data_bytes",
        axis: "initialised data",
        caption: "Figure 4-2 of the paper. Two programs exec each other; each touches its data as \
                  the line says, so its page faults are part of the cost.",
        found: Some(THRESHOLD),
        ..COMMON
    },
    Known {
        id: "exec-bss",
        title: "exec against bss",
        cases: exec,
        param: "bss_bytes",
        axis: "bss",
        caption: "Figure 4-3 of the paper.",
        found: Some(FLAT_BSS),
        ..COMMON
    },
    Known {
        id: "exec-args",
        title: "exec against arguments",
        cases: exec,
        param: "args_bytes",
        axis: "arguments",
        caption: "Figure 4-4 of the paper. The arguments are copied to the new address space.",
        found: Some(LINEAR),
        ..COMMON
    },
    Known {
        id: "text",
        title: "fork and exec against text",
        cases: |case| ["process.fork_text", "process.exec_text"].contains(&case),
        param: "text_bytes",
        axis: "text",
        caption: "The paper left the text out, as programs with some MB of it are very hard to make, \
                  and expected it to be much as initialised data. Here the programs have so much of \
                  it, and read none or all of it.",
        log: [true, true],
        ..COMMON
    },
    Known {
        id: "fork-anon",
        title: "fork against resident memory",
        param: "anon_bytes",
        axis: "anonymous memory of the parent",
        caption: "Anonymous memory in ordinary and in huge pages. One huge page has one entry to \
                  copy where ordinary pages have 512.",
        log: [true, true],
        ..COMMON
    },
    Known {
        id: "exec-env",
        title: "exec against environment",
        cases: exec,
        param: "env_bytes",
        axis: "environment",
        caption: "The environment is copied as the arguments are.",
        ..COMMON
    },
    Known {
        id: "spawn",
        title: "ways to start a program",
        cases: |case| case.starts_with("process.spawn."),
        param: "anon_bytes",
        axis: "anonymous memory of the parent",
        caption: "What copies the parent’s page tables grows with the parent; what borrows its \
                  address space until exec stays flat.",
        log: [false, true],
        ..COMMON
    },
    Known {
        id: "resource-spawn-lines",
        title: "a program started, by the parent’s memory",
        cases: |case| case == "resource.spawn",
        param: "anon_bytes",
        axis: "anonymous memory of the parent",
        caption: "By the calling thread itself (kumiki), by a spawn server, and by other ways.",
        log: [false, true],
        ..COMMON
    },
    Known {
        id: "fork-copy",
        title: "fork, and a child that writes",
        cases: |case| case == "process.fork_cow",
        param: "anon_bytes",
        axis: "anonymous memory that the child writes",
        caption: "The price that fork puts off: each page that the child writes is copied then.",
        log: [true, true],
        ..COMMON
    },
    Known {
        id: "fork-copy-data",
        title: "fork, and a child that writes its data",
        cases: |case| case == "process.fork_cow",
        param: "data_bytes",
        axis: "initialised data that the child writes",
        caption: "The same with pages of the program’s file instead of anonymous memory.",
        log: [true, true],
        ..COMMON
    },
    Known {
        id: "context-switch",
        title: "context switch against working set",
        cases: |case| case == "thread.context_switch",
        param: "working_set_bytes",
        axis: "working set of each process",
        caption: "A byte goes round a ring of processes on one cpu, and each reads its working \
                  set. A ring of one does the same work without a switch.",
        ..COMMON
    },
    Known {
        id: "latency-same",
        title: "round trip by size, on one cpu",
        cases: round_trip,
        only: Some(("cpu", "same")),
        axis: "message",
        caption: "A message there and the same back, both ends taking turns.",
        log: [true, true],
        ..COMMON
    },
    Known {
        id: "latency-other",
        title: "round trip by size, between two cpus",
        cases: round_trip,
        only: Some(("cpu", "other")),
        axis: "message",
        caption: "The same with the other end on another cpu, which may have to be woken.",
        log: [true, true],
        ..COMMON
    },
    Known {
        id: "bandwidth-same",
        title: "bandwidth by size, on one cpu",
        cases: bandwidth,
        only: Some(("cpu", "same")),
        axis: "message",
        unit: Unit::GigabytesPerSecond,
        caption: "Messages in a row, one way.",
        log: [true, true],
        ..COMMON
    },
    Known {
        id: "bandwidth-other",
        title: "bandwidth by size, between two cpus",
        cases: bandwidth,
        only: Some(("cpu", "other")),
        axis: "message",
        unit: Unit::GigabytesPerSecond,
        caption: "Messages in a row, one way, to another cpu.",
        log: [true, true],
        ..COMMON
    },
    Known {
        id: "shadow-copy",
        title: "copying with a shadow thread, against libc",
        cases: |case| case == "shadow.copy",
        axis: "bytes copied",
        unit: Unit::GigabytesPerSecond,
        caption: "Figure 13 of Hori et al., and auto: bandwidth as a multiple of the C library's \
                  on one cpu alone. Source and destination are in no cache, their pages are \
                  mapped, and the helper spins; in split_1000 for the paper's threshold of 1,000 \
                  looks alone.",
        against: Some(("way", "libc")),
        log: [true, true],
        ..COMMON
    },
];
