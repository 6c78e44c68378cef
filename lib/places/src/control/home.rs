//! Places of this process: a call is a function call on the caller's own core, and another core's line else. Its
//! errors are those of every other place.

use std::any::{Any, TypeId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use kumiki_resource::kind::Kind;
use kumiki_resource::{CallError, Change, Handle, Interface, Listed, Name, Pattern, Place, Rights};

use crate::client::{call, decode, of_outcome};
use crate::control::transport::{Limit, Ongoing, Transport};
use crate::error::{Error, Result};
use crate::part::{Part, Portable, Work};
use crate::place::allow::Allow;
use crate::place::parts::{Handled, Parts, caught, panicked, refused};
use crate::place::typed::{Started, Typed};
use crate::reference::Reference;
use crate::wire::host::check_host;
use crate::wire::{Refusal, Why, secret};

/// The places of an interface.
pub(crate) struct Home {
    pub(crate) interface: Interface,
    parts: Parts,
    /// [`Typed`] parts, by the number of their types.
    typed: Vec<(TypeId, &'static (dyn Any + Send + Sync))>,
    life: u64,
    places: Vec<HomePlace>,
}

/// A resource's handle and the part that is called on it.
type Bound<P> = (Handle<<P as Part>::Kind>, &'static Typed<P>);

struct HomePlace {
    place: Place,
    /// Its name here, `core0`.
    core: String,
    /// Its name for all, `web.core0`.
    name: Arc<str>,
}

impl Home {
    pub(crate) fn new(interface: Interface, parts: Parts, host: Option<String>) -> Result<Home> {
        if let Some(host) = &host {
            check_host(host)?;
        }
        let mut places = Vec::new();
        for place in interface.places() {
            let core = interface.place_name(place)?;
            let name = match &host {
                Some(host) => format!("{host}.{core}").into(),
                None => core.as_str().into(),
            };
            places.push(HomePlace { place, core, name });
        }
        let mut typed: Vec<_> = parts.all_typed().map(|typed| (typed.type_id(), typed)).collect();
        typed.sort_by_key(|(of, _)| *of);
        // 0 is no life of a place.
        let life = secret::number("a home's life")?.max(1);
        Ok(Home { interface, parts, typed, life, places })
    }

    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    /// True if it is a place of this process, by either of its names.
    pub(crate) fn has(&self, place: &str) -> bool {
        self.find(place).is_some()
    }

    fn find(&self, place: &str) -> Option<&HomePlace> {
        self.places.iter().find(|its| *its.name == *place || its.core == place)
    }

    fn at(&self, place: &str) -> Result<&HomePlace> {
        self.find(place).ok_or_else(|| Error::Gone { place: place.to_owned() })
    }

    /// A part with its types; none if one of its name has others here.
    #[inline]
    fn typed<P: Part>(&self) -> Option<&'static Typed<P>> {
        let of = TypeId::of::<Typed<P>>();
        let found = self.typed.binary_search_by_key(&of, |(of, _)| *of).ok()?;
        self.typed[found].1.downcast_ref()
    }

    /// Finds the function that a binding calls: checked as far as can be known before.
    pub(crate) fn bind<P: Part>(&self, on: &Reference<P::Kind>) -> Result<Option<Bound<P>>> {
        on.require(Rights::USE)?;
        let found = self.parts.typed::<P>().map_err(|refusal| refusal_of(on.place(), refusal))?;
        let handle = self.handle(on)?;
        Ok(found.map(|typed| (handle, typed)))
    }

    #[inline]
    fn handle<K: Kind>(&self, on: &Reference<K>) -> Result<Handle<K>> {
        if on.life() != self.life {
            return Err(stale(on));
        }
        self.interface.grant(on.id(), on.rights()).map_err(|error| of_home(on.place(), error))
    }

    /// Calls a part as a function where its types are known.
    #[inline]
    pub(crate) fn run<P: Part>(
        &self,
        on: &Reference<P::Kind>,
        input: P::In,
        limit: Limit,
    ) -> Result<P::Out> {
        on.require(Rights::USE)?;
        let handle = self.handle(on)?;
        match self.typed::<P>() {
            Some(typed) => run(&self.interface, typed, &handle, on.place(), input, limit),
            None => self.call::<P>(on, &input, limit),
        }
    }

    /// Begins a call that may go on when this comes back. Only what blocks does.
    pub(crate) fn start<P: Part>(
        &self,
        on: &Reference<P::Kind>,
        input: P::In,
        limit: Limit,
    ) -> Result<Ongoing<P::Out>> {
        on.require(Rights::USE)?;
        let handle = self.handle(on)?;
        let Some(typed) = self.typed::<P>() else { return self.begin_by_name::<P>(on, &input) };
        match begin(&self.interface, typed, &handle, input, limit) {
            Ok(Ok(Started::Gave(output))) => Ok(Ongoing::Gave(output)),
            Ok(Ok(Started::Blocks(work))) => {
                let place = Arc::clone(on.shared_place());
                let rest = move || caught(|| Ok(work()));
                let rest = move || rest().map_err(|refusal| refusal_of(&place, refusal));
                Ok(Ongoing::Rest(Box::new(rest)))
            }
            Ok(Err(error)) => Err(of_home(on.place(), error)),
            Err(payload) => Err(refusal_of(on.place(), panicked(payload))),
        }
    }

    /// Begins a part whose types are not known here, as from afar.
    #[cold]
    fn begin_by_name<P: Part>(
        &self,
        on: &Reference<P::Kind>,
        input: &P::In,
    ) -> Result<Ongoing<P::Out>> {
        let operation = call::<P>(on.id().to_u64(), input)?;
        let (allow, place) = (Allow::everything(), on.id().place());
        let run = || self.parts.run(&allow, &self.interface, place, &operation, true);
        let handled = self.interface.run(place, run).map_err(|error| of_home(on.place(), error))?;
        let name = Arc::clone(on.shared_place());
        let gives = move |outcome| decode(P::NAME, &of_outcome(&name, outcome)?);
        match handled {
            Handled::Ran(outcome) => gives(outcome).map(Ongoing::Gave),
            Handled::Blocks(rest) => Ok(Ongoing::Rest(Box::new(move || gives(rest())))),
        }
    }

    /// A place's changes of names from now on, and what tells of one whether it is wanted, by the name that all know.
    pub(crate) fn watch(
        &self,
        place: &str,
        pattern: Pattern,
    ) -> Result<(Receiver<Change>, impl Fn(Change) -> Option<Change> + Send + use<>)> {
        let at = self.at(place)?;
        let changes = self.interface.watch_at(at.place, &Pattern::all());
        let changes = changes.map_err(|error| of_home(place, error))?;
        let (core, name) = (at.core.clone(), Arc::clone(&at.name));
        let wanted = move |change: Change| {
            let change = Change { name: renamed(change.name, &core, &name), ..change };
            pattern.matches(&change.name).then_some(change)
        };
        Ok((changes, wanted))
    }
}

/// A resource's name as all know it.
fn renamed(own: String, core: &str, name: &str) -> String {
    match own.strip_prefix(core) {
        Some(rest) => format!("{name}{rest}"),
        None => own,
    }
}

/// Calls a part on a resource of this process.
#[inline]
pub(crate) fn run<P: Part>(
    interface: &Interface,
    typed: &'static Typed<P>,
    handle: &Handle<P::Kind>,
    place: &str,
    input: P::In,
    limit: Limit,
) -> Result<P::Out> {
    if let (Some(call), None) = (typed.call, limit) {
        return call(interface, handle, input).map_err(|error| of_home(place, *error));
    }
    match begin(interface, typed, handle, input, limit) {
        Ok(Ok(Started::Gave(output))) => Ok(output),
        other => finish(place, other, limit),
    }
}

/// Begins a part there: it has given what it gives, or has work that may block.
#[inline]
fn begin<P: Part>(
    interface: &Interface,
    typed: &'static Typed<P>,
    handle: &Handle<P::Kind>,
    input: P::In,
    limit: Limit,
) -> thread::Result<kumiki_resource::Result<Started<P::Out>>> {
    let begin = typed.begin;
    let run = move |resource: &mut P::Kind, pool: &mut _| begin(resource, pool, input);
    match limit {
        None => catch_unwind(AssertUnwindSafe(|| interface.with(handle, run))),
        Some(limit) => {
            catch_unwind(AssertUnwindSafe(|| interface.with_timeout(handle, limit, run)))
        }
    }
}

/// Ends a call that has given nothing yet: a part that blocks, an error, a panic.
#[cold]
#[inline(never)]
fn finish<T: Send + 'static>(
    place: &str,
    ran: thread::Result<kumiki_resource::Result<Started<T>>>,
    limit: Limit,
) -> Result<T> {
    match ran {
        Ok(Ok(Started::Gave(output))) => Ok(output),
        Ok(Ok(Started::Blocks(work))) => blocked(place, work, limit),
        Ok(Err(error)) => Err(of_home(place, error)),
        Err(payload) => Err(refusal_of(place, panicked(payload))),
    }
}

/// Does what may block: on the caller's thread, which waits for it; with a limit on one of its own, which goes on when
/// that is over.
fn blocked<T: Send + 'static>(place: &str, work: Work<T>, limit: Limit) -> Result<T> {
    let run = move || caught(|| Ok(work()));
    let outcome = match limit {
        None => run(),
        Some(limit) => {
            let begin = Instant::now();
            let (tell, told) = channel();
            let thread = thread::Builder::new().name("kumiki-part".to_owned()).spawn(move || {
                // Nobody may wait any more.
                let _ = tell.send(run());
            });
            let what = || format!("starting a thread for a part that blocks at {place}");
            thread.map_err(|source| Error::Io { what: what(), source })?;
            told.recv_timeout(limit.saturating_sub(begin.elapsed())).map_err(|_| {
                let why = format!("no answer within {limit:?}; it goes on");
                Error::Unknown { place: place.to_owned(), why }
            })?
        }
    };
    outcome.map_err(|refusal| refusal_of(place, refusal))
}

