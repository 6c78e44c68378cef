//! A core's thread: it owns a shard, and has the connections that came to it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow};
use kumiki_resource::{Handle, Interface, Manager, Place};
use kumiki_sys::affinity;
use kumiki_wait::PollBell;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{self, SocketAddrAny, SocketFlags, sockopt};

use crate::clients::About;
use crate::connection::{Connection, Wants};
use crate::counters::Counters;
use crate::desk::{Desk, Shards, Terms};
use crate::jobs::{Answers, Asked, Job, serve};
use crate::listen::is_near;
use crate::resp::{Limits, Out};
use crate::say::say;
use crate::session::Session;
use crate::shard::{Shard, Spec};
use crate::shared::{Shared, now};
use crate::store::Hash;

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;
/// Events that are taken at once.
const EVENTS: usize = 256;
/// A worker that has just served another one looks again for so long before it sleeps.
const LOOK: Duration = Duration::from_micros(20);
/// For so long no client is taken when there is no descriptor for one.
const REST: u64 = 100;
/// Tokens of what is no connection.
const BELL: u64 = u64::MAX;
/// That of the first listener; those of others are below.
const LISTENER: u64 = u64::MAX - 1;
const LISTENERS: u64 = u64::MAX - 1024;

/// Parts of a worker.
pub(crate) struct Start {
    pub(crate) interface: Interface,
    pub(crate) place: Place,
    pub(crate) own: usize,
    pub(crate) is_pinned: bool,
    pub(crate) bells: Arc<Vec<PollBell>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) hash: Hash,
    pub(crate) all_there: Arc<Barrier>,
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) unix: Option<OwnedFd>,
    pub(crate) drained: Sender<()>,
}

/// Makes a worker, in its own thread.
pub(crate) fn begin(start: Start) -> Result<Worker> {
    let Start { interface, place, own, is_pinned, bells, shared, hash, .. } = start;
    let made = (|| {
        if is_pinned {
            affinity::set(&[usize::from(place.0)].into_iter().collect())?;
        }
        let manager = interface.manage(place)?;
        let limit = shared.key_memory() / bells.len();
        let (of, longest) = (bells.len(), shared.longest);
        let spec = Spec { number: own, of, limit, longest, hash: hash.clone() };
        let mine = interface.create::<Shard>(place, Some("keys"), spec)?;
        Ok::<_, Error>((manager, mine))
    })();
    // Whether it has failed or not: the others wait.
    start.all_there.wait();
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
    epoll::add(&epoll, &bells[own], epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
    let mut listeners = start.listeners;
    let tcp = listeners.len();
    listeners.extend(start.unix);
    for (at, listener) in listeners.iter().enumerate() {
        let exclusive =
            if at < tcp { epoll::EventFlags::empty() } else { epoll::EventFlags::EXCLUSIVE };
        let data = epoll::EventData::new_u64(LISTENER - at as u64);
        epoll::add(&epoll, listener, data, epoll::EventFlags::IN | exclusive)?;
    }
    let mut worker = Worker {
        ours: Ours { interface, shards, own, bells, hash },
        manager,
        epoll,
        listeners,
        tcp,
        clients: Vec::new(),
        free: Vec::new(),
        closed: Vec::new(),
        count: 0,
        kept: 0,
        most_kept: 0,
        memory: 0,
        limits: Limits { word: shared.longest, command: 0, is_stranger: false },
        most: 0,
        next_id: own as u64 + 1,
        rests_until: None,
        was_rung: false,
        looked_for_idle: 0,
        ends: None,
        drained: start.drained,
        shared,
    };
    worker.set_limits();
    Ok(worker)
}

/// The shards, from one of their threads.
struct Ours {
    interface: Interface,
    shards: Vec<Handle<Shard>>,
    own: usize,
    bells: Arc<Vec<PollBell>>,
    hash: Hash,
}

/// The part of a key that says whose it is: what stands in braces, if something does, so that keys
/// which belong together can be in one shard.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        Some(length @ 1..) => &rest[..length],
        _ => key,
    }
}

