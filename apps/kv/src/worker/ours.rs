//! The shards, from one of their threads.

use std::sync::Arc;

use kumiki_resource::{Handle, Interface};
use kumiki_wait::PollBell;

use crate::desk::Shards;
use crate::jobs::{Answers, Job, ShardTerms, serve};
use crate::say::{DIED, say};
use crate::shard::Shard;
use crate::store::Hash;

/// The shards, from one of their threads.
pub(super) struct Ours {
    pub(super) interface: Interface,
    pub(super) shards: Vec<Handle<Shard>>,
    pub(super) own: usize,
    pub(super) bells: Arc<Vec<PollBell>>,
    pub(super) hash: Hash,
}

/// The part of a key that says whose it is: what stands in braces, if something does, so that keys
/// which belong together can be in one shard.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        Some(length @ 1..) => &rest[..length],
        _ => key,
    }
}

/// Number of the shard that has a key, of so many.
pub(super) fn shard_of(hash: &Hash, key: &[u8], shards: usize) -> usize {
    (hash.of(tag(key)) >> 32) as u32 as usize % shards
}

/// Ends the process: a shard that its own thread cannot use answers nobody any more.
fn without_shard(error: &kumiki_resource::Error) -> ! {
    say(format_args!("a shard of this thread cannot be used: {error}"));
    std::process::exit(DIED)
}

impl Shards for Ours {
    fn of(&self, key: &[u8]) -> usize {
        shard_of(&self.hash, key, self.shards.len())
    }

    fn count(&self) -> usize {
        self.shards.len()
    }

    fn own(&self) -> usize {
        self.own
    }

    fn with<R: Send>(&self, f: impl FnOnce(&mut Shard) -> R + Send) -> R {
        match self.interface.with(&self.shards[self.own], |shard, ()| f(shard)) {
            Ok(given) => given,
            // This thread has the shard, and is not within it.
            Err(error) => without_shard(&error),
        }
    }

    fn ask(&self, asked: ShardTerms, jobs: Vec<Vec<Job>>) -> Option<Vec<Answers>> {
        let run =
            move |jobs: Vec<Job>| move |shard: &mut Shard, (): &mut ()| serve(jobs, shard, asked);
        let mut started = Vec::new();
        for (at, jobs) in jobs.into_iter().enumerate() {
            if jobs.is_empty() {
                started.push(None);
                continue;
            }
            kumiki_sys::event!(at, jobs = jobs.len(), "hand jobs to a shard");
            let answer = self.interface.start(&self.shards[at], run(jobs)).ok()?;
            if at != self.own {
                self.bells[at].ring();
            }
            started.push(Some(answer));
        }
        let answers = started.into_iter().map(|answer| match answer {
            Some(answer) => answer.wait().ok(),
            None => Some(Answers::default()),
        });
        answers.collect()
    }
}
