//! Serving: an interface's places answer at a NATS server.
//!
//! Each place has a thread of its own, `kumiki-at-3`, with a connection of its own, so that the
//! places of a machine do not wait for each other. What it receives it has run by the place's
//! owner, all of a request in one call.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_journal::{Disk, Folder};
use kumiki_resource::{Interface, Manager, Place};
use kumiki_sys::affinity;
use kumiki_sys::shm::Window;
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{oneshot, watch};

use crate::durable::load::Loaded;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lease::{Finished, MOST_BLOCKED, Threads};
use crate::place::allow::Allow;
use crate::place::here::Desk;
use crate::place::keeping::{Disks, Keeping, KeptDisk, Restored, TakenPlace};
use crate::place::parts::Parts;
use crate::place::post::Post;
use crate::place::site::Site;
use crate::transport::direct::ListenAt;
use crate::transport::nats::Nats;
use crate::wire::busy::{Busy, Figures};
use crate::wire::chain::Forward;
use crate::wire::host::check_host;
use crate::wire::secret;

/// Time that a client's lease holds after its last request by default.
const HOLDS: Duration = Duration::from_secs(60);
/// An interface to be served.
#[derive(Debug)]
pub struct Server {
    /// None: for this machine's processes.
    nats: Option<Nats>,
    host: String,
    parts: Parts,
    allow: Allow,
    holds: Duration,
    manages: bool,
    window: Option<Arc<Window>>,
    /// Disks on which places are kept.
    disks: Option<DiskOf>,
    /// Name of its one place, if that is not its core's.
    called: Option<String>,
    /// Folder from which the places are taken over.
    takes_over: Option<PathBuf>,
    /// The disk of that place and what it says, if it was taken for this server.
    taken: TakenCell,
    /// Addresses for connections of clients' own.
    listen: Option<ListenAt>,
    /// Asker of other places for the later steps of chains.
    forward: Option<Arc<dyn Forward>>,
}

/// A place that was taken, until it is served.
#[derive(Default)]
struct TakenCell(Mutex<Option<TakenPlace>>);

impl fmt::Debug for TakenCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("taken")
    }
}

/// Disks of durable places.
struct DiskOf(Disks);

impl fmt::Debug for DiskOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("disks")
    }
}

/// Places that answer; they do until the value is dropped.
pub struct Served {
    places: Vec<Serving>,
    restored: Vec<Restored>,
    ended: watch::Receiver<Endings>,
}

/// Places that have ended by themselves, and why.
type Endings = Vec<(String, Arc<Error>)>;

struct Serving {
    name: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    busy: Arc<Busy>,
}

impl Server {
    /// Places called `host.core0`, `host.core1`, … at a NATS server. It allows nothing until
    /// [told](Self::allow).
    pub fn new(nats: Nats, host: impl Into<String>) -> Server {
        let (parts, allow) = (Parts::new(), Allow::nothing());
        Server::of(Some(nats), host.into(), parts, allow)
    }

    /// Places called `name.core0`, `name.core1`, … for other processes of this user on this machine, at
    /// sockets; `Client::here` calls them. It lets them list names, and nothing else until it is
    /// [told](Self::allow).
    pub fn here(name: impl Into<String>) -> Server {
        let (parts, allow) = (Parts::new(), Allow::listing());
        Server::of(None, name.into(), parts, allow)
    }

    fn of(nats: Option<Nats>, host: String, parts: Parts, allow: Allow) -> Server {
        let (holds, manages) = (HOLDS, false);
        let (window, disks, called, taken) = (None, None, None, TakenCell::default());
        let takes_over = None;
        Server {
            nats,
            host,
            parts,
            allow,
            holds,
            manages,
            window,
            disks,
            called,
            takes_over,
            taken,
            listen: None,
            forward: None,
        }
    }

    /// Kinds and parts that exist.
    #[must_use]
    pub fn parts(mut self, parts: Parts) -> Server {
        self.parts = parts;
        self
    }

    /// Kinds and parts that may be asked for.
    #[must_use]
    pub fn allow(mut self, allow: Allow) -> Server {
        self.allow = allow;
        self
    }

    /// Sets the time that a client's lease holds after its last request; a minute by default.
    /// Answers kept for it go with it.
    #[must_use]
    pub fn leases(mut self, hold: Duration) -> Server {
        self.holds = hold;
        self
    }

