//! `WATCH` and `EXEC`: all keys of a transaction are of one shard, which runs it in one go.

use crate::commands::flag::LONG;
use crate::commands::{Row, Run, command, find};
use crate::dispatch::{here, in_shard, watched_are_same};
use crate::follow;
use crate::resp::{Command, Out, Words};
use crate::room::has_room_for_all;
use crate::session::{Multi, Session};
use crate::shard::Shard;
use crate::shared::Shared;
use crate::store::Seen;

/// Reason for which `EXEC` runs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// A watched key has changed.
    Changed,
    /// This error.
    Refused(&'static str),
}

/// Takes a transaction that is to run, and the keys that were watched for it.
pub fn taken(session: &mut Session) -> (Result<Multi, Nothing>, Vec<Seen>) {
    let Some(multi) = session.multi.take() else {
        return (Err(Nothing::Refused("ERR EXEC without MULTI")), Vec::new());
    };
    let watched = session.take_watched();
    let is_wrong = "EXECABORT Transaction discarded because of previous errors.";
    (if multi.is_wrong { Err(Nothing::Refused(is_wrong)) } else { Ok(multi) }, watched)
}

/// The commands of a transaction with their rows.
pub fn rows(commands: Vec<Command>) -> impl Iterator<Item = (&'static Row, Command)> {
    commands.into_iter().filter_map(|command| Some((find(command.words()).ok()?, command)))
}

/// Answers that nothing ran.
pub fn nothing(why: Nothing, out: &mut Out) {
    match why {
        Nothing::Changed => out.no_array(),
        Nothing::Refused(text) => out.error(text),
    }
}

/// True if a command of a transaction runs where the keys are.
pub fn is_of_shard(row: &Row) -> bool {
    matches!(row.run, Run::Keys(_) | Run::Split(..) | Run::All(..) | Run::Cursor(_))
}

/// Runs a command of a transaction that needs no keys.
pub fn apart(
    row: &Row,
    words: Words<'_>,
    session: &mut Session,
    shared: &Shared,
    now: u64,
    out: &mut Out,
    most: usize,
) {
    let run = match row.run {
        Run::Here(run) | Run::Unwatch(run) => run,
        _ => command,
    };
    here(run, words, session, shared, now, out, most);
}

/// Room that is left for the answer of all commands.
pub fn left(start: usize, most: usize, out: &Out) -> usize {
    (start + most).saturating_sub(out.bytes.len()).max(64)
}

/// Runs a transaction on this thread's shard; whether it has taken long.
pub fn exec(
    session: &mut Session,
    shard: &mut Shard,
    shared: &Shared,
    now: u64,
    out: &mut Out,
    most: usize,
) -> bool {
    let (multi, watched) = taken(session);
    let is_same = watched_are_same(&watched, shard, now);
    let multi = match multi {
        Ok(multi) if is_same => multi,
        refused => {
            nothing(refused.err().unwrap_or(Nothing::Changed), out);
            return false;
        }
    };
    let mut is_long = false;
    let commands: Vec<_> = rows(multi.commands).collect();
    let all = commands.iter().map(|(row, command)| (*row, command.words()));
    if let Err(refusal) = has_room_for_all(all, shard, now) {
        out.error(refusal);
        return false;
    }
    shard.keys.begin_whole();
    let start = out.bytes.len();
    out.array(commands.len());
    for (row, command) in commands {
        let left = left(start, most, out);
        is_long |= row.is(LONG);
        if is_of_shard(row) {
            in_shard(row, command.words(), shard, session.asker(), now, out, left);
        } else if let Run::Track = row.run {
            follow::command(command.words(), session, &mut *shard, out);
        } else {
            if row.group == "server" {
                shard.publish(&shared.counters[shard.number]);
            }
            apart(row, command.words(), session, shared, now, out, left);
        }
    }
    shard.keys.end_whole();
    is_long
}

/// Checks that a client may watch these keys: not within a transaction, and not more at once than the
/// longest command may have bytes, as they are weighed with what all clients keep only behind it. If
/// not, the answer is written.
pub fn may_watch(words: Words<'_>, session: &Session, most: usize, out: &mut Out) -> bool {
    if session.multi.is_some() {
        out.error("ERR WATCH inside MULTI is not allowed");
        return false;
    }
    let bytes: usize = words.from(1).iter().map(Seen::would_keep).sum();
    if bytes > most {
        out.error(&format!(
            "ERR {} keys to watch would take {bytes} bytes, more than the {most} that --memory \
             allows for one command: watch fewer at once",
            words.len() - 1
        ));
    }
    bytes <= most
}

/// Watches keys of this thread's shard.
pub fn watch(words: Words<'_>, session: &mut Session, shard: &mut Shard, now: u64, out: &mut Out) {
    // One that is watched twice is watched twice: to look for it among many would take long.
    for key in words.from(1).iter() {
        let seen = shard.keys.watch(key, now);
        session.watched_bytes += seen.kept();
        session.watched.push(seen);
    }
    session.watched_at = shard.number;
    out.ok();
}

/// Watches keys of another's shard, and gives them as seen there.
pub fn watch_there(command: &Command, shard: &mut Shard, now: u64) -> Vec<Seen> {
    command.words().from(1).iter().map(|key| shard.keys.watch(key, now)).collect()
}
