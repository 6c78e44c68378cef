//! What is to be done with a command: checks that all commands have, and transactions.

use crate::commands::{Call, Done, Here, Merge, NO_CLIENT, Row, Run, Unknown, find, wrong_count};
use crate::resp::{Command, Out, Words, number};
use crate::session::Session;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::store::Seen;

/// Next step of a command.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// It has been answered.
    Answered,
    /// It runs without keys.
    Here(&'static Row, fn(&mut Here<'_>) -> Done),
    /// It runs in shards.
    Shards(&'static Row),
    /// It ends a transaction.
    Exec,
    /// It watches keys.
    Watch,
    /// It watches none any more.
    Unwatch(&'static Row, fn(&mut Here<'_>) -> Done),
}

/// Words of a browser, or of another program that speaks HTTP.
const HTTP: [&[u8]; 9] =
    [b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"TRACE", b"PROPFIND"];

/// Whether a page somewhere has a browser send this: it could have it run commands that way.
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
        let wrong = wrong_count(row);
        match row.run {
            // It is the end of the transaction all the same.
            Run::Exec => {
                session.multi = None;
                out.error(&wrong.replacen(
                    "ERR ",
                    "EXECABORT Transaction discarded because of: ",
                    1,
                ));
            }
            _ => out.error(&wrong),
        }
        return Step::Answered;
    }
    if !session.is_known && !row.is(crate::commands::flag::NO_AUTH) {
        session.wrong();
        out.error("NOAUTH Authentication required.");
        return Step::Answered;
    }
    if session.multi.is_some() && !row.is(crate::commands::flag::NOW) {
        queue(row, words, session, out, shards, of);
        return Step::Answered;
    }
    match row.run {
        Run::Here(run) => Step::Here(row, run),
        // One that has subcommands and stands alone: of `COMMAND` all are told.
        Run::Group(_) => Step::Here(row, crate::commands::command),
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
    if row.is(crate::commands::flag::NO_MULTI) {
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
    client: u64,
    now: u64,
    out: &mut Out,
    most: usize,
) {
    let run = match row.run {
        Run::Keys(run) | Run::Split(run, _) | Run::All(run, _) | Run::Cursor(run) => run,
        _ => return,
    };
    let start = out.begin(most);
    let mut call = Call { words, shard, now, client, out };
    if let Err(text) = run(&mut call) {
        out.bytes.truncate(start);
        if text.starts_with("OOM") {
            shard.refused += 1;
        }
        out.error(text);
    }
    out.end(start);
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

/// Makes one answer of those of several shards.
pub fn merged<'a>(merge: Merge, parts: &mut dyn Iterator<Item = &'a [u8]>, out: &mut Out) {
    let parts: Vec<&[u8]> = parts.collect();
    // What one refuses is refused.
    if let Some(error) = parts.iter().find(|part| part.first() == Some(&b'-')) {
        return out.bytes.extend_from_slice(error);
    }
    // The number of an answer, and what stands behind it.
    let head = |part: &'a [u8]| {
        let end = part.windows(2).position(|two| two == b"\r\n").unwrap_or(part.len());
        let count = number(part.get(1..end).unwrap_or_default()).unwrap_or(0);
        (count, part.get(end + 2..).unwrap_or_default())
    };
    let sum = || parts.iter().map(|part| head(part).0).sum::<i64>();
    match merge {
        Merge::Sum | Merge::Killed => out.integer(sum()),
        Merge::KilledOne if sum() == 0 => out.error(NO_CLIENT),
        Merge::KilledOne => out.ok(),
        Merge::First => out.bytes.extend_from_slice(parts.first().copied().unwrap_or_default()),
        Merge::Array => {
            out.array(usize::try_from(sum()).unwrap_or(0));
            parts.iter().for_each(|part| out.bytes.extend_from_slice(head(part).1));
        }
        Merge::Any => {
            let is_something = |part: &&&[u8]| part.starts_with(b"$") && !part.starts_with(b"$-1");
            let part = parts.iter().find(is_something).or(parts.first());
            out.bytes.extend_from_slice(part.copied().unwrap_or_default());
        }
        Merge::Text => {
            let mut text = Vec::new();
            for part in &parts {
                let body = head(part).1;
                let body = body.strip_suffix(b"\r\n").unwrap_or(body);
                text.extend_from_slice(body.strip_prefix(b"txt:").unwrap_or(body));
            }
            out.text(&text);
        }
    }
}

/// Makes one list of several, whose elements take turns in this order.
pub fn interleaved(order: &[u16], mut parts: Vec<&[u8]>, out: &mut Out) {
    if let Some(error) = parts.iter().find(|part| part.first() == Some(&b'-')) {
        return out.bytes.extend_from_slice(error);
    }
    // The first line of an element or a list has its length.
    fn line(part: &[u8]) -> (usize, Option<i64>) {
        let end = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |at| at + 1);
        (end, number(part.get(1..end.saturating_sub(2)).unwrap_or_default()))
    }
    parts.iter_mut().for_each(|part| *part = &part[line(part).0..]);
    out.array(order.len());
    for number in order {
        let Some(part) = parts.get_mut(usize::from(*number)) else { return };
        let (head, length) = line(part);
        // What is not there has a line alone.
        let bytes = length.and_then(|length| usize::try_from(length).ok()).map_or(0, |it| it + 2);
        let (element, rest) = part.split_at((head + bytes).min(part.len()));
        out.bytes.extend_from_slice(element);
        *part = rest;
    }
}

/// Ends a transaction whose commands and keys are all of one shard, here; whether they ran.
///
/// Nobody else has a turn meanwhile: the commands are one.
pub fn watched_are_same(watched: &[Seen], shard: &mut Shard, now: u64) -> bool {
    // All of them are left, also behind the first that has changed.
    watched.iter().fold(true, |is_same, seen| shard.keys.unwatch(seen, now) & is_same)
}