    /// Has each place listen at a port of its own, too, for connections of its clients' own: the first at this one, the next
    /// ones behind it; each at any that is free with port 0. A client that may ask the place by NATS is told of it there, and
    /// has a token to be let in; nobody else is. Its calls go by that connection then, without the NATS server between
    /// them, and by NATS again when it ends. Names, deaths and permission stay with NATS.
    #[must_use]
    pub fn listening(mut self, at: SocketAddr) -> Server {
        self.listen = Some(ListenAt { at, reached: self.listen.and_then(|listen| listen.reached) });
        self
    }

    /// The address by which clients reach the one that places [listen](Self::listening) at, where it is another one: that of a
    /// forwarded port, or this machine's where they listen at all of its addresses. Alone it is both.
    #[must_use]
    pub fn reached_at(mut self, reached: SocketAddr) -> Server {
        let at = self.listen.map_or(reached, |listen| listen.at);
        self.listen = Some(ListenAt { at, reached: Some(reached) });
        self
    }

    pub(crate) fn forwards(mut self, forward: Arc<dyn Forward>) -> Server {
        self.forward = Some(forward);
        self
    }

    /// Has the thread that hears a place's requests manage the place, too, on its cpu, where
    /// `interface` has it [adopted](kumiki_resource::Builder::adopted): no request goes from one
    /// thread to another then. Threads of this process wait for it up to fifty milliseconds: it
    /// sleeps at its connection. It is for places that are called from afar.
    #[must_use]
    pub fn managing(mut self) -> Server {
        self.manages = true;
        self
    }

    /// Keeps the places in this folder, each in one of its own, so that they outlive their process: an operation is in the
    /// place's log on the disk before its answer leaves, and who serves the same places by the same folder again has their
    /// resources with ids and names, their clients' leases and the answers that are kept. What was under way is answered
    /// then, or runs, once.
    ///
    /// All kinds that are allowed must be [durable](Parts::durable), and no part that is allowed may block. Only what
    /// comes from afar is kept: what threads of the process do by the interface is not. Such a place has no lines.
    #[must_use]
    pub fn durable(self, folder: impl Into<PathBuf>) -> Server {
        let folder = folder.into();
        self.durable_on(
            move |core| Ok(Arc::new(Folder::open(&folder.join(core))?) as Arc<dyn Disk>),
        )
    }

    /// Keeps the places as [`durable`](Self::durable) does, and takes them over from the process that serves them by this
    /// folder, if there is one: each of its places ends with [`Error::HandedOver`], and callers go on with this one, by
    /// the same references. What this one could not serve it does not take: it looks at the folder, and asks its NATS server,
    /// while the other one still serves.
    #[must_use]
    pub fn taking_over(self, folder: impl Into<PathBuf>) -> Server {
        let folder = folder.into();
        let takes_over = Some(folder.clone());
        let server = self.durable_on(move |core| {
            Ok(Arc::new(Folder::take(&folder.join(core))?) as Arc<dyn Disk>)
        });
        Server { takes_over, ..server }
    }

    /// Keeps the places as [`durable`](Self::durable) does, and stands by: returns when the process that serves them by this
    /// folder has ended, however it has, and no other one has them; or at once if there is none. Then they are this one's to
    /// [serve](Self::serve), and callers go on, by the same references. What this one could not serve is refused at once.
    ///
    /// The folder's lock decides, so both are on one machine, or see one file system that locks for all. A process that is
    /// stopped, or cut off, has its places still.
    ///
    /// # Errors
    /// As [`serve`](Self::serve), of what could not be served.
    pub fn standing_by(self, folder: impl Into<PathBuf>, interface: &Interface) -> Result<Server> {
        let (folder, mut folders) = (folder.into(), Vec::new());
        let called = self.called_place(interface)?;
        for place in interface.places() {
            let PlaceName { name, number } = self.name_of(interface, called.as_ref(), place)?;
            let core = format!("core{number}");
            self.could_take_over(interface, &name, &folder.join(&core))?;
            folders.push(core);
        }
        let mut disks = HashMap::new();
        for core in folders {
            let disk: Arc<dyn Disk> = Arc::new(Folder::stand_by(&folder.join(&core))?);
            disks.insert(core, disk);
        }
        Ok(self.durable_on(move |core| {
            let place = || core.to_owned();
            let why = || "it was not a place of this interface when it stood by".to_owned();
            let disk = disks.get(core).cloned();
            disk.ok_or_else(|| Error::NotDurable { place: place(), why: why() })
        }))
    }

