//! The kinds of an interface, by their numbers, and the tables that they are kept in.

use std::any::{Any, TypeId};
use std::fmt;

use crate::error::{Error, Result};
use crate::id::{KindId, Place, Serial};
use crate::kind::{About, Kind, TableEntry};
use crate::name::Name;
use crate::table::Table;
use crate::word::Word;

/// One place's table of one kind, with the pool.
pub(crate) struct KindTable<K: Kind> {
    pub(crate) entries: Table<TableEntry<K>>,
    pub(crate) pool: K::Pool,
}

/// Takes a resource's serial, its calls, and what its kind says.
pub(crate) type Each<'a> = dyn FnMut(Serial, u64, About) + 'a;

/// Operations on a table whose kind the caller does not know.
pub(crate) trait AnyTable: Any + Send {
    /// Each resource.
    fn list(&self, each: &mut Each<'_>);
    /// Destroys all.
    fn clear(&mut self);
}

impl<K: Kind> AnyTable for KindTable<K> {
    fn list(&self, each: &mut Each<'_>) {
        for (serial, entry) in self.entries.iter() {
            each(serial, entry.calls, entry.value.about());
        }
    }

    fn clear(&mut self) {
        let all: Vec<Serial> = self.entries.iter().map(|(serial, _)| serial).collect();
        for serial in all {
            if let Ok(entry) = self.entries.remove(serial) {
                entry.value.destroy(&mut self.pool);
            }
        }
    }
}

/// The kinds of an interface, by their numbers.
#[derive(Clone, Default)]
pub(crate) struct Kinds(Vec<Registered>);

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|kind| kind.name)).finish()
    }
}

#[derive(Clone, Copy)]
struct Registered {
    name: &'static str,
    word: Word,
    /// The type of its [`KindTable`].
    table: TypeId,
    make: fn(Place) -> Result<Box<dyn AnyTable>>,
}

impl Kinds {
    /// The most kinds: their number has 8 bits.
    pub(crate) const MOST: usize = 1 << 8;

    /// Adds `K`, unless it is there already.
    pub(crate) fn add<K: Kind>(&mut self) {
        let table = TypeId::of::<KindTable<K>>();
        if self.0.iter().any(|kind| kind.table == table) {
            return;
        }
        let make = |place| -> Result<Box<dyn AnyTable>> {
            Ok(Box::new(KindTable::<K> { entries: Table::default(), pool: K::pool(place)? }))
        };
        let word = Word::new(K::NAME);
        self.0.push(Registered { name: K::NAME, word, table, make });
    }

    /// Checks that each can be told from the others.
    ///
    /// # Errors
    /// [`Error::KindTaken`], [`Error::TooManyKinds`].
    pub(crate) fn check(&self) -> Result<()> {
        for (at, kind) in self.0.iter().enumerate() {
            if self.0[..at].iter().any(|other| other.name == kind.name) {
                return Err(Error::KindTaken { kind: kind.name });
            }
        }
        match self.0.len() {
            count if count > Self::MOST => Err(Error::TooManyKinds { count, limit: Self::MOST }),
            _ => Ok(()),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<KindId> {
        self.0.iter().position(|kind| kind.name == name).map(|at| KindId(at as u8))
    }

    /// The number of a name's kind.
    #[inline]
    pub(crate) fn of_name(&self, name: &Name) -> Result<KindId> {
        match self.0.iter().position(|kind| kind.word.is(name.of_kind())) {
            Some(at) => Ok(KindId(at as u8)),
            None => self.of_long_name(name),
        }
    }

    #[cold]
    fn of_long_name(&self, name: &Name) -> Result<KindId> {
        self.find(name.kind()).ok_or_else(|| self.none(name.kind().to_owned()))
    }

    /// The number of `K`.
    pub(crate) fn of<K: Kind>(&self) -> Result<KindId> {
        let table = TypeId::of::<KindTable<K>>();
        let at = self.0.iter().position(|kind| kind.table == table);
        // Of another type with this name its table tells.
        let kind = at.map(|at| KindId(at as u8)).or_else(|| self.find(K::NAME));
        kind.ok_or_else(|| self.none(K::NAME.to_owned()))
    }

    /// True if this is the number of `K`, and not of another type with its name.
    #[inline]
    pub(crate) fn is<K: Kind>(&self, id: KindId) -> bool {
        let table = TypeId::of::<KindTable<K>>();
        self.0.get(usize::from(id.0)).is_some_and(|kind| kind.table == table)
    }

    pub(crate) fn name(&self, id: KindId) -> Result<&'static str> {
        let kind = self.0.get(usize::from(id.0));
        kind.map(|kind| kind.name).ok_or_else(|| self.none(format!("number {}", id.0)))
    }

    /// A table of each, at `place`.
    pub(crate) fn tables(&self, place: Place) -> Result<Vec<ManagementTable>> {
        let made =
            |kind: &Registered| Ok(ManagementTable { of: kind.table, table: (kind.make)(place)? });
        self.0.iter().map(made).collect()
    }

    pub(crate) fn none(&self, kind: String) -> Error {
        let names: Vec<_> = self.0.iter().map(|kind| kind.name).collect();
        Error::NoKind { kind, kinds: names.join(", ") }
    }
}

/// A kind's management table.
pub(crate) struct ManagementTable {
    /// Its type.
    of: TypeId,
    table: Box<dyn AnyTable>,
}

impl ManagementTable {
    /// The table, of whatever kind.
    pub(crate) fn table(&mut self) -> &mut dyn AnyTable {
        &mut *self.table
    }

    /// Returns the table if it is of kind `K`.
    #[inline(always)]
    pub(crate) fn of_kind<K: Kind>(&mut self) -> Option<&mut KindTable<K>> {
        if self.of != TypeId::of::<KindTable<K>>() {
            return None;
        }
        let table: *mut dyn AnyTable = &mut *self.table;
        // SAFETY: `tables` has made it of this type. What `downcast_mut` does costs a call
        // through the table's own list of functions.
        Some(unsafe { &mut *table.cast() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::space::Space;

    fn named(count: usize) -> Kinds {
        let mut kinds = Kinds::default();
        kinds.add::<Memory>();
        kinds.add::<Memory>();
        assert_eq!(kinds.0.len(), 1, "once more changes nothing");
        for number in 1..count {
            let name = format!("kind-{number}").leak();
            kinds.0.push(Registered { name, word: Word::new(name), ..kinds.0[0] });
        }
        kinds
    }

    #[test]
    fn kinds_that_cannot_be_told_apart_are_refused() {
        let mut kinds = named(2);
        kinds.add::<Space>();
        kinds.check().unwrap();
        kinds.0[2].name = kinds.0[1].name;
        let refused = kinds.check().unwrap_err();
        assert!(matches!(refused, Error::KindTaken { kind: "kind-1" }), "{refused}");
    }

    #[test]
    fn the_257th_kind_is_refused() {
        named(Kinds::MOST).check().unwrap();
        let refused = named(Kinds::MOST + 1).check().unwrap_err();
        assert!(matches!(refused, Error::TooManyKinds { count: 257, limit: 256 }), "{refused}");
    }
}
