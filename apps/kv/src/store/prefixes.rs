//! Clients that get an invalidation for every change to keys with a prefix.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::invalidations::{How, Invalidation, MOST, Unsent, keys_have_changed};

/// A client that listens.
#[derive(Clone, Copy, Debug)]
struct Listener {
    client: u64,
    /// True if it gets no invalidation for its own changes.
    skips_own: bool,
}

/// Listeners to a prefix, and the keys of it that have changed since the last invalidation.
#[derive(Debug, Default)]
struct Group {
    /// Listeners by their numbers.
    listeners: Vec<Listener>,
    /// Client that changed each last.
    changes: BTreeMap<Box<[u8]>, u64>,
}

/// Prefixes that somebody listens to.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    groups: BTreeMap<Box<[u8]>, Group>,
    /// Prefixes with changes.
    changed: Vec<Box<[u8]>>,
    /// Bytes of changes.
    bytes: usize,
    /// True if there are too many: all have changed.
    is_over: bool,
}

impl Prefixes {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Number of prefixes.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    #[inline]
    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty() || self.is_over
    }

    /// Everybody who listens.
    pub(super) fn clients(&self) -> impl Iterator<Item = u64> {
        self.groups.values().flat_map(|group| &group.listeners).map(|listener| listener.client)
    }

    pub(super) fn listen(&mut self, client: u64, skips_own: bool, prefixes: &[Box<[u8]>]) {
        for prefix in prefixes {
            let its = &mut self.groups.entry(prefix.clone()).or_default().listeners;
            match its.binary_search_by_key(&client, |listener| listener.client) {
                Ok(at) => its[at].skips_own = skips_own,
                Err(at) => its.insert(at, Listener { client, skips_own }),
            }
        }
    }

    pub(super) fn unlisten(&mut self, client: u64, prefixes: &[Box<[u8]>]) {
        for prefix in prefixes {
            let Some(Group { listeners, .. }) = self.groups.get_mut(prefix) else { continue };
            if let Ok(at) = listeners.binary_search_by_key(&client, |listener| listener.client) {
                listeners.remove(at);
            }
            if listeners.is_empty() {
                self.groups.remove(prefix);
            }
        }
        if self.groups.is_empty() {
            *self = Prefixes::default();
        }
    }

    /// Lengths of those prefixes of a key that somebody listens to, the longest first.
    fn of(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        // Of all that sort before the key, its prefixes are the ones that it begins with. One that
        // is none says how much of the key may still be one.
        let mut left = Some(key.len());
        std::iter::from_fn(move || {
            loop {
                let most = &key[..left?];
                let below = (Bound::Unbounded, Bound::Included(most));
                let (found, _) = self.groups.range::<[u8], _>(below).next_back()?;
                let same = found.iter().zip(most).take_while(|(a, b)| a == b).count();
                if same == found.len() {
                    left = same.checked_sub(1);
                    return Some(same);
                }
                left = Some(same);
            }
        })
    }

    /// A key has changed.
    pub(super) fn changed(&mut self, key: &[u8], by: u64) {
        if self.is_over || self.groups.is_empty() {
            return;
        }
        let lengths: Vec<usize> = self.of(key).collect();
        for length in lengths {
            let prefix = &key[..length];
            let Some(group) = self.groups.get_mut(prefix) else { continue };
            if let Some(last) = group.changes.get_mut(key) {
                *last = by;
                continue;
            }
            self.bytes += key.len() + 64;
            if self.bytes > MOST {
                self.groups.values_mut().for_each(|group| group.changes = BTreeMap::new());
                (self.changed, self.bytes, self.is_over) = (Vec::new(), 0, true);
                return;
            }
            if group.changes.is_empty() {
                self.changed.push(prefix.into());
            }
            group.changes.insert(key.into(), by);
        }
    }

    /// Tells who listens: one message a prefix.
    pub(super) fn invalidate(&mut self, unsent: &mut Unsent) {
        self.bytes = 0;
        if std::mem::take(&mut self.is_over) {
            return unsent.all(self.clients().collect());
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        for prefix in changed {
            let Some(Group { listeners, changes }) = self.groups.get_mut(&prefix) else { continue };
            let changes = std::mem::take(changes);
            let mut push = |to: Vec<u64>, keys: Vec<&[u8]>| {
                if !keys.is_empty() {
                    let bytes = Arc::from(keys_have_changed(keys.into_iter()));
                    unsent.push(Invalidation { to, by: 0, how: How::Listened, bytes });
                }
            };
            let has_own = |listener: &&Listener| {
                listener.skips_own && changes.values().any(|by| *by == listener.client)
            };
            let (own, all): (Vec<&Listener>, Vec<&Listener>) = listeners.iter().partition(has_own);
            push(
                all.iter().map(|listener| listener.client).collect(),
                changes.keys().map(|key| &**key).collect(),
            );
            for Listener { client, .. } in own {
                let others = changes.iter().filter(|(_, by)| *by != client);
                push(vec![*client], others.map(|(key, _)| &**key).collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each listener gets the changed keys that begin with its prefix, of no other one, and
    /// of its own not if it does not want to be.
    #[test]
    fn who_listens_is_told_of_what_begins_with_its_prefix() {
        let mut random = fastrand::Rng::with_seed(9);
        let word = |random: &mut fastrand::Rng| -> Box<[u8]> {
            (0..random.usize(..5)).map(|_| b'a' + random.u8(..2)).collect()
        };
        for _ in 0..2000 {
            let mut prefixes = Prefixes::default();
            let listens: Vec<(u64, bool, Box<[u8]>)> =
                (1..random.u64(2..8)).map(|n| (n, random.bool(), word(&mut random))).collect();
            for (client, skips_own, prefix) in &listens {
                prefixes.listen(*client, *skips_own, std::slice::from_ref(prefix));
            }
            let mut changes = BTreeMap::new();
            for _ in 0..random.usize(..6) {
                let (key, by) = (word(&mut random), random.u64(..8));
                prefixes.changed(&key, by);
                changes.insert(key, by);
            }
            let mut unsent = Unsent::default();
            prefixes.invalidate(&mut unsent);
            let messages = unsent.take();
            for (client, skips_own, prefix) in &listens {
                let its = changes.iter().filter(|(key, _)| key.starts_with(prefix));
                let its = its.filter(|(_, by)| !skips_own || *by != client);
                let its: Vec<&[u8]> = its.map(|(key, _)| &**key).collect();
                let got: Vec<&[u8]> = messages
                    .iter()
                    .filter(|message| message.to.contains(client))
                    .map(|message| &*message.bytes)
                    .collect();
                match its.is_empty() {
                    true => assert_eq!(got, [b""; 0], "{listens:?} {changes:?}"),
                    false => assert_eq!(got, [keys_have_changed(its.into_iter())]),
                }
            }
            for (client, _, prefix) in listens {
                prefixes.unlisten(client, &[prefix]);
            }
            assert!(prefixes.is_empty());
        }
    }

    #[test]
    fn too_many_changes_are_all_keys() {
        let mut prefixes = Prefixes::default();
        prefixes.listen(1, false, &[(*b"k").into()]);
        for n in 0..100_000 {
            prefixes.changed(format!("key{n}").as_bytes(), 0);
            assert!(prefixes.bytes <= MOST);
        }
        let mut unsent = Unsent::default();
        prefixes.invalidate(&mut unsent);
        assert_eq!(unsent.take().iter().map(|message| message.how).collect::<Vec<_>>(), [How::All]);
        assert!(!prefixes.has_changes());
    }
}
