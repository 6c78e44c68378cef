//! What hooks tell, and what they are told by: read and added to without a lock, by threads of the program and of the pool.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use kumiki_wait::EventCount;

use crate::demand::Demand;
use crate::inbox::Inbox;
use crate::settings::Settings;
use crate::table::Table;
use crate::uses::AllUses;

/// All of it. What is a count or a table begins as zeros.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Calls that were seen, of which some are timed while quiet.
    pub(crate) calls: AtomicU32,
    /// Folders that the program has begun to read.
    pub(crate) visits: AtomicU32,
    /// Calls that slept on listed names which nobody had asked for.
    pub(crate) missed: AtomicU32,
    /// One once the program has removed or renamed something.
    pub(crate) removes: AtomicU8,
    /// One once it took long to go a way that the program had just gone.
    pub(crate) is_way_slow: AtomicU8,
    pub(crate) table: Table,
    pub(crate) demand: Demand,
    pub(crate) uses: AllUses,
    pub(crate) settings: Settings,
    /// Names and bytes ahead, by the settings and the memory that is left.
    pub(crate) names: AtomicU32,
    pub(crate) bytes: AtomicU64,
    pub(crate) inbox: Mutex<Inbox>,
    /// Something came into the inbox, room came free, or the pool is to end.
    pub(crate) work: EventCount,
}
