//! A client: what has come of it, and what goes back.

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::alone::alone;
use crate::batch::Batch;
use crate::desk::{Desk, HIGH, Shards};
use crate::resp::Reader;
use crate::session::Session;
use crate::shard::Shard;
use crate::store::Seen;

/// Reads of one client before others have their turn.
const TURNS: usize = 4;

/// A client.
#[derive(Debug)]
pub struct Connection {
    /// Its socket, which never waits. Who kills it shuts it down.
    pub socket: Arc<OwnedFd>,
    /// Its state beside its bytes.
    pub session: Session,
    reader: Reader,
    /// Bytes that have come and have not been run.
    rest: Vec<u8>,
    /// True if that has whole commands.
    has_more: bool,
    /// Answers that the client has not taken, and how many bytes of them it has.
    unsent: Vec<u8>,
    sent: usize,
    /// Commands that wait for other shards.
    batch: Option<Box<Batch>>,
    /// Messages to it, behind the answers of those.
    held_messages: Vec<u8>,
    /// True if it has answers that wait until the log is flushed.
    holds: bool,
}

/// Next step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Wants to be read.
    Read,
    /// Wants another turn at once.
    Turn,
    /// Room for its answers.
    Write,
    /// Wants to be closed.
    Close,
}

impl Connection {
    /// Makes a connection that has just come.
    pub fn new(socket: OwnedFd, session: Session) -> Connection {
        Connection {
            socket: Arc::new(socket),
            session,
            reader: Reader::default(),
            rest: Vec::new(),
            has_more: false,
            unsent: Vec::new(),
            sent: 0,
            batch: None,
            held_messages: Vec::new(),
            holds: false,
        }
    }

    /// Bytes of memory that it has.
    pub fn kept(&self) -> usize {
        let batch = self.batch.as_ref().map_or(0, |batch| batch.kept());
        self.reader.kept()
            + self.rest.capacity()
            + self.unsent.capacity()
            + self.session.kept()
            + self.held_messages.capacity()
            + batch
    }

