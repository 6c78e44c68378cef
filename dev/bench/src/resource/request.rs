//! What a subject is asked for: one turn at one case.

use kumiki_measure::schema::Unit;
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
    /// The paper's memory: a region of 4 KiB made and attached as a user space, both deleted;
    /// nanoseconds of all cores together.
    MemoryPaper {
        /// On so many cores at once.
        cores: u64,
    },
    /// The paper's process, of a resident program; nanoseconds of all cores together.
    ProcessPaper {
        /// On so many cores at once.
        cores: u64,
    },
    /// So many entries counted up by the thread on the other cpu that owns them, handed over
    /// together where there is a way to; nanoseconds each.
    CoreEach { batch: u64 },
    /// [`CoreCall`](Self::CoreCall), one at a time, beside so many busy processes.
    CallBusy { busy: u64 },
    /// [`Alloc`](Self::Alloc) by one thread beside so many busy processes.
    AllocBusy { busy: u64 },
    /// [`MemoryPair`](Self::MemoryPair) by two cores beside so many busy processes.
    MemoryBusy { busy: u64 },
    /// A counter at the other cpu's place counted up by a line in memory that both see, as from kernel to kernel;
    /// nanoseconds a call.
    LineCall,
    /// A counter of the caller's core counted up by an interface control of all places; nanoseconds a call.
    ControlHome,
    /// A counter of the other cpu counted up so; nanoseconds a call.
    ControlCore,
    /// A counter of another process's place counted up so, by memory that both map; nanoseconds a call.
    ControlProcess,
    /// A counter at a place behind a NATS server counted up; nanoseconds a call.
    #[cfg(feature = "peers")]
    PlaceCall,
    /// The same of [`PLACE_BATCH`] at once; nanoseconds each.
    #[cfg(feature = "peers")]
    PlaceBatch,
    /// What an allocator has from the system after threads of a short life have each had
    /// [`MOST_MIB`] in turn, of which another thread has freed all; MiB.
    Kept,
}

/// What lives at a time in [`Request::Kept`], MiB.
pub(crate) const MOST_MIB: usize = 64;

/// Operations of [`Request::PlaceBatch`].
#[cfg(feature = "peers")]
pub(crate) const PLACE_BATCH: u64 = 256;

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
            Request::MemoryPaper { .. } => "memory_paper",
            Request::ProcessPaper { .. } => "process_paper",
            Request::CoreEach { .. } => "core_each",
            Request::CallBusy { .. } => "core_call_busy",
            Request::AllocBusy { .. } => "alloc_4k_busy",
            Request::MemoryBusy { .. } => "memory_pair_busy",
            Request::LineCall => "line_call",
            Request::ControlHome => "control_home",
            Request::ControlCore => "control_core",
            Request::ControlProcess => "control_process",
            #[cfg(feature = "peers")]
            Request::PlaceCall => "place_call",
            #[cfg(feature = "peers")]
            Request::PlaceBatch => "place_batch",
            Request::Kept => "kept",
        }
    }

    fn size(self) -> Option<u64> {
        match self {
            Request::Alloc { threads: n }
            | Request::CoreCall { in_flight: n }
            | Request::MemoryPair { cores: n }
            | Request::MemoryPaper { cores: n }
            | Request::ProcessPaper { cores: n }
            | Request::CoreEach { batch: n }
            | Request::CallBusy { busy: n }
            | Request::AllocBusy { busy: n }
            | Request::MemoryBusy { busy: n } => Some(n),
            Request::Kept => Some(MOST_MIB as u64),
            Request::AllocBatch => Some(BATCH as u64),
            #[cfg(feature = "peers")]
            Request::PlaceBatch => Some(PLACE_BATCH),
            #[cfg(feature = "peers")]
            Request::PlaceCall => None,
            Request::FreeRemote
            | Request::LocalCall
            | Request::Lookup
            | Request::LineCall
            | Request::ControlHome
            | Request::ControlCore
            | Request::ControlProcess => None,
        }
    }

    fn unit(self) -> &'static str {
        if self == Request::Kept { "MiB" } else { Unit::Nanoseconds.as_str() }
    }

    fn busy(self) -> usize {
        match self {
            Request::CallBusy { busy }
            | Request::AllocBusy { busy }
            | Request::MemoryBusy { busy } => busy as usize,
            _ => 0,
        }
    }

    fn shows_raw(self) -> bool {
        let raw = [Request::CoreCall { in_flight: 1 }, Request::LineCall, Request::ControlProcess];
        raw.contains(&self)
    }
}
