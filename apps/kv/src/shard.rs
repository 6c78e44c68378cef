//! A shard: what one core owns, its keys and what is known of its clients.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Place, Result};

use crate::clients::Clients;
use crate::counters::Counters;
use crate::store::{Hash, Keys};

/// A shard's number, share and limits.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its number.
    pub number: usize,
    /// Number of shards.
    pub of: usize,
    /// Bytes of its keys and values, at most, as they are set now.
    pub limit: Arc<AtomicUsize>,
    /// Bytes of a value, at most.
    pub longest: usize,
    /// The hash of all shards.
    pub hash: Hash,
}

/// One core's keys, and its clients.
#[derive(Debug)]
pub struct Shard {
    /// The keys.
    pub keys: Keys,
    /// Clients of this core.
    pub clients: Clients,
    /// Keys that somebody has read and that were there.
    pub hits: u64,
    /// Keys that were not there.
    pub misses: u64,
    /// Commands that were refused as there was no memory.
    pub refused: u64,
    /// Its number.
    pub number: usize,
    /// Number of shards.
    pub of: usize,
    /// Bytes of a value, at most.
    pub longest: usize,
    /// State of the random numbers that it draws.
    pub random: u64,
}

impl Shard {
    /// An empty one.
    pub fn new(spec: Spec) -> Shard {
        let Spec { number, of, limit, longest, hash } = spec;
        let random = hash.of(&number.to_ne_bytes());
        let keys = Keys::new(limit, hash);
        let clients = Clients::default();
        Shard { keys, clients, hits: 0, misses: 0, refused: 0, number, of, longest, random }
    }

    /// Has others see what it counts.
    pub fn publish(&self, counters: &Counters) {
        counters.hits.set(self.hits);
        counters.misses.set(self.misses);
        counters.refused.set(self.refused);
        counters.expired.set(self.keys.expired());
        counters.keys.set(self.keys.len() as u64);
        counters.going.set(self.keys.going() as u64);
        counters.key_bytes.set(self.keys.bytes() as u64);
        let (keys, items, prefixes) = self.keys.followed();
        counters.followers.set(self.clients.followers as u64);
        counters.followed_keys.set(keys as u64);
        counters.followed_items.set(items as u64);
        // Each shard knows all of them.
        counters.prefixes.set(if self.number == 0 { prefixes as u64 } else { 0 });
    }

    /// True if its worker has something to do for it.
    pub fn has_duties(&self) -> bool {
        !self.clients.go.is_empty()
            || !self.clients.invalidations.is_empty()
            || self.keys.has_unsent()
    }

    /// Takes all keys away.
    pub fn clear(&mut self, now: u64) {
        let also = self.clients.tracking();
        self.keys.clear(now, also);
    }

    /// A random number.
    pub fn draw(&mut self) -> u64 {
        // SplitMix64: good enough to choose a key by.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Kind for Shard {
    const NAME: &'static str = "shard";
    type Spec = Spec;
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create(spec: Spec, (): &mut ()) -> Result<Shard> {
        Ok(Shard::new(spec))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About { state: format!("{} keys", self.keys.len()), bytes: self.keys.bytes() as u64 }
    }
}
