//! Figures of what has been served, a set for each worker.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A figure that only grows, which one thread adds to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        // No other adds: a load and a store, which lock nothing.
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Figures of one worker, in lines of the cache that no other writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    /// Answers by the hundred of their status, from 1xx on.
    pub(crate) answers: [Count; 5],
    /// Answers for which no call had to wait for a disk.
    pub(crate) hits: Count,
    pub(crate) body_bytes: Count,
    /// Calls that would have slept and were handed to other threads.
    pub(crate) cold: Count,
    /// Clients that have waited for a disk for too long.
    pub(crate) disk_time: Count,
    pub(crate) accepted: Count,
    /// Times that a connection waited, as there was no place or no descriptor.
    pub(crate) refused: Count,
    /// Idle connections closed for another.
    pub(crate) closed: Count,
    pub(crate) panics: Count,
}

impl Counts {
    /// Counts an answer of this status.
    pub(crate) fn answered(&self, status: u16, bytes: u64, waited: bool) {
        let hundred = usize::from(status / 100).wrapping_sub(1);
        if let Some(answers) = self.answers.get(hundred) {
            answers.add(1);
        }
        self.body_bytes.add(bytes);
        self.hits.add(u64::from(!waited));
    }
}
