//! Jobs of a shard that others ask for.

use crate::commands::Row;
use crate::dispatch::{in_shard, watched_are_same};
use crate::resp::{Command, Out};
use crate::room::has_room_for_all;
use crate::session::Asker;
use crate::shard::Shard;
use crate::store::{Invalidation, Seen};
use crate::transaction;

/// Bytes of answers at which they are sent before more commands are run.
pub const HIGH: usize = 1 << 18;
/// Job that a shard is asked to do.
#[derive(Debug)]
pub enum Job {
    /// A command of this client.
    Run(&'static Row, Command, Asker),
    /// Commands of its transaction, if these keys are as they were.
    Exec(Vec<(&'static Row, Command)>, Vec<Seen>, Asker),
    /// Watches keys.
    Watch(Command),
    /// Watches them no more.
    Unwatch(Vec<Seen>),
    /// Asks if a client is here, and in which version of the protocol: an answer of its number.
    Speaks(u64),
    /// Tells a client of changes to keys with these prefixes; whether not of its own.
    Listen(u64, bool, Vec<Box<[u8]>>),
    /// Tells it of them no more.
    Unlisten(u64, Vec<Box<[u8]>>),
    /// Tells its clients something.
    Invalidate(Vec<Invalidation>),
}

/// A client's terms as it asks a shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardTerms {
    /// Milliseconds since 1970.
    pub now: u64,
    /// True if it speaks version 3 of the protocol.
    pub is_three: bool,
    /// Bytes of one answer, at most.
    pub most: usize,
}

impl ShardTerms {
    /// Terms of a worker that asks for itself.
    pub fn of_nobody(now: u64) -> ShardTerms {
        ShardTerms { now, is_three: false, most: 64 }
    }
}

/// Answers of a shard to its jobs.
#[derive(Debug, Default)]
pub struct Answers {
    /// All answers.
    pub bytes: Vec<u8>,
    /// End of each.
    pub ends: Vec<usize>,
    /// Jobs not done yet, as there are so many bytes of answers.
    pub left: Vec<Job>,
    /// Keys as it has seen them.
    pub seen: Vec<Seen>,
    /// True if watched keys were as they had been.
    pub is_same: bool,
    /// Refusal of a transaction that the log has no room for.
    pub refusal: Option<&'static str>,
}

/// Does what a shard is asked, until there is much to send.
pub fn serve(jobs: Vec<Job>, shard: &mut Shard, asked: ShardTerms) -> Answers {
    let mut out = Out::of(asked.is_three);
    let mut answers = Answers { is_same: true, ..Answers::default() };
    let mut jobs = jobs.into_iter();
    let run = |row, command: &Command, asker, shard: &mut Shard, out: &mut Out, most| {
        in_shard(row, command.words(), shard, asker, asked.now, out, most);
    };
    while out.bytes.len() < HIGH
        && let Some(job) = jobs.next()
    {
        match job {
            Job::Run(row, command, asker) => {
                run(row, &command, asker, shard, &mut out, asked.most);
            }
            Job::Exec(commands, watched, asker) => {
                answers.is_same = watched_are_same(&watched, shard, asked.now);
                let all = commands.iter().map(|(row, command)| (*row, command.words()));
                if answers.is_same {
                    answers.refusal = has_room_for_all(all, shard, asked.now).err();
                }
                let runs = answers.is_same && answers.refusal.is_none();
                let commands = if runs { &commands[..] } else { &[] };
                shard.keys.begin_whole();
                for (row, command) in commands {
                    let left = transaction::left(0, asked.most, &out);
                    run(row, command, asker, shard, &mut out, left);
                    answers.ends.push(out.bytes.len());
                }
                shard.keys.end_whole();
                continue;
            }
            Job::Watch(command) => {
                answers.seen = transaction::watch_there(&command, shard, asked.now);
            }
            Job::Unwatch(watched) => _ = watched_are_same(&watched, shard, asked.now),
            Job::Speaks(client) => {
                let version = shard.clients.speaks_three(client).map(|is| if is { 3 } else { 2 });
                out.integer(version.unwrap_or(0));
            }
            Job::Listen(client, skips_own, prefixes) => {
                shard.keys.listen(client, skips_own, &prefixes);
            }
            Job::Unlisten(client, prefixes) => shard.keys.unlisten(client, &prefixes),
            Job::Invalidate(messages) => shard.clients.invalidations.extend(messages),
        }
        answers.ends.push(out.bytes.len());
    }
    answers.left = jobs.collect();
    answers.bytes = out.bytes;
    answers
}
