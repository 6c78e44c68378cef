//! Keys that clients keep copies of, and the invalidations when a key changes.
//!
//! A key that a client has read stands here with the client's number, until it changes: then the
//! client gets an invalidation, once, and the key stands here no more. Memory for it is bounded; where there is
//! none left, a key chosen by chance is invalidated. An invalidation too many does a client no harm,
//! one too few leaves it a wrong copy.

use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use std::hash::BuildHasher;

use super::invalidations::{How, Invalidation, Unsent, all_have_changed, keys_have_changed};
use super::prefixes::Prefixes;

/// Bytes of a key's place in the table, about: an entry, and its share of the index.
const PLACE: usize = 64;
/// Bytes of an allocation beside what was asked for, about.
const BLOCK: usize = 16;
/// The table is not made smaller below so many places.
const SMALL: usize = 64;

/// Keys of a shard that clients follow. Where nobody does, a change costs a look at a flag.
#[derive(Debug)]
pub(super) struct Followed {
    keys: IndexMap<Box<[u8]>, Vec<u64>, RandomState>,
    pub(super) prefixes: Prefixes,
    pub(super) unsent: Unsent,
    /// Somebody follows something.
    is_used: bool,
    /// Client numbers in the table.
    items: usize,
    /// Bytes of names and of lists of clients.
    bytes: usize,
    /// Keys at most.
    most: usize,
    /// Keys that were chosen by chance.
    chosen: u64,
}

impl Default for Followed {
    fn default() -> Followed {
        Followed {
            keys: IndexMap::default(),
            prefixes: Prefixes::default(),
            unsent: Unsent::default(),
            is_used: false,
            items: 0,
            bytes: 0,
            most: usize::MAX,
            chosen: 0,
        }
    }
}

fn list_bytes(ids: &Vec<u64>) -> usize {
    ids.capacity() * size_of::<u64>() + BLOCK
}

