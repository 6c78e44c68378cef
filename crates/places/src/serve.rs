//! Serving: an interface's places answer at a NATS server.
//!
//! Each place has a thread of its own, `kumiki-at-3`, with a connection of its own, so that the
//! places of a machine do not wait for each other. What it receives it has run by the place's
//! owner, all of a request in one call.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::service::endpoint::Endpoint;
use async_nats::service::{self, ServiceExt};
use async_nats::{Client, RequestErrorKind};
use bytes::Bytes;
use futures_util::StreamExt;
use kumiki_resource::{Interface, Manager, Name};
use kumiki_sys::affinity;
use kumiki_sys::shm::Window;
use serde::{Deserialize, Serialize};
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{oneshot, watch};

use crate::allow::Allow;
use crate::blocked::{Ended, MOST_BLOCKED, Threads, Waiting, Waits};
use crate::busy::{Busy, WINDOW};
use crate::changes::CHANGES;
use crate::error::{Error, Result};
use crate::here::Desk;
use crate::lease::Lease;
use crate::nats::Nats;
use crate::parts::Parts;
use crate::secret;
use crate::site::{Answered, LOOK, Site, every};
use crate::wire::{self, Operation, Request, SERVICE, SUBJECT};

/// Prefix of a place's name in the subject of its beats.
pub(crate) const BEATS: &str = "kumiki.beat.";
/// Between two beats of a place.
pub(crate) const BEAT: Duration = WINDOW;
/// For how long a new place waits whether somebody answers to its name already.
const TAKEN: Duration = Duration::from_secs(2);
/// For how long a client's lease holds after its last request, if nothing else is said.
const HOLDS: Duration = Duration::from_secs(60);
/// For how long a place that ends lets its last answers leave.
const LAST: Duration = Duration::from_secs(2);

/// A sign of life of a place.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) life: u64,
    /// For how long it has served, ms: no two machines' clocks are compared.
    pub(crate) age_ms: u64,
    /// Number of the last message with changes of names.
    #[serde(default)]
    pub(crate) changes: u64,
    /// Share of the time since the beat before, or nearly, for which it answered requests.
    #[serde(default)]
    pub(crate) busy_permille: u16,
}

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
}

/// Places that answer; they do until the value is dropped.
pub struct Served {
    places: Vec<Serving>,
    ended: watch::Receiver<Option<Arc<Error>>>,
}

struct Serving {
    name: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Places called `host.core0`, `host.core1`, … at a NATS server. It allows nothing until
    /// [told](Self::allow).
    pub fn new(nats: Nats, host: impl Into<String>) -> Server {
        let (parts, allow) = (Parts::new(), Allow::nothing());
        let (nats, host) = (Some(nats), host.into());
        Server { nats, host, parts, allow, holds: HOLDS, manages: false, window: None }
    }

