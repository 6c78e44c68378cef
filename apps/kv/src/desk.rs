//! What a worker and its clients know of each other.

use crate::counters::Counters;
pub use crate::jobs::HIGH;
use crate::jobs::{Answers, Job, ShardTerms};
use crate::resp::{Limits, Out};
use crate::shard::Shard;
use crate::shared::Shared;

/// Under which clients are served.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Settings and counters.
    pub shared: &'a Shared,
    /// Milliseconds since 1970.
    pub now: u64,
    /// Bytes of a word, and of a command.
    pub limits: Limits,
    /// Bytes of one answer, at most.
    pub most: usize,
}

/// A worker's means for its clients.
#[derive(Debug)]
pub struct Desk<'a, S> {
    /// The shards.
    pub shards: &'a S,
    /// Limits, settings, the time.
    pub terms: Terms<'a>,
    /// Buffer for bytes that come.
    pub buffer: &'a mut [u8],
    /// Answers that go.
    pub out: &'a mut Out,
}

/// The shards, as a connection sees them.
pub trait Shards {
    /// Number of the shard that has a key.
    fn of(&self, key: &[u8]) -> usize;
    /// Number of shards.
    fn count(&self) -> usize;
    /// The one of this thread.
    fn own(&self) -> usize;
    /// Runs `f` on that.
    fn with<R: Send>(&self, f: impl FnOnce(&mut Shard) -> R + Send) -> R;
    /// Has each shard do what is for it, and waits for all; none if one is gone.
    fn ask(&self, asked: ShardTerms, jobs: Vec<Vec<Job>>) -> Option<Vec<Answers>>;
}

impl<S: Shards> Desk<'_, S> {
    /// The counters of this thread.
    pub fn counters(&self) -> &Counters {
        &self.terms.shared.counters[self.shards.own()]
    }
}