impl Followed {
    /// Bytes of memory of the table.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.keys.capacity() * PLACE
    }

    /// Number of keys, and number of clients that have one, counted for each key.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.keys.len(), self.items)
    }

    /// Sets how many keys there may be.
    pub(super) fn most(&mut self, keys: usize) {
        self.most = keys;
    }

    /// A key has changed; `by` a client, or by nobody: 0.
    #[inline]
    pub(super) fn changed(&mut self, key: &[u8], by: u64) {
        if self.is_used {
            self.invalidate(key, by);
        }
    }

    #[cold]
    fn invalidate(&mut self, key: &[u8], by: u64) {
        self.prefixes.changed(key, by);
        if let Some((name, ids)) = self.keys.swap_remove_entry(key) {
            self.gone(&name, ids, by);
            self.shrink();
        }
    }

    /// A key is in the table no more: its clients get an invalidation.
    fn gone(&mut self, name: &[u8], to: Vec<u64>, by: u64) {
        self.bytes -= name.len() + BLOCK + list_bytes(&to);
        self.items -= to.len();
        let bytes = Arc::from(keys_have_changed([name].into_iter()));
        self.unsent.push(Invalidation { to, by, how: How::Followed, bytes });
    }

    /// Follows a key for a client; what the table has stays within `room` bytes.
    pub(super) fn follow(&mut self, key: &[u8], client: u64, room: usize) {
        self.is_used = true;
        if let Some(ids) = self.keys.get_mut(key) {
            // Numbers of clients grow: a new one is the last.
            if let Err(at) = ids.binary_search(&client) {
                self.bytes -= list_bytes(ids);
                ids.insert(at, client);
                self.bytes += list_bytes(ids);
                self.items += 1;
            }
        } else {
            // While the table grows there are the old one and one twice as large.
            let grown = 3 * self.keys.capacity().max(SMALL) * PLACE;
            if self.keys.len() == self.keys.capacity()
                && !self.keys.is_empty()
                && self.bytes + grown > room
            {
                self.forget_one();
            }
            let ids = vec![client];
            self.bytes += key.len() + BLOCK + list_bytes(&ids);
            self.items += 1;
            self.keys.insert(key.into(), ids);
        }
        while (self.keys.len() > self.most || self.bytes() > room) && !self.keys.is_empty() {
            self.forget_one();
        }
    }

    /// Has the clients of a key forget it, chosen by chance.
    fn forget_one(&mut self) {
        self.chosen += 1;
        let drawn = self.keys.hasher().hash_one(self.chosen) as usize;
        let at = drawn % self.keys.len().max(1);
        if let Some((name, ids)) = self.keys.swap_remove_index(at) {
            self.gone(&name, ids, 0);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let (len, capacity) = (self.keys.len(), self.keys.capacity());
        if len == 0 {
            self.keys = IndexMap::default();
            self.is_used = !self.prefixes.is_empty();
        } else if capacity > SMALL && len * 4 < capacity {
            self.keys.shrink_to(2 * len);
        }
    }

    /// All keys have changed: all clients here get one invalidation, and `also` these.
    pub(super) fn all_changed(&mut self, also: Vec<u64>) {
        let mut to = also;
        self.keys.drain(..).for_each(|(_, ids)| to.extend(ids));
        to.extend(self.prefixes.clients());
        (self.items, self.bytes) = (0, 0);
        self.shrink();
        self.unsent.push(all_have_changed(to));
    }

    /// Starts invalidations for a client of keys with these prefixes; `skips_own`: not for its own changes.
    pub(super) fn listen(&mut self, client: u64, skips_own: bool, prefixes: &[Box<[u8]>]) {
        self.is_used = true;
        self.prefixes.listen(client, skips_own, prefixes);
    }

    /// Ends invalidations for a client of keys with these prefixes.
    pub(super) fn unlisten(&mut self, client: u64, prefixes: &[Box<[u8]>]) {
        self.prefixes.unlisten(client, prefixes);
        self.is_used = !self.keys.is_empty() || !self.prefixes.is_empty();
    }

    /// Takes the unsent invalidations.
    pub(super) fn take(&mut self) -> Vec<Invalidation> {
        self.prefixes.invalidate(&mut self.unsent);
        self.unsent.take()
    }

    /// True if there is an unsent invalidation.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.prefixes.has_changes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Beside a model: a client that has read a key and got no invalidation is in the table, and nobody else,
    /// while the table stays within its bounds.
    #[test]
    fn nobody_is_forgotten_without_being_told() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut followed, mut model) = (Followed::default(), BTreeSet::new());
        let mut by_chance = 0;
        for step in 0..20_000 {
            let is_tight = step / 2_000 % 2 == 1;
            let (room, most) = if is_tight { (8_000, 300) } else { (50_000, usize::MAX) };
            followed.most(most);
            let key = format!("{}{}", "k".repeat(random.usize(..40)), random.u16(..200));
            let client = random.u64(1..20);
            match random.u16(..1000) {
                0..700 => {
                    followed.follow(key.as_bytes(), client, room);
                    model.insert((key, client));
                    assert!(followed.bytes() <= room && followed.counts().0 <= most);
                }
                700..999 => followed.changed(key.as_bytes(), client),
                _ => followed.all_changed(vec![client]),
            }
            for message in followed.take() {
                let text = std::str::from_utf8(&message.bytes).unwrap();
                let key = text.rsplit("\r\n").nth(1).unwrap();
                for client in message.to {
                    match message.how {
                        How::All => model.retain(|(_, its)| *its != client),
                        _ => {
                            by_chance += usize::from(message.by == 0);
                            assert!(model.remove(&(key.to_owned(), client)), "{key} {client}");
                        }
                    }
                }
            }
            assert_eq!(followed.counts().1, model.len());
        }
        assert!(by_chance > 1000);
        followed.all_changed(Vec::new());
        assert_eq!((followed.bytes(), followed.counts()), (0, (0, 0)));
    }

    #[test]
    fn much_that_is_to_be_told_is_one_message() {
        let mut followed = Followed::default();
        for n in 0..100_000 {
            let key = format!("key{n}");
            followed.follow(key.as_bytes(), 1 + n % 3, 1 << 20);
            followed.changed(key.as_bytes(), 0);
        }
        assert!(followed.unsent.bytes <= super::super::invalidations::MOST);
        let messages = followed.take();
        assert_eq!((messages[0].how, &messages[0].to[..]), (How::All, &[1, 2, 3][..]));
    }
}
