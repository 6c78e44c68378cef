//! A core's thread: it owns a shard, and has the connections that came to it.

use std::hash::BuildHasher;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use foldhash::fast::FixedState;
use kumiki_resource::{Handle, Interface, Manager, Place};
use kumiki_sys::affinity;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::connection::{Answers, Connection, Sent, Shards, Wants};
use crate::resp::Limits;
use crate::shard::Shard;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where clients come.
    pub address: SocketAddrV4,
    /// A shard on each of these.
    pub cpus: Vec<usize>,
    /// Bytes of all keys and values, at most; the same again, at most, for what clients have
    /// sent and not yet received.
    pub memory: usize,
    /// Bytes of a word of a command, at most.
    pub word: usize,
    /// Clients of one core, at most.
    pub clients: usize,
}

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;
/// Events that are taken at once.
const EVENTS: usize = 256;
/// A worker that has just served another one looks again for so long before it sleeps.
const LOOK: Duration = Duration::from_micros(20);
/// Tokens of what is no connection.
const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

/// How a worker that sleeps at its sockets is woken by another one that asks it.
#[derive(Debug)]
struct Bell {
    asleep: AtomicBool,
    fd: OwnedFd,
}

impl Bell {
    /// After a request was handed over. Either this sees that the other one is about to sleep,
    /// or that one sees the request: both have a full fence between their store and their look.
    fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        }
    }
}

/// A server whose clients can come.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
}

impl Server {
    /// Starts a worker on each cpu; they serve as long as the process lives.
    ///
    /// # Errors
    /// A cpu that is not there, an address that is taken, no descriptor left.
    pub fn start(settings: &Settings) -> Result<Server> {
        let builder = Interface::builder().kind::<Shard>().cores([]);
        let interface = builder.adopted(settings.cpus.iter().copied()).per_core()?;
        let places = interface.places();
        let bell = || -> Result<Bell> {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Bell { asleep: AtomicBool::new(false), fd })
        };
        let bells: Arc<Vec<Bell>> = Arc::new(places.iter().map(|_| bell()).collect::<Result<_>>()?);
        let mut address = settings.address;
        let (all_there, mut workers) = (Arc::new(Barrier::new(places.len())), Vec::new());
        let (tell, told) = std::sync::mpsc::channel();
        for (own, place) in places.iter().copied().enumerate() {
            let listener = listen(address)?;
            if let SocketAddr::V4(bound) = SocketAddr::try_from(net::getsockname(&listener)?)? {
                // The port of the first, if any would do.
                address = bound;
            }
            let (interface, settings, bells) =
                (interface.clone(), settings.clone(), Arc::clone(&bells));
            let (all_there, tell) = (Arc::clone(&all_there), tell.clone());
            let run = move || {
                let begun = begin(&interface, place, own, bells, &settings, &all_there, listener);
                match begun {
                    Ok(mut worker) => {
                        let _ = tell.send(Ok(()));
                        drop(tell);
                        worker.serve()
                    }
                    Err(error) => _ = tell.send(Err(error)),
                }
            };
            let builder = thread::Builder::new().name(format!("kv-{}", place.0));
            workers.push(builder.spawn(run).context("starting a worker")?);
        }
        drop(tell);
        for begun in told {
            begun?;
        }
        Ok(Server { address: address.into() })
    }

    /// Where clients come.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Each worker has a socket of its own at one address: the kernel shares clients out.
fn listen(address: SocketAddrV4) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    net::bind(&socket, &SocketAddr::from(address)).with_context(|| format!("binding {address}"))?;
    net::listen(&socket, 1024)?;
    Ok(socket)
}

