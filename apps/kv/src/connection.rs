//! A client: what has come of it, and what goes back.

use std::mem;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::command::{Plan, plan};
use crate::resp::{self, Limits, Reader};
use crate::shard::{Op, Shard};

/// Bytes of answers that wait for a client before nothing more is read of it.
const HIGH: usize = 1 << 20;
/// Bytes of answers at which a client is let go: one command has asked for so much.
const MOST: usize = 64 << 20;
/// Reads of one client before others have their turn.
const TURNS: usize = 4;

/// An operation for another shard, which takes its bytes along.
pub type Sent = Op<Box<[u8]>>;

/// Answers of operations that were sent, one after the other.
#[derive(Debug, Default)]
pub struct Answers {
    /// All of them.
    pub bytes: Vec<u8>,
    /// Where each ends.
    pub ends: Vec<usize>,
}

/// The shards, as a connection sees them.
pub trait Shards {
    /// Which one has a key.
    fn of(&self, key: &[u8]) -> usize;
    /// How many there are.
    fn count(&self) -> usize;
    /// The one of this thread.
    fn own(&self) -> usize;
    /// Runs `f` on that.
    fn with<R: Send>(&self, f: impl FnOnce(&mut Shard) -> R + Send) -> R;
    /// Has each shard run what is for it, and waits for all; none if one is gone.
    fn ask(&self, now: u64, theirs: Vec<Vec<Sent>>) -> Option<Vec<Answers>>;
}

/// A client.
#[derive(Debug)]
pub struct Connection {
    /// Its socket, which never waits.
    pub socket: OwnedFd,
    reader: Reader,
    out: Vec<u8>,
    sent: usize,
    /// It goes when its answers have left.
    ends: bool,
}

/// Next step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// To be read.
    Read,
    /// Room for its answers.
    Write,
    /// To go.
    Close,
}

impl Connection {
    /// One that has just come.
    pub fn new(socket: OwnedFd) -> Connection {
        Connection { socket, reader: Reader::default(), out: Vec::new(), sent: 0, ends: false }
    }

    /// Bytes of memory that it has.
    pub fn kept(&self) -> usize {
        self.reader.kept() + self.out.capacity()
    }

    /// Does what can be done without waiting; `buffer` is for what comes.
    pub fn turn(
        &mut self,
        shards: &impl Shards,
        limits: Limits,
        now: u64,
        buffer: &mut [u8],
    ) -> Wants {
        if !self.flush() {
            return Wants::Close;
        }
        for _ in 0..TURNS {
            if self.ends || self.out.len() - self.sent > HIGH {
                break;
            }
            let count = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Wants::Close,
                Ok((count, _)) => count,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => return Wants::Close,
            };
            self.reader.push(&buffer[..count]);
            self.run(shards, limits, now);
            if self.out.len() > MOST || !self.flush() {
                return Wants::Close;
            }
            if count < buffer.len() {
                break;
            }
        }
        match self.out.is_empty() {
            true if self.ends => Wants::Close,
            true => Wants::Read,
            false => Wants::Write,
        }
    }

    /// Sends what waits; `false` if nobody takes it any more.
    fn flush(&mut self) -> bool {
        while self.sent < self.out.len() {
            match send(&self.socket, &self.out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => (),
                Err(_) => return false,
            }
        }
        self.out.clear();
        self.sent = 0;
        if self.out.capacity() > 64 << 10 {
            self.out.shrink_to(4096);
        }
        true
    }

    /// Runs all commands that have come whole.
    fn run(&mut self, shards: &impl Shards, limits: Limits, now: u64) {
        if shards.count() == 1 {
            // One call for all of them, whose words stay where they are.
            let Connection { reader, out, ends, .. } = self;
            shards.with(|shard| {
                while !*ends && out.len() <= MOST {
                    match reader.next(limits) {
                        Ok(true) => *ends = here(reader, shard, now, out),
                        Ok(false) => break,
                        Err(wrong) => {
                            resp::error(out, &format!("ERR {wrong}"));
                            *ends = true;
                        }
                    }
                }
            });
            return;
        }
        let mut batch = Batch::new(shards.count());
        while !self.ends && batch.local.len() <= MOST {
            match self.reader.next(limits) {
                Ok(true) => match batch.add(&self.reader, shards, now) {
                    Added::Stays => (),
                    Added::Ends => self.ends = true,
                    Added::OfAll(plan, op) => {
                        // It sees what stands before it, and nothing that stands behind it.
                        let before = mem::replace(&mut batch, Batch::new(shards.count()));
                        let mut alone = Batch::new(shards.count());
                        alone.add_to_all(plan, &op);
                        for batch in [before, alone] {
                            self.ends |= !batch.finish(shards, now, &mut self.out);
                        }
                    }
                },
                Ok(false) => break,
                Err(wrong) => {
                    let start = batch.local.len();
                    resp::error(&mut batch.local, &format!("ERR {wrong}"));
                    batch.done(start);
                    self.ends = true;
                }
            }
        }
        self.ends |= !batch.finish(shards, now, &mut self.out);
    }
}

