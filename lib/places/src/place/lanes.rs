//! Lanes of a place, served by the thread that hears its requests: it looks at all of them in turns as long as
//! there is something, then for a while longer, and sleeps then, to be woken by a word at its socket.

use std::any::Any;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kumiki_resource::Manager;
use kumiki_slot::far::{Answered, Broken, Message, Server};
use kumiki_sys::shm::{Huge, Sealed, Window};
use tokio::sync::mpsc::Sender;

use crate::place::line_site::{self, Bindings, LineReply};
use crate::place::parts::panicked;
use crate::place::site::Site;
use crate::transport::passed::LIMIT;
use crate::wire::lane::{GIVEN, LANE_BYTES, LANES, LONG, Lane, Word, form_word, spin};
use crate::wire::{self, Refusal, Why};

/// Time of a turn, before others of its thread have theirs.
const TURN: Duration = Duration::from_micros(100);
/// Rounds of all lanes between two looks at the clock and at the place's other callers. Beside a call on a line
/// that takes as long as fifty rounds, and now and then one comes meanwhile.
const ROUNDS: u32 = 512;
/// Weight of a lane that has served.
const SERVED: u32 = 16;

/// A place's lanes.
pub(crate) struct Lanes {
    /// Memory that callers see, too.
    window: Option<Arc<Window>>,
    /// Memory of clients of this kernel, by the numbers of their connections.
    given: HashMap<u64, Arc<Window>>,
    open: Vec<Open>,
    /// Bytes of the message that is looked at, and of its answer.
    bytes: line_site::Bytes,
    /// The lane whose request runs.
    runs: Option<usize>,
    /// Time at which the last request was answered, or the last lane opened.
    last: Instant,
    /// Time that it looks after that: callers say what waking it takes.
    spin: Duration,
    sleeps: bool,
    /// Reason for which nobody has any.
    none: Option<&'static str>,
}

/// A lane that is served.
struct Open {
    at: u64,
    /// Number of the client's connection.
    client: u64,
    /// True if it lies in the client's own memory.
    is_given: bool,
    line: Server<Lane>,
    bound: Bindings,
    to: Sender<(u64, Bytes)>,
}

/// A place's answer to a client's word.
pub(crate) enum Said {
    Word(Word),
    /// Memory in common: its bytes and its descriptor.
    Memory(u64, OwnedFd),
}

impl Open {
    fn tell(&self, word: &Word) {
        // A client that takes no words looks by itself after a while.
        let _ = wire::message(word).map(|message| self.to.try_send((LANES, message)));
    }
}

impl Lanes {
    pub(crate) fn new(window: Option<Arc<Window>>) -> Lanes {
        let (last, spin) = (Instant::now(), spin(Duration::ZERO));
        let bytes = line_site::Bytes::default();
        Lanes {
            window,
            given: HashMap::new(),
            open: Vec::new(),
            bytes,
            runs: None,
            last,
            spin,
            sleeps: false,
            none: None,
        }
    }

