//! What a client asks of one shard alone: to watch keys, to run a transaction; and who follows keys.

use super::answers::asked;
use crate::desk::{Desk, Shards, Terms};
use crate::dispatch;
use crate::follow::Around;
use crate::jobs::{Answers, Job, ShardTerms};
use crate::resp::{Command, Out, Words, number};
use crate::session::Session;
use crate::store::Seen;
use crate::transaction::{self, Nothing};

fn no_jobs(desk: &Desk<'_, impl Shards>) -> Vec<Vec<Job>> {
    (0..desk.shards.count()).map(|_| Vec::new()).collect()
}

/// Asks one shard.
pub(super) fn one(
    shard: usize,
    job: Job,
    session: &mut Session,
    desk: &Desk<'_, impl Shards>,
) -> Option<Answers> {
    let mut jobs = no_jobs(desk);
    jobs.get_mut(shard)?.push(job);
    let answers = desk.shards.ask(asked(session, desk), jobs);
    if answers.is_none() {
        session.ends = true;
    }
    answers?.into_iter().nth(shard)
}

pub(super) fn watch(
    words: Words<'_>,
    session: &mut Session,
    desk: &Desk<'_, impl Shards>,
    out: &mut Out,
) {
    if !transaction::may_watch(words, session, desk.terms.limits.command, out) {
        return;
    }
    let mut shards = words.from(1).iter().map(|key| desk.shards.of(key));
    let first = shards.next().unwrap_or(0);
    let is_other = !session.watched.is_empty() && session.watched_at != first;
    if is_other || shards.any(|shard| shard != first) {
        return out.error(dispatch::CROSS);
    }
    let Some(answers) = one(first, Job::Watch(Command::of(words.iter())), session, desk) else {
        return;
    };
    session.watched_bytes += answers.seen.iter().map(Seen::kept).sum::<usize>();
    session.watched.extend(answers.seen);
    session.watched_at = first;
    out.ok();
}

pub(super) fn exec(session: &mut Session, desk: &mut Desk<'_, impl Shards>, out: &mut Out) {
    let Terms { shared, now, most, .. } = desk.terms;
    let watched_at = session.watched_at;
    let (multi, watched) = transaction::taken(session);
    let shard = match &multi {
        _ if !watched.is_empty() => watched_at,
        Ok(multi) => multi.shard.unwrap_or(desk.shards.own()),
        Err(_) => desk.shards.own(),
    };
    let multi = match multi {
        Ok(multi) => multi,
        Err(why) => {
            one(shard, Job::Unwatch(watched), session, desk);
            return transaction::nothing(why, out);
        }
    };
    // What needs no keys runs here, and is put between the others' answers.
    let (mut keyed, mut order) = (Vec::new(), Vec::new());
    for (row, command) in transaction::rows(multi.commands) {
        if transaction::is_of_shard(row) {
            keyed.push((row, command));
            order.push(None);
        } else {
            order.push(Some((row, command)));
        }
    }
    let Some(answers) = one(shard, Job::Exec(keyed, watched, session.asker()), session, desk)
    else {
        return;
    };
    if !answers.is_same {
        return transaction::nothing(Nothing::Changed, out);
    }
    if let Some(refusal) = answers.refusal {
        return out.error(refusal);
    }
    let start = out.bytes.len();
    let (mut from, mut ends) = (0, answers.ends.iter());
    out.array(order.len());
    for command in order {
        let left = transaction::left(start, most, out);
        match command {
            Some((row, command)) => {
                transaction::apart(row, command.words(), session, shared, now, out, left);
            }
            None => {
                let end = ends.next().copied().unwrap_or(from);
                out.bytes.extend_from_slice(answers.bytes.get(from..end).unwrap_or_default());
                from = end;
            }
        }
    }
}

/// All shards, of which each knows who listens, and one has each client.
impl<S: Shards> Around for &mut Desk<'_, S> {
    fn speaks_three(&mut self, client: u64) -> Option<bool> {
        // A number says whose it is.
        let shard = client.checked_sub(1)? as usize % self.shards.count();
        let mut jobs = no_jobs(self);
        jobs.get_mut(shard)?.push(Job::Speaks(client));
        let answers = self.shards.ask(ShardTerms::of_nobody(self.terms.now), jobs)?;
        let answer = answers.get(shard)?.bytes.get(1..2).and_then(number);
        answer.filter(|version| *version > 0).map(|version| version == 3)
    }

    fn listen(&mut self, client: u64, skips_own: bool, prefixes: &[Box<[u8]>]) {
        let mut jobs = no_jobs(self);
        jobs.iter_mut().for_each(|its| its.push(Job::Listen(client, skips_own, prefixes.to_vec())));
        let _ = self.shards.ask(ShardTerms::of_nobody(self.terms.now), jobs);
    }

    fn unlisten(&mut self, client: u64, prefixes: Vec<Box<[u8]>>) {
        let mut jobs = no_jobs(self);
        jobs.iter_mut().for_each(|its| its.push(Job::Unlisten(client, prefixes.clone())));
        let _ = self.shards.ask(ShardTerms::of_nobody(self.terms.now), jobs);
    }

    fn with_followers(&mut self, change: fn(&mut usize)) {
        self.shards.with(|shard| change(&mut shard.clients.followers));
    }
}
