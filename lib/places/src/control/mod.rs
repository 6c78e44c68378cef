//! The interface control of a program: one entry for resources of this core, another core, another process, another
//! kernel and another machine. The name decides which way a call goes.
//!
//! ```text
//!  create · open · call · start · bind · each · chain · destroy · list · watch    one kind of reference
//!    │
//!  Control ── whose place is it? ── asked once, and again when it has gone
//!    ├── this interface's ─▶ home      a function call, or another core's line
//!    ├── given lines ──────▶ lines     memory that two kernels see
//!    ├── a socket here ────▶ lines     memory that two processes see; what is long goes by the socket
//!    ╰── else ─────────────▶ net       NATS, or a connection of its own beside it
//! ```

pub(crate) mod binding;
pub(crate) mod chain;
mod each;
mod forward;
mod home;
mod line_road;
mod net;
mod road;
pub(crate) mod started;
mod transport;
pub(crate) mod watch;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kumiki_resource::kind::Kind;
use kumiki_resource::{Interface, Listed, Name};

use crate::client::Client;
use crate::control::binding::Binding;
use crate::control::home::Home;
use crate::control::line_road::LineRoad;
use crate::control::net::{Engine, Net};
use crate::control::road::Road;
use crate::control::transport::{Limit, Transport};
use crate::error::{Error, Result};
use crate::line::lines::Lines;
use crate::part::{Part, Portable};
use crate::place::parts::Parts;
use crate::reference::Reference;
use crate::transport::memory;
use crate::transport::nats::Nats;

/// The interface control of a program, over resources wherever they are. Cheap to clone, used from any thread that may wait.
///
/// ```
/// use kumiki_places::Control;
/// use kumiki_places::standard::{Add, Counter, parts};
/// use kumiki_resource::Interface;
///
/// let interface = Interface::builder().kind::<Counter>().per_core()?;
/// let home = interface.place_name(interface.places()[0])?;
/// let control = Control::builder().home(&interface, parts()).build()?;
/// // With `.nats(…)` it may as well be at "hostb.core3".
/// let hits = control.create::<Counter>(&home, Some("hits"), 41)?;
/// assert_eq!(control.call::<Add>(&hits, 1)?, 42);
/// # Ok::<(), kumiki_places::Error>(())
/// ```
#[derive(Clone)]
pub struct Control {
    inner: Arc<ControlState>,
    limit: Limit,
}

struct ControlState {
    home: Option<Arc<Road>>,
    /// The home's life; 0 without one, which no reference has.
    home_life: u64,
    /// Lines that were given: to another kernel's places.
    lines: Vec<Arc<Lines>>,
    engine: Arc<Engine>,
    /// This user's other processes.
    here: OnceLock<Client>,
    machines: Option<Client>,
    roads: Mutex<HashMap<Arc<str>, Arc<Road>>>,
}

/// Ways of an interface control to be made.
#[derive(Debug, Default)]
pub struct Builder {
    home: Option<(Interface, Parts)>,
    host: Option<String>,
    nats: Option<Nats>,
    lines: Vec<Lines>,
}

impl Builder {
    /// Places of this process: those of `interface`, which are called by these program parts.
    #[must_use]
    pub fn home(mut self, interface: &Interface, parts: Parts) -> Builder {
        self.home = Some((interface.clone(), parts));
        self
    }

    /// The name that others have for this process: its places are `HOST.core0`, … beside `core0`, ….
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Builder {
        self.host = Some(host.into());
        self
    }

    /// Places of other machines, and of whoever else serves there.
    #[must_use]
    pub fn nats(mut self, nats: Nats) -> Builder {
        self.nats = Some(nats);
        self
    }

    /// Places of another kernel, by memory that both see.
    #[must_use]
    pub fn lines(mut self, lines: Lines) -> Builder {
        self.lines.push(lines);
        self
    }