fn begin(
    interface: &Interface,
    place: Place,
    own: usize,
    bells: Arc<Vec<Bell>>,
    settings: &Settings,
    all_there: &Barrier,
    listener: OwnedFd,
) -> Result<Worker> {
    let made = (|| {
        affinity::set(&[usize::from(place.0)].into_iter().collect())?;
        let manager = interface.manage(place)?;
        let limit = settings.memory / bells.len();
        let mine = interface.create::<Shard>(place, Some("keys"), limit)?;
        Ok::<_, anyhow::Error>((manager, mine))
    })();
    // Whether it has failed or not: the others wait.
    all_there.wait();
    let (manager, mine) = made?;
    let mut shards = Vec::new();
    for place in interface.places() {
        if place == mine.id().place() {
            shards.push(mine.share(kumiki_resource::Rights::USE)?);
            continue;
        }
        let name = format!("{}/shard/keys", interface.place_name(place)?).parse()?;
        // Served while it waits, so that all find each other.
        shards.push(interface.open::<Shard>(&name).map_err(|error| anyhow!("{error}"))?);
    }
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let read = epoll::EventFlags::IN;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), read)?;
    epoll::add(&epoll, &bells[own].fd, epoll::EventData::new_u64(BELL), read)?;
    let limits = Limits { word: settings.word, command: settings.word + (1 << 20) };
    Ok(Worker {
        ours: Ours {
            interface: interface.clone(),
            shards,
            own,
            bells,
            hasher: FixedState::default(),
        },
        manager,
        epoll,
        listener,
        clients: Vec::new(),
        free: Vec::new(),
        closed: Vec::new(),
        most_clients: settings.clients,
        kept: 0,
        most_kept: settings.memory / interface.places().len(),
        limits,
        start: Instant::now(),
    })
}

/// The shards, from one of their threads.
struct Ours {
    interface: Interface,
    shards: Vec<Handle<Shard>>,
    own: usize,
    bells: Arc<Vec<Bell>>,
    hasher: FixedState,
}

impl Shards for Ours {
    fn of(&self, key: &[u8]) -> usize {
        // By the upper half: a map of a shard goes by the lower one.
        (self.hasher.hash_one(key) >> 32) as usize % self.shards.len()
    }

    fn count(&self) -> usize {
        self.shards.len()
    }

    fn own(&self) -> usize {
        self.own
    }

    fn with<R: Send>(&self, f: impl FnOnce(&mut Shard) -> R + Send) -> R {
        let run = self.interface.with(&self.shards[self.own], |shard, ()| f(shard));
        run.expect("this thread has the shard, and is not within it")
    }

    fn ask(&self, now: u64, theirs: Vec<Vec<Sent>>) -> Option<Vec<Answers>> {
        let run = move |ops: Vec<Sent>| {
            move |shard: &mut Shard, (): &mut ()| {
                let mut answers = Answers::default();
                for op in ops {
                    shard.run(op, now, &mut answers.bytes);
                    answers.ends.push(answers.bytes.len());
                }
                answers
            }
        };
        let mut started = Vec::new();
        for (at, ops) in theirs.into_iter().enumerate() {
            if ops.is_empty() {
                started.push(None);
                continue;
            }
            let answer = self.interface.start(&self.shards[at], run(ops)).ok()?;
            if at != self.own {
                self.bells[at].ring();
            }
            started.push(Some(answer));
        }
        let answers = started.into_iter().map(|answer| match answer {
            Some(answer) => answer.wait().ok(),
            None => Some(Answers::default()),
        });
        answers.collect()
    }
}

struct Worker {
    ours: Ours,
    manager: Manager,
    epoll: OwnedFd,
    listener: OwnedFd,
    clients: Vec<Option<Client>>,
    free: Vec<usize>,
    /// Those that have become free since events were taken.
    closed: Vec<usize>,
    most_clients: usize,
    /// Bytes that all clients' buffers have, and may have.
    kept: usize,
    most_kept: usize,
    limits: Limits,
    start: Instant,
}

struct Client {
    connection: Connection,
    wants: Wants,
    kept: usize,
    /// When it has last done something, ms.
    turned: u64,
}