    /// Places called `name.core0`, `name.core1`, … for other processes of this user on this machine, at
    /// sockets; `Client::here` calls them. It lets them list names, and nothing else until it is
    /// [told](Self::allow).
    pub fn here(name: impl Into<String>) -> Server {
        let (parts, allow) = (Parts::new(), Allow::listing());
        Server {
            nats: None,
            host: name.into(),
            parts,
            allow,
            holds: HOLDS,
            manages: false,
            window: None,
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

    /// For how long a client's lease holds after its last request; a minute, if nothing is
    /// said. Answers kept for it go with it.
    #[must_use]
    pub fn leases(mut self, hold: Duration) -> Server {
        self.holds = hold;
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
    /// [`Lease`]; no thread to be had.
    pub fn serve(self, interface: &Interface) -> Result<Served> {
        check_host(&self.host)?;
        // Told now, not to each client.
        interface.kind::<Lease>()?;
        let (tell_end, ended) = watch::channel(None);
        let mut served = Served { places: Vec::new(), ended };
        for place in interface.places() {
            let core = interface.place_name(place)?;
            let name = format!("{}.{core}", self.host);
            let runtime = runtime(place.0)?;
            let (tell, blocked) = unbounded_channel();
            let site = Site {
                interface: interface.clone(),
                place,
                core,
                name: name.clone(),
                life: secret::number("a place's life")?,
                holds: self.holds,
                parts: self.parts.clone(),
                allow: self.allow.clone(),
                threads: Threads::new(runtime.handle().clone(), tell),
                heard: Mutex::new(None),
                told: AtomicU64::new(0),
                busy: Busy::new(Instant::now()),
            };
            let serving = start(site, runtime, blocked, &self, tell_end.clone())?;
            served.places.push(serving);
        }
        Ok(served)
    }
}

impl Served {
    /// The places' names.
    pub fn names(&self) -> Vec<&str> {
        self.places.iter().map(|place| place.name.as_str()).collect()
    }

    /// Why a place has ended by itself, if one has: another process took its name, say.
    pub fn ended(&self) -> Option<Arc<Error>> {
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

/// A machine's name stands before a dot in a place's name, and in a subject.
pub(crate) fn check_host(host: &str) -> Result<()> {
    let refused = |why| Error::Host { host: host.to_owned(), why };
    if host.split('.').any(str::is_empty) {
        return Err(refused("a part of it is empty"));
    }
    Name::new(host, "lease", "a")
        .map_err(|_| refused("it has other characters than letters, digits, -_., or too many"))?;
    Ok(())
}

/// A place's input and output, and threads for what blocks there.
fn runtime(number: u16) -> Result<Runtime> {
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
    site: Site,
    runtime: Runtime,
    blocked: UnboundedReceiver<Ended>,
    server: &Server,
    tell_end: watch::Sender<Option<Arc<Error>>>,
) -> Result<Serving> {
    let io = |what| move |source| Error::Io { what, source };
    let (nats, host, name) = (server.nats.clone(), server.host.clone(), site.name.clone());
    let (manages, window) = (server.manages, server.window.clone());
    let (stop, stopped) = oneshot::channel();
    // Not tokio's: who serves may be within a runtime, where that must not be waited for.
    let (tell, told) = channel();
    let number = site.place.0;
    let work = move || {
        runtime.block_on(async move {
            let opened = async {
                let manager = manages.then(|| manager(&site)).transpose()?;
                let begun = match &nats {
                    Some(nats) => {
                        Begun::Post(Box::new(Post::open(site, blocked, nats, &host).await?))
                    }
                    None => Begun::Desk(Desk::open(site, blocked, window)?),
                };
                Ok((begun, manager))
            };
            let (begun, manager) = match opened.await {
                Ok(opened) => opened,
                Err(error) => return drop(tell.send(Err(error))),
            };
            if tell.send(Ok(())).is_err() {
                return;
            }
            let served = match begun {
                Begun::Post(post) => post.serve(manager, stopped).await,
                Begun::Desk(desk) => desk.serve(manager, stopped).await,
            };
            if let Err(error) = served {
                tell_end.send_replace(Some(Arc::new(error)));
            }
        });
        // What blocks goes on, and nobody hears what it gives.
        runtime.shutdown_background();
    };
    let thread = kumiki_crew::with_signals_blocked(|| {
        Builder::new().name(format!("kumiki-at-{number}")).spawn(work)
    });
    let thread = thread.map_err(io(format!("starting the thread of place {name}")))?;
    let serving = Serving { name, stop: Some(stop), thread: Some(thread) };
    let outcome = told.recv().unwrap_or_else(|_| {
        Err(Error::Nats { what: "starting a place", why: "its thread has ended".to_owned() })
    });
    outcome.map(|()| serving)
}

/// A place that is open: behind a NATS server, or at a socket.
enum Begun {
    Post(Box<Post>),
    Desk(Desk),
}

/// Makes the calling thread the manager of a place, on its cpu.
fn manager(site: &Site) -> Result<Manager> {
    affinity::set(&[usize::from(site.place.0)].into_iter().collect())
        .map_err(kumiki_resource::Error::from)?;
    Ok(site.interface.manage(site.place)?)
}

/// A place at its subject.
struct Post {
    site: Site,
    client: Client,
    requests: Endpoint,
    blocked: UnboundedReceiver<Ended>,
    waiting: Waiting<service::Request>,
    beats: async_nats::Subscriber,
    service: async_nats::service::Service,
    since: Instant,
}

impl Post {
    async fn open(
        site: Site,
        blocked: UnboundedReceiver<Ended>,
        nats: &Nats,
        host: &str,
    ) -> Result<Post> {
        let failed =
            |what| move |why: async_nats::Error| Error::Nats { what, why: why.to_string() };
        let (client, _) = nats.connect(&site.name).await?;
        let subject = format!("{SUBJECT}{}", site.name);
        if is_answered(&client, &subject).await? {
            return Err(Error::PlaceTaken { place: site.name });
        }
        let metadata = HashMap::from([
            ("place".to_owned(), site.name.clone()),
            ("host".to_owned(), host.to_owned()),
            ("life".to_owned(), site.life.to_string()),
        ]);
        let service = client
            .service_builder()
            .description(format!("place {}", site.name))
            .metadata(metadata)
            .start(SERVICE, env!("CARGO_PKG_VERSION"))
            .await
            .map_err(failed("announcing a place"))?;
        // A group of its own: of two places of one name both are to hear, and one to end.
        let requests = service
            .endpoint_builder()
            .name("place")
            .queue_group(format!("life-{}", site.life))
            .add(subject)
            .await
            .map_err(failed("opening a place"))?;
        let beats = client.subscribe(format!("{BEATS}{}", site.name)).await;
        let beats = beats.map_err(|error| failed("hearing a place's beats")(error.into()))?;
        let (waiting, since) = (Waiting::default(), Instant::now());
        let mut post = Post { site, client, requests, blocked, waiting, beats, service, since };
        // Once the server gives a beat back it knows what was subscribed to before: whoever calls
        // as soon as this returns is heard. A flush only says that the lines have left.
        post.beat().await;
        let opened = post.client.flush().await;
        opened.map_err(|error| failed("opening a place")(error.into()))?;
        let _ = tokio::time::timeout(LAST, post.beats.next()).await;
        Ok(post)
    }

    /// Says that it is there.
    async fn beat(&mut self) {
        let age_ms = self.since.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        let busy_permille = self.site.busy.permille(Instant::now());
        let (life, changes) = (self.site.life, self.site.told());
        let beat = Beat { life, age_ms, changes, busy_permille };
        if let Ok(bytes) = serde_json::to_vec(&beat) {
            let subject = format!("{BEATS}{}", self.site.name);
            let _ = self.client.publish(subject, bytes.into()).await;
        }
    }

    /// Serves until it is stopped.
    async fn serve(
        mut self,
        manager: Option<Manager>,
        mut stopped: oneshot::Receiver<()>,
    ) -> Result<()> {
        let mut beat = every(BEAT);
        let mut leases = every(self.site.lease_check());
        let mut look = every(LOOK);
        loop {
            tokio::select! {
                // Requests that never rest are to hold up none of the others.
                biased;
                _ = &mut stopped => break,
                Some(other) = self.beats.next() => self.compare(&other.payload)?,
                _ = beat.tick() => self.beat().await,
                _ = look.tick(), if manager.is_some() || self.site.is_watched() => {
                    self.tell().await;
                }
                _ = leases.tick() => self.site.end_leases()?,
                Some(ended) = self.blocked.recv() => {
                    let of = ended.of;
                    self.site.ended(ended)?;
                    for Waits { to, .. } in self.waiting.take(of) {
                        self.answer(to, true).await;
                    }
                }
                Some(request) = self.requests.next() => {
                    self.answer(request, false).await;
                }
                else => break,
            }
            if let Some(manager) = &manager {
                manager.serve();
            }
        }
        for Waits { payload, to, .. } in self.waiting.take_all() {
            let _ = to.respond(Ok(self.site.give_up(&payload))).await;
        }
        let Post { site, client, requests, service, .. } = self;
        let _ = service.stop().await;
        drop(requests);
        // That is told by a task of its own.
        tokio::task::yield_now().await;
        let end = async {
            // What was answered leaves. Then a question whose answer comes behind: whoever asks
            // from here on is told by the server that nobody is here.
            let _ = client.flush().await;
            let _ = is_answered(&client, &format!("{SUBJECT}{}", site.name)).await;
        };
        // A server that is not there keeps nobody.
        let _ = tokio::time::timeout(LAST, end).await;
        Ok(())
    }

    /// Answers a request, or keeps it until what it waits for has ended.
    async fn answer(&mut self, request: service::Request, has_waited: bool) {
        let limit = self.client.max_payload();
        let answered = self.site.answer(&request.message.payload, limit, has_waited);
        match answered {
            // Who does not hear it asks again.
            Answered::Reply(reply) => _ = request.respond(Ok(reply)).await,
            Answered::Waits { of, first } => {
                let payload = request.message.payload.clone();
                self.waiting.add(of, Waits { payload, to: request, first });
            }
        }
    }

    /// Tells those who watch what has changed.
    async fn tell(&self) {
        let subject = format!("{CHANGES}{}", self.site.name);
        while let Some(changes) = self.site.changes(self.client.max_payload()) {
            // Without a connection it would wait for one, and with it whoever asks this place. What is
            // not told is missed by its number.
            if self.client.connection_state() == State::Connected {
                let _ = self.client.publish(subject.clone(), changes).await;
            }
        }
    }

    /// Hears a beat of this name: of two places the younger one ends.
    fn compare(&self, beat: &[u8]) -> Result<()> {
        // Anybody may send anything.
        let Ok(Beat { life, age_ms, .. }) = serde_json::from_slice(beat) else { return Ok(()) };
        let age = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        if life != self.site.life && (age_ms, life) > (age, self.site.life) {
            return Err(Error::PlaceTaken { place: self.site.name.clone() });
        }
        Ok(())
    }
}

/// Whether somebody answers at a subject.
async fn is_answered(client: &Client, subject: &str) -> Result<bool> {
    let operations = vec![(0, Operation::Offers)];
    let request = Request { life: 0, lease: 0, key: 0, first: 0, operations };
    let bytes = wire::message(&request).unwrap_or_else(|_| Bytes::new());
    let asked = async_nats::Request::new().payload(bytes).timeout(Some(TAKEN));
    match client.send_request(subject.to_owned(), asked).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(false),
        // Somebody is there and does not answer.
        Err(error) if error.kind() == RequestErrorKind::TimedOut => Ok(true),
        Err(error) => Err(Error::Nats {
            what: "asking whether a place's name is free",
            why: error.to_string(),
        }),
    }
}

/// For who has no name of its own to give.
pub fn host_name() -> String {
    let whole = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let first = whole.split('.').next().unwrap_or_default().to_owned();
    if check_host(&first).is_ok() { first } else { "host".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_can_stand_in_a_name_and_a_subject() {
        for good in ["hostb", "db-1.rack_7"] {
            check_host(good).unwrap();
        }
        for bad in ["", "a..b", ".a", "a b", "a*", "a>", "a/b", &"a".repeat(201)] {
            assert!(check_host(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn this_machine_has_a_name() {
        check_host(&host_name()).unwrap();
    }
}
