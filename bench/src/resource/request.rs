//! What a subject is asked for: one turn at one case.

use serde::{Deserialize, Serialize};

use crate::case::Case;

/// A case with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "case")]
pub(crate) enum Request {
    /// 4 KiB allocated, touched and freed; nanoseconds of a thread.
    Alloc {
        /// On so many threads at once, a cpu each.
        threads: u64,
    },
    /// The same with [`BATCH`] allocated before the first is freed; nanoseconds a page.
    AllocBatch,
    /// Pages that one thread allocates and touches and another one frees; nanoseconds a
    /// page from allocation to allocation, with the ring between the two.
    FreeRemote,
    /// An entry of a table counted up by the thread on the other cpu that owns it;
    /// nanoseconds a call.
    CoreCall {
        /// So many calls under way.
        in_flight: u64,
    },
    /// The same by the thread that owns it.
    LocalCall,
    /// A name looked up by the thread that owns it.
    Lookup,
    /// A resource of 4 KiB with a name made and destroyed, as in the paper's evaluation;
    /// nanoseconds a pair, of all cores together.
    MemoryPair {
        /// On so many cores at once.
        cores: u64,
    },
}

/// Pages of [`Request::AllocBatch`].
pub(crate) const BATCH: usize = 256;

impl Case for Request {
    fn name(self) -> &'static str {
        match self {
            Request::Alloc { .. } => "alloc_4k",
            Request::AllocBatch => "alloc_4k_batch",
            Request::FreeRemote => "free_remote",
            Request::CoreCall { .. } => "core_call",
            Request::LocalCall => "local_call",
            Request::Lookup => "lookup",
            Request::MemoryPair { .. } => "memory_pair",
        }
    }

    fn size(self) -> Option<u64> {
        match self {
            Request::Alloc { threads: n }
            | Request::CoreCall { in_flight: n }
            | Request::MemoryPair { cores: n } => Some(n),
            Request::AllocBatch => Some(BATCH as u64),
            Request::FreeRemote | Request::LocalCall | Request::Lookup => None,
        }
    }

    fn shows_raw(self) -> bool {
        self == Request::CoreCall { in_flight: 1 }
    }
}
