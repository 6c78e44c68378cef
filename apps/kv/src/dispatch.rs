//! What is to be done with a command: checks that all commands have, and transactions.

use crate::commands::flag::{NO_AUTH, NO_MULTI, NOW, READ, WRITE};
use crate::commands::{Call, Done, Here, Row, Run, Unknown, find, wrong_count};
use crate::resp::{Command, Out, Words};
use crate::room::has_room;
use crate::session::{Asker, Session};
use crate::shard::Shard;
use crate::shared::Shared;
use crate::store::Seen;

/// Next step of a command.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The command has been answered.
    Answered,
    /// The command runs without keys.
    Here(&'static Row, fn(&mut Here<'_>) -> Done),
    /// The command runs in shards.
    Shards(&'static Row),
    /// The command sets its client's tracking.
    Track,
    /// The command ends a transaction.
    Exec,
    /// The command watches keys.
    Watch,
    /// The command watches none any more.
    Unwatch(&'static Row, fn(&mut Here<'_>) -> Done),
}

/// Words of a browser, or of another program that speaks HTTP.
const HTTP: [&[u8]; 9] =
    [b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"TRACE", b"PROPFIND"];

/// True if a page somewhere has a browser send this: it could have it run commands that way.
fn is_http(words: Words<'_>) -> bool {
    let name = words.get(0);
    HTTP.iter().any(|method| method.eq_ignore_ascii_case(name))
        || name.ends_with(b":")
        || words.get(2).starts_with(b"HTTP/")
}

/// Checks a command.
#[inline]
pub fn step(
    words: Words<'_>,
    session: &mut Session,
    out: &mut Out,
    shards: usize,
    of: impl Fn(&[u8]) -> usize,
) -> Step {
    let row = match find(words) {
        Ok(row) => row,
        Err(_) if is_http(words) => {
            session.is_cut = true;
            return Step::Answered;
        }
        Err(unknown) => {
            session.wrong();
            session.last = "NULL";
            unknown_command(words, unknown, out);
            return Step::Answered;
        }
    };
    session.last = row.name;
    if !row.takes(words.len()) {
        if is_http(words) {
            session.is_cut = true;
            return Step::Answered;
        }
        session.wrong();
        // It is the end of the transaction all the same.
        if let Run::Exec = row.run {
            return Step::Unwatch(row, |h| {
                h.session.multi = None;
                Err("EXECABORT Transaction discarded because of: wrong number of arguments for \
                     'exec' command")
            });
        }
        out.error(&wrong_count(row));
        return Step::Answered;
    }
    if !session.is_known && !row.is(NO_AUTH) {
        session.wrong();
        if let Run::Exec = row.run {
            return Step::Unwatch(row, |h| {
                h.session.multi = None;
                Err("EXECABORT Transaction discarded because of: NOAUTH Authentication required.")
            });
        }
        out.error("NOAUTH Authentication required.");
        return Step::Answered;
    }
    if session.multi.is_some() && !row.is(NOW) {
        queue(row, words, session, out, shards, of);
        return Step::Answered;
    }
    match row.run {
        Run::Here(run) => Step::Here(row, run),
        // One that has subcommands and stands alone: `COMMAND` shows all.
        Run::Group(_) => Step::Here(row, crate::commands::command),
        Run::Track => Step::Track,
        Run::Exec => Step::Exec,
        Run::Watch => Step::Watch,
        // Refused: what is watched stays watched.
        Run::Unwatch(run) if row.name == "discard" && session.multi.is_none() => {
            Step::Here(row, run)
        }
        Run::Unwatch(run) => Step::Unwatch(row, run),
        _ => Step::Shards(row),
    }
}

fn unknown_command(words: Words<'_>, unknown: Unknown, out: &mut Out) {
    // As in C: a zero ends a text.
    fn text(word: &[u8], most: usize) -> &[u8] {
        let end = word.iter().position(|byte| *byte == 0).unwrap_or(word.len());
        &word[..end.min(most)]
    }
    if let Unknown::Sub(row) = unknown {
        let name = row.name.to_uppercase();
        let sub = text(words.get(1), 128);
        let pieces: [&[u8]; 5] =
            [b"ERR unknown subcommand '", sub, b"'. Try ", name.as_bytes(), b" HELP."];
        return out.error_of(&pieces);
    }
    let mut args = Vec::new();
    for word in words.from(1).iter() {
        if args.len() >= 128 {
            break;
        }
        let left = 128 - args.len();
        args.push(b'\'');
        args.extend_from_slice(text(word, left));
        args.extend_from_slice(b"' ");
    }
    let name = text(words.get(0), 128);
    out.error_of(&[b"ERR unknown command '", name, b"', with args beginning with: ", &args]);
}

