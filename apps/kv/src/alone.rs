//! Commands of a client where there is one shard: all that have come are one call of it.

use std::sync::Arc;

use crate::commands::flag::LONG;
use crate::desk::{HIGH, Terms};
use crate::dispatch::{self, Step};
use crate::follow;
use crate::resp::{Limits, Out, Reader};
use crate::session::Session;
use crate::shard::Shard;
use crate::spell::Spell;
use crate::store::{How, Invalidation};
use crate::transaction;

/// Runs commands on the only shard; whether there are more, and whether others have their turn
/// before them.
pub(crate) fn alone(
    reader: &mut Reader,
    session: &mut Session,
    input: &[u8],
    shard: &mut Shard,
    terms: Terms<'_>,
    out: &mut Out,
    at: usize,
) -> (bool, bool) {
    let Terms { shared, now, most, limits } = terms;
    let mut count = 0;
    let mut is_long = false;
    let mut spell = Spell::begin();
    let has_more = loop {
        if out.bytes.len() >= HIGH || is_long {
            break true;
        }
        let limits = Limits { is_stranger: !session.is_known, ..limits };
        match reader.next(input, limits) {
            Ok(true) => {}
            Ok(false) => break false,
            Err(wrong) => {
                out.error(&format!("ERR {wrong}"));
                session.ends = true;
                break false;
            }
        }
        count += 1;
        let (words, start) = (reader.words(input), out.bytes.len());
        let unsent = shard.keys.unsent();
        session.begins();
        match dispatch::step(words, session, out, 1, |_| 0) {
            Step::Answered => {}
            Step::Shards(row) => {
                is_long = row.is(LONG);
                if row.group == "connection" {
                    // It may be about itself.
                    session.show(&mut shard.clients, at, now);
                }
                dispatch::in_shard(row, words, shard, session.asker(), now, out, most);
            }
            Step::Here(row, run) => {
                if row.group == "server" {
                    shard.publish(&shared.counters[0]);
                }
                dispatch::here(run, words, session, shared, now, out, most);
            }
            Step::Unwatch(row, run) => {
                if row.name == "reset" {
                    follow::off(session, &mut &mut *shard);
                }
                let watched = session.take_watched();
                dispatch::watched_are_same(&watched, shard, now);
                dispatch::here(run, words, session, shared, now, out, most);
            }
            Step::Track => {
                follow::command(words, session, &mut *shard, out);
                session.show(&mut shard.clients, at, now);
            }
            Step::Watch => {
                if transaction::may_watch(words, session, limits.command, out) {
                    transaction::watch(words, session, shard, now, out);
                }
            }
            Step::Exec => {
                is_long = transaction::exec(session, shard, shared, now, out, most);
                if session.is_new {
                    session.show(&mut shard.clients, at, now);
                }
            }
        }
        if !session.answers() {
            out.bytes.truncate(start);
        }
        if shard.keys.unsent() > unsent {
            invalidate_own(session, shard, unsent, out);
        }
        is_long |= spell.is_over_after();
        session.ends |= shard.clients.is_killed(session.id);
        if session.ends || session.is_cut {
            break false;
        }
    };
    shared.counters[0].commands.add(count);
    (has_more, is_long)
}

/// Sends a client, behind the answer, the invalidations of its own command, by its present settings: the
/// next command may change them. Other clients get theirs later.
fn invalidate_own(session: &mut Session, shard: &mut Shard, from: usize, out: &mut Out) {
    let tracking = session.tracking.as_ref();
    let mut elsewhere = Vec::new();
    shard.keys.take_unsent_of(session.id, from, |message| {
        let Some(tracking) = tracking else { return };
        let is_meant = match message.how {
            How::All => true,
            _ => {
                let is_own = tracking.skips_own && message.by == session.id;
                !(tracking.is_broadcast || is_own)
            }
        };
        match tracking.redirect.filter(|to| *to != session.id) {
            Some(to) if is_meant => {
                let bytes = Arc::clone(&message.bytes);
                elsewhere.push(Invalidation {
                    to: vec![to],
                    by: session.id,
                    how: How::Redirected,
                    bytes,
                });
            }
            None if is_meant && session.is_three => out.bytes.extend_from_slice(&message.bytes),
            _ => {}
        }
    });
    elsewhere.into_iter().for_each(|message| shard.keys.invalidate(message));
}
