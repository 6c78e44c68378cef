//! Connections that come, and places for them.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::{Context, Result};
use kumiki_sys::sentence::with_causes;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::{LISTENERS, Worker};
use crate::accept::{Accepted, accept, one_waits};
use crate::connection::Connection;
use crate::counts::Counts;
use crate::say::say;
use crate::transport::Transport;

/// Connections taken at once, before those that are there have their turn.
const AT_ONCE: usize = 64;
/// Connections that were idle, and have a request now, before no more is looked for one to close.
const LOOKS: usize = 64;

impl Worker {
    /// Begins to listen, or stops.
    pub(super) fn listen(&mut self, listens: bool) -> Result<()> {
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
            match changed {
                // So far came one that failed at a socket behind this.
                Err(Errno::EXIST) if listens => {}
                Err(Errno::NOENT) if !listens => {}
                Ok(()) => {}
                Err(errno) => {
                    // A part of them would be told of and not taken, again and again.
                    for listener in &self.shared.listeners {
                        let _ = epoll::delete(&self.epoll, listener);
                    }
                    return Err(errno)
                        .context("adding a listening socket to an epoll, or removing it");
                }
            }
        }
        self.listens = listens;
        Ok(())
    }

    /// Begins to listen again where it does not. Those who are connected are served meanwhile, and the
    /// next tick tries once more: it fails for want of memory of the kernel, which may come back.
    pub(super) fn listen_again(&mut self) {
        match self.listen(true) {
            Ok(()) => self.has_said = false,
            Err(error) if !self.has_said => {
                say(format_args!(
                    "a worker takes no new connections, and tries again twice a second: {}",
                    with_causes(error.as_ref())
                ));
                self.has_said = true;
            }
            Err(_) => (),
        }
    }

    pub(super) fn accept(&mut self, listener: usize, now: Instant) -> Result<()> {
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
                // It waits in the socket's queue. The worker that frees a place next learns of it, and takes it.
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
                Accepted::Exhausted if !self.kept.clear() && !self.make_room(now) => {
                    return self.wait_for_room();
                }
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
    pub(super) fn give_back(&mut self) {
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

    fn add(&mut self, transport: Transport, peer: Option<IpAddr>, now: Instant) {
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
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
        for _ in 0..LOOKS {
            let places = self.connections.iter().enumerate();
            let idle = places.filter_map(|(at, place)| {
                place.as_ref().filter(|it| it.may_make_room(now)).map(|it| (it.since(), at))
            });
            let Some((_, at)) = idle.min() else { return false };
            if !self.has_come(at) {
                self.count(|counts| counts.closed.add(1));
                self.close(at);
            } else {
                self.go(at, now);
            }
            if self.connections[at].is_none() {
                return true;
            }
        }
        false
    }

    /// True if a client that is idle, as far as was read, has sent something, or has gone: a server
    /// that was stopped, or had no cpu, has not read it yet. Of one whose socket takes no more nothing is
    /// read, however much has come.
    pub(super) fn has_come(&self, at: usize) -> bool {
        let connection = self.connections.get(at).and_then(Option::as_ref);
        let reads = |it: &Connection| it.has_turn || it.waits.contains(EventFlags::IN);
        connection.is_some_and(|it| it.is_idle() && reads(it) && one_waits(it))
    }
}
