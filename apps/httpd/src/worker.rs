//! One thread that serves: its epoll, its connections, what they have under way.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kumiki_parasc::Completions;
use kumiki_parasc::tries::Key;
use kumiki_wait::{Capacity, PollBell};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::accept::{Accepted, accept, one_waits};
use crate::connection::{Connection, Next, Surroundings};
use crate::counts::Counts;
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

/// Message of other threads to a worker.
#[derive(Debug)]
pub(crate) struct Control {
    bell: PollBell,
    ends: AtomicBool,
    reloads: AtomicU32,
    /// Another worker has a connection that there is no place for.
    is_asked_for_room: AtomicBool,
}

impl Control {
    pub(crate) fn new() -> Result<Self> {
        let bell = PollBell::new().context("making an event descriptor for a worker")?;
        let (ends, is_asked_for_room) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Control { bell, ends, reloads: AtomicU32::new(0), is_asked_for_room })
    }

    /// Has it end when its connections have, or after its time.
    pub(crate) fn end(&self) {
        self.ends.store(true, Release);
        self.bell.ring();
    }

    /// Has it take the site's new folder.
    pub(crate) fn reload(&self) {
        self.reloads.fetch_add(1, Release);
        self.bell.ring();
    }

    /// Has it close a connection that is idle, and take one that waits.
    fn ask_for_room(&self) {
        self.is_asked_for_room.store(true, Release);
        self.bell.ring();
    }
}

/// State that all workers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) site: Site,
    pub(crate) listeners: Vec<TcpListener>,
    /// Connections of all workers.
    pub(crate) places: Capacity,
    /// One a worker, as its figures.
    pub(crate) controls: Vec<Control>,
    pub(crate) counts: Vec<Counts>,
}

