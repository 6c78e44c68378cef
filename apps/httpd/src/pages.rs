//! Memory of folders' pages, which are whole in memory until their clients have taken them: bounded over
//! all connections of a worker.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a worker's pages, and of the entries that they are made of.
const MOST: usize = 64 << 20;

/// Count of those bytes. One thread changes it.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    bytes: Arc<AtomicUsize>,
    most: usize,
}

/// Part of an answer in that count, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct PageShare {
    of: Pages,
    bytes: usize,
}

impl Default for Pages {
    fn default() -> Self {
        Pages::of_most(MOST)
    }
}

impl Pages {
    pub(crate) fn of_most(most: usize) -> Self {
        Pages { bytes: Arc::default(), most }
    }

    /// A part that has nothing yet.
    pub(crate) fn share(&self) -> PageShare {
        PageShare { of: self.clone(), bytes: 0 }
    }
}

impl PageShare {
    /// Takes so many bytes more; `false` if there is no room for them.
    pub(crate) fn take(&mut self, more: usize) -> bool {
        let all = self.of.bytes.load(Relaxed) + more;
        let has_room = all <= self.of.most;
        if has_room {
            self.of.bytes.store(all, Relaxed);
            self.bytes += more;
        }
        has_room
    }
}

impl Drop for PageShare {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Relaxed);
    }
}