    /// True if there is something that its client has not taken.
    pub fn is_full(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// True if it has answers that wait until the log is flushed; from now on they do no more.
    pub fn take_holds(&mut self) -> bool {
        mem::take(&mut self.holds)
    }

    /// True if its client has taken the answers to all commands that have come whole.
    pub fn is_answered(&self) -> bool {
        self.unsent.is_empty() && self.batch.is_none() && !self.has_more
    }

    /// True if what it waits for is there, though no event has told of it yet.
    pub fn is_ready(&self, wants: Wants) -> bool {
        let event = if wants == Wants::Read { PollFlags::IN } else { PollFlags::OUT };
        let (mut look, now) = ([PollFd::new(&*self.socket, event)], Timespec::default());
        poll(&mut look, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// True if it goes now. What it sent before its QUIT may still wait for other shards: a client
    /// that is killed has no such commands any more.
    fn is_done(&self) -> bool {
        self.session.ends && self.batch.is_none()
    }

    /// Shows others how it stands; its place is `at`.
    fn show(&mut self, shard: &mut Shard, at: usize, now: u64) {
        let (half, unsent, kept) = (self.rest.len(), self.unsent.len() - self.sent, self.kept());
        self.session.show(&mut shard.clients, at, now);
        if let Some(shown) = shard.clients.at(at) {
            (shown.half, shown.unsent, shown.kept) = (half, unsent, kept);
        }
    }

    /// Its socket, for who lists and kills clients.
    pub fn shared_socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// Does what can be done without waiting.
    pub fn turn(&mut self, desk: &mut Desk<'_, impl Shards>, at: usize) -> Wants {
        if !self.flush() {
            return Wants::Close;
        }
        for _ in 0..TURNS {
            if !self.unsent.is_empty() {
                return Wants::Write;
            }
            if self.is_done() {
                return Wants::Close;
            }
            let mut is_last = false;
            let had_more = mem::take(&mut self.has_more) || self.batch.is_some();
            let mut rest = mem::take(&mut self.rest);
            let mut count = 0;
            if !had_more {
                count = match recv(&self.socket, &mut *desk.buffer, RecvFlags::empty()) {
                    Ok((0, _)) => return Wants::Close,
                    Ok((count, _)) => count,
                    Err(Errno::AGAIN | Errno::INTR) => {
                        self.rest = rest;
                        break;
                    }
                    Err(_) => return Wants::Close,
                };
                desk.counters().input.add(count as u64);
                is_last = count < desk.buffer.len();
            }
            let is_from_buffer = rest.is_empty();
            // Whole commands are read where they stand; only what has not come whole is kept.
            let buffer = mem::take(&mut desk.buffer);
            if !is_from_buffer {
                self.grow(&mut rest, count);
                rest.extend_from_slice(&buffer[..count]);
            }
            let input = if is_from_buffer { &buffer[..count] } else { &rest[..] };
            let is_long = self.run(input, desk, at);
            let start = self.reader.rest();
            if is_from_buffer {
                if start < count {
                    rest.reserve_exact(count - start);
                    rest.extend_from_slice(&buffer[start..count]);
                }
            } else if start >= rest.len() {
                rest = Vec::new();
            } else if start > 0 {
                rest.drain(..start);
                rest.shrink_to(2 * rest.len());
            }
            desk.buffer = buffer;
            self.rest = rest;
            if self.session.is_cut || !self.send(desk) {
                return Wants::Close;
            }
            if self.holds || is_long || is_last && !self.has_more && self.batch.is_none() {
                break;
            }
        }
        if self.holds && !self.session.ends {
            // They are sent before it is looked at again.
            return if self.has_more || self.batch.is_some() { Wants::Turn } else { Wants::Read };
        }
        match self.unsent.is_empty() {
            true if self.is_done() => Wants::Close,
            true if self.has_more || self.batch.is_some() => Wants::Turn,
            true => Wants::Read,
            false => Wants::Write,
        }
    }

    /// Sends the client a message that is no answer, behind the answers that are on their way.
    ///
    /// A value that a shard has given before a key changed may wait here for others' answers. If
    /// the message overtook it, the client would keep the old value for ever.
    pub fn send_beside(&mut self, message: &[u8]) {
        match self.batch {
            None => self.unsent.extend_from_slice(message),
            Some(_) => self.held_messages.extend_from_slice(message),
        }
    }

    /// Makes room for so many more bytes: for a word that is long, all of it by and by.
    fn grow(&self, rest: &mut Vec<u8>, more: usize) {
        let need = rest.len() + more;
        if need > rest.capacity() {
            let wanted = self.reader.wanted().min(2 * need);
            rest.reserve_exact(wanted.max(need + need / 8) - rest.len());
        }
    }

    /// Sends what waits; `false` if nobody takes it any more.
    pub fn flush(&mut self) -> bool {
        while self.sent < self.unsent.len() {
            match send(&self.socket, &self.unsent[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => (),
                Err(_) => return false,
            }
        }
        self.unsent = Vec::new();
        self.sent = 0;
        true
    }

    /// Sends what has just been answered, and keeps what is not taken.
    fn send(&mut self, desk: &mut Desk<'_, impl Shards>) -> bool {
        let mut sent = 0;
        let bytes = &desk.out.bytes;
        let mut is_there = true;
        // What has only been read may be of what is not flushed.
        let kept = desk.terms.shared.kept.as_ref();
        self.holds = !bytes.is_empty() && kept.is_some_and(|kept| kept.is_behind());
        while sent < bytes.len() && !self.holds {
            match send(&self.socket, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => (),
                Err(_) => {
                    is_there = false;
                    break;
                }
            }
        }
        desk.counters().output.add(bytes.len() as u64);
        if bytes.len() - sent > HIGH {
            // Much is not copied.
            self.unsent = mem::take(&mut desk.out.bytes);
            self.unsent.shrink_to_fit();
            self.sent = sent;
            return is_there;
        }
        if sent < bytes.len() {
            self.unsent = bytes[sent..].to_vec();
        }
        desk.out.bytes.clear();
        if desk.out.bytes.capacity() > 2 * HIGH {
            desk.out.bytes.shrink_to(HIGH);
        }
        is_there
    }

    /// Runs the commands that have come whole, until there is much to send; whether others have their
    /// turn now.
    fn run(&mut self, input: &[u8], desk: &mut Desk<'_, impl Shards>, at: usize) -> bool {
        // The buffer is the worker's. A client that was cut has left what it would have been answered.
        desk.out.bytes.clear();
        desk.out.is_three = self.session.is_three;
        if desk.shards.count() > 1 {
            let mut batch = self.batch.take().unwrap_or_default();
            let is_long;
            (self.has_more, is_long) = batch.run(&mut self.reader, &mut self.session, input, desk);
            if batch.is_empty() {
                desk.out.bytes.append(&mut self.held_messages);
                self.held_messages = Vec::new();
            } else {
                self.batch = Some(batch);
            }
            let now = desk.terms.now;
            desk.shards.with(|shard| self.show(shard, at, now));
            return is_long;
        }
        // One call for all of them, whose words stay where they are.
        let Desk { shards, terms, out, .. } = desk;
        shards.with(|shard| {
            let is_long;
            (self.has_more, is_long) =
                alone(&mut self.reader, &mut self.session, input, shard, *terms, out, at);
            self.show(shard, at, terms.now);
            is_long
        })
    }

    /// Takes the keys that it watches.
    pub fn take_watched(&mut self) -> (usize, Vec<Seen>) {
        (self.session.watched_at, self.session.take_watched())
    }
}
