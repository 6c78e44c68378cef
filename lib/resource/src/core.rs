//! What one place owns: a management table a kind, and the name tree.

use std::cell::RefCell;
use std::sync::mpsc::Sender;

use crate::error::{Error, Outcome, Result};
use crate::id::{Id, KindId, Place, Serial};
use crate::item::Item;
use crate::kind::{Former, Kind, TableEntry};
use crate::kinds::{KindTable, Kinds, ManagementTable};
use crate::list::{Change, Listed, Pattern};
use crate::name::{self, Name};
use crate::names::{Names, Watchers};
use crate::table::Missing;
use crate::word;

/// One place's resources. One thread has them, so that a look whether it is at them already
/// is enough.
pub(crate) struct Core {
    pub(crate) place: Place,
    place_name: Box<str>,
    kinds: Kinds,
    tables: Vec<RefCell<ManagementTable>>,
    /// The name tree, by kinds.
    names: Vec<RefCell<Names>>,
    watchers: RefCell<Watchers>,
}

impl Core {
    pub(crate) fn new(place: Place, place_name: &str, kinds: &Kinds) -> Result<Self> {
        let tables: Vec<_> = kinds.tables(place)?.into_iter().map(RefCell::new).collect();
        Ok(Core {
            place,
            place_name: place_name.into(),
            kinds: kinds.clone(),
            names: tables.iter().map(|_| RefCell::default()).collect(),
            tables,
            watchers: RefCell::default(),
        })
    }

    pub(crate) fn create<K: Kind>(&self, unique: Option<&str>, spec: K::Spec) -> Outcome<Id> {
        let kind = self.kinds.of::<K>()?;
        // The name first: what it refuses costs nothing to take back.
        let Some(unique) = unique else { return self.insert::<K>(kind, None, spec) };
        name::check_unique(unique)?;
        self.names(kind, |names| -> Outcome<Id> {
            let hash = word::hash(unique);
            if let Some(id) = names.find(hash, unique) {
                return Err(Error::Taken { name: self.full(kind, unique), id }.into());
            }
            let id = self.insert::<K>(kind, Some(hash), spec)?;
            // While the name is this thread's: others' changes of it are told later.
            self.tell(kind, unique, id, true);
            names.insert(hash, unique, id);
            Ok(id)
        })?
    }

    /// Fills the table of a kind that has had no resource yet.
    pub(crate) fn restore<K: Kind>(
        &self,
        mut next: impl FnMut(&mut K::Pool) -> Result<Option<Former<K>>>,
    ) -> Outcome<()> {
        let kind = self.kinds.of::<K>()?;
        let refused = |text: String| Box::new(Error::Kind { kind: K::NAME, text });
        let is_new = self.table::<K, _>(kind, "restore", |table| table.entries.is_new())?;
        if !is_new {
            return Err(refused("its table has been used: restore it before all else".to_owned()));
        }
        loop {
            let restored = self.table::<K, _>(kind, "restore", |table| -> Outcome<_> {
                let Some(Former { uses, resource }) = next(&mut table.pool)? else {
                    return Ok(None);
                };
                let (name, entry) = match resource {
                    Some((name, value)) => {
                        let named = name.as_deref().map(word::hash);
                        (name, Some(TableEntry { value, named, calls: 0 }))
                    }
                    None => (None, None),
                };
                match table.entries.restore(uses, entry) {
                    Ok(serial) => Ok(Some((name, Id::new(self.place, kind, serial)))),
                    Err(entry) => {
                        if let Some(entry) = entry {
                            entry.value.destroy(&mut table.pool);
                        }
                        Err(refused(format!(
                            "no slot of a table has had {uses} uses, or it is full"
                        )))
                    }
                }
            })??;
            let Some((name, id)) = restored else { return Ok(()) };
            let Some(name) = name else { continue };
            name::check_unique(&name)?;
            self.names(kind, |names| -> Outcome<()> {
                let hash = word::hash(&name);
                if let Some(id) = names.find(hash, &name) {
                    return Err(Error::Taken { name: self.full(kind, &name), id }.into());
                }
                self.tell(kind, &name, id, true);
                names.insert(hash, &name, id);
                Ok(())
            })??;
        }
    }

