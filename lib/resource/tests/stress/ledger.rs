//! A resource that knows who has called it how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Place, Result};

/// The most threads that call.
pub(crate) const THREADS: usize = 3;

/// Calls by their threads.
pub(crate) struct Ledger {
    /// The number of each thread's last call, and how many there were.
    calls: [(u64, u64); THREADS],
    live: Arc<AtomicUsize>,
}

impl Ledger {
    /// Writes call `number` of a thread down; how many of its calls there are now.
    ///
    /// # Panics
    /// If it was executed before, or out of its thread's order.
    pub(crate) fn write(&mut self, thread: usize, number: u64) -> u64 {
        let (last, count) = &mut self.calls[thread];
        assert!(number > *last, "call {number} of thread {thread} after its call {last}");
        *last = number;
        *count += 1;
        *count
    }

    /// How many calls of a thread there were.
    pub(crate) fn count(&self, thread: usize) -> u64 {
        self.calls[thread].1
    }
}

impl Kind for Ledger {
    const NAME: &'static str = "ledger";
    /// Where those that live are counted.
    type Spec = Arc<AtomicUsize>;
    type Pool = usize;

    fn pool(_: Place) -> Result<usize> {
        Ok(0)
    }

    fn create(live: Arc<AtomicUsize>, pool: &mut usize) -> Result<Ledger> {
        *pool += 1;
        live.fetch_add(1, Ordering::Relaxed);
        Ok(Ledger { calls: [(0, 0); THREADS], live })
    }

    fn destroy(self, pool: &mut usize) {
        *pool -= 1;
    }

    fn about(&self) -> About {
        About::default()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}
