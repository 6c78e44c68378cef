//! A connection: one request after the other, each answered before the next is read.
//!
//! ```text
//!          ┌───────────────────────────── answered, and the connection goes on ◀─┐
//!          ▼                                                                     │
//!        Head ── whole ─▶ (file tried) ──▶ Sending ── all sent ──────────────────┤
//!          │                  │  ▲           │  ▲                                │
//!          │                  ▼  │           ▼  │ next bytes of the file         ▼
//!          └─ refused ─▶ … Waiting for a thread that may sleep            Lingering, closed
//! ```
//!
//! What a client sends meanwhile stays in the socket: it fills the client's own memory, not
//! ours.

mod opening;
mod times;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kumiki_parasc::tries::Key;
use rustix::event::epoll::EventFlags;

use crate::answer::Answer;
use crate::counts::Counts;
use crate::kept::KeptFiles;
use crate::log::{LogEntry, LogLines};
use crate::moved::Moved;
use crate::pages::Pages;
use crate::request::{MOST_HEAD, Parsed, is_of_head, parse};
use crate::response::{Clock, Status, short};
use crate::site::{Root, Site};
use crate::transport::Transport;
use crate::work::{Done, Files, Work};

/// Bytes asked of a socket at once.
const RECEIVE: usize = 4096;
/// Bytes of a file at once: below what the C library's allocator takes from the kernel each time.
const CHUNK: usize = 64 * 1024;
/// Calls for one connection before others have their turn.
const TURN: usize = 32;
/// Bytes that a client is to take within the time for sending.
const PROGRESS: usize = 64 * 1024;
/// Bytes of a line that is no request's, in the log.
const LOGGED: usize = 1000;
/// Time that the first request of a connection may be on its way before that is closed for another.
const NEW: Duration = Duration::from_secs(1);
/// Bytes that a client may send on a connection that we have closed.
const LINGER_BYTES: usize = 256 * 1024;

/// Worker's part that all its connections use.
pub(crate) struct Surroundings<'a> {
    pub(crate) files: &'a Files,
    pub(crate) site: &'a Site,
    pub(crate) root: &'a Arc<Root>,
    pub(crate) kept: &'a mut KeptFiles,
    pub(crate) clock: &'a mut Clock,
    pub(crate) log: Option<&'a mut LogLines>,
    pub(crate) pages: &'a Pages,
    pub(crate) counts: &'a Counts,
    pub(crate) now: Instant,
    /// The server is about to end: no connection goes on.
    pub(crate) ends: bool,
}

/// Event that a connection waits for.
pub(crate) enum Next {
    Readable,
    Writable,
    /// A call that is under way.
    Work(Box<Work>),
    /// Its turn: it goes on at once.
    Turn,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Waiting,
    Sending,
    Lingering,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    number: usize,
    transport: Transport,
    peer: Option<IpAddr>,
    phase: Phase,
    input: Vec<u8>,
    /// Bytes of the head of the request that is being answered.
    head_length: usize,
    keeps_alive: bool,
    answer: Answer,
    /// Time at which the phase began, or the work that it has to finish in time.
    since: Instant,
    progress: usize,
    is_first: bool,
    /// A call of this request would have slept.
    has_waited: bool,
    /// Time since which the client sends no more, as far as that was seen.
    left: Option<Instant>,
    pub(crate) under_way: Option<Key>,
    /// Events that the epoll waits for.
    pub(crate) waits: EventFlags,
    /// The input that was taken last was of HEAD, whose answers have no body.
    is_head: bool,
    /// True among those whose turn is over with more to do.
    pub(crate) has_turn: bool,
}

impl Connection {
    pub(crate) fn new(
        number: usize,
        transport: Transport,
        peer: Option<IpAddr>,
        now: Instant,
    ) -> Self {
        Connection {
            number,
            transport,
            peer,
            phase: Phase::Head,
            input: Vec::new(),
            head_length: 0,
            keeps_alive: false,
            answer: Answer::default(),
            since: now,
            progress: 0,
            is_first: true,
            has_waited: false,
            left: None,
            under_way: None,
            waits: EventFlags::IN,
            is_head: false,
            has_turn: false,
        }
    }

