//! A core's thread: it owns a shard, and has the connections that came to it.

mod accept;
mod begin;
mod clients;
mod giving;
mod invalidate;
mod ours;

pub(crate) use begin::{Start, begin};

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::Error;
use kumiki_resource::Manager;
use kumiki_wait::PollBell;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::counters::Counters;
use crate::desk::Shards;
use crate::kept::Part;
use crate::resp::{Limits, Out};
use crate::shared::{Shared, now};

use clients::Client;
use giving::Giving;
use ours::Ours;

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;
/// Events that are taken at once.
const EVENTS: usize = 256;
/// A worker that has just served another one looks again for so long before it sleeps.
const LOOK: Duration = Duration::from_micros(20);
/// The longest wait for what goes by the time of day, which somebody may set.
const SECOND: Duration = Duration::from_secs(1);
/// Tokens of what is no connection.
const BELL: u64 = u64::MAX;
/// Mark of the first listener; those of others are below.
const LISTENER: u64 = u64::MAX - 1;
const LISTENERS: u64 = u64::MAX - 1024;

pub(crate) struct Worker {
    ours: Ours,
    manager: Manager,
    epoll: OwnedFd,
    /// Listeners of TCP, and then that of a Unix socket.
    listeners: Vec<OwnedFd>,
    tcp: usize,
    clients: Vec<Option<Client>>,
    /// Place of each client, by its number.
    places: BTreeMap<u64, usize>,
    free: Vec<usize>,
    /// Places that have become free since events were taken.
    closed: Vec<usize>,
    count: usize,
    /// Bytes that all clients' buffers have, and may have.
    kept: usize,
    most_kept: usize,
    /// `--memory`, as it was last looked at.
    memory: usize,
    /// `tracking-table-max-keys`, as it was last looked at.
    followed: usize,
    limits: Limits,
    /// Bytes of one answer, at most.
    most: usize,
    next_id: u64,
    /// No client is taken before this, as there is no descriptor for one.
    rests_until: Option<Instant>,
    /// The last poll has said that the bell was rung.
    was_rung: bool,
    looked_for_idle: Instant,
    giving: Giving,
    /// Time at which its last wait was over. What it waits for by itself goes by this, which nobody sets, and
    /// not by the time of day, by which keys go.
    woken: Instant,
    /// Time at which it ends at the latest, once it is to end.
    ends: Option<Instant>,
    /// Tells the server, once, that no client is left.
    drained: Option<Sender<()>>,
    shared: Arc<Shared>,
    /// Places of clients whose answers wait until the log is flushed.
    held: Vec<usize>,
    /// Progress with a snapshot, and the number of the last one that the others were woken for.
    part: Part,
    saves: u64,
}

impl Worker {
    /// Serves for ever, or until what it needs fails.
    pub(crate) fn serve(&mut self) -> Error {
        #[cfg(test)]
        crate::dying::dies_if_asked();
        let mut buffer = vec![0; BUFFER];
        let mut events = Vec::with_capacity(EVENTS);
        let mut out = Out::default();
        loop {
            self.between();
            if let Err(error) = self.wait(&mut events) {
                return Error::new(error).context("waiting for clients (epoll_wait)");
            }
            let now = now();
            self.woken = Instant::now();
            let mut came = false;
            for event in events.drain(..) {
                match event.data.u64() {
                    BELL => self.was_rung = true,
                    LISTENERS.. => came = true,
                    at => self.turn(at as usize, now, &mut buffer, &mut out),
                }
                self.manager.serve();
                self.end_killed();
            }
            // Last: a number that has become free may still be in the events above.
            self.free.append(&mut self.closed);
            if came || self.rests_until.is_some_and(|until| until <= self.woken) {
                self.accept(now);
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.ours.own]
    }

    /// Does its duties between events.
    fn between(&mut self) {
        let is_same = self.shared.memory.load(Relaxed) == self.memory
            && self.shared.followed.load(Relaxed) == self.followed;
        if !is_same {
            self.set_limits();
        }
        self.keep();
        let (now, own) = (now(), self.ours.own);
        let shared = Arc::clone(&self.shared);
        self.ours.with(move |shard| shard.publish(&shared.counters[own]));
        self.end_killed();
        self.invalidate(now);
        self.free.append(&mut self.closed);
        let counters = self.counters();
        counters.clients.set(self.count as u64);
        counters.client_bytes.set(self.kept as u64);
        self.let_idle_go();
        self.give_back();
        if self.shared.ends.load(Relaxed) {
            self.drain();
        }
    }

    /// Flushes the log, sends what waits for that, and writes some of a snapshot.
    fn keep(&mut self) {
        let Some(kept) = self.shared.kept.clone() else { return };
        // What waits for a log that has ended is never sent: the server ends, and nobody knows of it.
        if !kept.flush() {
            return;
        }
        for at in std::mem::take(&mut self.held) {
            self.send(at);
        }
        let saves = kept.save_number();
        if saves != self.saves {
            self.saves = saves;
            // Each has its part of it.
            self.ours.bells.iter().for_each(PollBell::ring);
        }
        if kept.wants(&self.part) {
            let part = &mut self.part;
            self.ours.with(move |shard| {
                let keys = &shard.keys;
                let table = |at, noted: &mut _| keys.note_table(at, noted);
                kept.save_some(part, keys.generation(), table);
            });
        }
    }

    fn set_limits(&mut self) {
        let shards = self.ours.shards.len();
        self.memory = self.shared.memory.load(Relaxed);
        self.most_kept = self.shared.client_memory() / shards;
        let word = self.limits.word;
        self.limits.command = (self.most_kept / 2).max(word + (64 << 10)).min(1 << 30);
        self.most = (self.most_kept / 4).max(word + 4096);
        self.followed = self.shared.followed.load(Relaxed);
        let followed = match self.followed {
            0 => usize::MAX,
            most => most.div_ceil(shards),
        };
        self.ours.with(move |shard| shard.keys.follow_at_most(followed));
    }

    /// Waits for sockets, or another worker, or until something is due.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), Errno> {
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
        let is_to_end = self.ends.is_none() && self.shared.ends.load(Relaxed);
        let is_asked = self.manager.serve() || is_to_end;
        let now = now();
        // Who was served since its duties were done may have left some: keys that go sooner,
        // clients to be closed, and invalidations.
        let (goes_at, has_duties) = self.ours.with(move |shard| {
            let goes_at = shard.keys.clean(now);
            (goes_at, shard.has_duties())
        });
        let is_saving = self.shared.kept.as_ref().is_some_and(|kept| kept.wants(&self.part));
        let is_asked = is_asked || has_duties || is_saving;
        let goes = goes_at.map(|at| Duration::from_millis(at.saturating_sub(now)).min(SECOND));
        let looks = (self.shared.timeout.load(Relaxed) > 0).then_some(SECOND);
        let ends = self.ends.map(|_| Duration::from_millis(20));
        let rests = self.rests_until.map(|until| until.saturating_duration_since(Instant::now()));
        // Nobody waits for what has expired to be noted, but it is to be flushed before long.
        let kept = self.shared.kept.as_ref();
        let notes = kept.is_some_and(|kept| kept.is_behind()).then_some(SECOND);
        let gives = self.giving.at.map(|at| at.saturating_duration_since(Instant::now()));
        let left = [goes, looks, ends, rests, notes, gives].into_iter().flatten().min();
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
}
