//! One thread that serves: its epoll, its connections, what they have under way.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kumiki_parasc::Completions;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::accept::{Accepted, Limit, accept};
use crate::connection::{Connection, Next, Surroundings};
use crate::log::Lines;
use crate::response::Clock;
use crate::site::{Root, Site};
use crate::transport::Transport;
use crate::work::{Done, Files, Work};

/// Marks of what is no connection, in an event's data; a listener's is its number less.
const COMPLETIONS: u64 = u64::MAX;
const CONTROL: u64 = u64::MAX - 1;
const LISTENERS: u64 = u64::MAX - 2;
/// Connections taken at once, before those that are there have their turn.
const AT_ONCE: usize = 64;
/// How often times are looked at, and the log is written at the latest.
const TICK: Duration = Duration::from_millis(500);

/// Message of the main thread to a worker.
#[derive(Debug)]
pub(crate) struct Control {
    descriptor: OwnedFd,
    ends: AtomicBool,
    reloads: AtomicU32,
}

impl Control {
    pub(crate) fn new() -> Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let descriptor = descriptor.context("making an event descriptor for a worker")?;
        Ok(Control { descriptor, ends: AtomicBool::new(false), reloads: AtomicU32::new(0) })
    }

    fn tell(&self) {
        // A counter that is full is told already.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    /// Has it end when its connections have, or after its time.
    pub(crate) fn end(&self) {
        self.ends.store(true, Release);
        self.tell();
    }

    /// Has it take the site's new folder.
    pub(crate) fn reload(&self) {
        self.reloads.fetch_add(1, Release);
        self.tell();
    }
}

/// State that all workers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) site: Site,
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) limit: Limit,
}

