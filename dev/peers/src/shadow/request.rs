//! What a subject is asked for: one turn at one case.

use kumiki_measure::schema::Unit;
use serde::{Deserialize, Serialize};

use crate::case::Case;

/// A case with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "case")]
pub enum Request {
    /// Fork and join of an empty job, one right after the other.
    ForkJoinNull,
    /// The fork call alone; the helper spins.
    ForkCall,
    /// The same fork and join after a gap in which main stays awake.
    ForkJoinGap {
        /// Nanoseconds.
        ns: u64,
    },
    /// Processor time used while there is nothing to do.
    IdleBurn,
    /// Sum of an array that the caches know.
    SumF32 {
        /// Its length.
        elements: usize,
    },
    /// Bodies that attract one another: two loops over all, one after the other.
    NBody {
        /// Number of them.
        bodies: usize,
        /// Beside so many other programs on the two cpus.
        busy: usize,
    },
    /// Copy of memory.
    Copy {
        /// Place of its bytes.
        state: State,
        /// Bytes of it.
        bytes: usize,
        /// Where in the arena, in its half of sources and in its half of
        /// destinations.
        offset: usize,
    },
}

/// Place of source and destination before a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Bytes in no cache.
    Cold,
    /// The same, and neither begins where a line or a word does.
    Unaligned,
    /// Copied twice just before: in a cache as far as they fit. The destination begins
    /// half a page further into its page than the source does: where the last twelve bits
    /// of the addresses agree, the processor takes loads to be of what was stored just
    /// before, and 1 KiB takes 2 to 7 % longer at some instances.
    Warm,
    /// The same, but the first [`STALE`] bytes are in memory.
    StaleStart,
    /// The same, but the first half is in memory.
    StaleHalf,
    /// The same, but the first and the last [`STALE`] bytes are in memory.
    StaleEnds,
    /// The source in no cache, and the destination without pages: new memory.
    Fresh,
    /// In no cache, and by a process that has copied nothing before: all of its first
    /// copies together, in which it learns of the machine what it wants to know.
    First,
}

/// See [`State::Warm`].
const HALF_PAGE: usize = 2048;
/// See [`State::StaleStart`].
const STALE: usize = 64 << 10;

impl State {
    /// Bytes of source and destination to skip, and those to evict at the start and
    /// at the end.
    pub fn lie(self, bytes: usize) -> ((usize, usize), (usize, usize)) {
        match self {
            State::Cold | State::Fresh | State::First => ((0, 0), (bytes, 0)),
            State::Unaligned => ((1, 7), (bytes, 0)),
            State::Warm => ((0, HALF_PAGE), (0, 0)),
            State::StaleStart => ((0, 0), (STALE.min(bytes), 0)),
            State::StaleHalf => ((0, 0), (bytes / 2, 0)),
            State::StaleEnds => ((0, 0), (STALE.min(bytes / 2), STALE.min(bytes / 2))),
        }
    }
}

impl Case for Request {
    fn name(self) -> &'static str {
        match self {
            Request::ForkJoinNull => "fork_join_null",
            Request::ForkCall => "fork_call",
            Request::ForkJoinGap { .. } => "fork_join_gap",
            Request::IdleBurn => "idle_burn",
            Request::SumF32 { .. } => "sum_f32",
            Request::NBody { busy: 0, .. } => "nbody",
            Request::NBody { busy: 1, .. } => "nbody_busy1",
            Request::NBody { busy: 2, .. } => "nbody_busy2",
            Request::NBody { busy: 3..=4, .. } => "nbody_busy4",
            Request::NBody { .. } => "nbody_busy8",
            Request::Copy { state: State::Cold, .. } => "copy_cold",
            Request::Copy { state: State::Unaligned, .. } => "copy_unaligned",
            Request::Copy { state: State::Warm, .. } => "copy_warm",
            Request::Copy { state: State::StaleStart, .. } => "copy_stale_start",
            Request::Copy { state: State::StaleHalf, .. } => "copy_stale_half",
            Request::Copy { state: State::StaleEnds, .. } => "copy_stale_ends",
            Request::Copy { state: State::Fresh, .. } => "copy_fresh",
            Request::Copy { state: State::First, .. } => "copy_first",
        }
    }

    fn size(self) -> Option<u64> {
        match self {
            Request::ForkJoinNull | Request::ForkCall | Request::IdleBurn => None,
            Request::ForkJoinGap { ns } => Some(ns),
            Request::SumF32 { elements } => Some(elements as u64),
            Request::NBody { bodies, .. } => Some(bodies as u64),
            Request::Copy { bytes, .. } => Some(bytes as u64),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Request::IdleBurn => "cpu",
            Request::Copy { .. } => Unit::GigabytesPerSecond.as_str(),
            _ => Unit::Nanoseconds.as_str(),
        }
    }

    fn less_is_better(self) -> bool {
        !matches!(self, Request::Copy { .. })
    }

    fn shows_raw(self) -> bool {
        self == Request::ForkJoinNull
    }
}
