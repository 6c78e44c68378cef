//! The hash of keys.

use std::hash::{BuildHasher, RandomState};

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;

/// The hash of keys, drawn anew by each process, so that nobody can choose keys that collide.
#[derive(Clone, Debug)]
pub struct Hash(SeedableRandomState);

impl Default for Hash {
    fn default() -> Hash {
        // Its keys are from getrandom(2).
        let seed = RandomState::new().hash_one("keys");
        Hash(SeedableRandomState::with_seed(seed, SharedSeed::global_random()))
    }
}

impl Hash {
    /// The hash of a key.
    #[inline]
    pub fn of(&self, key: &[u8]) -> u64 {
        self.0.hash_one(key)
    }
}