    /// Calls the one place of the interface `HOST.coreN`, whichever core it is on: a durable place that has moved here, by
    /// [`Client::take_place`](crate::Client::take_place), whose callers go on by its name and their references.
    #[must_use]
    pub fn called(mut self, place: impl Into<String>) -> Server {
        self.called = Some(place.into());
        self
    }

    /// Keeps the places as [`durable`](Self::durable) does, each on the disk that this gives for its core's name.
    #[must_use]
    pub fn durable_on(
        mut self,
        disk: impl Fn(&str) -> Result<Arc<dyn Disk>> + Send + Sync + 'static,
    ) -> Server {
        (self.disks, self.takes_over) = (Some(DiskOf(Arc::new(disk))), None);
        self
    }

    /// Has callers ask by lines in this memory, too, which they see: those of another kernel, by
    /// [`Lines`](crate::Lines). It has room for a line in each 4 KiB. Places behind a NATS server have none.
    ///
    /// A thread that looks at lines takes a cpu as long as they are used, and for a fifth of a millisecond longer, or as
    /// long as waking it takes, up to 20 ms.
    /// With [`managing`](Self::managing) no request goes from one thread to another.
    #[must_use]
    pub fn window(mut self, window: Window) -> Server {
        self.window = Some(Arc::new(window));
        self
    }

    /// Serves all places of `interface`, which has the kind [`Lease`]. When this returns, they
    /// answer.
    ///
    /// # Errors
    /// [`Error::Host`]; [`Error::Connect`], or of a socket; [`Error::PlaceTaken`]; an interface without the kind
    /// [`Lease`]; no thread to be had. Of a durable place [`Error::NotDurable`], [`Error::Rotten`], [`Error::OtherForm`],
    /// and the disk's.
    pub fn serve(self, interface: &Interface) -> Result<Served> {
        check_host(&self.host)?;
        if self.listen.is_some() && self.nats.is_none() {
            let why =
                "clients are told of it by a NATS server, and these places have none".to_owned();
            return Err(Error::Nats { what: "listening for connections of callers' own", why });
        }
        // Told now, not to each client.
        interface.kind::<Lease>()?;
        let (tell_end, ended) = watch::channel(Endings::new());
        let mut served = Served { places: Vec::new(), restored: Vec::new(), ended };
        let called = self.called_place(interface)?;
        let name_of = |place| self.name_of(interface, called.as_ref(), place);
        // All of them before one is taken.
        for place in interface.places().into_iter().filter(|_| self.takes_over.is_some()) {
            let PlaceName { name, number } = name_of(place)?;
            if let Some(folder) = &self.takes_over {
                self.could_take_over(interface, &name, &folder.join(format!("core{number}")))?;
            }
        }
        for place in interface.places() {
            let core = interface.place_name(place)?;
            let PlaceName { name, number } = name_of(place)?;
            let keeping = match &self.disks {
                Some(DiskOf(disks)) => {
                    let names = (place, &*format!("core{number}"), &*name);
                    let taken = self.taken.0.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let disk = match taken {
                        Some(taken) => KeptDisk::Taken(Box::new(taken)),
                        None => KeptDisk::Of(disks),
                    };
                    Some(Keeping::open(disk, interface, names, &self.parts, &self.allow)?)
                }
                None => None,
            };
            served.restored.extend(keeping.as_ref().map(|keeping| keeping.restored.clone()));
            let life = match &keeping {
                Some(keeping) => keeping.life,
                None => secret::number("a place's life")?,
            };
            // Where a runtime must not be dropped, within another one, there is none until all else is well.
            let runtime = runtime(place.0)?;
            let (tell, blocked) = unbounded_channel();
            let busy = Arc::new(Busy::new(Instant::now()));
            let site = Site {
                interface: interface.clone(),
                place,
                core,
                name: name.clone(),
                life,
                holds: self.holds,
                parts: self.parts.clone(),
                allow: self.allow.clone(),
                threads: Threads::new(runtime.handle().clone(), tell),
                heard: Mutex::new(None),
                changes_sent: AtomicU64::new(0),
                busy,
                since: Instant::now(),
                keeping,
                leaving: Arc::default(),
                number,
                direct: None,
                forward: self.forward.clone(),
            };
            let listen = self.listen.map(|listen| listen.of(served.places.len())).transpose()?;
            let serving = start((site, listen), runtime, blocked, &self, tell_end.clone())?;
            served.places.push(serving);
        }
        Ok(served)
    }
}

