//! Jobs of a shard that others ask for.

use crate::commands::Row;
use crate::dispatch::{in_shard, watched_are_same};
use crate::resp::{Command, Out};
use crate::shard::Shard;
use crate::store::Seen;
use crate::transaction;

/// Bytes of answers at which they are sent before more commands are run.
pub const HIGH: usize = 1 << 18;
/// Something that a shard is asked to do.
#[derive(Debug)]
pub enum Job {
    /// A command.
    Run(&'static Row, Command),
    /// Commands of a transaction, if these keys are as they were.
    Exec(Vec<(&'static Row, Command)>, Vec<Seen>),
    /// To watch keys.
    Watch(Command),
    /// To watch them no more.
    Unwatch(Vec<Seen>),
}

/// A client's terms as it asks a shard.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Milliseconds since 1970.
    pub now: u64,
    /// The client's number.
    pub client: u64,
    /// Whether it speaks version 3 of the protocol.
    pub is_three: bool,
    /// Bytes of one answer, at most.
    pub most: usize,
}

/// Answers of a shard to its jobs.
#[derive(Debug, Default)]
pub struct Answers {
    /// All answers.
    pub bytes: Vec<u8>,
    /// Where each ends.
    pub ends: Vec<usize>,
    /// Jobs not done yet, as there are so many bytes of answers.
    pub left: Vec<Job>,
    /// Keys as it has seen them.
    pub seen: Vec<Seen>,
    /// Whether watched keys were as they had been.
    pub is_same: bool,
}

/// Does what a shard is asked, until there is much to send.
pub fn serve(jobs: Vec<Job>, shard: &mut Shard, asked: Asked) -> Answers {
    let mut out = Out::of(asked.is_three);
    let mut answers = Answers { is_same: true, ..Answers::default() };
    let mut jobs = jobs.into_iter();
    let run = |row, command: &Command, shard: &mut Shard, out: &mut Out, most| {
        in_shard(row, command.words(), shard, asked.client, asked.now, out, most);
    };
    while out.bytes.len() < HIGH
        && let Some(job) = jobs.next()
    {
        match job {
            Job::Run(row, command) => run(row, &command, shard, &mut out, asked.most),
            Job::Exec(commands, watched) => {
                answers.is_same = watched_are_same(&watched, shard, asked.now);
                let commands = if answers.is_same { &commands[..] } else { &[] };
                for (row, command) in commands {
                    let left = transaction::left(0, asked.most, &out);
                    run(row, command, shard, &mut out, left);
                    answers.ends.push(out.bytes.len());
                }
                continue;
            }
            Job::Watch(command) => {
                answers.seen = transaction::watch_there(&command, shard, asked.now);
            }
            Job::Unwatch(watched) => _ = watched_are_same(&watched, shard, asked.now),
        }
        answers.ends.push(out.bytes.len());
    }
    answers.left = jobs.collect();
    answers.bytes = out.bytes;
    answers
}
