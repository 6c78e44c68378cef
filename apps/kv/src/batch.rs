//! Commands whose keys several shards have: what is others' is asked of them together.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use crate::commands::flag::LONG;
use crate::commands::{Merge, Row, Run, find, shard_of_cursor};
use crate::desk::{Desk, HIGH, Shards, Terms};
use crate::dispatch::{self, Step, in_shard, interleaved, merged, shard_of};
use crate::jobs::{Answers, Asked, Job};
use crate::resp::{Command, Limits, Out, Reader, Words};
use crate::session::Session;
use crate::store::Seen;
use crate::transaction::{self, Nothing};

/// A command that waits for its answers.
#[derive(Debug)]
struct Slot {
    /// How they become one; none: there is one.
    merge: Option<Merge>,
    /// Which of them has each element, if they are lists whose elements take turns.
    order: Vec<u16>,
    /// Which of them are its.
    parts: Range<usize>,
    /// Whether its client wants to know.
    is_wanted: bool,
}

/// Commands of a client that have been read and not answered.
#[derive(Debug, Default)]
pub struct Batch {
    slots: VecDeque<Slot>,
    /// Where each answer is in `text`, once it is there.
    parts: Vec<Option<Range<usize>>>,
    text: Vec<u8>,
    /// Jobs of each shard, and below whose answers these are.
    jobs: Vec<Vec<Job>>,
    numbers: Vec<Vec<usize>>,
    bytes: usize,
    /// Something has taken long: others have their turn.
    is_long: bool,
}

impl Batch {
    /// Whether all has been answered.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of memory that it has, about.
    pub fn kept(&self) -> usize {
        self.text.capacity() + self.bytes + 64 * self.slots.len() + 24 * self.parts.capacity()
    }

    /// Runs what was left, and the commands that have come whole; whether there are more, for
    /// which there is no room yet, and whether others have their turn before.
    pub fn run(
        &mut self,
        reader: &mut Reader,
        session: &mut Session,
        input: &[u8],
        desk: &mut Desk<'_, impl Shards>,
    ) -> (bool, bool) {
        let mut is_at_end = false;
        self.is_long = false;
        loop {
            while !self.is_empty() {
                if desk.out.bytes.len() >= HIGH {
                    return (true, self.is_long);
                }
                if !self.ask(session, desk) {
                    session.ends = true;
                    *self = Batch::default();
                    return (false, self.is_long);
                }
                self.emit(desk.out);
            }
            if is_at_end || session.ends || session.is_cut {
                return (false, self.is_long);
            }
            if desk.out.bytes.len() >= HIGH || self.is_long {
                return (true, self.is_long);
            }
            is_at_end = self.read(reader, session, input, desk);
        }
    }

