//! A name tree's part of one kind: names to ids, and who hears of changes.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use hashbrown::HashTable;

use crate::id::Id;
use crate::list::{Change, Pattern};
use crate::word;

/// Names to ids, of one kind at one place. A resource keeps its name's hash, so that the
/// name is found by the id, too.
#[derive(Default)]
pub(crate) struct Names {
    tree: HashTable<Named>,
}

struct Named {
    unique: Box<str>,
    id: Id,
}

impl Names {
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, unique: &str) -> Option<Id> {
        self.tree.find(hash, |named| *named.unique == *unique).map(|named| named.id)
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, hash: u64, unique: &str, id: Id) {
        let named = Named { unique: unique.into(), id };
        self.tree.insert_unique(hash, named, |named| word::hash(&named.unique));
    }

    /// Takes out the name of `id`, if that still has it.
    #[inline(always)]
    pub(crate) fn remove(&mut self, hash: u64, id: Id) -> Option<Box<str>> {
        let entry = self.tree.find_entry(hash, |named| named.id == id).ok()?;
        Some(entry.remove().0.unique)
    }

    /// All of them, by their ids.
    pub(crate) fn by_id(&self) -> HashMap<Id, &str> {
        self.tree.iter().map(|named| (named.id, &*named.unique)).collect()
    }
}

/// Watchers that hear of changes, with the names that they watch.
#[derive(Default)]
pub(crate) struct Watchers(Vec<(Pattern, Sender<Change>)>);

impl Watchers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, pattern: Pattern, to: Sender<Change>) {
        self.0.push((pattern, to));
    }

    /// Tells them. One whose receiver is gone watches no more.
    pub(crate) fn tell(&mut self, name: &str, id: Id, created: bool) {
        self.0.retain(|(pattern, to)| {
            !pattern.matches(name) || to.send(Change { name: name.to_owned(), id, created }).is_ok()
        });
    }
}
