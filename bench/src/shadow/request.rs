//! What a subject is asked for: one turn at one case.

use kumiki_measure::schema::Unit;
use serde::{Deserialize, Serialize};

use crate::case::Case;

/// A case with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "case")]
pub(crate) enum Request {
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
    /// Copy between memory that no cache knows.
    CopyCold {
        /// How much.
        bytes: usize,
        /// Where in the arena, in its half of sources and in its half of
        /// destinations.
        offset: usize,
    },
}

impl Case for Request {
    fn name(self) -> &'static str {
        match self {
            Request::ForkJoinNull => "fork_join_null",
            Request::ForkCall => "fork_call",
            Request::ForkJoinGap { .. } => "fork_join_gap",
            Request::IdleBurn => "idle_burn",
            Request::SumF32 { .. } => "sum_f32",
            Request::CopyCold { .. } => "copy_cold",
        }
    }

    fn size(self) -> Option<u64> {
        match self {
            Request::ForkJoinNull | Request::ForkCall | Request::IdleBurn => None,
            Request::ForkJoinGap { ns } => Some(ns),
            Request::SumF32 { elements } => Some(elements as u64),
            Request::CopyCold { bytes, .. } => Some(bytes as u64),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Request::IdleBurn => "cpu",
            Request::CopyCold { .. } => Unit::GigabytesPerSecond.as_str(),
            _ => Unit::Nanoseconds.as_str(),
        }
    }

    fn less_is_better(self) -> bool {
        !matches!(self, Request::CopyCold { .. })
    }

    fn shows_raw(self) -> bool {
        self == Request::ForkJoinNull
    }
}
