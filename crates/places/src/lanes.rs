//! Lanes of a place, served by the thread that hears its requests: it looks at all of them in turns as long as
//! there is something, then for a while longer, and sleeps then, to be woken by a word at its socket.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kumiki_resource::Manager;
use kumiki_slot::far::Server;
use kumiki_sys::shm::Window;
use tokio::sync::mpsc::Sender;

use crate::lane::{LANES, Lane, Word, spin};
use crate::line_site::Bindings;
use crate::site::Site;
use crate::wire;

/// For so long at a time, before others of its thread have their turn.
const TURN: Duration = Duration::from_micros(100);
/// Rounds of all lanes between two looks at the clock.
const ROUNDS: u32 = 64;

/// A place's lanes.
pub(crate) struct Lanes {
    /// Memory that callers see, too.
    window: Option<Arc<Window>>,
    open: Vec<Open>,
    /// Bytes of the message that is looked at, and of its answer.
    message: Vec<u8>,
    reply: Vec<u8>,
    /// When the last request was answered or told, or the last lane opened.
    last: Instant,
    /// For so long it looks after that: callers say what waking it takes.
    spin: Duration,
    sleeps: bool,
}

/// One that is served.
struct Open {
    at: u64,
    /// Number of the client's connection.
    client: u64,
    line: Server<Lane>,
    bound: Bindings,
    to: Sender<(u64, Bytes)>,
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
        let (message, reply) = (Vec::new(), Vec::new());
        Lanes { window, open: Vec::new(), message, reply, last, spin, sleeps: false }
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
    ) -> Option<Word> {
        match wire::parse(word).ok()? {
            Word::Open { at, first } => {
                let Some(window) = &self.window else {
                    let why = "this place has no memory in common with its callers".to_owned();
                    return Some(Word::Refused { at, why });
                };
                let Some(lane) = Lane::at(window, at) else {
                    let why = format!("there is no lane at {at:#x} of {:#x} bytes", window.len());
                    return Some(Word::Refused { at, why });
                };
                // Who had it before has gone, and its connection's end has not been heard of.
                self.open.retain(|open| open.at != at);
                let (line, bound) = (Server::new(lane, first), Bindings::default());
                self.open.push(Open { at, client, line, bound, to: to.clone() });
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
            Word::Opened { .. } | Word::Refused { .. } | Word::Closed { .. } => None,
        }
    }

    /// A client has gone, and its lanes with it.
    pub(crate) fn gone(&mut self, client: u64) {
        self.open.retain(|open| open.client != client);
    }

    /// Answers what there is, and looks on for a turn; whether it is to go on, or sleeps.
    pub(crate) fn turn(&mut self, site: &Site, manager: Option<&Manager>) -> bool {
        let begin = Instant::now();
        if std::mem::take(&mut self.sleeps) {
            self.awake();
        }
        let mut has_served = false;
        loop {
            let mut served = false;
            for _ in 0..ROUNDS {
                served |= self.round(site);
            }
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

    /// Answers a request of each lane that has one; whether there was any.
    #[inline]
    fn round(&mut self, site: &Site) -> bool {
        let mut served = false;
        let mut broken = None;
        for (n, open) in self.open.iter_mut().enumerate() {
            match open.line.asked(&mut self.message) {
                Ok(false) => {}
                Ok(true) => {
                    let room = open.line.room();
                    let answered =
                        site.on_line(&mut open.bound, &self.message, &mut self.reply, room);
                    if open.line.answer(answered, &self.reply) {
                        open.tell(&Word::Awake { at: open.at, took_us: 0 });
                    }
                    served = true;
                }
                Err(why) => broken = Some((n, why)),
            }
        }
        if let Some((n, why)) = broken {
            let open = self.open.swap_remove(n);
            open.tell(&Word::Refused { at: open.at, why: why.to_string() });
        }
        served
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
