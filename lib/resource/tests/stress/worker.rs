//! What one thread does, and what it expects.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use fastrand::Rng;
use kumiki_resource::desk::Error as Request;
use kumiki_resource::kind::Kind;
use kumiki_resource::{
    Attach, Error, Handle, Id, Interface, LargeMemory, Memory, Name, Pattern, Place, Region,
    RegionSpec, Result, Rights, Space, Thread, ThreadSpec, UserSpace, UserSpaceSpec,
};
use kumiki_sys::shm::Huge;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ledger::{Ledger, THREADS};

/// In the text of each panic that is asked for.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    /// Calls that came back with what the model says.
    pub(crate) answered: u64,
    /// Calls whose function has panicked.
    pub(crate) panicked: u64,
    /// Wrong names, ids, rights, sizes; limits.
    pub(crate) refused: u64,
    /// Calls of a manager that was killed.
    pub(crate) unanswered: u64,
}

impl Outcome {
    pub(crate) fn and(self, other: Outcome) -> Outcome {
        Outcome {
            operations: self.operations + other.operations,
            answered: self.answered + other.answered,
            panicked: self.panicked + other.panicked,
            refused: self.refused + other.refused,
            unanswered: self.unanswered + other.unanswered,
        }
    }
}

/// Ledgers that all threads call.
pub(crate) type Board = RwLock<Vec<Arc<Shared>>>;

pub(crate) struct Shared {
    handle: Handle<Ledger>,
    /// Calls of each thread that were answered, and those that may have been executed.
    calls: [Mutex<(u64, u64)>; THREADS],
}

/// A ledger of this thread alone.
struct Own {
    handle: Handle<Ledger>,
    name: Option<String>,
    count: u64,
}

/// What is made and destroyed, and used in between.
enum Other {
    Memory(Handle<Memory>),
    Large(Handle<LargeMemory>),
    Region(Handle<Region>),
    Space(Handle<Space>),
    User(Handle<UserSpace>, u8),
    Thread(Handle<Thread>),
}