/// Runs a command on the only shard; whether its client goes.
fn here(reader: &Reader, shard: &mut Shard, now: u64, out: &mut Vec<u8>) -> bool {
    // Most commands have one operation, which wants no memory.
    let (mut first, mut rest) = (None, Vec::new());
    let push = |op| match first {
        None => first = Some(op),
        Some(_) => rest.push(op),
    };
    let plan = plan(reader.words(), now, push, out);
    let count = usize::from(first.is_some()) + rest.len();
    let ops = first.into_iter().chain(rest);
    match plan {
        Plan::Sum if count > 1 => {
            let mut answers = Vec::new();
            ops.for_each(|op| shard.run(op, now, &mut answers));
            resp::integer(out, sum(&answers));
        }
        Plan::Array => {
            resp::array(out, count);
            ops.for_each(|op| shard.run(op, now, out));
        }
        // Their answers are the command's; of what was answered there are none.
        _ => ops.for_each(|op| shard.run(op, now, out)),
    }
    plan == Plan::Quit
}

/// The sum of answers that are numbers.
fn sum(answers: &[u8]) -> i64 {
    let numbers = answers
        .split(|byte| *byte == b'\n')
        .filter_map(|line| resp::number(line.strip_prefix(b":")?.strip_suffix(b"\r")?));
    numbers.sum()
}

/// Commands whose keys several shards have.
#[derive(Debug)]
struct Batch {
    slots: Vec<(Plan, Range<usize>)>,
    pieces: Vec<Piece>,
    /// Answers that are there.
    local: Vec<u8>,
    /// Operations for each shard.
    theirs: Vec<Vec<Sent>>,
}

/// Outcome of adding a command.
enum Added {
    /// One of some keys.
    Stays,
    /// The last one.
    Ends,
    /// One of all keys, which is not added.
    OfAll(Plan, Sent),
}

/// Where an answer is.
#[derive(Clone, Debug)]
enum Piece {
    Local(Range<usize>),
    Theirs(usize, usize),
}

impl Batch {
    fn new(shards: usize) -> Batch {
        let theirs = (0..shards).map(|_| Vec::new()).collect();
        Batch { slots: Vec::new(), pieces: Vec::new(), local: Vec::new(), theirs }
    }

    /// Adds an answer that stands in `local` from `start` on.
    fn done(&mut self, start: usize) {
        let first = self.pieces.len();
        self.pieces.push(Piece::Local(start..self.local.len()));
        self.slots.push((Plan::One, first..first + 1));
    }

    /// Adds a command, of which it runs what is this thread's.
    fn add(&mut self, reader: &Reader, shards: &impl Shards, now: u64) -> Added {
        let Batch { slots, pieces, local, theirs } = self;
        let (first, start) = (pieces.len(), local.len());
        let mut told = Vec::new();
        let mut of_all = None;
        let push = |op: Op<&[u8]>| {
            let Some(key) = op.key() else {
                of_all = Some(op.sent());
                return;
            };
            let shard = shards.of(key);
            if shard == shards.own() {
                let from = local.len();
                shards.with(|own| own.run(op, now, local));
                pieces.push(Piece::Local(from..local.len()));
            } else {
                pieces.push(Piece::Theirs(shard, theirs[shard].len()));
                theirs[shard].push(op.sent());
            }
        };
        let plan = plan(reader.words(), now, push, &mut told);
        if let Some(op) = of_all {
            return Added::OfAll(plan, op);
        }
        if matches!(plan, Plan::Done | Plan::Quit) {
            local.append(&mut told);
            self.done(start);
        } else {
            slots.push((plan, first..pieces.len()));
        }
        if plan == Plan::Quit { Added::Ends } else { Added::Stays }
    }

    /// Adds a command that each shard is to run.
    fn add_to_all(&mut self, plan: Plan, op: &Sent) {
        let first = self.pieces.len();
        for (shard, its) in self.theirs.iter_mut().enumerate() {
            self.pieces.push(Piece::Theirs(shard, its.len()));
            its.push(op.clone());
        }
        self.slots.push((plan, first..self.pieces.len()));
    }

    /// Asks the other shards and puts all answers in their order; `false` if one is gone.
    fn finish(self, shards: &impl Shards, now: u64, out: &mut Vec<u8>) -> bool {
        let Batch { slots, pieces, local, theirs } = self;
        let answers = match theirs.iter().all(Vec::is_empty) {
            true => Vec::new(),
            false => match shards.ask(now, theirs) {
                Some(answers) => answers,
                None => return false,
            },
        };
        let piece = |piece: &Piece| match piece {
            Piece::Local(range) => &local[range.clone()],
            Piece::Theirs(shard, at) => {
                let Answers { bytes, ends } = &answers[*shard];
                let start = at.checked_sub(1).map_or(0, |before| ends[before]);
                &bytes[start..ends[*at]]
            }
        };
        for (plan, range) in slots {
            let its = &pieces[range];
            match plan {
                Plan::Sum | Plan::SumOfAll => {
                    resp::integer(out, its.iter().map(|one| sum(piece(one))).sum());
                }
                Plan::AnyOfAll => out.extend_from_slice(its.first().map_or(b"", &piece)),
                Plan::Array => {
                    resp::array(out, its.len());
                    its.iter().for_each(|one| out.extend_from_slice(piece(one)));
                }
                _ => its.iter().for_each(|one| out.extend_from_slice(piece(one))),
            }
        }
        true
    }
}