pub(crate) struct Worker {
    epoll: OwnedFd,
    shared: Arc<Shared>,
    control: Arc<Control>,
    files: Files,
    root: Arc<Root>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    completions: Completions<Box<Work>>,
    /// Calls that have ended and whose connections have not gone on: one between two looks at the
    /// epoll, so that a request for what is in memory does not wait for all their answers.
    ended: VecDeque<(usize, Done)>,
    clock: Clock,
    log: Option<Lines>,
    listens: bool,
    /// Those whose turn is over with more to do.
    turns: Vec<usize>,
    ends: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        control: Arc<Control>,
        files: Files,
        log: Option<Lines>,
    ) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("making an epoll")?;
        let completions = Completions::new()?;
        let add = |source: &dyn AsFd, mark| {
            epoll::add(&epoll, source.as_fd(), EventData::new_u64(mark), EventFlags::IN)
        };
        add(&completions, COMPLETIONS).context("adding to an epoll")?;
        add(&control.descriptor, CONTROL).context("adding to an epoll")?;
        let root = shared.site.root();
        let mut worker = Worker {
            epoll,
            shared,
            control,
            files,
            root,
            connections: Vec::new(),
            free: Vec::new(),
            completions,
            ended: VecDeque::new(),
            clock: Clock::new(),
            log,
            listens: false,
            turns: Vec::new(),
            ends: None,
        };
        worker.listen(true)?;
        Ok(worker)
    }

    /// Begins to listen, or stops.
    fn listen(&mut self, listens: bool) -> Result<()> {
        if self.listens == listens {
            return Ok(());
        }
        for (at, listener) in self.shared.listeners.iter().enumerate() {
            let mark = EventData::new_u64(LISTENERS - at as u64);
            // One worker is woken for a connection, not all.
            let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
            let changed = match listens {
                true => epoll::add(&self.epoll, listener, mark, flags),
                false => epoll::delete(&self.epoll, listener),
            };
            changed.context("adding a listening socket to an epoll, or removing it")?;
        }
        self.listens = listens;
        Ok(())
    }

    /// Serves until it is told to end.
    pub(crate) fn serve(mut self) -> Result<()> {
        let mut events = Vec::with_capacity(256);
        let mut next_tick = Instant::now() + TICK;
        loop {
            events.clear();
            let now = Instant::now();
            let is_idle = self.turns.is_empty() && self.ended.is_empty();
            let wait =
                if is_idle { next_tick.saturating_duration_since(now) } else { Duration::ZERO };
            let timeout = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => (),
                Err(errno) => return Err(errno).context("waiting by an epoll"),
            }
            let now = Instant::now();
            for at in std::mem::take(&mut self.turns) {
                self.go(at, now);
            }
            for Event { flags, data } in events.drain(..) {
                match data.u64() {
                    COMPLETIONS => self.ended.extend(self.completions.take().map(|(_, it)| it)),
                    CONTROL => self.obey(now)?,
                    mark if mark > LISTENERS - 4096 => {
                        self.accept((LISTENERS - mark) as usize, now)?
                    }
                    connection => self.event(connection as usize, flags, now),
                }
            }
            if let Some((at, done)) = self.ended.pop_front() {
                self.with(at, now, |connection, around| connection.done(done, around));
            }
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(now)?;
            }
            if let Some(end) = self.ends
                && (self.is_empty() || now >= end)
            {
                return Ok(());
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.connections.len()
    }

    fn obey(&mut self, now: Instant) -> Result<()> {
        let _ = rustix::io::read(&self.control.descriptor, &mut [0; 8]);
        if self.control.reloads.swap(0, Acquire) > 0 {
            self.root = self.shared.site.root();
        }
        if self.control.ends.load(Acquire) && self.ends.is_none() {
            self.ends = Some(now + Duration::from_secs(self.shared.site.args().grace));
            self.listen(false)?;
            let places = self.connections.iter().enumerate();
            let is_idle =
                |place: &Option<Connection>| place.as_ref().is_some_and(Connection::is_idle);
            let idle: Vec<_> =
                places.filter(|(_, place)| is_idle(place)).map(|(at, _)| at).collect();
            // A request that has come just now is answered.
            idle.into_iter().for_each(|at| self.go(at, now));
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize, now: Instant) -> Result<()> {
        if !self.listens {
            return Ok(());
        }
        for _ in 0..AT_ONCE {
            let has_room = |worker: &Worker| worker.shared.limit.take();
            if !(has_room(self) || self.make_room() && has_room(self)) {
                // Others wait in the socket's queue until there is room.
                return self.listen(false);
            }
            let Some(listener) = self.shared.listeners.get(listener) else { return Ok(()) };
            let taken = accept(listener);
            match taken {
                Accepted::Connection(socket, peer) => {
                    // Without, the last part of an answer waits for the client's word.
                    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                    let Some(transport) = self.transport(socket) else {
                        self.shared.limit.give_back();
                        continue;
                    };
                    self.add(transport, peer, now);
                    continue;
                }
                _ => self.shared.limit.give_back(),
            }
            match taken {
                Accepted::Lost => (),
                Accepted::Exhausted if !self.make_room() => return self.listen(false),
                Accepted::Exhausted => (),
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn transport(&self, socket: OwnedFd) -> Option<Transport> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.root.tls {
            let encrypted = crate::tls::Encrypted::new(socket, tls).ok()?;
            return Some(Transport::Tls(Box::new(encrypted)));
        }
        Some(Transport::Plain(socket))
    }

    fn add(&mut self, transport: Transport, peer: Option<std::net::IpAddr>, now: Instant) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let connection = Connection::new(at, transport, peer, now);
        let mark = EventData::new_u64(at as u64);
        let added = epoll::add(&self.epoll, &connection, mark, EventFlags::IN);
        self.connections[at] = Some(connection);
        match added {
            Ok(()) => self.go(at, now),
            Err(_) => self.close(at),
        }
    }

    /// Closes the connection of ours that has been idle longest; `false` if none is.
    fn make_room(&mut self) -> bool {
        let places = self.connections.iter().enumerate();
        let idle = places.filter_map(|(at, place)| {
            place.as_ref().filter(|it| it.is_idle()).map(|it| (it.since(), at))
        });
        let Some((_, at)) = idle.min() else { return false };
        self.close(at);
        true
    }

    fn event(&mut self, at: usize, flags: EventFlags, now: Instant) {
        let Some(Some(connection)) = self.connections.get(at) else { return };
        let is_lost = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        // Told again and again, though a call is under way: nobody is there for its result.
        if is_lost && connection.under_way.is_some() {
            return self.close(at);
        }
        self.go(at, now);
    }

    fn go(&mut self, at: usize, now: Instant) {
        self.with(at, now, |connection, around| match connection.under_way {
            // Nothing is read meanwhile: see `event`.
            Some(_) => Next::Readable,
            None => connection.go(around),
        });
    }

    fn with(
        &mut self,
        at: usize,
        now: Instant,
        work: impl FnOnce(&mut Connection, &mut Surroundings<'_>) -> Next,
    ) {
        let Some(Some(connection)) = self.connections.get_mut(at) else { return };
        let mut around = Surroundings {
            files: &self.files,
            site: &self.shared.site,
            root: &self.root,
            clock: &mut self.clock,
            log: self.log.as_mut(),
            now,
            ends: self.ends.is_some(),
        };
        // A fault of ours ends one connection, not all those of this thread. A connection is left
        // by a panic as whatever it is: all that is done with it is to be answered and closed.
        let next = catch_unwind(AssertUnwindSafe(|| work(connection, &mut around)));
        let next = next.unwrap_or_else(|_| {
            let end = catch_unwind(AssertUnwindSafe(|| connection.fail(&mut around)));
            end.unwrap_or(Next::Close)
        });
        let waits = match next {
            Next::Close => return self.close(at),
            Next::Turn => return self.turns.push(at),
            Next::Work(work) => {
                connection.under_way = Some(self.completions.add(work));
                // Not to be told of what is not read.
                Some(EventFlags::empty())
            }
            Next::Writable => Some(EventFlags::OUT),
            Next::Readable if connection.under_way.is_some() => None,
            Next::Readable => Some(EventFlags::IN),
        };
        let Some(waits) = waits.filter(|waits| *waits != connection.waits) else { return };
        connection.waits = waits;
        let mark = EventData::new_u64(at as u64);
        if epoll::modify(&self.epoll, &*connection, mark, waits).is_err() {
            self.close(at);
        }
    }

    fn close(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::take) else { return };
        // A result that has come is nobody's: the next connection here has calls of its own.
        match self.ended.iter().position(|(of, _)| *of == at) {
            Some(ended) => drop(self.ended.remove(ended)),
            None => {
                if let Some(key) = connection.under_way {
                    self.completions.give_up(key);
                }
            }
        }
        // Closing the descriptor takes it out of the epoll.
        drop(connection);
        self.free.push(at);
        self.shared.limit.give_back();
    }

    fn tick(&mut self, now: Instant) -> Result<()> {
        for at in 0..self.connections.len() {
            let Some(Some(connection)) = self.connections.get(at) else { continue };
            if connection.is_overdue(self.shared.site.args(), now) {
                self.with(at, now, Connection::expire);
            }
        }
        if let Some(log) = &mut self.log {
            log.hand_over();
        }
        if self.ends.is_none() { self.listen(true) } else { Ok(()) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(log) = &mut self.log {
            log.hand_over();
        }
        let open = self.connections.iter().flatten().count();
        (0..open).for_each(|_| self.shared.limit.give_back());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use clap::Parser;
    use kumiki_parasc::{Config, Engine};

    use super::*;
    use crate::args::Args;

    /// A worker of a folder with a file `a`, and its address.
    fn worker(folder: &std::path::Path) -> (Worker, std::net::SocketAddr) {
        std::fs::write(folder.join("a"), "abc").unwrap();
        let args = Args::parse_from(["kumiki-httpd", folder.to_str().unwrap()]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let site = Site::open(&args).unwrap();
        let shared = Shared { site, listeners: vec![listener], limit: Limit::new(100) };
        let files = Files::new(Arc::new(Engine::new(&Config::default()).unwrap()));
        let control = Arc::new(Control::new().unwrap());
        (Worker::new(Arc::new(shared), control, files, None).unwrap(), address)
    }

    #[test]
    fn a_panic_ends_its_connection_by_500_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (mut worker, address) = worker(folder.path());
        let mut streams = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let now = Instant::now();
        worker.accept(0, now).unwrap();
        assert_eq!(worker.connections.len(), 2);
        for (at, stream) in streams.iter_mut().enumerate() {
            stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            if at == 0 {
                worker.with(0, now, |_, _| panic!("made up"));
            }
        }
        let mut answer = String::new();
        streams[0].read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 500 ") && answer.ends_with("</h1>\n"), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        worker.go(1, now);
        let mut answer = [0; 12];
        streams[1].read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        // Amid an answer there is nothing that could be said.
        std::fs::write(folder.path().join("large"), vec![7; 50_000_000]).unwrap();
        streams[1].write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        while !worker.connections[1].as_ref().is_some_and(Connection::is_amid_answer) {
            worker.go(1, now);
        }
        worker.with(1, now, |_, _| panic!("made up"));
        assert!(worker.connections[1].is_none());
        let mut rest = Vec::new();
        let _ = streams[1].read_to_end(&mut rest);
        assert!(rest.len() < 50_000_000);
        assert!(!rest.windows(12).any(|bytes| bytes == b"HTTP/1.1 500"));
    }
}
