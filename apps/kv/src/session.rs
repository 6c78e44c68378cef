//! What the server knows of a client beside its bytes.

use std::mem;
use std::sync::Arc;

use crate::clients::{About, Clients, TrackingInfo};
use crate::resp::Command;
use crate::store::Seen;
use crate::tracking::Tracking;

/// Answers that a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Not the next one.
    SkipNext,
    /// Not this one.
    Skip,
}

/// The client whose command runs in a shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asker {
    /// Its number; 0: it is none.
    pub id: u64,
    /// True if it follows the keys that it reads.
    pub follows: bool,
}

/// A transaction that a client is writing.
#[derive(Debug, Default)]
pub struct Multi {
    /// Commands that are to run.
    pub commands: Vec<Command>,
    /// True if a command could not be queued.
    pub is_wrong: bool,
    /// The shard of its keys, if it has any.
    pub shard: Option<usize>,
    /// Bytes of its commands.
    pub bytes: usize,
}

/// A client.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// Its place in its worker's list.
    pub place: usize,
    /// Address of the client.
    pub addr: Arc<str>,
    /// Address of the server that it reached.
    pub laddr: Arc<str>,
    /// True if that is a Unix socket.
    pub is_local: bool,
    /// Time of its arrival, ms since 1970.
    pub came: u64,
    /// The name that it gave itself.
    pub name: String,
    /// Its library.
    pub lib_name: String,
    /// Version of that library.
    pub lib_ver: String,
    /// True if it has said the password, or need not.
    pub is_known: bool,
    /// True if it speaks version 3 of the protocol.
    pub is_three: bool,
    /// Answers that it wants.
    pub reply: Reply,
    /// Its transaction.
    pub multi: Option<Multi>,
    /// Keys that it watches, and their shard.
    pub watched: Vec<Seen>,
    /// Shard of those.
    pub watched_at: usize,
    /// Bytes of memory for them.
    pub watched_bytes: usize,
    /// Tracking of keys, if it has any.
    pub tracking: Option<Box<Tracking>>,
    /// True if it asked not to be evicted.
    pub stays: bool,
    /// Its last command.
    pub last: &'static str,
    /// True if it goes when its answers have left.
    pub ends: bool,
    /// True if it goes without an answer.
    pub is_cut: bool,
    /// True if something that others see of it has changed.
    pub is_new: bool,
}

impl Session {
    /// Makes the session of a client that has just come.
    pub fn new(id: u64, came: u64, is_known: bool) -> Session {
        Session {
            id,
            place: 0,
            addr: "".into(),
            laddr: "".into(),
            is_local: false,
            came,
            name: String::new(),
            lib_name: String::new(),
            lib_ver: String::new(),
            is_known,
            is_three: false,
            reply: Reply::On,
            multi: None,
            watched: Vec::new(),
            watched_at: 0,
            watched_bytes: 0,
            tracking: None,
            stays: false,
            last: "NULL",
            ends: false,
            is_cut: false,
            is_new: true,
        }
    }

    /// Bytes of memory that it has, about.
    pub fn kept(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        let names = self.name.len() + self.lib_name.len() + self.lib_ver.len();
        let tracking = self.tracking.as_ref().map_or(0, |tracking| tracking.kept());
        queued + self.watched_bytes + tracking + 2 * names
    }

    /// A command of a transaction that cannot be queued ends it at `EXEC`.
    pub fn wrong(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.is_wrong = true;
            // What has been queued is not needed any more.
            multi.commands = Vec::new();
            multi.bytes = 0;
        }
    }

    /// A copy of what others see.
    pub fn about(&self, now: u64) -> About {
        About {
            id: self.id,
            addr: self.addr.clone(),
            laddr: self.laddr.clone(),
            name: self.name.clone(),
            lib_name: self.lib_name.clone(),
            lib_ver: self.lib_ver.clone(),
            came: self.came,
            turned: now,
            last: self.last,
            is_three: self.is_three,
            queued: self.multi.as_ref().map(|multi| multi.commands.len()),
            watched: self.watched.len(),
            stays: self.stays,
            tracking: self.tracking.as_ref().map(|its| TrackingInfo::of(its)),
            is_local: self.is_local,
            ..About::default()
        }
    }

    /// Has others see what has changed of it; its place is `at`.
    pub fn show(&mut self, clients: &mut Clients, at: usize, now: u64) {
        let Some(shown) = clients.at(at) else { return };
        if self.is_new {
            *shown = About { socket: shown.socket.take(), ..self.about(now) };
            self.is_new = false;
        }
        (shown.turned, shown.last, shown.is_three) = (now, self.last, self.is_three);
        shown.queued = self.multi.as_ref().map(|multi| multi.commands.len());
        shown.watched = self.watched.len();
    }

    /// Takes the keys that it watches.
    pub fn take_watched(&mut self) -> Vec<Seen> {
        self.watched_bytes = 0;
        mem::take(&mut self.watched)
    }

    /// Client as a shard sees it.
    #[inline]
    pub fn asker(&self) -> Asker {
        let follows = self.tracking.as_ref().is_some_and(|tracking| tracking.follows());
        Asker { id: self.id, follows }
    }

    /// Forgets what it has said of the next command's keys, behind that.
    fn said_no_more(&mut self) {
        if let Some(tracking) = &mut self.tracking
            && self.multi.is_none()
            && !self.last.starts_with("client")
        {
            tracking.is_said = false;
        }
    }

    /// Begins a command.
    #[inline]
    pub fn begins(&mut self) {
        if self.reply == Reply::SkipNext {
            self.reply = Reply::Skip;
        }
    }

    /// Ends a command; true if its answer is wanted.
    #[inline]
    pub fn answers(&mut self) -> bool {
        self.said_no_more();
        match self.reply {
            Reply::On => true,
            Reply::Skip => {
                self.reply = Reply::On;
                false
            }
            // The command that asks for it has no answer of its own.
            Reply::SkipNext => true,
            Reply::Off => false,
        }
    }
}