/// Refusal of keys that several shards have.
pub const CROSS: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// The shard of all these keys, if it is one.
pub fn shard_of(
    row: &Row,
    words: Words<'_>,
    of: impl Fn(&[u8]) -> usize,
) -> Result<Option<usize>, &'static str> {
    let mut shards = row.key_places(words.len()).map(|at| of(words.get(at)));
    let Some(first) = shards.next() else { return Ok(None) };
    if shards.all(|shard| shard == first) { Ok(Some(first)) } else { Err(CROSS) }
}

/// Puts a command behind the others of a transaction.
fn queue(
    row: &'static Row,
    words: Words<'_>,
    session: &mut Session,
    out: &mut Out,
    shards: usize,
    of: impl Fn(&[u8]) -> usize,
) {
    // Over several shards keys and what needs none run apart, and in an order of their own.
    let sets_what_is_followed = matches!(row.run, Run::Track) || row.name == "client|caching";
    if row.is(NO_MULTI) || shards > 1 && sets_what_is_followed {
        session.wrong();
        return out.error("ERR Command not allowed inside a transaction");
    }
    let Some(multi) = &mut session.multi else { return };
    if shards > 1 {
        let is_of_all = matches!(row.run, Run::All(..) | Run::Cursor(_));
        let its = if is_of_all { Err(CROSS) } else { shard_of(row, words, of) };
        let watched_at = (!session.watched.is_empty()).then_some(session.watched_at);
        let is_other = |its: usize| multi.shard.or(watched_at).is_some_and(|shard| shard != its);
        match its {
            Ok(Some(its)) if is_other(its) => {
                session.wrong();
                return out.error(CROSS);
            }
            Ok(Some(its)) => multi.shard = Some(its),
            Ok(None) => {}
            Err(text) => {
                session.wrong();
                return out.error(text);
            }
        }
    }
    if !multi.is_wrong {
        let command = Command::of(words.iter());
        multi.bytes += command.kept();
        multi.commands.push(command);
    }
    out.simple("QUEUED");
}

/// Runs a command in a shard; its answer has so many bytes at most.
#[inline]
pub fn in_shard(
    row: &'static Row,
    words: Words<'_>,
    shard: &mut Shard,
    asker: Asker,
    now: u64,
    out: &mut Out,
    most: usize,
) {
    let run = match row.run {
        Run::Keys(run) | Run::Split(run, _) | Run::All(run, _) | Run::Cursor(run) => run,
        _ => return,
    };
    let start = out.begin(most);
    shard.keys.done_by(asker.id);
    let room = if row.is(WRITE) { has_room(row, words, shard, now) } else { Ok(()) };
    let mut call = Call { words, shard, now, asker, out };
    let done = room.and_then(|()| run(&mut call));
    shard.keys.hand_over();
    if let Err(text) = done {
        out.bytes.truncate(start);
        if text.starts_with("OOM") {
            shard.refused += 1;
        }
        out.error(text);
    }
    out.end(start);
    if asker.follows && row.is(READ) {
        for at in row.key_places(words.len()) {
            shard.keys.follow(words.get(at), asker.id);
        }
    }
}

/// Runs a command that needs no keys.
pub fn here(
    run: fn(&mut Here<'_>) -> Done,
    words: Words<'_>,
    session: &mut Session,
    shared: &Shared,
    now: u64,
    out: &mut Out,
    most: usize,
) {
    let start = out.begin(most);
    let mut here = Here { words, session, shared, now, out };
    if let Err(text) = run(&mut here) {
        out.bytes.truncate(start);
        out.error(text);
    }
    out.end(start);
}

/// True if watched keys of a shard are as they were; they are watched no more.
pub fn watched_are_same(watched: &[Seen], shard: &mut Shard, now: u64) -> bool {
    // All of them are left, also behind the first that has changed.
    watched.iter().fold(true, |is_same, seen| shard.keys.unwatch(seen, now) & is_same)
}