    pub(crate) fn limit<K: Kind>(&self, bytes: u64) -> Outcome<()> {
        let kind = self.kinds.of::<K>()?;
        Ok(self.table::<K, _>(kind, "limit", |table| K::limit(&mut table.pool, bytes))??)
    }

    #[inline]
    fn insert<K: Kind>(&self, kind: KindId, named: Option<u64>, spec: K::Spec) -> Outcome<Id> {
        self.table::<K, _>(kind, "create", |table| -> Outcome<Id> {
            let value = K::create(spec, &mut table.pool)?;
            match table.entries.insert(TableEntry { value, named, calls: 0 }) {
                Ok(serial) => Ok(Id::new(self.place, kind, serial)),
                Err(entry) => {
                    entry.value.destroy(&mut table.pool);
                    let (place, kind) = (self.place_name.to_string(), K::NAME);
                    Err(Error::TableFull { place, kind, limit: Serial::MOST }.into())
                }
            }
        })?
    }

    #[inline]
    pub(crate) fn destroy<K: Kind>(&self, id: Id) -> Outcome<()> {
        let (kind, serial) = (id.kind(), id.serial());
        let absent = |missing| absent(id, missing);
        let destroy = |table: &mut KindTable<K>| -> Outcome<()> {
            let entry = table.entries.remove(serial).map_err(absent)?;
            entry.value.destroy(&mut table.pool);
            Ok(())
        };
        let named = self.table::<K, _>(kind, "destroy", |table| -> Outcome<_> {
            match table.entries.get_mut(serial).map_err(absent)?.named {
                None => destroy(table).map(|()| None),
                named => Ok(named),
            }
        })??;
        let Some(hash) = named else { return Ok(()) };
        // The name first: it is to go also if the program part panics.
        self.names(kind, |names| {
            // Somebody else may be at the same one.
            if let Some(unique) = names.remove(hash, id) {
                self.tell(kind, &unique, id, false);
            }
        })?;
        self.table::<K, _>(kind, "destroy", destroy)?
    }

    /// Runs `f` on resource `id` and its place's pool.
    #[inline]
    pub(crate) fn with<K: Kind, R>(
        &self,
        id: Id,
        f: impl FnOnce(&mut K, &mut K::Pool) -> R,
    ) -> Outcome<R> {
        self.table::<K, _>(id.kind(), "an operation", |table| {
            match table.entries.get_mut(id.serial()) {
                Ok(entry) => {
                    entry.calls += 1;
                    Ok(f(&mut entry.value, &mut table.pool))
                }
                Err(missing) => Err(absent(id, missing)),
            }
        })?
    }

    /// Runs `f` on each of these resources of one kind from the `next` one on, with what stands beside it.
    #[inline]
    pub(crate) fn each<K: Kind, I, R>(
        &self,
        kind: KindId,
        items: &mut [Item<I, R>],
        next: &mut usize,
        f: &impl Fn(&mut K, &mut K::Pool, I) -> R,
    ) -> Outcome<()> {
        self.table::<K, _>(kind, "an operation", |table| {
            for item in &mut items[*next..] {
                *next += 1;
                let Some((id, input)) = item.take() else { continue };
                *item = Item::Given(match table.entries.get_mut(id.serial()) {
                    Ok(entry) => {
                        entry.calls += 1;
                        Ok(f(&mut entry.value, &mut table.pool, input))
                    }
                    Err(missing) => Err(absent(id, missing)),
                });
            }
        })
    }

    /// The id of a name.
    #[inline]
    pub(crate) fn lookup(&self, kind: KindId, name: &Name) -> Outcome<Id> {
        let found = self.names(kind, |names| names.find(name.hash(), name.unique()))?;
        found.ok_or_else(|| self.not_found(kind, name))
    }

    #[cold]
    fn not_found(&self, kind: KindId, name: &Name) -> Box<Error> {
        Error::NotFound { name: self.full(kind, name.unique()) }.into()
    }

