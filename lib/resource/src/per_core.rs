//! The places of an interface whose resources are owned per core, and their managers.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::desk::Member;
use crate::desk::{Door, Server};
use kumiki_wait::Policy;

use crate::core::Core;
use crate::error::{Error, Result};
use crate::here::{LeftTables, ManagerGuard};
use crate::id::Place;
use crate::kinds::Kinds;
use crate::name::Name;
use crate::word::Word;

/// Interval between two looks whether a manager that sets itself up still lives.
const SETUP_LOOK: Duration = Duration::from_millis(20);

/// Managers of some places.
pub(crate) struct PerCore {
    /// Number, as its interface's.
    pub(crate) number: u64,
    pub(crate) policy: Policy,
    pub(crate) places: BTreeMap<Place, At>,
}

pub(crate) struct At {
    pub(crate) name: Box<str>,
    word: Word,
    pub(crate) door: Door,
    /// The manager, if it is a thread of ours.
    pub(crate) member: Option<Member>,
    pub(crate) left_tables: Arc<LeftTables>,
    /// Server, until a thread of the program takes it.
    pub(crate) server: Mutex<Option<Server>>,
}

impl At {
    pub(crate) fn new(
        name: String,
        door: Door,
        member: Option<Member>,
        left_tables: Arc<LeftTables>,
        server: Option<Server>,
    ) -> At {
        let word = Word::new(&name);
        At { name: name.into(), word, door, member, left_tables, server: Mutex::new(server) }
    }
}

impl Drop for At {
    fn drop(&mut self) {
        drop(self.member.take());
        if self.door.has_died() {
            // SAFETY: it has.
            unsafe { self.left_tables.settle() };
        }
    }
}

impl PerCore {
    pub(crate) fn door(&self, place: Place) -> Result<&Door> {
        self.at(place).map(|at| &at.door)
    }

    pub(crate) fn name(&self, place: Place) -> Result<&str> {
        self.at(place).map(|at| &*at.name)
    }

    fn at(&self, place: Place) -> Result<&At> {
        self.places.get(&place).ok_or_else(|| self.none(format!("number {}", place.0)))
    }

    pub(crate) fn find(&self, name: &str) -> Result<Place> {
        let mut places = self.places.iter();
        let found = places.find(|(_, at)| *at.name == *name).map(|(place, _)| *place);
        found.ok_or_else(|| self.none(name.to_owned()))
    }

    /// The place of a name.
    #[inline]
    pub(crate) fn of_name(&self, name: &Name) -> Result<Place> {
        match self.places.iter().find(|(_, at)| at.word.is(name.of_place())) {
            Some((place, _)) => Ok(*place),
            None => self.of_long_name(name),
        }
    }

    #[cold]
    fn of_long_name(&self, name: &Name) -> Result<Place> {
        self.find(name.place())
    }

    pub(crate) fn none(&self, place: String) -> Error {
        let names: Vec<&str> = self.places.values().map(|at| &*at.name).collect();
        Error::NoPlace { place, places: names.join(", ") }
    }
}

/// Starts a manager, which has its tables when this returns.
pub(crate) fn manager(
    number: u64,
    place: Place,
    name: &str,
    cpu: usize,
    kinds: &Kinds,
    policy: &Policy,
    left_tables: &Arc<LeftTables>,
) -> Result<Member> {
    let (tell, told) = channel();
    let (place_name, kinds, left_tables) =
        (name.to_owned(), kinds.clone(), Arc::clone(left_tables));
    let setup = move || {
        let core = Core::new(place, &place_name, &kinds);
        let (core, outcome) =
            core.map_or_else(|error| (None, Err(error)), |core| (Some(core), Ok(())));
        let _ = tell.send(outcome);
        core.map(|core| ManagerGuard::new(number, core, None, left_tables))
    };
    let member = Member::start(name, cpu, policy, None, setup)?;
    loop {
        match told.recv_timeout(SETUP_LOOK) {
            Ok(outcome) => return outcome.map(|()| member),
            Err(RecvTimeoutError::Timeout) if !member.door().has_died() => (),
            // A kind's pool has panicked, or killed it.
            Err(_) => return Err(Error::Setup { place: name.to_owned() }),
        }
    }
}
