//! Listings that tell no numbers of files: whether there was one, and the folder that the program opened last of those in one.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::table::Key;

/// All of them; it begins as zeros.
#[derive(Debug)]
pub(crate) struct UnnumberedListings {
    /// One once there was one.
    some: AtomicU8,
    /// Keys by its number and by its name. Two threads may mix them up: then one visit is counted for another folder.
    folder: AtomicU64,
    named: AtomicU64,
}

impl UnnumberedListings {
    pub(crate) fn are_listed(&self) {
        self.some.store(1, Ordering::Relaxed);
    }

    pub(crate) fn are_some(&self) -> bool {
        self.some.load(Ordering::Relaxed) != 0
    }

    /// The program has opened the folder of this key, which is listed by a name.
    pub(crate) fn is_opened(&self, folder: Key, named: Key) {
        self.folder.store(folder.as_number(), Ordering::Relaxed);
        self.named.store(named.as_number(), Ordering::Relaxed);
    }

    /// The key by its name of the folder that was opened last, if it is this one.
    pub(crate) fn named(&self, folder: Key) -> Option<Key> {
        let is_last = self.folder.load(Ordering::Relaxed) == folder.as_number();
        is_last.then(|| Key::of_number(self.named.load(Ordering::Relaxed))).flatten()
    }
}
