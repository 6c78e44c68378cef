//! A table of the shared type: what all threads have of one kind.
//!
//! The paper excludes by the resource, in interface control: each place in the table has a
//! lock. The places are found by their numbers without one: they never move. Numbers of empty
//! places, and what a kind keeps for all of its resources, are in several pools, each under a
//! lock; a thread has its own as long as there are not more threads than pools, and a resource
//! has to do with the pool that it was made with.
//!
//! # Who waits for whom
//!
//! To use or destroy a resource is to lock its place and then its pool. To make one is to
//! lock the pool and then an empty place of which the pool knew the number: whoever has the
//! lock of such a place, by an id that is stale, finds it empty and does not ask for a pool.

use std::any::Any;
use std::cell::Cell;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use kumiki_resource::kind::Kind;
use kumiki_resource::{Place, Result};

/// Places that a table has at most.
const MOST: u32 = 1 << 20;
/// Uses of one place.
const USES: u32 = (1 << 20) - 1;

/// Name of a resource in its table: a place, and the number of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Serial {
    index: u32,
    /// Number of the use, from 1 on.
    usage: u32,
}

/// A serial of which there is no resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Destroyed since.
    Stale,
    /// Never given out.
    Unknown,
}

/// Places that are made at a time.
const SEGMENT: u32 = 1024;
/// Numbers of places that a pool takes at a time.
const BLOCK: u32 = 64;

/// Places that were made together.
type Segment<K> = Box<[TableSlot<K>]>;

/// All threads' resources of kind `K`.
pub(super) struct SharedTable<K: Kind> {
    segments: Box<[OnceLock<Segment<K>>]>,
    /// Numbers from here on no pool has had.
    next: AtomicU32,
    pools: Box<[Pool<K::Pool>]>,
}

#[repr(align(128))]
struct Pool<P>(Mutex<Own<P>>);

struct Own<P> {
    pool: P,
    /// Numbers of empty places.
    empty: Vec<u32>,
}

/// A resource with its lock, on lines of its own.
#[repr(align(128))]
struct TableSlot<K>(Mutex<State<K>>);

struct State<K> {
    /// Number of the use of what it holds, or of the last one.
    usage: u32,
    kept: Option<Kept<K>>,
}

struct Kept<K> {
    value: K,
    /// The hash of its name, if it has one.
    named: Option<u64>,
    /// The number of its pool.
    pool: usize,
}

/// Takes a lock, also after a panic: a program part that panics leaves things as they are, as per core.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread's number, once it has one.
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[inline(always)]
fn thread() -> usize {
    match THREAD.get() {
        usize::MAX => number(),
        thread => thread,
    }
}

#[cold]
fn number() -> usize {
    THREAD.set(THREADS.fetch_add(1, Ordering::Relaxed));
    THREAD.get()
}

/// Reason for which no resource was made.
pub(super) enum Unmade<E> {
    /// No room for one more.
    Full,
    /// Its name could not be entered.
    Name(E),
    /// The kind's own reason, after its name was entered.
    Kind(kumiki_resource::Error),
}

impl<K: Kind> SharedTable<K> {
    /// Makes a table with so many pools.
    pub(super) fn new(pools: usize) -> Result<Self> {
        let pool = |_| Ok(Pool(Mutex::new(Own { pool: K::pool(Place(0))?, empty: Vec::new() })));
        Ok(SharedTable {
            segments: (0..MOST / SEGMENT).map(|_| OnceLock::new()).collect(),
            next: AtomicU32::new(0),
            pools: (0..pools.max(1)).map(pool).collect::<Result<_>>()?,
        })
    }

    /// The place of this number, which somebody has been told.
    #[inline(always)]
    fn slot(&self, index: u32) -> Option<&TableSlot<K>> {
        self.segments.get((index / SEGMENT) as usize)?.get()?.get((index % SEGMENT) as usize)
    }

