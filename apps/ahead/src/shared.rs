//! What hooks tell, and what they are told by: read and added to without a lock, by threads of the program and of the pool.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use kumiki_wait::EventCount;

use crate::demand::Demand;
use crate::inbox::Inbox;
use crate::settings::Settings;
use crate::table::Table;
use crate::unlisted::Unlisted;
use crate::unnumbered_listings::UnnumberedListings;
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
    /// Ways that the program had just gone and that took long once more, less those that did not.
    pub(crate) slow_ways: AtomicU8,
    pub(crate) unlisted: Unlisted,
    pub(crate) unnumbered: UnnumberedListings,
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

#[cfg(test)]
impl Shared {
    /// All of it as a process begins it.
    pub(crate) fn boxed() -> Box<Self> {
        use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
        let layout = Layout::new::<Self>();
        // SAFETY: a layout of some size.
        let made: *mut Self = unsafe { alloc_zeroed(layout) }.cast();
        if made.is_null() {
            handle_alloc_error(layout);
        }
        macro_rules! write {
            ($($field:ident: $value:expr,)*) => { $(
                // SAFETY: a field of memory that nobody else has.
                unsafe { (&raw mut (*made).$field).write($value) };
            )* };
        }
        write! {
            settings: Settings::read(),
            inbox: Mutex::new(Inbox::new()),
            work: EventCount::new(),
        }
        // SAFETY: it has the layout of a box, and what is not right as zeros was written.
        unsafe { Box::from_raw(made) }
    }
}