impl Transport for Home {
    fn create<K: Portable>(
        &self,
        place: &str,
        unique: Option<&str>,
        spec: K::Spec,
        _: Limit,
    ) -> Result<Reference<K>> {
        let at = self.at(place)?;
        let made =
            catch_unwind(AssertUnwindSafe(|| self.interface.create::<K>(at.place, unique, spec)));
        let made = made.map_err(|payload| refusal_of(place, panicked(payload)))?;
        let handle = made.map_err(|error| of_home(place, error))?;
        Ok(Reference::new(Arc::clone(&at.name), self.life, handle.id(), handle.rights()))
    }

    fn open<K: Kind>(&self, name: &Name, _: Limit) -> Result<Reference<K>> {
        let at = self.at(name.place())?;
        let own = Name::new(&at.core, name.kind(), name.unique())?;
        let handle =
            self.interface.open::<K>(&own).map_err(|error| of_home(name.place(), error))?;
        Ok(Reference::new(Arc::clone(&at.name), self.life, handle.id(), handle.rights()))
    }

    fn call<P: Part>(&self, on: &Reference<P::Kind>, input: &P::In, _: Limit) -> Result<P::Out> {
        on.require(Rights::USE)?;
        self.handle(on)?;
        match self.begin_by_name::<P>(on, input)? {
            Ongoing::Gave(output) => Ok(output),
            Ongoing::Rest(rest) => rest(),
        }
    }

