//! The paper's shared type, to compare with: tables and name trees that all threads have together.
//!
//! Interface control excludes by the resource. Of a kind there is a lock around the insertion and
//! the removal of a name, and around looking one up, and for nothing that a program part does. The
//! kinds are those of [`kumiki_resource`], which has no such tables itself.

mod table;

use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard};
use std::thread::available_parallelism;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use kumiki_resource::kind::Kind;
use kumiki_resource::{Error, Result};
use kumiki_spawn::Process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub use self::table::Serial;
use self::table::{Missing, SharedTable, Unmade};

/// All resources of one kind, for all threads.
pub struct SharedKind<K: Kind> {
    table: SharedTable<K>,
    names: NameTree,
}

/// The name tree of a kind, on lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct NameTree {
    tree: Mutex<HashTable<(Box<str>, Serial)>>,
    hasher: FixedState,
}

impl NameTree {
    fn tree(&self) -> MutexGuard<'_, HashTable<(Box<str>, Serial)>> {
        self.tree.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn hash(&self, unique: &str) -> u64 {
        self.hasher.hash_one(unique)
    }

    fn remove(&self, hash: u64, serial: Serial) {
        if let Ok(entry) = self.tree().find_entry(hash, |(_, its)| *its == serial) {
            entry.remove();
        }
    }
}

impl<K: Kind> fmt::Debug for SharedKind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedKind").field("kind", &K::NAME).finish_non_exhaustive()
    }
}

fn refused<K: Kind>(text: String) -> Error {
    Error::Kind { kind: K::NAME, text }
}

fn missing<K: Kind>(serial: Serial, missing: Missing) -> Error {
    refused::<K>(match missing {
        Missing::Stale => format!("{serial:?} was destroyed"),
        Missing::Unknown => format!("{serial:?} was never given out"),
    })
}

impl<K: Kind> SharedKind<K> {
    /// Makes a table without resources, with as many pools as threads run at once.
    ///
    /// # Errors
    /// A pool cannot be made.
    pub fn new() -> Result<Self> {
        let pools = available_parallelism().map_or(1, usize::from);
        Ok(SharedKind { table: SharedTable::new(pools)?, names: NameTree::default() })
    }

    /// Makes a resource, with a name of its own or without.
    ///
    /// # Errors
    /// The name is taken, the table is full; the kind's own.
    pub fn create(&self, unique: Option<&str>, spec: K::Spec) -> Result<Serial> {
        // The name first: what it refuses costs nothing to take back.
        let enter = |serial| -> Result<Option<(u64, Serial)>> {
            let Some(unique) = unique else { return Ok(None) };
            let hash = self.names.hash(unique);
            let mut tree = self.names.tree();
            if tree.find(hash, |(name, _)| **name == *unique).is_some() {
                return Err(refused::<K>(format!("the name {unique} is taken")));
            }
            let hasher = |(name, _): &(Box<str>, Serial)| self.names.hash(name);
            tree.insert_unique(hash, (unique.into(), serial), hasher);
            Ok(Some((hash, serial)))
        };
        let leave = |name: Option<(u64, Serial)>| {
            name.into_iter().for_each(|(hash, serial)| self.names.remove(hash, serial));
        };
        let named = |name: &Option<(u64, Serial)>| name.map(|(hash, _)| hash);
        self.table.create(spec, enter, leave, named).map_err(|unmade| match unmade {
            Unmade::Name(error) | Unmade::Kind(error) => error,
            Unmade::Full => refused::<K>("the table is full: destroy some".to_owned()),
        })
    }

    /// Destroys a resource.
    ///
    /// # Errors
    /// It was destroyed before.
    pub fn destroy(&self, serial: Serial) -> Result<()> {
        let leave = |hash| self.names.remove(hash, serial);
        self.table.destroy(serial, leave).map_err(|why| missing::<K>(serial, why))
    }

    /// Runs `f` on a resource and a pool of its kind.
    ///
    /// # Errors
    /// It was destroyed.
    #[inline]
    pub fn with<R>(&self, serial: Serial, f: impl FnOnce(&mut K, &mut K::Pool) -> R) -> Result<R> {
        self.table.with(serial, f).map_err(|why| missing::<K>(serial, why))
    }

    /// The resource of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn lookup(&self, unique: &str) -> Result<Serial> {
        let tree = self.names.tree();
        let found = tree.find(self.names.hash(unique), |(name, _)| **name == *unique);
        let found = found.map(|(_, serial)| *serial);
        found.ok_or_else(|| refused::<K>(format!("nothing has the name {unique}")))
    }
}

/// Waits for the end of a process. The caller waits, and holds no lock meanwhile.
///
/// # Errors
/// It was destroyed; somebody else has waited for it; no descriptor is to be had.
pub fn wait(processes: &SharedKind<Process>, process: Serial) -> Result<ExitStatus> {
    let failed = |what: &str, error: io::Error| refused::<Process>(format!("{what}: {error}"));
    loop {
        let ended = processes.with(process, |process, _| -> Result<_> {
            Ok(match process.try_wait()? {
                Some(status) => Ok(status),
                None => Err(process.child().pidfd().and_then(|pidfd| pidfd.try_clone_to_owned())),
            })
        })??;
        let pidfd = match ended {
            Ok(status) => return Ok(status),
            Err(pidfd) => pidfd.map_err(|error| failed("its pidfd", error))?,
        };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("waiting for its pidfd", error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use kumiki_resource::Memory;

    use super::*;

    #[test]
    fn a_name_is_one_resource_s_as_long_as_that_lives() {
        let shared = SharedKind::<Memory>::new().unwrap();
        let first = shared.create(Some("buffer"), 1).unwrap();
        assert!(shared.create(Some("buffer"), 1).unwrap_err().to_string().contains("is taken"));
        assert_eq!(shared.lookup("buffer").unwrap(), first);
        assert_eq!(shared.with(first, |memory, _| memory.len()).unwrap(), 1);
        shared.destroy(first).unwrap();
        assert!(shared.lookup("buffer").is_err() && shared.destroy(first).is_err());
        assert!(shared.with(first, |_, _| ()).unwrap_err().to_string().contains("was destroyed"));
        let second = shared.create(Some("buffer"), 2).unwrap();
        assert_ne!(second, first);
        // What could not be made has no name.
        assert!(shared.create(Some("huge"), usize::MAX).is_err());
        assert!(shared.lookup("huge").is_err());
    }
}