/// Name of a place for others, and its number in their ids.
#[derive(Clone)]
struct PlaceName {
    name: String,
    number: u16,
}

impl Server {
    /// The name of a place.
    fn name_of(
        &self,
        interface: &Interface,
        called: Option<&PlaceName>,
        place: Place,
    ) -> Result<PlaceName> {
        if let Some(called) = called {
            return Ok(called.clone());
        }
        let name = format!("{}.{}", self.host, interface.place_name(place)?);
        Ok(PlaceName { name, number: place.0 })
    }

    /// The name that was given for its one place.
    fn called_place(&self, interface: &Interface) -> Result<Option<PlaceName>> {
        let Some(name) = &self.called else { return Ok(None) };
        let refused = |why: &str| Error::NotDurable { place: name.clone(), why: why.to_owned() };
        let number = called_number(name, &self.host).ok_or_else(|| {
            refused("a place that moves is called HOST.coreN, and HOST is the server's")
        })?;
        if self.disks.is_none() {
            return Err(refused("it is not to be: only a durable place moves to another core"));
        }
        match interface.places().len() {
            1 => Ok(Some(PlaceName { name: name.clone(), number })),
            _ => {
                Err(refused("its process has other places, too: a place that moves has one alone"))
            }
        }
    }
}

/// Questions before a place is taken.
impl Server {
    pub(crate) fn parts_served(&self) -> &Parts {
        &self.parts
    }

    pub(crate) fn allowed(&self) -> &Allow {
        &self.allow
    }

    pub(crate) fn nats(&self) -> Option<&Nats> {
        self.nats.as_ref()
    }

    /// Notes that its place was taken to this disk, which says this.
    pub(crate) fn has_taken(&self, disk: Arc<dyn Disk>, loaded: Loaded) {
        let taken = Some(TakenPlace { disk, loaded });
        *self.taken.0.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    }

    /// The one place's name that was given, and its disk.
    pub(crate) fn called_disk(&self, interface: &Interface) -> Result<(String, Arc<dyn Disk>)> {
        let called = self.called_place(interface)?;
        match (called, &self.disks) {
            (Some(PlaceName { name, number }), Some(DiskOf(disks))) => {
                Ok((name, disks(&format!("core{number}"))?))
            }
            _ => {
                let why = "the server that is to take it has no name for it: call it HOST.coreN";
                Err(Error::NotDurable { place: self.host.clone(), why: why.to_owned() })
            }
        }
    }
}

/// The number in a place's name, of this host.
fn called_number(name: &str, host: &str) -> Option<u16> {
    let number = name.strip_prefix(host)?.strip_prefix(".core")?;
    number.parse().ok().filter(|parsed: &u16| parsed.to_string() == number)
}

impl Served {
    /// The places' names.
    pub fn names(&self) -> Vec<&str> {
        self.places.iter().map(|place| place.name.as_str()).collect()
    }

    /// Function that gives the counts of what each place has done until then; any thread may ask it.
    pub fn figures(&self) -> impl Fn() -> Vec<Figures> + Send + 'static + use<> {
        let places = self.places.iter().map(|place| (place.name.clone(), Arc::clone(&place.busy)));
        let places: Vec<_> = places.collect();
        move || places.iter().map(|(name, busy)| busy.figures(name)).collect()
    }

    /// Counts of what durable places had when they were served: resources and kept answers of a former process.
    pub fn restored(&self) -> &[Restored] {
        &self.restored
    }

    /// Reason for which a place has ended by itself, if one has: another process took its name,
    /// say.
    pub fn ended(&self) -> Option<Arc<Error>> {
        self.ended.borrow().first().map(|(_, error)| Arc::clone(error))
    }

    /// The places that have ended by themselves, in this order, and why each has. The others serve on.
    ///
    /// [`Error::PlaceTaken`] is that of one place, and so is [`Error::HandedOver`]; whatever else it is, such as [`Error::Panicked`], is nothing that
    /// should be, and a process of places alone does well to end with it.
    pub fn endings(&self) -> Vec<(String, Arc<Error>)> {
        self.ended.borrow().clone()
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Served").field(&self.names()).finish()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for place in &mut self.places {
            drop(place.stop.take());
        }
        for place in &mut self.places {
            // A panic of it was written when it came.
            let _ = place.thread.take().map(JoinHandle::join);
        }
    }
}