    /// Makes a resource. `enter` is told its serial before there is one, while whoever looks
    /// for it waits, and may refuse; `leave` is called if it is not made after all.
    pub(super) fn create<N, E>(
        &self,
        spec: K::Spec,
        enter: impl FnOnce(Serial) -> Result<N, E>,
        leave: impl FnOnce(N),
        named: impl FnOnce(&N) -> Option<u64>,
    ) -> Result<Serial, Unmade<E>> {
        let at = thread() % self.pools.len();
        let mut own = lock(&self.pools[at].0);
        let index = match own.empty.pop() {
            Some(index) => index,
            None => {
                drop(own);
                let index = self.empty(at).ok_or(Unmade::Full)?;
                own = lock(&self.pools[at].0);
                index
            }
        };
        let mut state = lock(&self.slot(index).expect("its number is known").0);
        state.usage += 1;
        let serial = Serial { index, usage: state.usage };
        let Own { pool, empty } = &mut *own;
        let mut give_back = || {
            if serial.usage < USES {
                empty.push(index);
            }
        };
        let name = match enter(serial) {
            Ok(name) => name,
            Err(error) => {
                // Nobody has seen its id.
                state.usage -= 1;
                give_back();
                return Err(Unmade::Name(error));
            }
        };
        match catch_unwind(AssertUnwindSafe(|| K::create(spec, pool))) {
            Ok(Ok(value)) => {
                state.kept = Some(Kept { value, named: named(&name), pool: at });
                Ok(serial)
            }
            other => {
                leave(name);
                give_back();
                match other {
                    Ok(refused) => refused.map(|_| serial).map_err(Unmade::Kind),
                    Err(panic) => resume_unwind(panic),
                }
            }
        }
    }

    /// The number of an empty place for pool `at`, which had none.
    #[cold]
    fn empty(&self, at: usize) -> Option<u32> {
        let first = self.next.fetch_add(BLOCK, Ordering::Relaxed);
        if first < MOST {
            let segment = &self.segments[(first / SEGMENT) as usize];
            segment.get_or_init(|| {
                let slot = || TableSlot(Mutex::new(State { usage: 0, kept: None }));
                iter::repeat_with(slot).take(SEGMENT as usize).collect()
            });
            // The lowest last, which is taken first.
            lock(&self.pools[at].0).empty.extend((first + 1..first + BLOCK).rev());
            return Some(first);
        }
        self.next.fetch_sub(BLOCK, Ordering::Relaxed);
        // One that another pool knows of.
        self.pools.iter().find_map(|pool| lock(&pool.0).empty.pop())
    }

    /// Runs `f` on a resource and its pool.
    #[inline(always)]
    pub(super) fn with<R>(
        &self,
        serial: Serial,
        f: impl FnOnce(&mut K, &mut K::Pool) -> R,
    ) -> Result<R, Missing> {
        let mut state = self.state(serial)?;
        let Some(Kept { value, pool, .. }) = &mut state.kept else { return Err(Missing::Stale) };
        // Of a kind that keeps nothing for all there is nothing to lock.
        match (&mut () as &mut dyn Any).downcast_mut() {
            Some(none) => Ok(f(value, none)),
            None => Ok(f(value, &mut lock(&self.pools[*pool].0).pool)),
        }
    }

    /// The place of a resource, if its number is the last one there.
    #[inline(always)]
    fn state(&self, serial: Serial) -> Result<MutexGuard<'_, State<K>>, Missing> {
        let Some(slot) = self.slot(serial.index) else { return Err(Missing::Unknown) };
        let state = lock(&slot.0);
        if state.usage == serial.usage && serial.usage > 0 {
            return Ok(state);
        }
        // Uses that were before, and that were given out.
        let was = 1 <= serial.usage && serial.usage < state.usage;
        Err(if was { Missing::Stale } else { Missing::Unknown })
    }

    /// Destroys a resource. `leave` is told first the hash of its name, while whoever looks
    /// for the resource waits: the name is to go also if the program part panics.
    #[inline(always)]
    pub(super) fn destroy(&self, serial: Serial, leave: impl FnOnce(u64)) -> Result<(), Missing> {
        let mut state = self.state(serial)?;
        let Some(Kept { value, named, pool }) = state.kept.take() else {
            return Err(Missing::Stale);
        };
        if let Some(hash) = named {
            leave(hash);
        }
        let mut own = lock(&self.pools[pool].0);
        if serial.usage < USES {
            own.empty.push(serial.index);
        }
        value.destroy(&mut own.pool);
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = (u32, &TableSlot<K>)> {
        (0..).zip(self.segments.iter().map_while(OnceLock::get).flatten())
    }
}

