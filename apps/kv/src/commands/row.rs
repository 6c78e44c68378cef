//! What a command is.

use crate::resp::{Out, Words};
use crate::session::{Asker, Session};
use crate::shard::Shard;
use crate::shared::Shared;

/// A command's row in the table.
#[derive(Debug)]
pub struct Row {
    /// Its name, in small letters; a subcommand's is `client|list`.
    pub name: &'static str,
    /// Number of its words, its name among them; below nought: so many at least.
    pub arity: i32,
    /// Some of [`flag`].
    pub flags: u32,
    /// Words that are keys: first, last (below nought: from the end), step.
    pub keys: (i32, i32, i32),
    /// Its function.
    pub run: Run,
    /// The group of commands that it is of.
    pub group: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// Its work in a sentence.
    pub summary: &'static str,
}

/// Properties of commands.
pub mod flag {
    /// Changes keys.
    pub const WRITE: u32 = 1;
    /// Reads keys.
    pub const READ: u32 = 2;
    /// May need memory.
    pub const DENYOOM: u32 = 4;
    /// Takes the same time however much there is.
    pub const FAST: u32 = 8;
    /// Concerns the server.
    pub const ADMIN: u32 = 16;
    /// Takes long, or harms a user who does not know its effect.
    pub const DANGEROUS: u32 = 32;
    /// Not for scripts.
    pub const NOSCRIPT: u32 = 64;
    /// Open to a client that has not said the password.
    pub const NO_AUTH: u32 = 128;
    /// Runs within a transaction at once: it is not queued.
    pub const NOW: u32 = 256;
    /// May be run while a server reads its keys.
    pub const LOADING: u32 = 512;
    /// May take long: others have their turn behind it.
    pub const LONG: u32 = 1024;
    /// Not within a transaction.
    pub const NO_MULTI: u32 = 2048;
}

/// A command's function, and where it runs.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// A command that runs where its keys are: all in one shard.
    Keys(fn(&mut Call<'_>) -> Done),
    /// A command that runs where its keys are: each shard does its part, if they are of several.
    Split(fn(&mut Call<'_>) -> Done, Merge),
    /// Each shard runs it.
    All(fn(&mut Call<'_>) -> Done, Merge),
    /// The shard that its cursor names runs it.
    Cursor(fn(&mut Call<'_>) -> Done),
    /// The client's own thread runs it, without keys.
    Here(fn(&mut Here<'_>) -> Done),
    /// A command with subcommands.
    Group(&'static [Row]),
    /// Sets its client's tracking.
    Track,
    /// Ends a transaction.
    Exec,
    /// Watches keys.
    Watch,
    /// Watches none any more; and whether a transaction ends by it.
    Unwatch(fn(&mut Here<'_>) -> Done),
}

/// Rule by which answers of several shards become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Their sum.
    Sum,
    /// The first error, or any of them.
    First,
    /// One array of all.
    Array,
    /// One text of all.
    Text,
    /// Any that is something.
    Any,
    /// Their sum: so many clients are to go.
    Killed,
    /// OK if any shard had one: `CLIENT KILL` with an address.
    KilledOne,
}

/// Text of an error.
pub type Refused = &'static str;
/// Outcome of a command: it has written its answer, or is refused and has changed nothing.
pub type Done = Result<(), Refused>;

/// A command that runs in a shard.
#[derive(Debug)]
pub struct Call<'a> {
    /// Its words.
    pub words: Words<'a>,
    /// Shard in which it runs.
    pub shard: &'a mut Shard,
    /// Milliseconds since 1970.
    pub now: u64,
    /// Client that sent it.
    pub asker: Asker,
    /// Its answer.
    pub out: &'a mut Out,
}

impl<'a> Call<'a> {
    /// Word of the command.
    #[inline]
    pub fn word(&self, at: usize) -> &'a [u8] {
        self.words.get(at)
    }
}

/// A command that needs no keys.
#[derive(Debug)]
pub struct Here<'a> {
    /// Its words.
    pub words: Words<'a>,
    /// Session of the client that sent it.
    pub session: &'a mut Session,
    /// The server.
    pub shared: &'a Shared,
    /// Milliseconds since 1970.
    pub now: u64,
    /// Its answer.
    pub out: &'a mut Out,
}

impl<'a> Here<'a> {
    /// Word of the command.
    pub fn word(&self, at: usize) -> &'a [u8] {
        self.words.get(at)
    }
}

impl Row {
    /// True if so many words are right.
    #[inline]
    pub fn takes(&self, words: usize) -> bool {
        match self.arity {
            exact @ 0.. => words == exact as usize,
            least => words >= least.unsigned_abs() as usize,
        }
    }

    /// True if it has a property.
    #[inline]
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// True if each key has all its words.
    pub fn takes_pairs(&self, words: usize) -> bool {
        (words - 1).is_multiple_of(self.keys.2.max(1) as usize)
    }

    /// Places of its keys among so many words.
    pub fn key_places(&self, words: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, last, step) = self.keys;
        let last = if last < 0 { words as i32 + last } else { last };
        let end = if first == 0 { 0 } else { last + 1 };
        (first..end.min(words as i32)).step_by(step.max(1) as usize).map(|at| at as usize)
    }
}
