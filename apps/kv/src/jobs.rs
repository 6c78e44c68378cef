//! Jobs of a shard that others ask for.

use crate::commands::Row;
use crate::dispatch::{in_shard, watched_are_same};
use crate::resp::{Command, Out};
use crate::room::has_room_for_all;
use crate::session::Asker;
use crate::shard::Shard;
use crate::spell::Spell;
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
    /// Jobs not done yet, as there are so many bytes of answers or others have their turn.
    pub left: Vec<Job>,
    /// Keys as it has seen them.
    pub seen: Vec<Seen>,
    /// True if watched keys were as they had been.
    pub is_same: bool,
    /// Refusal of a transaction that the log has no room for.
    pub refusal: Option<&'static str>,
}

/// Does what a shard is asked, until there is much to send or others have their turn.
pub fn serve(jobs: Vec<Job>, shard: &mut Shard, asked: ShardTerms) -> Answers {
    let mut out = Out::of(asked.is_three);
    let mut answers = Answers { is_same: true, ..Answers::default() };
    let mut jobs = jobs.into_iter();
    let (mut spell, mut is_over) = (Spell::begin(), false);
    let run = |row, command: &Command, asker, shard: &mut Shard, out: &mut Out, most| {
        in_shard(row, command.words(), shard, asker, asked.now, out, most);
    };
    while out.bytes.len() < HIGH
        && !is_over
        && let Some(job) = jobs.next()
    {
        is_over = spell.is_over_after();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::commands::find;
    use crate::shard::Spec;
    use crate::store::Hash;

    /// Somebody waits for the rest, and others for their turn.
    #[test]
    fn jobs_that_take_long_are_left_for_later() {
        let limit = Arc::new(AtomicUsize::new(64 << 20));
        let spec = Spec { number: 0, of: 1, limit, longest: 1 << 20, hash: Hash::default() };
        let mut shard = Shard::new(spec);
        let asker = Asker { id: 0, follows: false };
        // Each copies a mebibyte.
        let command = || Command::of([&b"SETRANGE"[..], b"k", b"1048000", b"x"].into_iter());
        let row = find(command().words()).unwrap();
        let asked = ShardTerms { now: 1, is_three: false, most: 1 << 20 };
        let mut left: Vec<_> = (0..2000).map(|_| Job::Run(row, command(), asker)).collect();
        let mut goes = 0;
        while !left.is_empty() {
            let count = left.len();
            let answers = serve(left, &mut shard, asked);
            assert_eq!(answers.ends.len() + answers.left.len(), count);
            assert!(!answers.ends.is_empty(), "none is done");
            (left, goes) = (answers.left, goes + 1);
        }
        assert!(goes > 2, "{goes}");
    }
}