impl<K: Kind> Drop for SharedTable<K> {
    fn drop(&mut self) {
        for (index, slot) in self.all() {
            let serial = Serial { index, usage: lock(&slot.0).usage };
            // Empty ones have nothing to destroy.
            let _ = self.destroy(serial, |_| ());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;
    use std::sync::Barrier;
    use std::thread;

    use kumiki_resource::kind::About;

    use super::*;

    /// Counts those of its pool.
    struct Counted(u32);

    impl Kind for Counted {
        const NAME: &'static str = "counted";
        type Spec = u32;
        type Pool = i64;

        fn pool(_: Place) -> Result<i64> {
            Ok(0)
        }

        fn create(value: u32, pool: &mut i64) -> Result<Counted> {
            *pool += 1;
            Ok(Counted(value))
        }

        fn destroy(self, pool: &mut i64) {
            *pool -= 1;
        }

        fn about(&self) -> About {
            About::default()
        }
    }

    fn make(table: &SharedTable<Counted>, value: u32) -> Serial {
        let enter = |_| Ok::<_, Infallible>(());
        table.create(value, enter, |()| (), |()| None).ok().expect("there is room")
    }

    fn living(table: &SharedTable<Counted>) -> Vec<i64> {
        table.pools.iter().map(|pool| lock(&pool.0).pool).collect()
    }

    #[test]
    fn threads_make_use_and_destroy_at_the_same_time() {
        let table = SharedTable::<Counted>::new(2).unwrap();
        let go = Barrier::new(4);
        let ever: Vec<BTreeSet<Serial>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    let (table, go) = (&table, &go);
                    scope.spawn(move || {
                        go.wait();
                        let mut ever = BTreeSet::new();
                        for round in 0..200 {
                            let all: Vec<Serial> =
                                (0..20).map(|i| make(table, 1000 * n + round + i)).collect();
                            for (i, serial) in (0..).zip(&all) {
                                let value = table.with(*serial, |counted, _| counted.0);
                                assert_eq!(value, Ok(1000 * n + round + i));
                                assert!(ever.insert(*serial));
                            }
                            for serial in all {
                                table.destroy(serial, |_| ()).unwrap();
                                assert_eq!(table.destroy(serial, |_| ()), Err(Missing::Stale));
                            }
                        }
                        ever
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let distinct: BTreeSet<_> = ever.iter().flatten().collect();
        assert_eq!(distinct.len(), 4 * 200 * 20, "no serial is given twice");
        assert_eq!(living(&table), [0, 0]);
        assert!(table.all().all(|(_, slot)| lock(&slot.0).kept.is_none()));
    }

    #[test]
    fn a_resource_has_to_do_with_one_pool() {
        let table = SharedTable::<Counted>::new(2).unwrap();
        let all: Vec<Serial> = (0..10).map(|n| make(&table, n)).collect();
        assert_eq!(living(&table).iter().sum::<i64>(), 10);
        let (table, all) = (&table, &all);
        // Threads of either pool.
        thread::scope(|scope| {
            for half in all.chunks(5) {
                scope.spawn(move || {
                    half.iter().for_each(|one| table.destroy(*one, |_| ()).unwrap())
                });
            }
        });
        assert_eq!(living(table), [0, 0]);
    }

    #[test]
    fn what_was_never_given_out_is_unknown() {
        let table = SharedTable::<Counted>::new(1).unwrap();
        let first = make(&table, 1);
        for (index, usage) in [(0, 0), (0, 2), (1, 0), (1, 1), (5000, 1), (MOST, 1)] {
            assert_eq!(table.with(Serial { index, usage }, |_, _| ()), Err(Missing::Unknown));
        }
        table.destroy(first, |_| ()).unwrap();
        assert_eq!(table.with(first, |_, _| ()), Err(Missing::Stale));
    }

    #[test]
    fn a_place_that_is_worn_out_is_not_used_again() {
        let table = SharedTable::<Counted>::new(1).unwrap();
        let first = make(&table, 1);
        lock(&table.slot(first.index).unwrap().0).usage = USES;
        table.destroy(Serial { usage: USES, ..first }, |_| ()).unwrap();
        assert_eq!(make(&table, 2).index, 1);
    }

    #[test]
    fn a_full_table_takes_what_another_pool_has_empty() {
        let table = SharedTable::<Counted>::new(2).unwrap();
        let own = make(&table, 0);
        // All numbers but the first block's have been given out.
        table.next.store(MOST, Ordering::Relaxed);
        let at = thread() % 2;
        let rest = std::mem::take(&mut lock(&table.pools[at].0).empty);
        lock(&table.pools[1 - at].0).empty = rest;
        let more: Vec<Serial> = (1..BLOCK).map(|n| make(&table, n)).collect();
        let full = table.create(0, |_| Ok::<_, Infallible>(()), |()| (), |()| None);
        assert!(matches!(full, Err(Unmade::Full)));
        table.destroy(own, |_| ()).unwrap();
        assert_eq!(make(&table, 1).index, own.index);
        assert_eq!(more.len() + 1, BLOCK as usize);
    }
}
