//! Clients that want to know when keys change: for a transaction, or as they keep copies.

use super::Keys;
use crate::store::Invalidation;
use crate::store::watch::Seen;

impl Keys {
    /// A key has changed.
    #[inline]
    pub(super) fn changed(&mut self, key: &[u8]) {
        self.watches.changed(key);
        self.followed.changed(key, self.by);
    }

    /// Begins to watch a key.
    pub fn watch(&mut self, key: &[u8], now: u64) -> Seen {
        let was_there = self.get(key, now).is_some();
        self.watches.watch(key, was_there)
    }

    /// Ends to watch a key; whether it is as it was.
    pub fn unwatch(&mut self, seen: &Seen, now: u64) -> bool {
        let is_there = self.get(&seen.key, now).is_some();
        self.watches.unwatch(seen, is_there)
    }

    /// Notes which client's command runs now; 0: none's.
    #[inline]
    pub fn done_by(&mut self, client: u64) {
        self.by = client;
    }

    /// Follows a key for a client that has read it: when it changes, the client gets an invalidation.
    pub fn follow(&mut self, key: &[u8], client: u64) {
        let room = self.limit().saturating_sub(self.log.mapped() + self.table_bytes);
        self.followed.follow(key, client, room.min(self.limit() / 8));
    }

    /// Sets how many keys are followed at most.
    pub fn follow_at_most(&mut self, keys: usize) {
        self.followed.most(keys);
    }

    /// Starts invalidations for a client of keys with these prefixes; `skips_own`: not for its own changes.
    pub fn listen(&mut self, client: u64, skips_own: bool, prefixes: &[Box<[u8]>]) {
        self.followed.listen(client, skips_own, prefixes);
    }

    /// Ends invalidations for a client of keys with these prefixes.
    pub fn unlisten(&mut self, client: u64, prefixes: &[Box<[u8]>]) {
        self.followed.unlisten(client, prefixes);
    }

    /// Numbers of followed keys, of clients that follow each in all, and of prefixes.
    pub fn followed(&self) -> (usize, usize, usize) {
        let (keys, items) = self.followed.counts();
        (keys, items, self.followed.prefixes.len())
    }

    /// True if there are unsent invalidations.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.followed.has_unsent()
    }

    /// Takes the unsent invalidations.
    pub fn take_unsent(&mut self) -> Vec<Invalidation> {
        self.followed.take()
    }

    /// Adds an invalidation.
    pub fn invalidate(&mut self, message: Invalidation) {
        self.followed.unsent.push(message);
    }

    /// Number of unsent invalidations of single keys.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.followed.unsent.len()
    }

    /// Takes a client's invalidations out of those behind the first so many.
    pub fn take_unsent_of(&mut self, client: u64, from: usize, each: impl FnMut(&Invalidation)) {
        self.followed.unsent.of(client, from, each);
    }
}
