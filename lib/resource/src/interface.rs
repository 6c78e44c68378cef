//! Interface control: one entry for every operation on every resource.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use kumiki_crew::roll;
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::{Policy, Waiter};

use crate::answer::Answer;
use crate::core::Core;
use crate::desk::{self, LINES};
use crate::error::{Error, Outcome, Result};
use crate::handle::Handle;
use crate::here::{self, ManagerGuard};
use crate::id::{Id, KindId, Place};
use crate::kind::{Former, Kind};
use crate::kinds::Kinds;
use crate::list::{Change, Listed, Pattern};
use crate::name::Name;
use crate::per_core::{At, PerCore, manager};
use crate::rights::Rights;
use crate::send;

/// Number of the next interface of this process.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// Rights of a handle that was opened by a name or an id.
const OPENED: Rights = Rights::USE.union(Rights::SHARE);

/// All resources of some kinds, at some places. Cheap to clone, used from any thread.
///
/// An operation runs where the resource is. Called by the thread that manages that place
/// it is a function call, without a lock; called by any other thread it is sent there
/// and its answer waited for.
#[derive(Clone)]
pub struct Interface {
    inner: Arc<Inner>,
}

struct Inner {
    /// Number of this interface in this process, never repeated.
    number: u64,
    kinds: Kinds,
    per_core: PerCore,
}

/// An operation that another one [sends on](Interface::chain).
pub struct Next<L, G> {
    /// Resource to which it goes.
    pub to: Handle<L>,
    /// The operation on it.
    pub run: G,
}

impl<L: Kind, G> fmt::Debug for Next<L, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("to", &self.to).finish_non_exhaustive()
    }
}

/// Kinds, places and policy of an interface to be made.
#[derive(Debug, Default)]
pub struct Builder {
    kinds: Kinds,
    policy: Policy,
    own: Option<CpuSet>,
    adopted: CpuSet,
}

impl Builder {
    /// No kinds yet; a manager on every cpu that the calling thread may use, apart from
    /// [bindings](affinity::bind), but no more of them than may run at once by the quota of
    /// the process's control group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds resources of kind `K`; once more changes nothing.
    pub fn kind<K: Kind>(mut self) -> Self {
        self.kinds.add::<K>();
        self
    }

    /// A manager's thread on each of these cpus, and nowhere else.
    pub fn cores(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.own = Some(cpus.into_iter().collect());
        self
    }

    /// A place on each of these cpus whose manager is a thread of the program, which
    /// [takes it](Interface::manage). Until then its callers wait.
    pub fn adopted(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.adopted = cpus.into_iter().collect();
        self
    }

    /// Sets the way in which managers wait, and threads that wait for them.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Each core has its own tables, which only its manager's thread touches.
    ///
    /// # Errors
    /// [`Error::KindTaken`], [`Error::TooManyKinds`]; a cpu that is offline or not allowed, no
    /// thread to be had, a kind's pool that cannot be made.
    pub fn per_core(self) -> Result<Interface> {
        self.kinds.check()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let allowed = affinity::unbound()?;
        let own = self.own.unwrap_or_else(|| {
            let left = at_once(&allowed).saturating_sub(self.adopted.len());
            allowed.difference(&self.adopted).iter().take(left).collect()
        });
        let mut places = BTreeMap::new();
        for cpu in own.iter().chain(self.adopted.iter()) {
            affinity::require(cpu, &allowed)?;
            let place = place_of(cpu)?;
            let name = format!("core{cpu}");
            let at = if self.adopted.contains(cpu) {
                let (door, server) = desk::open();
                At::new(name, door, None, Arc::default(), Some(server))
            } else {
                let left_tables = Arc::default();
                let (kinds, policy) = (&self.kinds, &self.policy);
                let member = manager(number, place, &name, cpu, kinds, policy, &left_tables)?;
                let door = member.door().clone();
                At::new(name, door, Some(member), left_tables, None)
            };
            places.insert(place, at);
        }
        let per_core = PerCore { number, policy: self.policy, places };
        Ok(Interface { inner: Arc::new(Inner { number, kinds: self.kinds, per_core }) })
    }
}