    /// Makes it. Places of this user's other processes it finds by itself.
    ///
    /// # Errors
    /// [`Error::Host`]; [`Error::Connect`]; no threads to be had.
    pub fn build(self) -> Result<Control> {
        let engine = Arc::new(Engine::start()?);
        let machines = match &self.nats {
            Some(nats) => Some(engine.wait(Client::connect(nats))?),
            None => None,
        };
        let home = match self.home {
            Some((interface, parts)) => Some(Home::new(interface, parts, self.host)?),
            None => None,
        };
        let home_life = home.as_ref().map_or(0, Home::life);
        let inner = ControlState {
            home: home.map(|home| Arc::new(Road::Home(home))),
            home_life,
            lines: self.lines.into_iter().map(Arc::new).collect(),
            engine,
            here: OnceLock::new(),
            machines,
            roads: Mutex::default(),
        };
        Ok(Control { inner: Arc::new(inner), limit: None })
    }
}

impl Control {
    /// Begins one that knows no places.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Limits for how long calls wait. If nothing is said, they wait as long as the owner lives where that is of this
    /// process, and ten seconds elsewhere.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Control {
        Control { inner: Arc::clone(&self.inner), limit: Some(timeout) }
    }

    /// Makes a resource at `place`, with a name of its own or none; the reference has all rights.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotSent`], [`Error::Refused`], [`Error::TooLarge`]: none was made.
    /// [`Error::Unknown`]: perhaps one was.
    pub fn create<K: Portable>(
        &self,
        place: &str,
        unique: Option<&str>,
        spec: K::Spec,
    ) -> Result<Reference<K>> {
        let road = self.road(place)?;
        let made = road.create(place, unique, spec, self.limit);
        if let Err(Error::Gone { .. }) = &made {
            // The next one goes by another way, if there is one.
            self.anew(place, &road);
        }
        made
    }

    /// A reference to the resource of this name, to use and to share.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`Error::Value`] if the name is of another kind than `K`.
    pub fn open<K: Kind>(&self, name: &Name) -> Result<Reference<K>> {
        if name.kind() != K::NAME {
            let why = format!("it is of kind {}, not {}", name.kind(), K::NAME);
            return Err(Error::Value { what: format!("opening {name}"), why });
        }
        self.by_way(name.place(), |road| road.open(name, self.limit))
    }

    /// Runs a program part on a resource, by its place's owner: once or not at all, and the error says which, or that
    /// nobody knows.
    ///
    /// # Errors
    /// [`Error::Rights`] without [`Rights::USE`](kumiki_resource::Rights::USE); else as
    /// [`create`](Self::create). Of refusals two have run: [`Why::Panicked`](crate::wire::Why::Panicked) and
    /// [`Why::AnswerTooLarge`](crate::wire::Why::AnswerTooLarge).
    #[inline]
    pub fn call<P: Part>(&self, on: &Reference<P::Kind>, input: P::In) -> Result<P::Out> {
        if on.life() == self.inner.home_life {
            if let Some(Road::Home(home)) = self.inner.home.as_deref() {
                return home.run::<P>(on, input, self.limit);
            }
        }
        self.call_there::<P>(on, input)
    }

    #[inline(never)]
    fn call_there<P: Part>(&self, on: &Reference<P::Kind>, input: P::In) -> Result<P::Out> {
        self.by_way(on.place(), |road| road.call::<P>(on, &input, self.limit))
    }

    /// Checks once that the part may be called on this resource: kind, part, version, rights and life. What calls
    /// it often has less to do at each.
    ///
    /// # Errors
    /// As [`call`](Self::call), which would be refused.
    pub fn bind<P: Part>(&self, on: &Reference<P::Kind>) -> Result<Binding<P>> {
        Binding::new(self.clone(), on.clone(), None)
    }

    /// Opens the resource of this name and [binds](Self::bind) it. After its place has had another life, which one
    /// call says, the next one opens it anew.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`call`](Self::call).
    pub fn bind_name<P: Part>(&self, name: &Name) -> Result<Binding<P>> {
        Binding::new(self.clone(), self.open::<P::Kind>(name)?, Some(name.clone()))
    }

    /// Destroys a resource. Other references of it are stale from then on.
    ///
    /// # Errors
    /// As [`call`](Self::call), with [`Rights::DESTROY`](kumiki_resource::Rights::DESTROY).
    pub fn destroy<K: Portable>(&self, what: Reference<K>) -> Result<()> {
        self.by_way(what.place(), |road| road.destroy(&what, self.limit))
    }

    /// A place's resources whose names match.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotSent`], [`Error::Unanswered`], [`Error::Refused`].
    pub fn list(&self, place: &str, pattern: &str) -> Result<Vec<Listed>> {
        self.by_way(place, |road| road.list(place, pattern, self.limit))
    }

    /// Does it by the way that there is; where nobody answers, by another one, if the place is there by now: it has
    /// moved. Nothing was done before.
    fn by_way<T>(&self, place: &str, does: impl Fn(&Road) -> Result<T>) -> Result<T> {
        let road = self.road(place)?;
        match does(&road) {
            Err(Error::Gone { .. }) => match self.anew(place, &road) {
                Some(other) => does(&other),
                None => Err(Error::Gone { place: place.to_owned() }),
            },
            outcome => outcome,
        }
    }

    /// Looks for a place of which nobody has answered by a way: by which other one it is there, if it is. What is called
    /// next goes there.
    #[cold]
    fn anew(&self, place: &str, by: &Road) -> Option<Arc<Road>> {
        let found = self.find(place).ok().filter(|found| !found.is_same_way(by))?;
        let road = Arc::new(found);
        self.inner.roads().insert(place.into(), Arc::clone(&road));
        Some(road)
    }

    /// The way to a place: the one that it was found by, while that holds.
    fn road(&self, place: &str) -> Result<Arc<Road>> {
        let inner = &self.inner;
        if let Some(road) = &inner.home {
            if let Road::Home(home) = &**road {
                if home.has(place) {
                    return Ok(Arc::clone(road));
                }
            }
        }
        if let Some(road) = inner.roads().get(place) {
            if !road.has_ended() {
                return Ok(Arc::clone(road));
            }
        }
        let road = Arc::new(self.find(place)?);
        inner.roads().insert(place.into(), Arc::clone(&road));
        Ok(road)
    }

    /// Looks for a place: the nearest way first.
    fn find(&self, place: &str) -> Result<Road> {
        let inner = &self.inner;
        // What has just been opened has yet to tell its places.
        let has = |lines: &&Arc<Lines>| lines.all_places().iter().any(|one| one == place);
        let given = inner.lines.iter().find(has);
        let here = || Net::new(&inner.engine, self.here());
        if let Some(lines) = given {
            // A node's place that is attached here, too, has a socket.
            let beside = memory::is_there(place).then(here);
            return Ok(Road::Lines(LineRoad::new(place, Arc::clone(lines), beside)));
        }
        if let Some(found) = Lines::to_process(place)? {
            return Ok(match found {
                Some(lines) => Road::Lines(LineRoad::new(place, Arc::new(lines), Some(here()))),
                // It has no lines, or is passed on from another kernel.
                None => Road::Net(here()),
            });
        }
        match &inner.machines {
            Some(client) => Ok(Road::Net(Net::new(&inner.engine, client))),
            None => Err(Error::Gone { place: place.to_owned() }),
        }
    }

    fn here(&self) -> &Client {
        self.inner.here.get_or_init(|| self.inner.engine.within(Client::here))
    }
}

impl ControlState {
    fn roads(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Arc<Road>>> {
        self.roads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a place looked for when it is called next.
    fn forget(&self, place: &str) {
        self.roads().remove(place);
    }
}

/// Shows which way each place that was called goes.
impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roads = self.inner.roads();
        f.debug_map().entries(roads.iter().map(|(place, road)| (place, road.name(place)))).finish()
    }
}