pub(crate) struct Worker {
    epoll: OwnedFd,
    shared: Arc<Shared>,
    /// Its number among the workers.
    number: usize,
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
        number: usize,
        files: Files,
        log: Option<Lines>,
    ) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("making an epoll")?;
        let completions = Completions::new()?;
        let add = |source: &dyn AsFd, mark| {
            epoll::add(&epoll, source.as_fd(), EventData::new_u64(mark), EventFlags::IN)
        };
        add(&completions, COMPLETIONS).context("adding to an epoll")?;
        let control = shared.controls.get(number).context("a worker without a control")?;
        add(&control.bell, CONTROL).context("adding to an epoll")?;
        let root = shared.site.root();
        let mut worker = Worker {
            epoll,
            shared,
            number,
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
        let shared = Arc::clone(&self.shared);
        let Some(control) = shared.controls.get(self.number) else { return Ok(()) };
        control.bell.listen();
        if control.reloads.swap(0, AcqRel) > 0 {
            self.root = self.shared.site.root();
        }
        if control.is_asked_for_room.swap(false, AcqRel) {
            // Its place given back, the one that waits is taken here.
            match self.shared.places.take() {
                true => self.give_back(),
                false => {
                    self.make_room(now);
                }
            }
        }
        if control.ends.load(Acquire) && self.ends.is_none() {
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
            let has_room = |worker: &Worker| worker.shared.places.take();
            let has_place = has_room(self);
            if !has_place && !self.shared.listeners.get(listener).is_some_and(one_waits) {
                return Ok(());
            }
            if !(has_place || self.make_room(now) && has_room(self)) {
                // It waits in the socket's queue. Who gives a place back next is told, and takes it.
                return self.wait_for_room();
            }
            let Some(listener) = self.shared.listeners.get(listener) else { return Ok(()) };
            let taken = accept(listener);
            match taken {
                Accepted::Connection(socket, peer) => {
                    // Without, the last part of an answer waits for the client's word.
                    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                    let Some(transport) = self.transport(socket) else {
                        self.give_back();
                        continue;
                    };
                    self.add(transport, peer, now);
                    continue;
                }
                _ => self.give_back(),
            }
            match taken {
                Accepted::Lost => (),
                Accepted::Exhausted if !self.make_room(now) => return self.wait_for_room(),
                Accepted::Exhausted => (),
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn count(&self, count: impl FnOnce(&Counts)) {
        if let Some(counts) = self.shared.counts.get(self.number) {
            count(counts);
        }
    }

    /// Stops to listen, and has another worker close what is idle there.
    fn wait_for_room(&mut self) -> Result<()> {
        self.listen(false)?;
        self.count(|counts| counts.refused.add(1));
        let others = self.shared.controls.iter().enumerate().filter(|(at, _)| *at != self.number);
        others.for_each(|(_, control)| control.ask_for_room());
        Ok(())
    }

    /// Gives a place back; where somebody was refused one, this worker takes whom it waits for.
    fn give_back(&mut self) {
        if self.shared.places.give_back() {
            self.listen_anew();
        }
    }

    /// Has the epoll look at the listening sockets: one that waits there may have been told to
    /// another worker.
    fn listen_anew(&mut self) {
        if self.ends.is_some() {
            return;
        }
        for listener in &self.shared.listeners {
            let _ = epoll::delete(&self.epoll, listener);
        }
        self.listens = false;
        // Should it fail, the next tick tries again.
        let _ = self.listen(true);
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
        self.count(|counts| counts.accepted.add(1));
        match added {
            Ok(()) => self.go(at, now),
            Err(_) => self.close(at),
        }
    }

    /// Closes the connection of ours that has been idle longest; `false` if none is.
    fn make_room(&mut self, now: Instant) -> bool {
        let places = self.connections.iter().enumerate();
        let idle = places.filter_map(|(at, place)| {
            place.as_ref().filter(|it| it.may_make_room(now)).map(|it| (it.since(), at))
        });
        let Some((_, at)) = idle.min() else { return false };
        self.count(|counts| counts.closed.add(1));
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
        if flags.contains(EventFlags::RDHUP) && connection.under_way.is_some() {
            return self.with(at, now, |connection, around| {
                connection.leaves(around.now);
                Next::Readable
            });
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
        let Some(counts) = self.shared.counts.get(self.number) else { return };
        let mut around = Surroundings {
            counts,
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
            counts.panics.add(1);
            let end = catch_unwind(AssertUnwindSafe(|| connection.fail(&mut around)));
            end.unwrap_or(Next::Close)
        });
        let waits = match next {
            Next::Close => return self.close(at),
            Next::Turn => return self.turns.push(at),
            Next::Work(work) => {
                counts.cold.add(1);
                connection.under_way = Some(self.completions.add(work));
                Some(connection.waits_for_work())
            }
            Next::Writable => Some(EventFlags::OUT),
            Next::Readable if connection.under_way.is_some() => Some(connection.waits_for_work()),
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
        if let Some(key) = connection.under_way {
            self.give_up(at, key);
        }
        // Closing the descriptor takes it out of the epoll.
        drop(connection);
        self.free.push(at);
        self.give_back();
    }

    /// Gives up what the connection here waits for.
    fn give_up(&mut self, at: usize, key: Key) {
        // A result that has come is nobody's: the next connection here has calls of its own.
        match self.ended.iter().position(|(of, _)| *of == at) {
            Some(ended) => drop(self.ended.remove(ended)),
            None => drop(self.completions.give_up(key)),
        }
    }

    fn tick(&mut self, now: Instant) -> Result<()> {
        for at in 0..self.connections.len() {
            let Some(Some(connection)) = self.connections.get_mut(at) else { continue };
            if connection.is_overdue(self.shared.site.args(), now) {
                if let Some(key) = connection.under_way.take() {
                    self.give_up(at, key);
                }
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
        for _ in 0..open {
            // Nobody listens here any more.
            let _ = self.shared.places.give_back();
        }
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
    use crate::devices::Devices;

    /// A worker of a folder with a file `a`, and its address.
    fn worker(folder: &std::path::Path, most: usize) -> (Worker, std::net::SocketAddr) {
        let ([worker], address) = workers(folder, most);
        (worker, address)
    }

    /// Workers, of `most` connections together.
    fn workers<const N: usize>(
        folder: &std::path::Path,
        most: usize,
    ) -> ([Worker; N], std::net::SocketAddr) {
        std::fs::write(folder.join("a"), "abc").unwrap();
        let args = Args::parse_from(["kumiki-httpd", folder.to_str().unwrap()]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let site = Site::open(&args).unwrap();
        let (places, controls) =
            (Capacity::new(most), (0..N).map(|_| Control::new().unwrap()).collect());
        let counts = (0..N).map(|_| Counts::default()).collect();
        let shared = Shared { site, listeners: vec![listener], places, controls, counts };
        let engine = Arc::new(Engine::new(&Config::default()).unwrap());
        let files = Files::new(Arc::clone(&engine), Arc::new(Devices::new(engine)));
        let (shared, mut number) = (Arc::new(shared), 0..N);
        let worker = |()| {
            let number = number.next().unwrap();
            Worker::new(Arc::clone(&shared), number, files.clone(), None).unwrap()
        };
        ([(); N].map(worker), address)
    }

    /// Takes those that have come.
    fn turn(worker: &mut Worker) {
        worker.accept(0, Instant::now()).unwrap();
    }

    /// No tick comes here: what would wait for one hangs.
    #[test]
    fn who_frees_a_place_listens_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut worker, address) = worker(folder.path(), 2);
        // Amid their heads, none of them may be closed for another.
        let mut clients = [(); 4].map(|()| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /a").unwrap();
            stream
        });
        turn(&mut worker);
        (0..2).for_each(|at| worker.go(at, Instant::now()));
        turn(&mut worker);
        assert!(!worker.listens && worker.connections.len() == 2);
        worker.close(1);
        assert!(worker.listens);
        turn(&mut worker);
        assert_eq!(worker.connections.iter().flatten().count(), 2);
        let rest = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        clients[2].write_all(rest).unwrap();
        worker.go(1, Instant::now());
        let mut answer = [0; 12];
        clients[2].read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }

    #[test]
    fn a_worker_without_an_idle_connection_asks_another_for_room() {
        let folder = tempfile::tempdir().unwrap();
        let ([mut idle, mut full], address) = workers::<2>(folder.path(), 1);
        let mut first = TcpStream::connect(address).unwrap();
        let request = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
        first.write_all(request).unwrap();
        turn(&mut idle);
        let mut answer = [0; 12];
        first.read_exact(&mut answer).unwrap();
        // The kernel has told one of them, which has no place for it and none to close.
        let mut second = TcpStream::connect(address).unwrap();
        turn(&mut full);
        assert!(!full.listens && full.connections.is_empty());
        let now = Instant::now();
        idle.obey(now).unwrap();
        assert!(first.read_to_end(&mut Vec::new()).is_ok() && idle.listens);
        turn(&mut idle);
        second.write_all(request).unwrap();
        idle.go(0, now);
        second.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }

    #[test]
    fn a_panic_ends_its_connection_by_500_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (mut worker, address) = worker(folder.path(), 100);
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
