//! Keys that clients watch until they run a transaction.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Watched keys of a shard. Where nobody watches, a change costs one look at a number.
#[derive(Debug, Default)]
pub(super) struct Watches {
    keys: HashMap<Box<[u8]>, Watched, RandomState>,
    changes: u64,
}

#[derive(Debug)]
struct Watched {
    watchers: usize,
    /// Number of its last change.
    changed: u64,
}

impl Watches {
    /// A key has changed.
    #[inline]
    pub(super) fn changed(&mut self, key: &[u8]) {
        if !self.keys.is_empty()
            && let Some(watched) = self.keys.get_mut(key)
        {
            self.changes += 1;
            watched.changed = self.changes;
        }
    }

    /// All keys have changed of which it holds.
    pub(super) fn all_changed(&mut self, holds: impl Fn(&[u8]) -> bool) {
        for (_, watched) in self.keys.iter_mut().filter(|(key, _)| holds(key)) {
            self.changes += 1;
            watched.changed = self.changes;
        }
    }
}

/// A key as somebody has seen it who watches it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The key.
    pub key: Box<[u8]>,
    changed: u64,
    was_there: bool,
}

impl Seen {
    /// Bytes of memory that it takes, here and in the shard, about.
    pub fn kept(&self) -> usize {
        Seen::would_keep(&self.key)
    }

    /// State of a key that is to be watched.
    pub fn would_keep(key: &[u8]) -> usize {
        2 * key.len() + 160
    }
}

impl Watches {
    /// Begins to watch a key, which is there or not.
    pub(super) fn watch(&mut self, key: &[u8], was_there: bool) -> Seen {
        let watched = self.keys.entry(key.into());
        let watched = watched.or_insert(Watched { watchers: 0, changed: 0 });
        watched.watchers += 1;
        Seen { key: key.into(), changed: watched.changed, was_there }
    }

    /// Ends to watch a key, which is there or not now; whether it is as it was.
    pub(super) fn unwatch(&mut self, seen: &Seen, is_there: bool) -> bool {
        let keys = &mut self.keys;
        let Some(watched) = keys.get_mut(&seen.key) else { return false };
        watched.watchers -= 1;
        let is_same = watched.changed == seen.changed && (is_there || !seen.was_there);
        if watched.watchers == 0 {
            keys.remove(&seen.key);
            if keys.is_empty() {
                *keys = HashMap::default();
            }
        }
        is_same
    }
}