/// A place's input and output, and threads for what blocks there.
pub(crate) fn runtime(number: u16) -> Result<Runtime> {
    let mut runtime = runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .thread_name(format!("kumiki-part-{number}"))
        // A connection that is made anew looks its server's name up on such a thread.
        .max_blocking_threads(MOST_BLOCKED + 2);
    let what = "starting a place's input and output".to_owned();
    runtime.build().map_err(|source| Error::Io { what, source })
}

fn start(
    (site, listen): (Site, Option<ListenAt>),
    runtime: Runtime,
    blocked: UnboundedReceiver<Finished>,
    server: &Server,
    tell_end: watch::Sender<Endings>,
) -> Result<Serving> {
    let io = |what| move |source| Error::Io { what, source };
    let (nats, host, name) = (server.nats.clone(), server.host.clone(), site.name.clone());
    let busy = Arc::clone(&site.busy);
    let (manages, window) = (server.manages, server.window.clone());
    let (stop, stopped) = oneshot::channel();
    // Not tokio's: who serves may be within a runtime, where that must not be waited for.
    let (tell, told) = channel();
    let number = site.place.0;
    let own = name.clone();
    let ended = move |error: Error| {
        tell_end.send_modify(|ended| ended.push((own.clone(), Arc::new(error))));
    };
    let serve = move |runtime: &Runtime, tell: Sender<Result<()>>| {
        runtime.block_on(async move {
            let opened = async {
                let manager = manages.then(|| manager(&site)).transpose()?;
                site.restore()?;
                let begun = match &nats {
                    Some(nats) => {
                        let post = Post::open(site, blocked, nats, &host, listen).await?;
                        Transport::Nats(Box::new(post))
                    }
                    None => Transport::Socket(Desk::open(site, blocked, window)?),
                };
                Ok((begun, manager))
            };
            let (begun, manager) = match opened.await {
                Ok(opened) => opened,
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return Ok(());
                }
            };
            if tell.send(Ok(())).is_err() {
                return Ok(());
            }
            match begun {
                Transport::Nats(post) => post.serve(manager, stopped).await,
                Transport::Socket(desk) => desk.serve(manager, stopped).await,
            }
        })
    };
    let place = name.clone();
    let work = move || {
        if let Err(error) = guarded(place, || serve(&runtime, tell)) {
            ended(error);
        }
        // What blocks goes on, and nobody hears what it gives.
        runtime.shutdown_background();
    };
    let thread = kumiki_crew::with_signals_blocked(|| {
        Builder::new().name(format!("kumiki-at-{number}")).spawn(work)
    });
    let thread = thread.map_err(io(format!("starting the thread of place {name}")))?;
    let serving = Serving { name, stop: Some(stop), thread: Some(thread), busy };
    let outcome = told.recv().unwrap_or_else(|_| {
        Err(Error::Panicked { place: serving.name.clone(), text: "as it was started".to_owned() })
    });
    outcome.map(|()| serving)
}

/// A place that is open: behind a NATS server, or at a socket.
enum Transport {
    Nats(Box<Post>),
    Socket(Desk),
}

/// Makes the calling thread the manager of a place, on its cpu.
fn manager(site: &Site) -> Result<Manager> {
    affinity::set(&[usize::from(site.place.0)].into_iter().collect())
        .map_err(kumiki_resource::Error::from)?;
    Ok(site.interface.manage(site.place)?)
}

/// Serves a place. One whose thread is gone answers nobody: a panic of it is told, as its end is.
fn guarded(place: String, serve: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(serve))
        .unwrap_or_else(|panic| Err(Error::Panicked { place, text: panicked(&*panic) }))
}

/// The text of a panic.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a text").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_place_s_thread_is_its_end_and_is_told() {
        let own = || "h.core0".to_owned();
        let error = guarded(own(), || panic!("at {}", 7)).unwrap_err();
        assert!(matches!(&error, Error::Panicked { text, .. } if text == "at 7"), "{error}");
        let taken = guarded(own(), || Err(Error::PlaceTaken { place: own() })).unwrap_err();
        assert!(matches!(taken, Error::PlaceTaken { .. }), "{taken}");
        guarded(own(), || Ok(())).unwrap();
    }
}