    /// Lanes of a place that has none.
    pub(crate) fn none(why: &'static str) -> Lanes {
        Lanes { none: Some(why), ..Lanes::new(None) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Hears a client's word, and gives the one that is said to it.
    pub(crate) fn heard(
        &mut self,
        word: &[u8],
        client: u64,
        life: u64,
        to: &Sender<(u64, Bytes)>,
    ) -> Option<Said> {
        let said = match wire::parse(word).ok()? {
            Word::Memory { .. } => match self.give(client) {
                Ok((bytes, fd)) => return Some(Said::Memory(bytes, fd)),
                Err(why) => Some(Word::Refused { at: u64::MAX, why }),
            },
            Word::Open { at, first } => {
                let own = self.given.get(&client);
                let is_given = own.is_some();
                let Some(window) = own.or(self.window.as_ref()) else {
                    let why = "this place has no memory in common with its callers".to_owned();
                    return Some(Said::Word(Word::Refused { at, why }));
                };
                let Some(lane) = Lane::at(window, at) else {
                    let why = format!("there is no lane at {at:#x} of {:#x} bytes", window.len());
                    return Some(Said::Word(Word::Refused { at, why }));
                };
                // Who had it before has gone, and its connection's end has not been heard of.
                let is_it = |open: &Open| {
                    open.at == at
                        && open.is_given == is_given
                        && (!is_given || open.client == client)
                };
                self.open.retain(|open| !is_it(open));
                let (line, bound) = (Server::new(lane, first), Bindings::default());
                self.open.push(Open { at, client, is_given, line, bound, to: to.clone() });
                self.last = Instant::now();
                Some(Word::Opened { at, life })
            }
            Word::Awake { took_us, .. } => {
                self.spin = spin(Duration::from_micros(took_us));
                self.last = Instant::now();
                None
            }
            Word::Close { at } => {
                self.open.retain(|open| (open.at, open.client) != (at, client));
                Some(Word::Closed { at })
            }
            // A place's own.
            Word::Opened { .. }
            | Word::Refused { .. }
            | Word::Closed { .. }
            | Word::Long { .. } => None,
        };
        said.map(Said::Word)
    }

    /// Makes memory for the lanes of a client of this kernel: once each connection.
    fn give(&mut self, client: u64) -> Result<(u64, OwnedFd), String> {
        if let Some(why) = self.none {
            return Err(why.to_owned());
        }
        if self.given.contains_key(&client) {
            return Err("this connection has memory already".to_owned());
        }
        let bytes = GIVEN * LANE_BYTES;
        let made = Sealed::new("kumiki-lines", bytes, Huge::Policy).and_then(|memory| {
            let window = Window::map(memory.fd(), 0, bytes)?;
            Ok((window, memory))
        });
        let (window, memory) = made.map_err(|error| error.to_string())?;
        let fd = memory.fd().try_clone_to_owned().map_err(|error| error.to_string())?;
        self.given.insert(client, Arc::new(window));
        Ok((bytes as u64, fd))
    }

    /// A client has gone, and its lanes with it.
    pub(crate) fn gone(&mut self, client: u64) {
        self.open.retain(|open| open.client != client);
        self.given.remove(&client);
    }

    /// Answers what there is, and looks on for a turn; whether it is to go on, or sleeps.
    pub(crate) fn turn(&mut self, site: &Site, manager: Option<&Manager>) -> bool {
        let begin = Instant::now();
        if std::mem::take(&mut self.sleeps) {
            self.awake();
        }
        let mut has_served = false;
        loop {
            let served = self.rounds(site);
            if let Some(manager) = manager {
                manager.serve();
            }
            let now = Instant::now();
            if served {
                (self.last, has_served) = (now, true);
            }
            self.sleeps = now.duration_since(self.last) >= self.spin && self.sleep();
            if self.sleeps || now.duration_since(begin) >= TURN {
                if has_served {
                    site.busy.add(begin, now);
                }
                return !self.sleeps;
            }
        }
    }

    /// Rounds of all lanes; whether anything was served. A panic is caught around all of them, and not around each
    /// call, which would take longer by it: it ends them, its caller is told, and they go on.
    fn rounds(&mut self, site: &Site) -> bool {
        let (mut left, mut served) = (ROUNDS, false);
        while left > 0 {
            let rounds = AssertUnwindSafe(|| {
                while left > 0 {
                    let has_served = self.round(site);
                    served |= has_served;
                    left = left.saturating_sub(if has_served { SERVED } else { 1 });
                }
            });
            if let Err(payload) = catch_unwind(rounds) {
                self.panicked(payload);
                served = true;
            }
        }
        served
    }

    /// Answers a request of each lane that has one; whether there was any.
    #[inline(always)]
    fn round(&mut self, site: &Site) -> bool {
        let mut served = false;
        for n in 0..self.open.len() {
            match self.open[n].line.asked() {
                Ok(None) => {}
                Ok(Some(message)) => {
                    self.answer(n, &message, site);
                    served = true;
                }
                Err(broken) => {
                    self.broken(n, broken);
                    // Others have moved.
                    return true;
                }
            }
        }
        served
    }

    #[inline(always)]
    fn answer(&mut self, n: usize, message: &Message, site: &Site) {
        self.runs = Some(n);
        let Open { line, bound, .. } = &mut self.open[n];
        let sleeps = match site.on_line(line, bound, message, &mut self.bytes) {
            Ok(LineReply::Scalar(scalar)) => {
                line.answer_word(form_word(Some(scalar.form)), scalar.word)
            }
            Ok(LineReply::Bytes) => {
                line.answer(Answered::Answer, form_word(None), self.bytes.reply())
            }
            Ok(LineReply::Long) => self.long(n),
            Err(refusal) => self.refuse(n, refusal),
        };
        self.runs = None;
        if sleeps {
            self.wake(n);
        }
    }

    /// Sends an answer that the line has no room for by the client's connection; whether the caller sleeps.
    #[cold]
    fn long(&mut self, n: usize) -> bool {
        let open = &mut self.open[n];
        let answer = bytes::Bytes::copy_from_slice(self.bytes.reply());
        let bytes = answer.len();
        let sent = wire::message(&Word::Long { at: open.at, answer })
            .ok()
            .filter(|message| message.len() <= LIMIT)
            .is_some_and(|message| open.to.try_send((LANES, message)).is_ok());
        if sent {
            return open.line.answer(Answered::Answer, LONG, &[]);
        }
        let text = format!(
            "its answer has {bytes} bytes, and a line's connection takes {LIMIT}, or none as its client has not \
             taken others; it has run"
        );
        self.refuse(n, Refusal::new(Why::AnswerTooLarge, text))
    }

    /// Refuses a request; whether the caller sleeps.
    #[cold]
    fn refuse(&mut self, n: usize, refusal: Refusal) -> bool {
        self.bytes.refuse(refusal);
        self.open[n].line.answer(Answered::Refusal, form_word(None), self.bytes.reply())
    }

    #[cold]
    fn wake(&self, n: usize) {
        let open = &self.open[n];
        open.tell(&Word::Awake { at: open.at, took_us: 0 });
    }

    /// Tells the caller of the part that runs what that has panicked with.
    #[cold]
    fn panicked(&mut self, payload: Box<dyn Any + Send>) {
        match self.runs.take() {
            Some(n) => {
                if self.refuse(n, panicked(payload)) {
                    self.wake(n);
                }
            }
            None => resume_unwind(payload),
        }
    }

    #[cold]
    fn broken(&mut self, n: usize, why: Broken) {
        let open = self.open.swap_remove(n);
        open.tell(&Word::Refused { at: open.at, why: why.to_string() });
    }

    /// Says on all lanes that it sleeps; whether it may, as nobody has asked.
    fn sleep(&self) -> bool {
        self.open.iter().for_each(|open| open.line.sleeps(true));
        if !self.open.iter().any(|open| open.line.has_news()) {
            return true;
        }
        self.awake();
        false
    }

    fn awake(&self) {
        self.open.iter().for_each(|open| open.line.sleeps(false));
    }
}
