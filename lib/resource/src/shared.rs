//! The paper's shared type: tables and name trees that all threads have together.
//!
//! Interface control excludes by the resource ([`SharedTable`]). Of a kind there is a lock
//! around the insertion and the removal of a name, and around looking one up, and for nothing
//! that a program part does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard};
use std::thread::available_parallelism;

use crate::core::absent;
use crate::error::{Error, Outcome, Result};
use crate::id::{Id, KindId, SHARED, Serial};
use crate::inside::HasLocks;
use crate::kind::Kind;
use crate::kinds::Kinds;
use crate::list::{Change, Listed, Pattern};
use crate::name::{self, Name};
use crate::names::{Names, Watchers};
use crate::shared_table::{AnyShared, SharedTable, Unmade};
use crate::word;

/// Its place's name.
pub(crate) const NAME: &str = "shared";

/// All resources of some kinds, for all threads.
pub(crate) struct Shared {
    kinds: Kinds,
    tables: Vec<Box<dyn AnyShared>>,
    /// The name tree, by kinds.
    names: Vec<Own<Mutex<Names>>>,
    /// True if somebody has ever watched: most programs have no watchers, whose lock all kinds
    /// would share.
    is_watched: AtomicBool,
    watchers: Mutex<Watchers>,
}

/// On lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Own<T>(T);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    pub(crate) fn new(kinds: &Kinds) -> Result<Self> {
        // As many pools as threads run at once.
        let pools = available_parallelism().map_or(1, usize::from);
        let tables = kinds.shared(pools)?;
        Ok(Shared {
            kinds: kinds.clone(),
            names: tables.iter().map(|_| Own::default()).collect(),
            tables,
            is_watched: AtomicBool::new(false),
            watchers: Mutex::default(),
        })
    }

    pub(crate) fn create<K: Kind>(&self, unique: Option<&str>, spec: K::Spec) -> Outcome<Id> {
        let _inside = self.enter("create")?;
        let kind = self.kinds.of::<K>()?;
        let table = self.table::<K>(kind)?;
        let names = &self.names[usize::from(kind.0)].0;
        let id = |serial| Id::new(SHARED, kind, serial);
        // The name first: what it refuses costs nothing to take back.
        let enter = |serial| -> Outcome<Option<(&str, u64, Id)>> {
            let (Some(unique), id) = (unique, id(serial)) else { return Ok(None) };
            name::check_unique(unique)?;
            let mut names = lock(names);
            let hash = word::hash(unique);
            if let Some(id) = names.find(hash, unique) {
                return Err(Error::Taken { name: self.full(kind, unique), id }.into());
            }
            names.insert(hash, unique, id);
            Ok(Some((unique, hash, id)))
        };
        let leave = |name: Option<(&str, u64, Id)>| {
            name.into_iter().for_each(|(_, hash, id)| _ = lock(names).remove(hash, id));
        };
        let made = |name: &Option<(&str, u64, Id)>| {
            name.iter().for_each(|(unique, _, id)| self.tell(kind, unique, *id, true));
        };
        let named = |name: &Option<(&str, u64, Id)>| name.map(|(_, hash, _)| hash);
        match table.create(spec, enter, leave, made, named) {
            Ok(serial) => Ok(id(serial)),
            Err(Unmade::Name(error)) => Err(error),
            Err(Unmade::Kind(error)) => Err(error.into()),
            Err(Unmade::Full) => {
                let (place, kind) = (NAME.to_owned(), K::NAME);
                Err(Error::TableFull { place, kind, limit: Serial::MOST }.into())
            }
        }
    }

    #[inline]
    pub(crate) fn destroy<K: Kind>(&self, id: Id) -> Outcome<()> {
        let _inside = self.enter("destroy")?;
        let kind = id.kind();
        let table = self.table::<K>(kind)?;
        let leave = |hash| {
            let mut names = lock(&self.names[usize::from(kind.0)].0);
            if let Some(unique) = names.remove(hash, id) {
                // While the name is this thread's: others' changes of it are told later.
                self.tell(kind, &unique, id, false);
            }
        };
        table.destroy(id.serial(), leave).map_err(|missing| absent(id, missing))
    }

    /// Runs `f` on resource `id` and a pool of its kind.
    #[inline]
    pub(crate) fn with<K: Kind, R>(
        &self,
        id: Id,
        f: impl FnOnce(&mut K, &mut K::Pool) -> R,
    ) -> Outcome<R> {
        let _inside = self.enter("an operation")?;
        let table = self.table::<K>(id.kind())?;
        table.with(id.serial(), f).map_err(|missing| absent(id, missing))
    }

    /// The id of a name.
    #[inline]
    pub(crate) fn lookup(&self, kind: KindId, name: &Name) -> Outcome<Id> {
        let _inside = self.enter("a name")?;
        let Some(names) = self.names.get(usize::from(kind.0)) else {
            return Err(self.kinds.none(format!("number {}", kind.0)).into());
        };
        let found = lock(&names.0).find(name.hash(), name.unique());
        found.ok_or_else(|| Error::NotFound { name: self.full(kind, name.unique()) }.into())
    }

    /// Lists the resources, by kind and then by name.
    pub(crate) fn list(&self, pattern: &Pattern) -> Outcome<Vec<Listed>> {
        let _inside = self.enter("ls")?;
        let mut all = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            let kind = KindId(at as u8);
            let kind_name = self.kinds.name(kind)?;
            let seen = table.list();
            let names = lock(&self.names[at].0);
            let names = names.by_id();
            let mut here = Vec::new();
            for (serial, named, calls, about) in seen {
                let id = Id::new(SHARED, kind, serial);
                let name = match names.get(&id) {
                    Some(unique) => self.full(kind, unique),
                    // It has gone since.
                    None if named => continue,
                    None => format!("{NAME}/{kind_name}/{id}"),
                };
                if pattern.matches(&name) {
                    here.push(Listed { name, id, named, owner: NAME.to_owned(), calls, about });
                }
            }
            here.sort_by(|a, b| (!a.named, &a.name).cmp(&(!b.named, &b.name)));
            all.append(&mut here);
        }
        Ok(all)
    }

    pub(crate) fn watch(&self, pattern: Pattern, to: Sender<Change>) -> Outcome<()> {
        let _inside = self.enter("watch")?;
        lock(&self.watchers).add(pattern, to);
        // Release: partner is the load in `tell`.
        self.is_watched.store(true, Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    fn tell(&self, kind: KindId, unique: &str, id: Id, created: bool) {
        if self.is_watched.load(Ordering::Acquire) {
            lock(&self.watchers).tell(&self.full(kind, unique), id, created);
        }
    }

    #[inline(always)]
    fn enter(&self, what: &'static str) -> Outcome<HasLocks> {
        HasLocks::enter().ok_or_else(|| Error::Nested { place: SHARED, what }.into())
    }

    #[inline(always)]
    fn table<K: Kind>(&self, kind: KindId) -> Outcome<&SharedTable<K>> {
        let table = self.tables.get(usize::from(kind.0));
        match table.and_then(|table| table.of_kind()) {
            Some(table) => Ok(table),
            None => Err(self.refused::<K>(kind)),
        }
    }

    #[cold]
    fn refused<K: Kind>(&self, kind: KindId) -> Box<Error> {
        match self.kinds.name(kind) {
            Ok(is) => {
                let id = Id::new(SHARED, kind, Serial { index: 0, usage: 0 });
                Error::WrongKind { id, is, wanted: K::NAME }.into()
            }
            Err(none) => none.into(),
        }
    }

    fn full(&self, kind: KindId, unique: &str) -> String {
        let kind = self.kinds.name(kind).unwrap_or("unknown");
        format!("{NAME}/{kind}/{unique}")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last kinds may stand on the first.
        self.tables.iter().rev().for_each(|table| table.clear());
    }
}