pub(crate) struct Worker<'a> {
    interface: &'a Interface,
    thread: usize,
    places: Vec<Place>,
    board: &'a Board,
    live: Arc<AtomicUsize>,
    /// Where nothing need be answered.
    killed: Option<Place>,
    rng: Rng,
    own: Vec<Own>,
    names: HashMap<(Place, String), Id>,
    gone: Vec<Handle<Ledger>>,
    others: Vec<Other>,
    /// Of the last call of this thread.
    number: u64,
    outcome: Outcome,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        interface: &'a Interface,
        thread: usize,
        board: &'a Board,
        live: Arc<AtomicUsize>,
        killed: Option<Place>,
        rng: Rng,
    ) -> Self {
        let (own, gone, others) = Default::default();
        let (names, outcome, places) = (HashMap::new(), Outcome::default(), interface.places());
        let number = 0;
        Worker {
            interface,
            thread,
            places,
            board,
            live,
            killed,
            rng,
            own,
            names,
            gone,
            others,
            number,
            outcome,
        }
    }

    fn place(&mut self) -> Place {
        self.places[self.rng.usize(..self.places.len())]
    }

    fn pick<T>(rng: &mut Rng, of: &[T]) -> Option<usize> {
        (!of.is_empty()).then(|| rng.usize(..of.len()))
    }

    /// What came back, or nothing if it was the killed manager's to answer.
    fn answered<R>(&mut self, place: Place, result: Result<R>) -> Option<Result<R>> {
        match &result {
            Err(Error::Manager { source: Request::Gone | Request::Died, .. }) => {
                assert_eq!(Some(place), self.killed, "only who is killed may not answer");
                self.outcome.unanswered += 1;
                None
            }
            _ => {
                self.outcome.answered += u64::from(result.is_ok());
                Some(result)
            }
        }
    }

    /// An error that must be one of these.
    fn refused<R>(&mut self, place: Place, result: Result<R>, fits: fn(&Error) -> bool) {
        match self.answered(place, result) {
            Some(Err(error)) if fits(&error) => self.outcome.refused += 1,
            Some(Err(error)) => panic!("{error}"),
            Some(Ok(_)) => panic!("it was to be refused"),
            None => {}
        }
    }

    /// One operation of any kind.
    pub(crate) fn step(&mut self) {
        self.outcome.operations += 1;
        match self.rng.u32(..1000) {
            0..120 => self.create(),
            120..420 => self.call(),
            420..560 => self.call_shared(),
            560..640 => self.destroy(),
            640..700 => self.open(),
            700..740 => self.panic(),
            740..800 => self.misuse(),
            800..900 => self.make_other(),
            900..985 => self.drop_other(),
            985..990 => self.list(),
            990..998 => self.too_much(),
            _ => self.without_descriptors(),
        }
    }

    fn create(&mut self) {
        let (place, live) = (self.place(), Arc::clone(&self.live));
        let name = self.rng.bool().then(|| format!("{}-{}", self.thread, self.rng.u8(..30)));
        let created = self.interface.create::<Ledger>(place, name.as_deref(), live);
        let Some(created) = self.answered(place, created) else { return };
        let key = name.map(|name| (place, name));
        match created {
            Ok(handle) => {
                let known = key.clone().map(|key| self.names.insert(key, handle.id()));
                assert!(!matches!(known, Some(Some(_))), "{key:?} was there already");
                if self.rng.u8(..16) == 0 && key.is_none() {
                    let calls = std::array::from_fn(|_| Mutex::new((0, 0)));
                    self.board.write().unwrap().push(Arc::new(Shared { handle, calls }));
                } else {
                    self.own.push(Own { handle, name: key.map(|(_, name)| name), count: 0 });
                }
            }
            Err(Error::Taken { id, .. }) => {
                assert_eq!(self.names.get(&key.expect("it has a name")), Some(&id));
                self.outcome.refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn call(&mut self) {
        let Some(at) = Self::pick(&mut self.rng, &self.own) else { return };
        self.number += 1;
        let (thread, number, own) = (self.thread, self.number, &mut self.own[at]);
        own.count += 1;
        let expected = own.count;
        let place = own.handle.id().place();
        let result = self.interface.with(&own.handle, |ledger, _| ledger.write(thread, number));
        if let Some(result) = self.answered(place, result) {
            assert_eq!(result.unwrap(), expected);
        }
    }

    fn call_shared(&mut self) {
        let shared = {
            let board = self.board.read().unwrap();
            let Some(at) = Self::pick(&mut self.rng, &board) else { return };
            Arc::clone(&board[at])
        };
        self.number += 1;
        let (thread, number, place) = (self.thread, self.number, shared.handle.id().place());
        let result = self.interface.with(&shared.handle, |ledger, _| ledger.write(thread, number));
        let mut calls = shared.calls[thread].lock().unwrap();
        match self.answered(place, result) {
            Some(result) => {
                calls.0 += 1;
                assert_eq!(result.unwrap(), calls.0, "all calls so far, and each once");
            }
            None => calls.1 += 1,
        }
    }

    fn destroy(&mut self) {
        let Some(at) = Self::pick(&mut self.rng, &self.own) else { return };
        let Own { handle, name, .. } = self.own.swap_remove(at);
        let id = handle.id();
        if self.gone.len() < 100 {
            self.gone.push(handle.share(Rights::USE).unwrap());
        }
        let result = self.interface.destroy(handle);
        if let Some(result) = self.answered(id.place(), result) {
            result.unwrap();
        }
        if let Some(name) = name {
            self.names.remove(&(id.place(), name));
        }
    }

    fn open(&mut self) {
        let (place, unique) = (self.place(), format!("{}-{}", self.thread, self.rng.u8(..30)));
        let place_name = format!("core{}", place.0);
        let name = Name::new(&place_name, Ledger::NAME, &unique).unwrap();
        let opened = self.interface.open::<Ledger>(&name);
        let Some(opened) = self.answered(place, opened) else { return };
        match (self.names.get(&(place, unique)), opened) {
            (Some(id), Ok(handle)) => {
                assert_eq!(*id, handle.id());
                assert!(!handle.rights().contains(Rights::DESTROY));
            }
            (None, Err(Error::NotFound { .. })) => self.outcome.refused += 1,
            (known, opened) => panic!("{name}: {known:?}, {opened:?}"),
        }
    }

    fn panic(&mut self) {
        let Some(at) = Self::pick(&mut self.rng, &self.own) else { return };
        self.number += 1;
        let (thread, number, own) = (self.thread, self.number, &mut self.own[at]);
        let place = own.handle.id().place();
        let interface = self.interface;
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            interface.with(&own.handle, |ledger, _| {
                ledger.write(thread, number);
                std::panic::panic_any(ON_PURPOSE);
            })
        }));
        own.count += 1;
        match result {
            // At its own place the function was called by this thread.
            Err(panic) => assert_eq!(panic.downcast_ref::<&str>(), Some(&ON_PURPOSE)),
            Ok(Err(Error::Manager { source: Request::Panicked(panic), .. })) => {
                assert_eq!(panic.to_string(), ON_PURPOSE);
            }
            Ok(other) => return assert!(self.answered(place, other).is_none()),
        }
        self.outcome.panicked += 1;
    }

    /// Ids, rights and names that are none.
    fn misuse(&mut self) {
        if let Some(at) = Self::pick(&mut self.rng, &self.gone) {
            let handle = self.gone[at].share(Rights::empty()).unwrap_err();
            assert!(matches!(handle, Error::Rights { .. }), "{handle}");
            let handle = &self.gone[at];
            let (place, used) = (handle.id().place(), self.interface.with(handle, |_, _| ()));
            self.refused(place, used, |error| matches!(error, Error::Stale { .. }));
        }
        let Some(at) = Self::pick(&mut self.rng, &self.own) else { return };
        let id = self.own[at].handle.id();
        let user = self.own[at].handle.share(Rights::USE).unwrap();
        let destroyed = self.interface.destroy(user);
        self.refused(id.place(), destroyed, |error| matches!(error, Error::Rights { .. }));
        let wrong = self.interface.of_id::<Memory>(id);
        self.refused(id.place(), wrong, |error| matches!(error, Error::WrongKind { .. }));
        // Another serial, far from those given out; another kind; a place that is not.
        let bit = [39, 41, 47, 55, 63][self.rng.usize(..5)];
        let forged = Id::from_u64(id.to_u64() ^ 1 << bit);
        match self.interface.of_id::<Ledger>(forged) {
            Ok(handle) => {
                let used = self.interface.with(&handle, |_, _| ());
                self.refused(forged.place(), used, |error| {
                    matches!(error, Error::Unknown { .. } | Error::NoPlace { .. })
                });
            }
            Err(Error::NoKind { .. } | Error::WrongKind { .. }) => self.outcome.refused += 1,
            Err(error) => panic!("{error}"),
        }
        let live = Arc::clone(&self.live);
        let named = self.interface.create::<Ledger>(id.place(), Some("a/b"), live);
        self.refused(id.place(), named, |error| matches!(error, Error::Name { .. }));
    }

    fn make_other(&mut self) {
        let (place, interface) = (self.place(), self.interface);
        if self.others.len() > 40 {
            return self.drop_other();
        }
        let made = match self.rng.u8(..20) {
            0..4 => {
                let frames = self.rng.usize(1..40);
                interface.create::<Memory>(place, None, frames).map(Other::Memory)
            }
            4 => interface.create::<LargeMemory>(place, None, 1).map(Other::Large),
            5..8 => {
                let spec = RegionSpec::Memory { bytes: 8192, huge: Huge::Policy };
                interface.create::<Region>(place, None, spec).map(Other::Region)
            }
            8..10 => {
                let frames = RegionSpec::Frames(self.rng.usize(1..9));
                interface.create::<Region>(place, None, frames).map(Other::Region)
            }
            10 => interface.create::<Space>(place, None, 1 << 20).map(Other::Space),
            11..14 => return self.attach(place),
            14 => {
                let spec = ThreadSpec::new(|_| ()).stack_bytes(64 << 10);
                interface.create::<Thread>(place, None, spec).map(Other::Thread)
            }
            _ => {
                let bytes = UserSpaceSpec::memory(self.rng.usize(1..6000));
                interface.create(place, None, bytes).map(|user| self.filled(user))
            }
        };
        self.keep(place, made);
    }

    /// With a byte of its own everywhere, so that memory with two users shows.
    fn filled(&mut self, user: Handle<UserSpace>) -> Other {
        let byte = self.rng.u8(1..);
        let place = user.id().place();
        let result = self.interface.with(&user, move |user, _| {
            let ends = [0, user.len() - 8];
            ends.into_iter().try_for_each(|at| user.write(at, &[byte; 8]))
        });
        if let Some(result) = self.answered(place, result) {
            result.unwrap().unwrap();
        }
        Other::User(user, byte)
    }

    fn attach(&mut self, place: Place) {
        let regions = self.others.iter().filter_map(|other| match other {
            Other::Region(region) => Some(region),
            _ => None,
        });
        let spaces = self.others.iter().filter_map(|other| match other {
            Other::Space(space) => Some(space),
            _ => None,
        });
        let Some((region, space)) = regions.zip(spaces).next() else { return };
        let how = Attach { offset: None, write: self.rng.bool() };
        let made = self.interface.attach(place, None, region, space, how);
        // Attached bytes may have several users: nothing is expected of them.
        self.keep_of_any(made.map(|user| Other::User(user, 0)));
    }

    /// Of three places, any of which may have been killed.
    fn keep_of_any(&mut self, made: Result<Other>) {
        let place = self.killed.unwrap_or(self.places[0]);
        self.keep(place, made);
    }

    fn keep(&mut self, place: Place, made: Result<Other>) {
        match self.answered(place, made) {
            Some(Ok(other)) => self.others.push(other),
            // Another thread is at the limit of descriptors.
            Some(Err(Error::System { source, .. })) => {
                assert_eq!(source.raw_os_error(), Some(libc::EMFILE), "{source}");
                self.outcome.refused += 1;
            }
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
    }

    fn drop_other(&mut self) {
        let Some(at) = Self::pick(&mut self.rng, &self.others) else { return };
        let other = self.others.swap_remove(at);
        let (place, result) = match other {
            Other::Memory(handle) => self.end(handle),
            Other::Large(handle) => self.end(handle),
            Other::Region(handle) => self.end(handle),
            Other::Space(handle) => self.end(handle),
            Other::Thread(handle) => {
                let end = self.interface.with(&handle, |thread, ()| thread.end());
                if let Some(end) = self.answered(handle.id().place(), end) {
                    assert!(end.unwrap().wait_timeout(Duration::from_secs(60)).unwrap());
                }
                self.end(handle)
            }
            Other::User(handle, byte) => {
                let read = self.interface.with(&handle, |user, _| {
                    let mut both = [[0; 8]; 2];
                    user.read(0, &mut both[0])?;
                    user.read(user.len() - 8, &mut both[1])?;
                    Ok::<_, Error>(both)
                });
                if let Some(read) = self.answered(handle.id().place(), read) {
                    assert!(byte == 0 || read.unwrap().unwrap() == [[byte; 8]; 2]);
                }
                self.end(handle)
            }
        };
        if let Some(result) = self.answered(place, result) {
            result.unwrap();
        }
    }

    fn end<K: Kind>(&self, handle: Handle<K>) -> (Place, Result<()>) {
        (handle.id().place(), self.interface.destroy(handle))
    }

    fn list(&mut self) {
        let pattern = Pattern::new(&format!("*/ledger/{}-*", self.thread)).unwrap();
        let listed = self.interface.ls(&pattern);
        let place = self.killed.unwrap_or(self.places[0]);
        let Some(listed) = self.answered(place, listed) else { return };
        let mut listed: Vec<Id> = listed.unwrap().into_iter().map(|listed| listed.id).collect();
        let mut known: Vec<Id> = self.names.values().copied().collect();
        listed.sort();
        known.sort();
        assert_eq!(listed, known);
    }

    /// More than there is.
    fn too_much(&mut self) {
        let (place, interface) = (self.place(), self.interface);
        let huge = 1 << 55;
        match self.rng.u8(..5) {
            0 => {
                let made = interface.create::<Space>(place, None, huge);
                self.refused(place, made, |error| matches!(error, Error::System { .. }));
            }
            1 => {
                let made = interface.create::<UserSpace>(place, None, UserSpaceSpec::memory(huge));
                self.refused(place, made, |error| matches!(error, Error::Sys(_)));
            }
            2 => {
                let spec = RegionSpec::Memory { bytes: huge, huge: Huge::Policy };
                let made = interface.create::<Region>(place, None, spec);
                self.refused(place, made, |error| matches!(error, Error::Kind { .. }));
            }
            3 => {
                let spec = ThreadSpec::new(|_| ()).stack_bytes(huge);
                let made = interface.create::<Thread>(place, None, spec);
                self.refused(place, made, |error| matches!(error, Error::System { .. }));
            }
            _ => {
                let made = interface.create::<Memory>(place, None, huge);
                self.refused(place, made, |error| matches!(error, Error::Kind { .. }));
            }
        }
    }

    /// A region when no descriptor is to be had.
    fn without_descriptors(&mut self) {
        static LIMIT: Mutex<()> = Mutex::new(());
        // Who waited here would not serve, and the other one may be asking it.
        let Ok(_alone) = LIMIT.try_lock() else { return };
        let place = self.place();
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
        let spec = RegionSpec::Memory { bytes: 4096, huge: Huge::Policy };
        let made = self.interface.create::<Region>(place, None, spec);
        setrlimit(Resource::Nofile, before).unwrap();
        self.refused(place, made, |error| error.to_string().contains("RLIMIT_NOFILE"));
    }

    /// Has a place's manager end in the middle of a call.
    pub(crate) fn kill(&mut self, place: Place) {
        let live = Arc::clone(&self.live);
        let ledger = self.interface.create::<Ledger>(place, None, live).unwrap();
        // SAFETY: ends the manager's thread alone.
        let exit = || unsafe { libc::syscall(libc::SYS_exit, 0) };
        let died = self.interface.with(&ledger, |_, _| exit()).unwrap_err();
        assert!(matches!(died, Error::Manager { source: Request::Died, .. }), "{died}");
        self.outcome.unanswered += 1;
    }

    /// Looks at what is there in the end, and leaves half of it to the interface's end.
    pub(crate) fn finish(mut self) -> Outcome {
        for shared in self.board.read().unwrap().iter() {
            let thread = self.thread;
            let count = self.interface.with(&shared.handle, |ledger, _| ledger.count(thread));
            let (answered, unknown) = *shared.calls[thread].lock().unwrap();
            if let Some(count) = self.answered(shared.handle.id().place(), count) {
                assert_eq!(unknown, 0, "a manager that answers has not died");
                assert_eq!(count.unwrap(), answered);
            }
        }
        while self.others.len() > 10 {
            self.drop_other();
        }
        while self.own.len() > 10 {
            self.destroy();
        }
        self.list();
        self.outcome
    }
}