impl Shards for Ours {
    fn of(&self, key: &[u8]) -> usize {
        (self.hash.of(tag(key)) >> 32) as u32 as usize % self.shards.len()
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

    fn ask(&self, asked: Asked, jobs: Vec<Vec<Job>>) -> Option<Vec<Answers>> {
        let run =
            move |jobs: Vec<Job>| move |shard: &mut Shard, (): &mut ()| serve(jobs, shard, asked);
        let mut started = Vec::new();
        for (at, jobs) in jobs.into_iter().enumerate() {
            if jobs.is_empty() {
                started.push(None);
                continue;
            }
            let answer = self.interface.start(&self.shards[at], run(jobs)).ok()?;
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

pub(crate) struct Worker {
    ours: Ours,
    manager: Manager,
    epoll: OwnedFd,
    /// Those of TCP, and then that of a Unix socket.
    listeners: Vec<OwnedFd>,
    tcp: usize,
    clients: Vec<Option<Client>>,
    free: Vec<usize>,
    /// Those that have become free since events were taken.
    closed: Vec<usize>,
    count: usize,
    /// Bytes that all clients' buffers have, and may have.
    kept: usize,
    most_kept: usize,
    /// `--memory`, as it was last looked at.
    memory: usize,
    limits: Limits,
    /// Bytes of one answer, at most.
    most: usize,
    next_id: u64,
    /// No client is taken before this, as there is no descriptor for one.
    rests_until: Option<u64>,
    /// The last poll has said that the bell was rung.
    was_rung: bool,
    looked_for_idle: u64,
    /// It is to end, at the latest then.
    ends: Option<u64>,
    drained: Sender<()>,
    shared: Arc<Shared>,
}

struct Client {
    connection: Connection,
    wants: Wants,
    kept: usize,
    /// When it has last done something, ms.
    turned: u64,
}

impl Worker {
    /// Serves for ever, or until what it needs fails.
    pub(crate) fn serve(&mut self) -> Error {
        let mut buffer = vec![0; BUFFER];
        let mut events = Vec::with_capacity(EVENTS);
        let mut out = Out::default();
        loop {
            let goes_at = self.between();
            if let Err(error) = self.wait(&mut events, goes_at) {
                return Error::new(error).context("waiting for clients (epoll_wait)");
            }
            let now = now();
            let mut came = false;
            for event in events.drain(..) {
                match event.data.u64() {
                    BELL => self.was_rung = true,
                    LISTENERS.. => came = true,
                    at => self.turn(at as usize, now, &mut buffer, &mut out),
                }
                self.manager.serve();
            }
            // Last: a number that has become free may still be in the events above.
            self.free.append(&mut self.closed);
            if came || self.rests_until.is_some_and(|until| until <= now) {
                self.accept(now);
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.ours.own]
    }

    /// Does its duties between events, and gives when a key goes.
    fn between(&mut self) -> Option<u64> {
        if self.shared.memory.load(Relaxed) != self.memory {
            self.set_limits();
        }
        let (now, own) = (now(), self.ours.own);
        let shared = Arc::clone(&self.shared);
        let (goes_at, gone) = self.ours.with(move |shard| {
            let goes_at = shard.keys.clean(now);
            shard.publish(&shared.counters[own]);
            (goes_at, std::mem::take(&mut shard.clients.go))
        });
        for (at, id) in gone {
            let is_it = |client: &Client| client.connection.session.id == id;
            if self.clients.get(at).and_then(Option::as_ref).is_some_and(is_it) {
                self.close(at);
            }
        }
        self.free.append(&mut self.closed);
        let counters = self.counters();
        counters.clients.set(self.count as u64);
        counters.client_bytes.set(self.kept as u64);
        self.let_idle_go(now);
        if self.shared.ends.load(Relaxed) {
            self.drain(now);
        }
        goes_at
    }

    fn set_limits(&mut self) {
        let shards = self.ours.shards.len();
        self.memory = self.shared.memory.load(Relaxed);
        self.most_kept = self.shared.client_memory() / shards;
        let word = self.limits.word;
        self.limits.command = (self.most_kept / 2).max(word + (64 << 10)).min(1 << 30);
        self.most = (self.most_kept / 4).max(word + 4096);
        let limit = self.shared.key_memory() / shards;
        self.ours.with(move |shard| shard.keys.limit(limit));
    }

    /// Waits for sockets, or another worker, or until something is due.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, goes_at: Option<u64>) -> Result<(), Errno> {
        if self.manager.serve() {
            let end = Instant::now() + LOOK;
            while Instant::now() < end {
                self.manager.serve();
            }
        }
        let bell = &self.ours.bells[self.ours.own];
        // From here on who asks makes the descriptor readable; what was asked before is found now.
        if std::mem::take(&mut self.was_rung) {
            bell.listen()
        } else {
            bell.listen_again()
        }
        let ends = self.ends.is_none() && self.shared.ends.load(Relaxed);
        let is_asked = self.manager.serve() || ends;
        let now = now();
        // A clock that is set makes it look again, at the latest after a second.
        let second = now + 1000;
        let goes_at = goes_at.map(|at| at.min(second));
        let looks_at = (self.shared.timeout.load(Relaxed) > 0).then_some(second);
        let ends_at = self.ends.map(|_| now + 20);
        let due = [goes_at, looks_at, ends_at, self.rests_until].into_iter().flatten().min();
        let left = due.map(|at| Duration::from_millis(at.saturating_sub(now)));
        let left = if is_asked { Some(Duration::ZERO) } else { left };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let waited = epoll::wait(&self.epoll, spare_capacity(events), left.as_ref());
        bell.hush();
        self.manager.serve();
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn accept(&mut self, now: u64) {
        if self.ends.is_some() {
            return;
        }
        for at in 0..self.listeners.len() {
            loop {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                match net::acceptfrom_with(&self.listeners[at], flags) {
                    Ok((socket, peer)) => self.take(socket, peer, at >= self.tcp, now),
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                        return self.rest(now);
                    }
                    Err(Errno::CONNABORTED | Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
        if self.rests_until.take().is_some() {
            self.listen(epoll::EventFlags::IN);
        }
    }

    /// Takes no client for a while: each try would fail at once, for ever.
    fn rest(&mut self, now: u64) {
        self.counters().not_taken.add(1);
        if self.rests_until.is_none() {
            say(format_args!(
                "there is no descriptor for another client: they wait until one has gone \
                 (ulimit -n; --clients)"
            ));
            self.listen(epoll::EventFlags::empty());
        }
        self.rests_until = Some(now + REST);
    }

    fn listen(&self, flags: epoll::EventFlags) {
        for (at, listener) in self.listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(LISTENER - at as u64);
            // An exclusive one cannot be changed: it leaves and comes again.
            let _ = epoll::delete(&self.epoll, listener);
            if !flags.is_empty() {
                let exclusive = at >= self.tcp;
                let more = if exclusive { epoll::EventFlags::EXCLUSIVE } else { flags };
                let _ = epoll::add(&self.epoll, listener, data, flags | more);
            }
        }
    }

    /// Takes a client that has come.
    fn take(&mut self, socket: OwnedFd, peer: Option<SocketAddrAny>, is_local: bool, now: u64) {
        let counters = self.counters();
        counters.connections.add(1);
        let address = |it: SocketAddrAny| SocketAddr::try_from(it).ok();
        let peer = peer.and_then(address);
        let count: u64 = self.shared.counters.iter().map(|its| its.clients.get()).sum();
        let refusal = if count >= self.shared.clients.load(Relaxed) as u64 {
            counters.turned_away.add(1);
            Some("-ERR max number of clients reached\r\n")
        } else if self.shared.is_protected.load(Relaxed)
            && !self.shared.has_password()
            && !is_near(peer.map(|peer| peer.ip()))
        {
            counters.protected.add(1);
            Some(DENIED)
        } else {
            None
        };
        if let Some(text) = refusal {
            let _ = net::send(&socket, text.as_bytes(), net::SendFlags::NOSIGNAL);
            return;
        }
        if !is_local {
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            let _ = sockopt::set_socket_keepalive(&socket, true);
        }
        let mut session = Session::new(self.next_id, now, !self.shared.has_password());
        self.next_id += self.ours.shards.len() as u64;
        session.is_local = is_local;
        if is_local {
            let path =
                self.shared.unix.as_ref().map_or(String::new(), |it| it.display().to_string());
            session.addr = format!("{path}:0").into();
            session.laddr = Arc::clone(&session.addr);
        } else {
            let text = |it: Option<SocketAddr>| it.map_or("?:0".into(), |it| it.to_string().into());
            session.addr = text(peer);
            session.laddr = text(net::getsockname(&socket).ok().and_then(address));
        }
        let at = self.free.pop().unwrap_or(self.clients.len());
        session.place = at;
        let data = epoll::EventData::new_u64(at as u64);
        if epoll::add(&self.epoll, socket.as_fd(), data, epoll::EventFlags::IN).is_err() {
            if at < self.clients.len() {
                self.free.push(at);
            }
            return;
        }
        if at == self.clients.len() {
            self.clients.push(None);
        }
        let connection = Connection::new(socket, session);
        let shown = About { fd: connection.fd(), ..connection.session.about(now) };
        self.ours.with(move |shard| *shard.clients.at(at) = Some(shown));
        self.clients[at] = Some(Client { connection, wants: Wants::Read, kept: 0, turned: now });
        self.count += 1;
        self.counters().clients.set(self.count as u64);
    }

    fn turn(&mut self, at: usize, now: u64, buffer: &mut [u8], out: &mut Out) {
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else { return };
        let terms = Terms { shared: &self.shared, now, limits: self.limits, most: self.most };
        let mut desk = Desk { shards: &self.ours, terms, buffer, out };
        let wants = client.connection.turn(&mut desk, at);
        self.kept -= client.kept;
        client.kept = client.connection.kept();
        client.turned = now;
        self.kept += client.kept;
        if wants != client.wants {
            let flags = match wants {
                Wants::Read => Some(epoll::EventFlags::IN),
                Wants::Write | Wants::Turn => Some(epoll::EventFlags::OUT),
                Wants::Close => None,
            };
            let data = epoll::EventData::new_u64(at as u64);
            let socket = &client.connection.socket;
            match flags.map(|flags| epoll::modify(&self.epoll, socket, data, flags)) {
                Some(Ok(())) => client.wants = wants,
                _ => self.close(at),
            }
        }
        while self.kept > self.most_kept && self.close_largest() {}
    }

    /// Lets that client go which has most memory, by powers of two, and of those the one that has
    /// done nothing for longest; whether there is one.
    fn close_largest(&mut self) -> bool {
        let has_memory = |(at, client): (usize, &Option<Client>)| {
            let client = client.as_ref().filter(|client| client.kept > 0)?;
            let stays = client.connection.session.stays;
            Some((!stays, client.kept.ilog2(), std::cmp::Reverse(client.turned), at))
        };
        let largest = self.clients.iter().enumerate().filter_map(has_memory).max();
        let Some((.., at)) = largest else { return false };
        self.counters().let_go.add(1);
        self.close(at);
        true
    }

    fn let_idle_go(&mut self, now: u64) {
        let timeout = self.shared.timeout.load(Relaxed).saturating_mul(1000);
        if timeout == 0 || now < self.looked_for_idle.saturating_add(500) {
            return;
        }
        self.looked_for_idle = now;
        let is_idle = |client: &Client| now.saturating_sub(client.turned) > timeout;
        for at in 0..self.clients.len() {
            if self.clients[at].as_ref().is_some_and(is_idle) {
                self.close(at);
            }
        }
    }

    /// Lets all clients go that have their answers; tells when there is none any more.
    fn drain(&mut self, now: u64) {
        if self.ends.is_none() {
            self.listeners.clear();
            // They take no more, and what they have sent before is answered.
            let until = now + 1000;
            self.ends = Some(until);
            return;
        }
        let is_late = self.ends.is_some_and(|until| until <= now);
        for at in 0..self.clients.len() {
            let is_done = |client: &Client| client.connection.is_answered() || is_late;
            if self.clients[at].as_ref().is_some_and(is_done) {
                self.close(at);
            }
        }
        if self.count == 0 {
            let _ = self.drained.send(());
        }
    }

    /// Closed, its socket leaves the set by itself.
    fn close(&mut self, at: usize) {
        let Some(mut client) = self.clients[at].take() else { return };
        self.kept -= client.kept;
        self.count -= 1;
        self.closed.push(at);
        let (shard, watched) = client.connection.take_watched();
        let own = self.ours.own;
        let is_own = shard == own || watched.is_empty();
        if is_own {
            self.ours.with(move |shard| {
                *shard.clients.at(at) = None;
                crate::dispatch::watched_are_same(&watched, shard, 0);
            });
            return;
        }
        self.ours.with(move |shard| *shard.clients.at(at) = None);
        let mut jobs: Vec<Vec<Job>> = (0..self.ours.shards.len()).map(|_| Vec::new()).collect();
        jobs[shard].push(Job::Unwatch(watched));
        let asked = Asked { now: 0, client: 0, is_three: false, most: 0 };
        let _ = self.ours.ask(asked, jobs);
    }
}

const DENIED: &str = "-DENIED kumiki-kv is running in protected mode: no password is set, so that it \
takes clients of its own machine only. Give it --password-file FILE, or, where whoever reaches it may \
read and write all keys, --protected-mode no.\r\n";