    fn destroy<K: Portable>(&self, what: &Reference<K>, _: Limit) -> Result<()> {
        what.require(Rights::DESTROY)?;
        let handle = self.handle(what)?;
        let destroyed = catch_unwind(AssertUnwindSafe(|| self.interface.destroy(handle)));
        let destroyed = destroyed.map_err(|payload| refusal_of(what.place(), panicked(payload)))?;
        destroyed.map_err(|error| of_home(what.place(), error))
    }

    fn list(&self, place: &str, pattern: &str, _: Limit) -> Result<Vec<Listed>> {
        let at = self.at(place)?;
        let failed = |error| of_home(place, error);
        let pattern = Pattern::new(pattern).map_err(failed)?;
        let all = self.interface.ls_at(at.place, &Pattern::all()).map_err(failed)?;
        let named = all.into_iter().map(|mut one| {
            one.name = renamed(one.name, &at.core, &at.name);
            one
        });
        let mut listed: Vec<_> = named.filter(|one| pattern.matches(&one.name)).collect();
        listed.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        Ok(listed)
    }

    fn has_ended(&self) -> bool {
        false
    }
}

/// Refuses a reference of a place that has another life.
#[cold]
fn stale<K: Kind>(on: &Reference<K>) -> Error {
    let text = format!("{on:?} is of another place, or of another life of this one");
    Error::Refused { place: on.place().to_owned(), why: Why::Stale, text }
}

#[cold]
pub(crate) fn refusal_of(place: &str, refusal: Refusal) -> Error {
    let (place, why) = (place.to_owned(), Why::from(refusal.why));
    Error::Refused { place, why, text: refusal.text }
}

/// An error of the interface, as a place elsewhere would say it.
#[cold]
pub(crate) fn of_home(place: &str, error: kumiki_resource::Error) -> Error {
    use kumiki_resource::Error as Its;
    let own = || place.to_owned();
    let error = match error {
        Its::Manager { source: CallError::Panicked(panic), .. } => {
            return refusal_of(place, panicked(panic.into_payload()));
        }
        error => error,
    };
    match &error {
        Its::NoPlace { .. } => Error::Gone { place: own() },
        Its::Nested { .. } | Its::Foreign { .. } => Error::Resource(error),
        Its::Manager { source, .. } => match source {
            CallError::Gone => Error::Gone { place: own() },
            CallError::Died => Error::Unknown { place: own(), why: error.to_string() },
            CallError::TimedOut { begun: true } => {
                Error::Unknown { place: own(), why: error.to_string() }
            }
            CallError::TimedOut { begun: false } => {
                Error::NotSent { place: own(), why: error.to_string() }
            }
            CallError::Full => {
                Error::Refused { place: own(), why: Why::Full, text: error.to_string() }
            }
            _ => refusal_of(place, refused(&error)),
        },
        _ => refusal_of(place, refused(&error)),
    }
}
