//! Commands whose keys several shards have: what is others' is asked of them together.

mod answers;
mod apart;
mod keys;

use std::collections::VecDeque;
use std::ops::Range;

use crate::commands::flag::LONG;
use crate::commands::{Merge, Run, find};
use crate::desk::{Desk, HIGH, Shards, Terms};
use crate::dispatch::{self, Step};
use crate::follow;
use crate::jobs::Job;
use crate::resp::{Limits, Out, Reader, Words};
use crate::session::Session;
use crate::shard::Shard;
use crate::spell::Spell;

/// A command that waits for its answers.
#[derive(Debug)]
struct Slot {
    /// Rule by which they become one; none: there is one.
    merge: Option<Merge>,
    /// Part that has each element, if they are lists whose elements take turns.
    order: Vec<u16>,
    /// Range of its parts.
    parts: Range<usize>,
    /// True if its client wants to know.
    is_wanted: bool,
}

/// Commands of a client that have been read and not answered.
#[derive(Debug, Default)]
pub struct Batch {
    slots: VecDeque<Slot>,
    /// Range of each answer in `text`, once it is there.
    parts: Vec<Option<Range<usize>>>,
    text: Vec<u8>,
    /// Jobs of each shard, and below whose answers these are.
    jobs: Vec<Vec<Job>>,
    numbers: Vec<Vec<usize>>,
    bytes: usize,
    /// True if something has taken long: others have their turn.
    is_long: bool,
}

impl Batch {
    /// True if all has been answered.
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
        let mut spell = Spell::begin();
        loop {
            while !self.is_empty() {
                if desk.out.bytes.len() >= HIGH {
                    return (true, self.is_long);
                }
                let is_answered = self.ask(session, desk);
                if is_answered {
                    self.emit(desk);
                }
                self.is_long |= spell.is_over();
                let id = session.id;
                // Itself, or somebody who had a turn while this waited.
                let is_killed = |shard: &mut Shard| shard.clients.is_killed(id);
                if !is_answered || desk.shards.with(is_killed) {
                    session.ends = true;
                    *self = Batch::default();
                    return (false, self.is_long);
                }
                if self.is_long && !self.is_empty() {
                    return (true, true);
                }
            }
            if is_at_end || session.ends || session.is_cut {
                return (false, self.is_long);
            }
            if desk.out.bytes.len() >= HIGH || self.is_long {
                return (true, self.is_long);
            }
            is_at_end = self.read(reader, session, input, desk, &mut spell);
        }
    }

    /// Reads commands; whether all have been read.
    fn read(
        &mut self,
        reader: &mut Reader,
        session: &mut Session,
        input: &[u8],
        desk: &mut Desk<'_, impl Shards>,
        spell: &mut Spell,
    ) -> bool {
        self.jobs.resize_with(desk.shards.count(), Vec::new);
        self.numbers.resize_with(desk.shards.count(), Vec::new);
        while self.text.len() < HIGH && self.bytes < HIGH {
            let limits = Limits { is_stranger: !session.is_known, ..desk.terms.limits };
            match reader.next(input, limits) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(wrong) => {
                    let mut answer = Out::default();
                    answer.error(&format!("ERR {wrong}"));
                    self.answered(&answer, true);
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
            self.is_long |= spell.is_over_after();
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
        let (shards, mut answer) = (desk.shards, Out::of(session.is_three));
        let of = |key: &[u8]| shards.of(key);
        match dispatch::step(words, session, &mut answer, shards.count(), of) {
            Step::Answered => {}
            Step::Here(row, run) => {
                if row.group == "server" {
                    let counters = desk.counters();
                    shards.with(|shard| shard.publish(counters));
                }
                dispatch::here(run, words, session, shared, now, &mut answer, most);
                desk.out.is_three = session.is_three;
            }
            Step::Shards(row) => {
                self.is_long |= row.is(LONG);
                if row.group == "connection" {
                    // It may be about itself.
                    let place = session.place;
                    shards.with(|shard| session.show(&mut shard.clients, place, now));
                }
                let asker = session.asker();
                let is_wanted = session.answers();
                return self.keys(row, words, is_wanted, asker, desk);
            }
            Step::Unwatch(row, run) => {
                if row.name == "reset" {
                    follow::off(session, &mut &mut *desk);
                }
                let watched = session.take_watched();
                if !watched.is_empty() {
                    apart::one(session.watched_at, Job::Unwatch(watched), session, desk);
                }
                dispatch::here(run, words, session, shared, now, &mut answer, most);
                desk.out.is_three = session.is_three;
            }
            Step::Track => follow::command(words, session, &mut *desk, &mut answer),
            Step::Watch => apart::watch(words, session, desk, &mut answer),
            Step::Exec => apart::exec(session, desk, &mut answer),
        }
        let is_wanted = session.answers();
        self.answered(&answer, is_wanted);
    }

    /// Adds an answer that is there.
    fn answered(&mut self, answer: &Out, is_wanted: bool) {
        let first = self.parts.len();
        self.part(answer);
        self.slots.push_back(Slot {
            merge: None,
            order: Vec::new(),
            parts: first..first + 1,
            is_wanted,
        });
    }

    fn part(&mut self, answer: &Out) {
        let start = self.text.len();
        self.text.extend_from_slice(&answer.bytes);
        self.parts.push(Some(start..self.text.len()));
    }
}

/// True if a command waits until all before it has been answered.
fn waits_for_others(words: Words<'_>) -> bool {
    find(words).is_ok_and(|row| {
        let is_of_all =
            matches!(row.run, Run::All(..) | Run::Exec | Run::Watch | Run::Unwatch(_) | Run::Track);
        // What stands before it is answered in the protocol in which it was asked.
        is_of_all || row.name == "hello"
    })
}