impl Worker {
    fn serve(&mut self) {
        let mut buffer = vec![0; BUFFER];
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let goes_at = self.ours.with({
                let now = self.now();
                move |shard| shard.clean(now)
            });
            self.wait(&mut events, goes_at);
            let now = self.now();
            let mut came = false;
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => came = true,
                    BELL => {
                        _ = rustix::io::read(&self.ours.bells[self.ours.own].fd, &mut [0; 8][..])
                    }
                    at => self.turn(at as usize, now, &mut buffer),
                }
                self.manager.serve();
            }
            // Last: a number that has become free may still be in the events above.
            self.free.append(&mut self.closed);
            if came {
                self.accept();
            }
        }
    }

    fn now(&self) -> u64 {
        // From one on: nought is never.
        self.start.elapsed().as_millis() as u64 + 1
    }

    /// Waits for sockets, or another worker, or until a key goes.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, goes_at: Option<u64>) {
        if self.manager.serve() {
            let end = Instant::now() + LOOK;
            while Instant::now() < end {
                self.manager.serve();
            }
        }
        let bell = &self.ours.bells[self.ours.own];
        bell.asleep.store(true, Ordering::Relaxed);
        // As in `ring`.
        fence(Ordering::SeqCst);
        let left = goes_at.map(|at| Duration::from_millis(at.saturating_sub(self.now())));
        let left = if self.manager.serve() { Some(Duration::ZERO) } else { left };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // A signal, at worst.
        let _ = epoll::wait(&self.epoll, spare_capacity(events), left.as_ref());
        bell.asleep.store(false, Ordering::Relaxed);
        self.manager.serve();
    }

    fn accept(&mut self) {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // No descriptor left, or the client has gone: it is asked again.
            let Ok(socket) = net::accept_with(&self.listener, flags) else { return };
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            let at = match self.free.pop() {
                Some(at) => at,
                // Who is too many is let go at once.
                None if self.clients.len() >= self.most_clients => continue,
                None => {
                    self.clients.push(None);
                    self.clients.len() - 1
                }
            };
            let data = epoll::EventData::new_u64(at as u64);
            if epoll::add(&self.epoll, socket.as_fd(), data, epoll::EventFlags::IN).is_err() {
                self.free.push(at);
                continue;
            }
            let connection = Connection::new(socket);
            self.clients[at] = Some(Client { connection, wants: Wants::Read, kept: 0, turned: 0 });
        }
    }

    fn turn(&mut self, at: usize, now: u64, buffer: &mut [u8]) {
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else { return };
        let wants = client.connection.turn(&self.ours, self.limits, now, buffer);
        self.kept -= client.kept;
        client.kept = client.connection.kept();
        client.turned = now;
        self.kept += client.kept;
        if wants != client.wants {
            let flags = match wants {
                Wants::Read => Some(epoll::EventFlags::IN),
                Wants::Write => Some(epoll::EventFlags::OUT),
                Wants::Close => None,
            };
            let data = epoll::EventData::new_u64(at as u64);
            let socket = &client.connection.socket;
            match flags.map(|flags| epoll::modify(&self.epoll, socket, data, flags)) {
                Some(Ok(())) => client.wants = wants,
                _ => self.close(at),
            }
        }
        while self.kept > self.most_kept && self.close_oldest() {}
    }

    /// Lets that client go which has much memory and has done nothing for longest; whether there
    /// is one.
    fn close_oldest(&mut self) -> bool {
        let has_much = |(at, client): (usize, &Option<Client>)| {
            let client = client.as_ref().filter(|client| client.kept > BUFFER)?;
            Some((client.turned, at))
        };
        let oldest = self.clients.iter().enumerate().filter_map(has_much).min();
        oldest.inspect(|(_, at)| self.close(*at)).is_some()
    }

    /// Closed, its socket leaves the set by itself.
    fn close(&mut self, at: usize) {
        if let Some(client) = self.clients[at].take() {
            self.kept -= client.kept;
            self.closed.push(at);
        }
    }
}

/// Where a server listens if nothing is said: this machine only.
pub const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