    /// Goes on as far as nothing is to be waited for.
    pub(crate) fn go(&mut self, around: &mut Surroundings<'_>) -> Next {
        for _ in 0..TURN {
            let next = match self.phase {
                Phase::Head => self.go_on_with_head(around),
                Phase::Sending => self.send(around),
                Phase::Lingering => self.linger(),
                // Readable or lost meanwhile: looked at when the call has ended.
                Phase::Waiting => return Next::Readable,
            };
            if let Some(next) = next {
                return next;
            }
        }
        Next::Turn
    }

    /// Takes what was read, to be parsed; whether it is of HEAD is known on, should that panic.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        self.is_head = is_of_head(&self.input);
        std::mem::take(&mut self.input)
    }

    fn go_on_with_head(&mut self, around: &mut Surroundings<'_>) -> Option<Next> {
        let input = self.take_input();
        let (next, partial) = match parse(&input) {
            Parsed::Partial => (None, true),
            Parsed::Refused(status) => {
                self.head_length = input.len();
                self.keeps_alive = false;
                self.answer_shortly(status, is_of_head(&input), around);
                (None, false)
            }
            Parsed::Head(head) => {
                self.head_length = head.length;
                self.keeps_alive = head.keeps_alive && !around.ends;
                self.answer.begin();
                (self.open(&head, around), false)
            }
        };
        self.input = input;
        if !partial {
            return next;
        }
        if self.transport.flush() == Moved::Later {
            return Some(Next::Writable);
        }
        let (was_empty, room) = (self.is_idle(), MOST_HEAD.saturating_sub(self.input.len()));
        match self.transport.receive(&mut self.input, room.min(RECEIVE)) {
            Moved::Bytes(0) | Moved::Lost => Some(Next::Close),
            Moved::Later if around.ends && self.is_idle() => Some(Next::Close),
            // The answer to what came may be our part of a handshake.
            Moved::Later if self.transport.flush() == Moved::Later => Some(Next::Writable),
            Moved::Later => Some(Next::Readable),
            Moved::Bytes(_) => {
                if was_empty {
                    self.since = around.now;
                }
                None
            }
        }
    }

    fn wait(&mut self, work: Box<Work>, now: Instant) -> Next {
        (self.phase, self.since) = (Phase::Waiting, now);
        self.has_waited = true;
        Next::Work(work)
    }

    /// Goes on after a call that was under way.
    pub(crate) fn done(&mut self, done: Done, around: &mut Surroundings<'_>) -> Next {
        self.under_way = None;
        let next = match done {
            Done::Read(part) => {
                self.phase = Phase::Sending;
                // The time that the disk took is not the client's.
                self.since = around.now;
                if self.answer.take_part(part) { None } else { self.lose(around) }
            }
            done => {
                let input = self.take_input();
                // Parsed before, and not changed since.
                let next = match parse(&input) {
                    Parsed::Head(head) => self.looked_up(&head, done, around),
                    _ => Some(Next::Close),
                };
                self.input = input;
                next
            }
        };
        next.unwrap_or_else(|| self.go(around))
    }

    fn answer_shortly(&mut self, status: Status, is_head: bool, around: &mut Surroundings<'_>) {
        self.answer.begin();
        let head = &mut self.answer.head;
        let bytes = short(head, status, self.keeps_alive, is_head, around.clock);
        (self.answer.status, self.answer.bytes) = (status.code(), bytes);
        self.begin_sending(around.now);
    }

    fn begin_sending(&mut self, now: Instant) {
        (self.phase, self.since, self.progress) = (Phase::Sending, now, 0);
    }

    fn send(&mut self, around: &mut Surroundings<'_>) -> Option<Next> {
        let (head, body) = self.answer.unsent();
        if head.is_empty() && body.is_empty() {
            let Some((file, offset, room)) = self.answer.next_part(CHUNK) else {
                return match self.transport.flush() {
                    Moved::Bytes(_) => self.end_answer(around),
                    Moved::Later => Some(Next::Writable),
                    Moved::Lost => self.lose(around),
                };
            };
            return match around.files.read(self.number, &file, offset, room) {
                Ok(Done::Read(part)) => match self.answer.take_part(part) {
                    true => None,
                    // Shorter than it was: what was promised cannot be sent.
                    false => self.lose(around),
                },
                Ok(_) => self.lose(around),
                Err(work) => Some(self.wait(work, around.now)),
            };
        }
        match self.transport.send(head, body) {
            Moved::Bytes(count) => {
                self.answer.sent(count);
                self.progress += count;
                if self.progress >= PROGRESS {
                    (self.progress, self.since) = (0, around.now);
                }
                None
            }
            Moved::Later => Some(Next::Writable),
            Moved::Lost => self.lose(around),
        }
    }

    /// Ends an answer that the client has not taken whole, if there is one.
    pub(crate) fn cut(&mut self, around: &mut Surroundings<'_>) -> Next {
        if self.phase == Phase::Sending || self.is_amid_answer() {
            self.lose(around);
        }
        Next::Close
    }

    fn lose(&mut self, around: &mut Surroundings<'_>) -> Option<Next> {
        self.answer.bytes = self.answer.bytes.saturating_sub(self.answer.left());
        self.write_log(around);
        Some(Next::Close)
    }

    fn end_answer(&mut self, around: &mut Surroundings<'_>) -> Option<Next> {
        self.write_log(around);
        around.kept.give_back(self.answer.give_back());
        self.answer.begin();
        self.input.drain(..self.head_length.min(self.input.len()));
        self.is_first = false;
        self.since = around.now;
        if self.keeps_alive {
            self.phase = Phase::Head;
            // Mostly the next request has not come: the epoll says so, and one call less does. At
            // the end it is looked for, as no connection is left that has one.
            let is_notified = self.input.is_empty() && self.transport.is_notified() && !around.ends;
            return is_notified.then_some(Next::Readable);
        }
        // Closed at once, the client could lose the answer for what it still sends (RFC 9112,
        // section 9.6).
        self.transport.finish();
        (self.phase, self.progress) = (Phase::Lingering, 0);
        None
    }

    fn linger(&mut self) -> Option<Next> {
        self.input.clear();
        match self.transport.receive(&mut self.input, RECEIVE) {
            Moved::Later => Some(Next::Readable),
            Moved::Bytes(0) | Moved::Lost => Some(Next::Close),
            Moved::Bytes(count) => {
                self.progress += count;
                (self.progress > LINGER_BYTES).then_some(Next::Close)
            }
        }
    }

    /// Counts and tells an answer that has ended.
    fn write_log(&mut self, around: &mut Surroundings<'_>) {
        let waited = std::mem::take(&mut self.has_waited);
        around.counts.answered(self.answer.status, self.answer.bytes, waited);
        let Some(log) = around.log.as_deref_mut() else { return };
        let (peer, status, bytes) = (self.peer, self.answer.status, self.answer.bytes);
        // Also of what was refused: who looks for an attack or a fault looks here.
        let start = self.input.strip_prefix(b"\r\n").unwrap_or(&self.input);
        let line = start.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        let none = LogEntry { peer, line, status, bytes, referer: None, agent: None };
        match parse(&self.input) {
            Parsed::Head(head) => log.add(&LogEntry {
                referer: head.fields.referer,
                agent: head.fields.user_agent,
                ..none
            }),
            _ => log.add(&LogEntry { line: line.get(..LOGGED).unwrap_or(line), ..none }),
        }
    }

    /// Answers after a panic of ours: 500 as long as nothing of an answer has been sent, and the
    /// end of the connection in any case.
    pub(crate) fn fail(&mut self, around: &mut Surroundings<'_>) -> Next {
        if self.phase == Phase::Lingering || self.is_amid_answer() {
            return self.cut(around);
        }
        self.under_way = None;
        // What it was parsed from may be gone.
        let is_head = if self.input.is_empty() { self.is_head } else { is_of_head(&self.input) };
        (self.head_length, self.keeps_alive) = (self.input.len(), false);
        self.answer_shortly(Status::INTERNAL, is_head, around);
        self.go(around)
    }

    /// True if some of an answer was sent, and not all.
    pub(crate) fn is_amid_answer(&self) -> bool {
        self.answer.is_begun()
    }

    /// True between two requests, or before the first.
    pub(crate) fn is_idle(&self) -> bool {
        // An empty line may come between two (`request::parse`).
        self.phase == Phase::Head && matches!(&self.input[..], b"" | b"\r" | b"\r\n")
    }

    /// True if it may be closed for another one: between requests, or before the first if that is
    /// not on its way.
    pub(crate) fn may_make_room(&self, now: Instant) -> bool {
        let is_new = || now.saturating_duration_since(self.since) < NEW;
        self.is_idle() && !(self.is_first && is_new())
    }

    /// Time since which it is so.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}