    /// Reads commands; whether all have been read.
    fn read(
        &mut self,
        reader: &mut Reader,
        session: &mut Session,
        input: &[u8],
        desk: &mut Desk<'_, impl Shards>,
    ) -> bool {
        self.jobs.resize_with(desk.shards.count(), Vec::new);
        self.numbers.resize_with(desk.shards.count(), Vec::new);
        while self.text.len() < HIGH && self.bytes < HIGH {
            let limits = Limits { is_stranger: !session.is_known, ..desk.terms.limits };
            match reader.next(input, limits) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(wrong) => {
                    let mut told = Out::default();
                    told.error(&format!("ERR {wrong}"));
                    self.told(&told, true);
                    session.ends = true;
                    return true;
                }
            }
            let words = reader.words(input);
            // It sees what stands before it, and nothing that stands behind it.
            let is_of_all = waits_for_others(words);
            if is_of_all && !self.is_empty() {
                reader.again();
                return false;
            }
            desk.counters().commands.add(1);
            session.begins();
            self.command(words, session, desk);
            if session.ends || session.is_cut {
                return true;
            }
            if is_of_all || self.is_long {
                return false;
            }
        }
        false
    }

    /// Adds a command, or runs it if it is alone.
    fn command(
        &mut self,
        words: Words<'_>,
        session: &mut Session,
        desk: &mut Desk<'_, impl Shards>,
    ) {
        let Terms { shared, now, most, .. } = desk.terms;
        let (shards, mut told) = (desk.shards, Out::of(session.is_three));
        let of = |key: &[u8]| shards.of(key);
        match dispatch::step(words, session, &mut told, shards.count(), of) {
            Step::Answered => {}
            Step::Here(row, run) => {
                if row.group == "server" {
                    let counters = desk.counters();
                    shards.with(|shard| shard.publish(counters));
                }
                dispatch::here(run, words, session, shared, now, &mut told, most);
                desk.out.is_three = session.is_three;
            }
            Step::Shards(row) => {
                self.is_long |= row.is(LONG);
                if row.group == "connection" {
                    // It may be about itself.
                    let place = session.place;
                    shards.with(|shard| session.show(&mut shard.clients, place, now));
                }
                let is_wanted = session.answers();
                return self.keys(row, words, is_wanted, session, desk);
            }
            Step::Unwatch(_, run) => {
                let watched = session.take_watched();
                if !watched.is_empty() {
                    one(session.watched_at, Job::Unwatch(watched), session, desk);
                }
                dispatch::here(run, words, session, shared, now, &mut told, most);
                desk.out.is_three = session.is_three;
            }
            Step::Watch => watch(words, session, desk, &mut told),
            Step::Exec => exec(session, desk, &mut told),
        }
        let is_wanted = session.answers();
        self.told(&told, is_wanted);
    }

    /// Adds an answer that is there.
    fn told(&mut self, told: &Out, is_wanted: bool) {
        let first = self.parts.len();
        self.part(told);
        self.slots.push_back(Slot {
            merge: None,
            order: Vec::new(),
            parts: first..first + 1,
            is_wanted,
        });
    }

    fn part(&mut self, told: &Out) {
        let start = self.text.len();
        self.text.extend_from_slice(&told.bytes);
        self.parts.push(Some(start..self.text.len()));
    }

    /// Adds a command on keys.
    fn keys(
        &mut self,
        row: &'static Row,
        words: Words<'_>,
        is_wanted: bool,
        session: &Session,
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
                return self.own(row, words, is_wanted, session, desk);
            }
            (Ok(Some(shard)), _) if shard == own => {
                return self.own(row, words, is_wanted, session, desk);
            }
            (Ok(Some(shard)), _) => {
                self.add(shard, row, Command::of(words.iter()));
                None
            }
            (_, Run::All(_, merge)) => {
                (0..count).for_each(|shard| self.add(shard, row, Command::of(words.iter())));
                Some(if merge == Merge::Killed && words.len() == 3 {
                    Merge::KilledOne
                } else {
                    merge
                })
            }
            (Err(_), Run::Split(_, merge)) => {
                return self.split(row, words, merge, is_wanted, session, desk);
            }
            (Err(text), _) => {
                let mut told = Out::default();
                told.error(text);
                return self.told(&told, is_wanted);
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
        session: &Session,
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
                let told = own_answer(row, command.words(), session, desk);
                self.part(&told);
            } else {
                self.add(shard, row, command);
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
        session: &Session,
        desk: &Desk<'_, impl Shards>,
    ) {
        self.told(&own_answer(row, words, session, desk), is_wanted);
    }

    fn add(&mut self, shard: usize, row: &'static Row, command: Command) {
        self.bytes += command.kept();
        self.numbers[shard].push(self.parts.len());
        self.parts.push(None);
        self.jobs[shard].push(Job::Run(row, command));
    }

    /// Asks each shard for what is its; `false` if one is gone.
    fn ask(&mut self, session: &Session, desk: &Desk<'_, impl Shards>) -> bool {
        if self.jobs.iter().all(Vec::is_empty) {
            return true;
        }
        let jobs = self.jobs.iter_mut().map(mem::take).collect();
        let Some(answers) = desk.shards.ask(asked(session, desk), jobs) else { return false };
        for (shard, its) in answers.into_iter().enumerate() {
            let (base, mut from) = (self.text.len(), 0);
            if base == 0 {
                self.text = its.bytes;
            } else {
                self.text.reserve_exact(its.bytes.len());
                self.text.extend_from_slice(&its.bytes);
            }
            for (number, end) in self.numbers[shard].iter().zip(&its.ends) {
                self.parts[*number] = Some(base + from..base + end);
                from = *end;
            }
            self.numbers[shard].drain(..its.ends.len());
            self.jobs[shard] = its.left;
        }
        true
    }

    /// Writes the answers that are there, in their order.
    fn emit(&mut self, out: &mut Out) {
        while let Some(slot) = self.slots.front() {
            let parts = &self.parts[slot.parts.clone()];
            if parts.iter().any(Option::is_none) {
                return self.forget_sent();
            }
            let mut its = parts.iter().flatten().map(|part| &self.text[part.clone()]);
            match slot.merge.filter(|_| slot.is_wanted) {
                Some(_) if !slot.order.is_empty() => interleaved(&slot.order, its.collect(), out),
                Some(merge) => merged(merge, &mut its, out),
                None if slot.is_wanted => {
                    its.for_each(|part| out.bytes.extend_from_slice(part));
                }
                None => {}
            }
            self.slots.pop_front();
        }
        self.parts.clear();
        self.text = Vec::new();
        self.bytes = 0;
    }

    /// Keeps no more of the answers than has not been written, while others are waited for.
    fn forget_sent(&mut self) {
        let first = self.slots.front().map_or(0, |slot| slot.parts.start);
        let left = &mut self.parts[first..];
        let bytes = left.iter().flatten().map(|part| part.len()).sum();
        let mut text = Vec::with_capacity(bytes);
        for part in left.iter_mut().flatten() {
            let from = text.len();
            text.extend_from_slice(&self.text[part.clone()]);
            *part = from..text.len();
        }
        self.text = text;
    }
}

