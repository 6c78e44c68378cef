//! Commands on keys: which shard is asked for what.

use super::{Batch, Slot};
use crate::commands::flag::WRITE;
use crate::commands::{Merge, Row, Run, shard_of_cursor};
use crate::desk::{Desk, Shards, Terms};
use crate::dispatch::{in_shard, shard_of};
use crate::jobs::Job;
use crate::resp::{Command, Out, Words};
use crate::room::NO_ROOM;
use crate::session::Asker;

impl Batch {
    /// Adds a command on keys.
    pub(super) fn keys(
        &mut self,
        row: &'static Row,
        words: Words<'_>,
        is_wanted: bool,
        asker: Asker,
        desk: &mut Desk<'_, impl Shards>,
    ) {
        let (first, shards) = (self.parts.len(), desk.shards);
        let (own, count) = (shards.own(), shards.count());
        let its = match row.run {
            Run::All(..) => Ok(None),
            Run::Cursor(_) => Ok(Some(shard_of_cursor(words.get(1)).min(count - 1))),
            _ => shard_of(row, words, |key| shards.of(key)),
        };
        let merge = match (its, row.run) {
            // What is wrong with it any shard can say.
            (Err(_), Run::Split(..)) if !row.takes_pairs(words.len()) => {
                return self.own(row, words, is_wanted, asker, desk);
            }
            (Ok(Some(shard)), _) if shard == own => {
                return self.own(row, words, is_wanted, asker, desk);
            }
            (Ok(Some(shard)), _) => {
                self.add(shard, row, Command::of(words.iter()), asker);
                None
            }
            (_, Run::All(..)) if row.is(WRITE) && !has_room_to_clear(desk) => {
                let mut answer = Out::default();
                answer.error(NO_ROOM);
                return self.answered(&answer, is_wanted);
            }
            (_, Run::All(_, merge)) => {
                (0..count).for_each(|shard| self.add(shard, row, Command::of(words.iter()), asker));
                Some(if merge == Merge::Killed && words.len() == 3 {
                    Merge::KilledOne
                } else {
                    merge
                })
            }
            (Err(_), Run::Split(_, merge)) => {
                return self.split(row, words, merge, is_wanted, asker, desk);
            }
            (Err(text), _) => {
                let mut answer = Out::default();
                answer.error(text);
                return self.answered(&answer, is_wanted);
            }
            (Ok(None), _) => return,
        };
        self.slots.push_back(Slot {
            merge,
            order: Vec::new(),
            parts: first..self.parts.len(),
            is_wanted,
        });
    }

    /// Adds a command whose keys several shards have: each has those that are its.
    fn split(
        &mut self,
        row: &'static Row,
        words: Words<'_>,
        merge: Merge,
        is_wanted: bool,
        asker: Asker,
        desk: &Desk<'_, impl Shards>,
    ) {
        let (first, shards) = (self.parts.len(), desk.shards);
        let step = row.keys.2.max(1) as usize;
        let mut lists = vec![Vec::new(); shards.count()];
        let mut order = Vec::new();
        for at in row.key_places(words.len()) {
            let shard = shards.of(words.get(at));
            if lists[shard].is_empty() {
                lists[shard].push(words.get(0));
            }
            lists[shard].extend((at..at + step).map(|at| words.get(at)));
            order.push(shard as u16);
        }
        // Which of the parts is whose.
        let mut numbers = vec![0; lists.len()];
        for (shard, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            numbers[shard] = (self.parts.len() - first) as u16;
            let command = Command::of(list.iter().copied());
            if shard == shards.own() {
                // Now, as it does all that is its own: in the order in which it has come.
                let answer = own_answer(row, command.words(), asker, desk);
                self.part(&answer);
            } else {
                self.add(shard, row, command, asker);
            }
        }
        order.iter_mut().for_each(|shard| *shard = numbers[*shard as usize]);
        if merge != Merge::Array {
            order = Vec::new();
        }
        let parts = first..self.parts.len();
        self.bytes += 2 * order.len();
        self.slots.push_back(Slot { merge: Some(merge), order, parts, is_wanted });
    }

    /// Runs a command on this thread's shard.
    fn own(
        &mut self,
        row: &'static Row,
        words: Words<'_>,
        is_wanted: bool,
        asker: Asker,
        desk: &Desk<'_, impl Shards>,
    ) {
        self.answered(&own_answer(row, words, asker, desk), is_wanted);
    }

    fn add(&mut self, shard: usize, row: &'static Row, command: Command, asker: Asker) {
        self.bytes += command.kept();
        self.numbers[shard].push(self.parts.len());
        self.parts.push(None);
        self.jobs[shard].push(Job::Run(row, command, asker));
    }
}

/// True if the log, if there is one, has room for the records that all shards are cleared.
fn has_room_to_clear(desk: &Desk<'_, impl Shards>) -> bool {
    let kept = desk.terms.shared.kept.as_ref();
    kept.is_none_or(|kept| kept.has_room_to_clear(desk.shards.own()))
}

/// Runs a command on this thread's shard, and gives its answer.
fn own_answer(
    row: &'static Row,
    words: Words<'_>,
    asker: Asker,
    desk: &Desk<'_, impl Shards>,
) -> Out {
    let mut answer = Out::of(desk.out.is_three);
    let Terms { now, most, .. } = desk.terms;
    desk.shards.with(|shard| in_shard(row, words, shard, asker, now, &mut answer, most));
    answer
}
