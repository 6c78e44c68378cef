//! For tests: a pair of threads that is one thread.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use crate::pair::Pair;

/// Runs the one closure and then the other, and counts.
#[derive(Debug, Default)]
pub(crate) struct OneThread {
    pub(crate) forks: usize,
    /// The helper's before the caller's, not after it.
    pub(crate) helper_first: bool,
    /// The ticks of a wake that it tells.
    pub(crate) wake_ticks: u64,
    /// Number of times that it was asked.
    pub(crate) asked: AtomicUsize,
    /// Time of a fork.
    pub(crate) time: Duration,
}

impl Pair for OneThread {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        self.forks += 1;
        thread::sleep(self.time);
        if self.helper_first {
            theirs();
            ours();
        } else {
            ours();
            theirs();
        }
    }

    fn wake_ticks(&self) -> u64 {
        self.asked.fetch_add(1, Relaxed);
        self.wake_ticks
    }
}