/// Runs a command on this thread's shard, and gives its answer.
fn own_answer(
    row: &'static Row,
    words: Words<'_>,
    session: &Session,
    desk: &Desk<'_, impl Shards>,
) -> Out {
    let mut told = Out::of(session.is_three);
    let (Terms { now, most, .. }, client) = (desk.terms, session.id);
    desk.shards.with(|shard| in_shard(row, words, shard, client, now, &mut told, most));
    told
}

/// Whether a command waits until all before it has been answered.
fn waits_for_others(words: Words<'_>) -> bool {
    find(words).is_ok_and(|row| {
        let is_of_all = matches!(row.run, Run::All(..) | Run::Exec | Run::Watch | Run::Unwatch(_));
        // What stands before it is answered in the protocol in which it was asked.
        is_of_all || row.name == "hello"
    })
}

fn asked(session: &Session, desk: &Desk<'_, impl Shards>) -> Asked {
    let Terms { now, most, .. } = desk.terms;
    Asked { now, client: session.id, is_three: session.is_three, most }
}

/// Asks one shard.
fn one(
    shard: usize,
    job: Job,
    session: &mut Session,
    desk: &Desk<'_, impl Shards>,
) -> Option<Answers> {
    let mut jobs: Vec<Vec<Job>> = (0..desk.shards.count()).map(|_| Vec::new()).collect();
    jobs.get_mut(shard)?.push(job);
    let answers = desk.shards.ask(asked(session, desk), jobs);
    if answers.is_none() {
        session.ends = true;
    }
    answers?.into_iter().nth(shard)
}

fn watch(words: Words<'_>, session: &mut Session, desk: &Desk<'_, impl Shards>, out: &mut Out) {
    if session.multi.is_some() {
        return out.error(transaction::WATCH_INSIDE);
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

fn exec(session: &mut Session, desk: &mut Desk<'_, impl Shards>, out: &mut Out) {
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
    let Some(answers) = one(shard, Job::Exec(keyed, watched), session, desk) else { return };
    if !answers.is_same {
        return transaction::nothing(Nothing::Changed, out);
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
