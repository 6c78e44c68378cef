//! Clients that are there: their turns, and how they go.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::Worker;
use crate::connection::{Connection, Wants};
use crate::desk::{Desk, Shards, Terms};
use crate::jobs::{Job, ShardTerms};
use crate::resp::Out;

/// Clients that did nothing for too long are looked for so often, at most.
const LOOKS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Client {
    pub(super) connection: Connection,
    pub(super) wants: Wants,
    pub(super) kept: usize,
    /// Time at which it last did something.
    pub(super) turned: Instant,
}

impl Worker {
    pub(super) fn turn(&mut self, at: usize, now: u64, buffer: &mut [u8], out: &mut Out) {
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else { return };
        let terms = Terms { shared: &self.shared, now, limits: self.limits, most: self.most };
        let mut desk = Desk { shards: &self.ours, terms, buffer, out };
        let wants = client.connection.turn(&mut desk, at);
        client.turned = self.woken;
        if client.connection.take_holds() {
            self.held.push(at);
        }
        self.wants(at, wants);
        self.weigh(at);
    }

    /// Has a client wait for what it wants now.
    pub(super) fn wants(&mut self, at: usize, wants: Wants) {
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else { return };
        if wants == client.wants {
            return;
        }
        let flags = match wants {
            Wants::Read => Some(epoll::EventFlags::IN),
            Wants::Write | Wants::Turn => Some(epoll::EventFlags::OUT),
            Wants::Close => None,
        };
        let data = epoll::EventData::new_u64(at as u64);
        let socket = client.connection.socket.as_fd();
        match flags.map(|flags| epoll::modify(&self.epoll, socket, data, flags)) {
            Some(Ok(())) => client.wants = wants,
            _ => self.close(at),
        }
    }

    /// Counts what a client keeps, and lets the largest go while all keep too much.
    pub(super) fn weigh(&mut self, at: usize) {
        if let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) {
            self.kept -= client.kept;
            client.kept = client.connection.kept();
            self.kept += client.kept;
        }
        // Before they go.
        let has = self.has();
        self.giving.sees(has);
        while self.kept > self.most_kept && self.close_largest() {}
    }

    /// Evicts the client that has most memory, by powers of two, and of those the one that has been
    /// idle for longest; false if there is none.
    fn close_largest(&mut self) -> bool {
        let has_memory = |(at, client): (usize, &Option<Client>)| {
            let client = client.as_ref().filter(|client| client.kept > 0)?;
            let stays = client.connection.session.stays;
            Some((!stays, client.kept.ilog2(), std::cmp::Reverse(client.turned), at))
        };
        let largest = self.clients.iter().enumerate().filter_map(has_memory).max();
        let Some((.., at)) = largest else { return false };
        self.counters().evicted.add(1);
        self.close(at);
        true
    }

    /// Closes those who have been killed, before they have another turn: what they sent is not run
    /// once their end has been told.
    pub(super) fn end_killed(&mut self) {
        for (at, id) in self.ours.with(|shard| std::mem::take(&mut shard.clients.go)) {
            // One that ends by its own command has the answers before it, which its socket or the
            // log has not taken: it is closed behind them. Another's socket is shut down.
            let is_it = |client: &Client| {
                let connection = &client.connection;
                connection.session.id == id && !(connection.session.ends && connection.is_full())
            };
            if self.clients.get(at).and_then(Option::as_ref).is_some_and(is_it) {
                self.close(at);
            }
        }
    }

    pub(super) fn let_idle_go(&mut self) {
        let timeout = Duration::from_secs(self.shared.timeout.load(Relaxed));
        if timeout.is_zero() || self.woken < self.looked_for_idle + LOOKS {
            return;
        }
        self.looked_for_idle = self.woken;
        let woken = self.woken;
        // Behind a long command, or with more clients than events are taken at once, one may have sent
        // something in time that has not been looked at.
        let is_idle = |client: &Client| {
            woken.saturating_duration_since(client.turned) > timeout
                && !client.connection.is_ready(client.wants)
        };
        for at in 0..self.clients.len() {
            if self.clients[at].as_ref().is_some_and(is_idle) {
                self.close(at);
            }
        }
    }

    /// Lets all clients go that have their answers; tells when there is none any more.
    pub(super) fn drain(&mut self) {
        if self.ends.is_none() {
            self.listeners.clear();
            // They take no more, and what they have sent before is answered.
            self.ends = Some(self.woken + Duration::from_secs(1));
            return;
        }
        let is_late = self.ends.is_some_and(|until| until <= self.woken);
        for at in 0..self.clients.len() {
            let is_done = |client: &Client| client.connection.is_answered() || is_late;
            if self.clients[at].as_ref().is_some_and(is_done) {
                self.close(at);
            }
        }
        // Once: the server counts workers, and this one goes on looking until the process ends.
        if let Some(drained) = self.drained.take_if(|_| self.count == 0) {
            let _ = drained.send(());
        }
    }

    /// Closed, its socket leaves the set by itself.
    pub(super) fn close(&mut self, at: usize) {
        let Some(mut client) = self.clients[at].take() else { return };
        self.kept -= client.kept;
        self.count -= 1;
        self.closed.push(at);
        let session = &mut client.connection.session;
        self.places.remove(&session.id);
        if let Some(tracking) = session.tracking.take() {
            self.end_tracking(session.id, tracking.prefixes);
        }
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
        let _ = self.ours.ask(ShardTerms::of_nobody(0), jobs);
    }

    /// A client that is gone gets no invalidations any more. Keys that it followed are forgotten when
    /// they change.
    fn end_tracking(&mut self, id: u64, prefixes: Vec<Box<[u8]>>) {
        self.ours.with(|shard| {
            shard.clients.followers = shard.clients.followers.saturating_sub(1);
            shard.keys.unlisten(id, &prefixes);
        });
        let (own, shards) = (self.ours.own, self.ours.shards.len());
        if !prefixes.is_empty() && shards > 1 {
            let job = |shard| match shard == own {
                true => Vec::new(),
                false => vec![Job::Unlisten(id, prefixes.clone())],
            };
            let _ = self.ours.ask(ShardTerms::of_nobody(0), (0..shards).map(job).collect());
        }
    }
}