/// Number of threads on these cpus that may run at once: a control group may ration their time.
fn at_once(allowed: &CpuSet) -> usize {
    let its = allowed.clone();
    // In a thread that is not bound: the answer is never more than where it may run.
    let ask = move || affinity::set(&its).ok().and_then(|()| available_parallelism().ok());
    let asked = thread::Builder::new().spawn(ask).ok().and_then(|thread| thread.join().ok());
    asked.flatten().map_or(allowed.len(), NonZero::get)
}

fn place_of(cpu: usize) -> Result<Place> {
    let place = u16::try_from(cpu).map(Place);
    place.map_err(|_| {
        kumiki_sys::Error::Invalid(format!("cpu {cpu} has no place: 65535 is the last")).into()
    })
}

impl Interface {
    /// Begins an interface without kinds.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn number(&self) -> u64 {
        self.inner.number
    }

    pub(crate) fn per_core(&self) -> &PerCore {
        &self.inner.per_core
    }

    /// The places, in the order of their numbers.
    pub fn places(&self) -> Vec<Place> {
        self.inner.per_core.places.keys().copied().collect()
    }

    /// The place of this name.
    ///
    /// # Errors
    /// [`Error::NoPlace`].
    pub fn place(&self, name: &str) -> Result<Place> {
        self.inner.per_core.find(name)
    }

    /// The name of this place, `core2`.
    ///
    /// # Errors
    /// [`Error::NoPlace`].
    pub fn place_name(&self, place: Place) -> Result<String> {
        self.inner.per_core.name(place).map(str::to_owned)
    }

    /// The number of kind `K` here.
    ///
    /// # Errors
    /// [`Error::NoKind`] if it was not registered.
    pub fn kind<K: Kind>(&self) -> Result<KindId> {
        self.inner.kinds.of::<K>()
    }

    /// Makes a resource at `place`, with a name of its own or without; the handle has all
    /// rights.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Taken`], [`Error::NoPlace`], [`Error::NoKind`],
    /// [`Error::TableFull`], [`Error::Share`]; the kind's own. Nothing was made then.
    pub fn create<K: Kind>(
        &self,
        place: Place,
        unique: Option<&str>,
        spec: K::Spec,
    ) -> Result<Handle<K>> {
        let run = move |core: &Core| core.create::<K>(unique, spec);
        let id = send::run_at(&self.inner.per_core, place, run)?;
        Ok(Handle::new(self.inner.number, id, Rights::all()))
    }

    /// Gives a place the resources of kind `K` that it had in a former life, with their ids and names: `next` gives one
    /// slot of the table after the other, in their order, until there is none. The table must be new.
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NoKind`], [`Error::Name`], [`Error::Taken`]; [`Error::Kind`] for a table that was
    /// used, or a slot that cannot be; those of `next`. What was restored before stays.
    pub fn restore<K: Kind>(
        &self,
        place: Place,
        next: impl FnMut(&mut K::Pool) -> Result<Option<Former<K>>> + Send,
    ) -> Result<()> {
        Ok(send::run_at(&self.inner.per_core, place, move |core| core.restore::<K>(next))?)
    }

    /// Limits the memory that the place's resources of this kind have together: a place's share of the
    /// machine. Those that it has stay; more than the limit is refused. [`Memory`](crate::Memory)
    /// and [`LargeMemory`](crate::LargeMemory) have one.
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NoKind`]; [`Error::Kind`] of a kind that has none.
    pub fn limit<K: Kind>(&self, place: Place, bytes: u64) -> Result<()> {
        Ok(send::run_at(&self.inner.per_core, place, move |core| core.limit::<K>(bytes))?)
    }

    /// Runs `f` on a resource and its place's pool, by the place's owner.
    ///
    /// # Errors
    /// In this order: [`Error::Foreign`] for a handle of another interface,
    /// [`Error::Rights`] without [`Rights::USE`], [`Error::NoPlace`], [`Error::Stale`], [`Error::Unknown`]; [`Error::Manager`] if the owner does not
    /// answer, or if `f` panicked there.
    #[inline]
    pub fn with<K: Kind, R: Send>(
        &self,
        handle: &Handle<K>,
        f: impl FnOnce(&mut K, &mut K::Pool) -> R + Send,
    ) -> Result<R> {
        handle.require(self.inner.number, Rights::USE)?;
        let id = handle.id();
        // `move`: an id that is borrowed is a line of the caller's stack to fetch.
        let run = move |core: &Core| core.with::<K, R>(id, f);
        Ok(send::run_at(&self.inner.per_core, id.place(), run)?)
    }

    /// Runs `f` as [`with`](Self::with). A panic of it is an error also where the caller manages the place itself, as it is
    /// at another one.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    #[inline]
    pub fn with_caught<K: Kind, R: Send>(
        &self,
        handle: &Handle<K>,
        f: impl FnOnce(&mut K, &mut K::Pool) -> R + Send,
    ) -> Result<R> {
        handle.require(self.inner.number, Rights::USE)?;
        Ok(send::catch_at(&self.inner.per_core, handle.id(), f)?)
    }

    /// Runs `f` on a resource, and waits for `timeout` at most. It owns what it uses, because
    /// it may go on longer than this call. On the caller's own place it runs to its end.
    ///
    /// # Errors
    /// As [`with`](Self::with); [`Error::Manager`] with
    /// [`TimedOut`](crate::desk::Error::TimedOut): what had not begun never runs, what had
    /// goes on and has its effect.
    pub fn with_timeout<K: Kind, R: Send + 'static>(
        &self,
        handle: &Handle<K>,
        timeout: Duration,
        f: impl FnOnce(&mut K, &mut K::Pool) -> R + Send + 'static,
    ) -> Result<R> {
        handle.require(self.inner.number, Rights::USE)?;
        let id = handle.id();
        let run = move |core: &Core| core.with::<K, R>(id, f);
        Ok(send::run_at_timeout(&self.inner.per_core, id.place(), timeout, run)?)
    }

    /// Runs `f` on a resource, and its owner sends on what `f` returns to the owner of the
    /// next one, without waiting for it: that one's answer goes to the caller directly.
    /// `f` and what it sends on are two operations: other callers' may come between.
    ///
    /// # Errors
    /// Those of the first operation, and of sending on, as [`start`](Self::start). What the
    /// second one ends in the answer tells.
    pub fn chain<K: Kind, L: Kind, R: Send + 'static, G>(
        &self,
        handle: &Handle<K>,
        f: impl FnOnce(&mut K, &mut K::Pool) -> Next<L, G> + Send,
    ) -> Result<Answer<R>>
    where
        G: FnOnce(&mut L, &mut L::Pool) -> R + Send + 'static,
    {
        handle.require(self.inner.number, Rights::USE)?;
        let id = handle.id();
        Ok(send::run_at(&self.inner.per_core, id.place(), |core| {
            let Next { to, run } = core.with::<K, _>(id, f)?;
            Ok(self.start(&to, run)?)
        })?)
    }

    /// Starts [`with`](Self::with) without waiting: up to 32 operations of a thread at
    /// one place may be under way, those included whose answers nobody has taken. They run
    /// in their order, as long as no answer is left untaken for 31 further ones.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Rights`], [`Error::NoPlace`]; [`Error::Manager`] with
    /// [`Full`](crate::desk::Error::Full) if too many are under way. All else the answer
    /// tells.
    #[inline]
    pub fn start<K: Kind, R: Send + 'static>(
        &self,
        handle: &Handle<K>,
        f: impl FnOnce(&mut K, &mut K::Pool) -> R + Send + 'static,
    ) -> Result<Answer<R>> {
        handle.require(self.inner.number, Rights::USE)?;
        let id = handle.id();
        let run = move |core: &Core| core.with::<K, R>(id, f);
        send::start_at(&self.inner.per_core, id.place(), run)
    }

    /// Runs `f` at `place`, by its owner: operations on that place's resources are calls of
    /// functions from within it, so that many of them, on resources of several kinds, are one
    /// request. No table is in use meanwhile.
    ///
    /// # Errors
    /// [`Error::NoPlace`]; [`Error::Manager`] if the owner does not answer, or if `f` panicked
    /// there.
    pub fn run<R: Send>(&self, place: Place, f: impl FnOnce() -> R + Send) -> Result<R> {
        Ok(send::run_at(&self.inner.per_core, place, |_| Ok(f()))?)
    }

    /// Destroys a resource. Other handles of it are stale from then on.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Rights`] without [`Rights::DESTROY`], [`Error::NoPlace`],
    /// [`Error::Stale`]. If the program part panics, the resource has gone all the same.
    pub fn destroy<K: Kind>(&self, handle: Handle<K>) -> Result<()> {
        self.destroy_by(&handle)
    }

    /// Destroys a resource whose handle the caller keeps: it is stale afterwards, too, or, after an
    /// error, what it was.
    ///
    /// # Errors
    /// As [`destroy`](Self::destroy).
    pub fn destroy_by<K: Kind>(&self, handle: &Handle<K>) -> Result<()> {
        handle.require(self.inner.number, Rights::DESTROY)?;
        let id = handle.id();
        let run = move |core: &Core| core.destroy::<K>(id);
        Ok(send::run_at(&self.inner.per_core, id.place(), run)?)
    }

    /// A handle of the resource called `name`, to use and to share.
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NoKind`], [`Error::NotFound`];
    /// [`Error::WrongKind`] if the name is of another kind than `K`.
    pub fn open<K: Kind>(&self, name: &Name) -> Result<Handle<K>> {
        self.of_id(self.lookup(name)?)
    }

    /// A handle of resource `id`, to use and to share. Whether it still exists its use
    /// tells.
    ///
    /// # Errors
    /// [`Error::NoKind`], [`Error::WrongKind`].
    #[inline]
    pub fn of_id<K: Kind>(&self, id: Id) -> Result<Handle<K>> {
        self.grant(id, OPENED)
    }

    /// A handle of resource `id` with these rights, for who answers for others and decides by
    /// rules of its own what they may do, as a place does that other machines call. Whether the
    /// resource still exists its use tells.
    ///
    /// # Errors
    /// As [`of_id`](Self::of_id).
    #[inline]
    pub fn grant<K: Kind>(&self, id: Id, rights: Rights) -> Result<Handle<K>> {
        if !self.inner.kinds.is::<K>(id.kind()) {
            self.is_named::<K>(id)?;
        }
        Ok(Handle::new(self.inner.number, id, rights))
    }

    /// Another type with the kind's name its table refuses.
    #[cold]
    fn is_named<K: Kind>(&self, id: Id) -> Result<()> {
        let is = self.inner.kinds.name(id.kind())?;
        if is != K::NAME {
            return Err(Error::WrongKind { id, is, wanted: K::NAME });
        }
        Ok(())
    }

    /// The id of a name.
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NoKind`], [`Error::NotFound`].
    #[inline]
    pub fn lookup(&self, name: &Name) -> Result<Id> {
        let kind = self.inner.kinds.of_name(name)?;
        let per_core = &self.inner.per_core;
        let place = per_core.of_name(name)?;
        Ok(send::run_at(per_core, place, move |core| core.lookup(kind, name))?)
    }

    /// All resources whose names match, place by place.
    ///
    /// # Errors
    /// [`Error::Manager`] if one does not answer.
    pub fn ls(&self, pattern: &Pattern) -> Result<Vec<Listed>> {
        let each = |place| send::run_at(&self.inner.per_core, place, |core| core.list(pattern));
        let lists: Outcome<Vec<_>> = self.places().into_iter().map(each).collect();
        Ok(lists?.concat())
    }

    /// Lists the resources of one place whose names match.
    ///
    /// # Errors
    /// [`Error::NoPlace`]; [`Error::Manager`] if it does not answer.
    pub fn ls_at(&self, place: Place, pattern: &Pattern) -> Result<Vec<Listed>> {
        Ok(send::run_at(&self.inner.per_core, place, |core| core.list(pattern))?)
    }

    /// Lists until `deadline` at most.
    pub(crate) fn ls_until(&self, pattern: &Pattern, deadline: Instant) -> Result<Vec<Listed>> {
        let per_core = &self.inner.per_core;
        let each = |place| {
            let pattern = pattern.clone();
            let left = deadline.saturating_duration_since(Instant::now());
            send::run_at_timeout(per_core, place, left, move |core| core.list(&pattern))
        };
        let lists: Outcome<Vec<_>> = self.places().into_iter().map(each).collect();
        Ok(lists?.concat())
    }

    /// Names that come and go from now on; until the receiver is dropped.
    ///
    /// # Errors
    /// [`Error::Manager`] if a place does not answer.
    pub fn watch(&self, pattern: &Pattern) -> Result<Receiver<Change>> {
        let (to, changes) = channel();
        for place in self.places() {
            let (pattern, to) = (pattern.clone(), to.clone());
            send::run_at(&self.inner.per_core, place, move |core| core.watch(pattern, to))?;
        }
        Ok(changes)
    }

    /// Names of one place that come and go from now on; until the receiver is dropped.
    ///
    /// # Errors
    /// [`Error::NoPlace`]; [`Error::Manager`] if it does not answer.
    pub fn watch_at(&self, place: Place, pattern: &Pattern) -> Result<Receiver<Change>> {
        let (to, changes) = channel();
        let pattern = pattern.clone();
        send::run_at(&self.inner.per_core, place, move |core| core.watch(pattern, to))?;
        Ok(changes)
    }

    /// Makes the calling thread the manager of `place`, one of
    /// [`Builder::adopted`]: it serves in [`Manager::serve`], and whenever it waits for
    /// another place. It should run on that cpu; that is its own affair.
    ///
    /// # Errors
    /// [`Error::NoPlace`] if nobody is wanted there; a kind's pool that cannot be made.
    pub fn manage(&self, place: Place) -> Result<Manager> {
        let per_core = &self.inner.per_core;
        let none = || per_core.none(format!("number {} that wants a manager", place.0));
        let at = per_core.places.get(&place).ok_or_else(none)?;
        if here::is_manager() {
            return Err(Error::Nested { place, what: "a second place of one thread" });
        }
        let waiter = Waiter::new(&per_core.policy)?;
        let core = Core::new(place, &at.name, &self.inner.kinds)?;
        let taken = at.server.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let server = taken.ok_or_else(none)?.begin();
        Ok(Manager {
            seated: ManagerGuard::new(
                per_core.number,
                core,
                Some(server),
                Arc::clone(&at.left_tables),
            ),
            waiter,
            _entry: desk::enter_roll(usize::from(place.0), &at.door),
        })
    }
}

impl fmt::Debug for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interface").field("places", &self.places()).finish_non_exhaustive()
    }
}

/// The calling thread as the manager of a place. Dropped, it serves what has come, and
/// destroys the place's resources.
pub struct Manager {
    seated: ManagerGuard,
    waiter: Waiter,
    _entry: roll::RollEntry,
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("place", &self.seated.here().core.place).finish()
    }
}

impl Manager {
    /// Serves what has come, and not without end what comes meanwhile; whether there was
    /// anything.
    #[inline]
    pub fn serve(&self) -> bool {
        let Some(mut server) = self.seated.here().idle() else { return false };
        // As many as a caller may have under way.
        (0..LINES).take_while(|_| server.round()).count() > 0
    }

    /// Waits until something has come, for `timeout` at most, and serves it.
    pub fn wait_timeout(&mut self, timeout: Duration) {
        if let Some(mut server) = self.seated.here().idle() {
            server.wait_timeout(&mut self.waiter, timeout);
        }
        self.serve();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.seated.end();
    }
}
