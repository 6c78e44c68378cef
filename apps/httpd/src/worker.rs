//! One thread that serves: its epoll, its connections, what they have under way.

mod accepting;

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

use crate::connection::{Connection, Next, Surroundings};
use crate::counts::Counts;
use crate::kept::KeptFiles;
use crate::log::LogLines;
use crate::pages::Pages;
use crate::response::Clock;
use crate::site::{Root, Site};
use crate::work::{Done, Files, Work};

/// Marks of what is no connection, in an event's data; a listener's is its number less.
const COMPLETIONS: u64 = u64::MAX;
const CONTROL: u64 = u64::MAX - 1;
const LISTENERS: u64 = u64::MAX - 2;
/// Interval at which times are looked at, and the log is written at the latest.
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
    kept: KeptFiles,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Places that have become free since events were taken: some of those may be of who had them.
    closed: Vec<usize>,
    completions: Completions<Box<Work>>,
    /// Calls that have ended and whose connections have not gone on: one between two looks at the
    /// epoll, so that a request for what is in memory does not wait for all their answers.
    ended: VecDeque<(usize, Done)>,
    clock: Clock,
    log: Option<LogLines>,
    pages: Pages,
    listens: bool,
    /// True once it was said that it cannot listen.
    has_said: bool,
    /// Connections whose turn is over with more to do.
    turns: Vec<usize>,
    ends: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        number: usize,
        files: Files,
        log: Option<LogLines>,
        kept: KeptFiles,
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
            kept,
            connections: Vec::new(),
            free: Vec::new(),
            closed: Vec::new(),
            completions,
            ended: VecDeque::new(),
            clock: Clock::new(),
            log,
            pages: Pages::default(),
            listens: false,
            has_said: false,
            turns: Vec::new(),
            ends: None,
        };
        worker.listen(true)?;
        Ok(worker)
    }

    /// Serves until a signal ends it.
    pub(crate) fn serve(mut self) -> Result<()> {
        #[cfg(test)]
        crate::dying::dies_if_asked();
        let mut events = Vec::with_capacity(256);
        let mut now = Instant::now();
        let mut next_tick = now + TICK;
        loop {
            events.clear();
            self.reuse();
            // From the last look at the clock, which was a turn ago: a tick may be so much later.
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
            now = Instant::now();
            self.take_turns(now);
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
                self.tick(now);
            }
            if let Some(end) = self.ends
                && (self.is_empty() || now >= end)
            {
                // What its time was not enough for is in the log.
                (0..self.connections.len()).for_each(|at| self.with(at, now, Connection::cut));
                return Ok(());
            }
        }
    }

    /// Has those go on whose turn is over with more to do.
    fn take_turns(&mut self, now: Instant) {
        for at in std::mem::take(&mut self.turns) {
            if let Some(Some(connection)) = self.connections.get_mut(at) {
                connection.has_turn = false;
            }
            self.go(at, now);
        }
    }

    fn is_empty(&self) -> bool {
        self.free.len() + self.closed.len() == self.connections.len()
    }

    /// Places of those who are gone may be taken again: no event that was taken before is left. Else
    /// the end of who had a place is told to who has it next, and ends that one's call.
    fn reuse(&mut self) {
        self.free.append(&mut self.closed);
    }

    fn obey(&mut self, now: Instant) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let Some(control) = shared.controls.get(self.number) else { return Ok(()) };
        control.bell.listen();
        if control.reloads.swap(0, AcqRel) > 0 {
            self.root = self.shared.site.root();
            self.kept.clear();
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

    fn event(&mut self, at: usize, flags: EventFlags, now: Instant) {
        let Some(Some(connection)) = self.connections.get(at) else { return };
        let is_lost = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        // Told again and again, though a call is under way: nobody is there for its result.
        if is_lost && connection.under_way.is_some() {
            return self.with(at, now, Connection::cut);
        }
        // It goes on anyway, once: one that went on by its events, too, would have more and more turns.
        if connection.has_turn {
            return;
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
            kept: &mut self.kept,
            clock: &mut self.clock,
            log: self.log.as_mut(),
            pages: &self.pages,
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
            Next::Turn => {
                if !std::mem::replace(&mut connection.has_turn, true) {
                    self.turns.push(at);
                }
                return;
            }
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
        if connection.has_turn {
            // It is not that of who has its place next.
            self.turns.retain(|of| *of != at);
        }
        // Closing the descriptor takes it out of the epoll.
        drop(connection);
        self.closed.push(at);
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

    fn tick(&mut self, now: Instant) {
        for at in 0..self.connections.len() {
            let is_overdue = |it: &Connection| it.is_overdue(self.shared.site.args(), now);
            if !self.connections[at].as_ref().is_some_and(is_overdue) {
                continue;
            }
            // A request that came in time is answered, however late it is read.
            if self.has_come(at) {
                self.go(at, now);
            } else if let Some(connection) = &mut self.connections[at] {
                if let Some(key) = connection.under_way.take() {
                    self.give_up(at, key);
                }
                self.with(at, now, Connection::expire);
            }
        }
        self.kept.sweep(now);
        if let Some(log) = &mut self.log {
            log.hand_over();
        }
        if self.ends.is_none() {
            self.listen_again();
        }
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
mod tests;