    /// Lists the resources, by kind and then by name.
    pub(crate) fn list(&self, pattern: &Pattern) -> Outcome<Vec<Listed>> {
        let mut all = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            let (kind, mut here) = (KindId(at as u8), Vec::new());
            let kind_name = self.kinds.name(kind)?;
            let listed = self.names(kind, |names| {
                let names = names.by_id();
                let each = &mut |serial, calls, about| {
                    let id = Id::new(self.place, kind, serial);
                    let unique = names.get(&id);
                    let name = match unique {
                        Some(unique) => self.full(kind, unique),
                        None => format!("{}/{kind_name}/{id}", self.place_name),
                    };
                    if pattern.matches(&name) {
                        let (named, owner) = (unique.is_some(), self.place_name.to_string());
                        here.push(Listed { name, id, named, owner, calls, about });
                    }
                };
                with(table, |made| made.table().list(each))
            })?;
            listed.ok_or_else(|| self.nested("ls"))?;
            here.sort_by(|a, b| (!a.named, &a.name).cmp(&(!b.named, &b.name)));
            all.append(&mut here);
        }
        Ok(all)
    }

    pub(crate) fn watch(&self, pattern: Pattern, to: Sender<Change>) -> Outcome<()> {
        let added = with(&self.watchers, |watchers| watchers.add(pattern, to));
        added.ok_or_else(|| self.nested("watch"))
    }

    fn tell(&self, kind: KindId, unique: &str, id: Id, created: bool) {
        // It runs nothing of a kind's: nobody of this thread is at the watchers.
        with(&self.watchers, |watchers| {
            if !watchers.is_empty() {
                watchers.tell(&self.full(kind, unique), id, created);
            }
        });
    }

    #[inline(always)]
    fn table<K: Kind, R>(
        &self,
        kind: KindId,
        what: &'static str,
        f: impl FnOnce(&mut KindTable<K>) -> R,
    ) -> Outcome<R> {
        let Some(table) = self.tables.get(usize::from(kind.0)) else {
            return Err(self.kinds.none(format!("number {}", kind.0)).into());
        };
        match with(table, |made| made.of_kind().map(f)) {
            Some(Some(result)) => Ok(result),
            other => Err(self.refused::<K>(kind, what, other.is_none())),
        }
    }

    #[cold]
    fn refused<K: Kind>(&self, kind: KindId, what: &'static str, nested: bool) -> Box<Error> {
        if nested {
            return self.nested(what);
        }
        let id = Id::new(self.place, kind, Serial { index: 0, usage: 0 });
        let is = self.kinds.name(kind).unwrap_or("unknown");
        Error::WrongKind { id, is, wanted: K::NAME }.into()
    }

    #[cold]
    fn nested(&self, what: &'static str) -> Box<Error> {
        Error::Nested { place: self.place, what }.into()
    }

    #[inline(always)]
    fn names<R>(&self, kind: KindId, f: impl FnOnce(&mut Names) -> R) -> Outcome<R> {
        let Some(names) = self.names.get(usize::from(kind.0)) else {
            return Err(self.kinds.none(format!("number {}", kind.0)).into());
        };
        with(names, f).ok_or_else(|| self.nested("a name"))
    }

    fn full(&self, kind: KindId, unique: &str) -> String {
        let kind = self.kinds.name(kind).unwrap_or("unknown");
        format!("{}/{kind}/{unique}", self.place_name)
    }

    /// True if the calling thread is within an operation on it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.tables.iter().any(|table| table.try_borrow().is_err())
            || self.names.iter().any(|names| names.try_borrow().is_err())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The last kinds may stand on the first.
        for table in self.tables.iter_mut().rev() {
            table.get_mut().table().clear();
        }
    }
}

/// Runs `f` on it; `None` if the calling thread is at it already.
#[inline(always)]
fn with<T, R>(of: &RefCell<T>, f: impl FnOnce(&mut T) -> R) -> Option<R> {
    of.try_borrow_mut().ok().map(|mut value| f(&mut value))
}

#[cold]
pub(crate) fn absent(id: Id, missing: Missing) -> Box<Error> {
    match missing {
        Missing::Stale => Error::Stale { id }.into(),
        Missing::Unknown => Error::Unknown { id }.into(),
    }
}
