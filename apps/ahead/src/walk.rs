//! The walk ahead: folders that are listed, and what is to be asked of each, the newest first.
//!
//! ```text
//!   jobs, a stack          each takes one request at a time, until nothing is left or it is not wanted
//!   ┌─────────────────────────────┐
//!   │ ask    sub/deep  attributes │ ◄── a thread takes the first that may be made now:
//!   │ descend sub/deep            │     its kind is on, and there is room ahead of the program
//!   │ ask    sub       contents   │
//!   │ descend sub                 │ ──► below: a folder is listed, its jobs go on top
//!   └─────────────────────────────┘
//! ```
//! The order is that of a program that goes depth first. One that does otherwise tells where it is by the folders that it
//! opens: these go on top. Within a folder it is the order in which the program goes through the names (`order`).
//!
//! All of it is under one lock, which only the pool's threads take; requests are made without it.

mod known;
mod leaving;
mod order;
mod second;

use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::Ordering;

use crate::counts::{self, Count};
use crate::demand::{Class, KINDS, Kind};
use crate::folder::{Folder, Listing, Warmth};
use crate::inbox::{BY_NAMES, Visit, Want, Word};
use crate::kept::Kept;
use crate::shared::Shared;
use crate::table::{self, Key};
use crate::text::Text;
use crate::uses::{FOLDERS, Uses, Way};
use crate::worth::Worth;

use known::{Known, Step, is_on};
use leaving::{AGE, AGE_HINDERING, Leave};
use order::By;

/// Jobs that are looked at for one that may be made now.
const LOOK: usize = 64;
/// Folders found warm one after the other until nothing is asked any more.
const WARM: u32 = 32;
/// Bytes of names at a time.
const MOST_BYTES: usize = 4 << 20;

/// A folder with its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    folder: u16,
    turn: u8,
}

/// A request that a thread makes without the lock. Its descriptor stays open until it is finished.
#[derive(Debug)]
pub(crate) enum Task {
    /// List the folder that the program has open as this.
    Begin(Visit),
    /// List a folder below another one.
    Below {
        above: Number,
        descriptor: RawFd,
        name: Text,
        key: Key,
        /// Named, if the program has used names of it; ahead otherwise.
        way: Way,
    },
    Ask {
        folder: Number,
        descriptor: RawFd,
        name: Text,
        kind: Kind,
        /// Position of a name of which the listing does not tell whether it is a folder.
        untold: Option<u32>,
        /// Device of which this file shows whether contents are kept.
        tries: Option<u64>,
        /// Its file system tells whether contents are in memory.
        tells: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Begin(Visit),
    Ask(Number, Kind),
    Descend(Number),
    /// List the folder that is this name of another one.
    Enter(Number, u32),
}

/// Moments at which the program has come to a folder that was listed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Come {
    /// Told by the program itself.
    Before,
    /// Told by the program, which is somewhere in it.
    UnderWay,
    /// Come to while it was listed ahead.
    Meanwhile,
    NotYet,
}

/// The walk of one process.
#[derive(Debug)]
pub(crate) struct Walk {
    jobs: Vec<Job>,
    /// Folders by their numbers; turns go on where one is empty.
    known: Vec<Option<Known>>,
    turns: [u8; FOLDERS],
    /// Folders found warm since the last cold one.
    warm: u32,
    worth: Worth,
    /// True if the contents asked last were in no memory.
    are_contents_cold: bool,
    /// Order in which the program went through the last large folder, of each kind.
    orders: [By; KINDS],
    pub(crate) kept: Kept,
    /// Somebody looks again after a while, and where the program was when that began.
    has_keeper: bool,
    moved: u32,
    /// Most folders that are open.
    open_most: usize,
}

impl Walk {
    pub(crate) const fn new() -> Self {
        Walk {
            jobs: Vec::new(),
            known: Vec::new(),
            turns: [0; FOLDERS],
            warm: 0,
            worth: Worth::new(),
            are_contents_cold: false,
            orders: [By::Folder; KINDS],
            kept: Kept::new(),
            has_keeper: false,
            moved: 0,
            open_most: FOLDERS,
        }
    }

    /// Makes room once, for all that will ever be; without it there is nothing to do.
    pub(crate) fn prepare(&mut self, open_most: usize) -> bool {
        let jobs = 3 * FOLDERS;
        if self.jobs.try_reserve_exact(jobs).is_err()
            || self.known.try_reserve_exact(FOLDERS).is_err()
        {
            return false;
        }
        self.known.resize_with(FOLDERS, || None);
        self.open_most = open_most.min(FOLDERS);
        true
    }

    /// Begins anew. What was open was so in the table of threads that have ended, where nothing is left to be
    /// closed; the numbers are the program's own here.
    pub(crate) fn forget(&mut self, shared: &Shared) {
        for at in 0..self.known.len() {
            if let Some(known) = self.leave(shared, at) {
                let _ = known.folder.open.into_raw_fd();
            }
        }
        self.known.clear();
        self.jobs.clear();
        // A file that was being tried has shown nothing.
        self.kept = Kept::new();
        self.has_keeper = false;
    }

    /// The next request, if one may be made now.
    pub(crate) fn take(&mut self, shared: &Shared) -> Option<Task> {
        loop {
            self.read(shared);
            self.worth.missed(shared.missed.load(Ordering::Relaxed));
            let (task, is_hindered) = self.first(shared);
            if task.is_some()
                || !is_hindered
                || !self.leave_old(shared, AGE_HINDERING, Leave::InVain)
            {
                return task;
            }
        }
    }

    /// The first request that may be made now, and whether one may not for want of room.
    fn first(&mut self, shared: &Shared) -> (Option<Task>, bool) {
        let is_second_pass = shared.demand.passes_behind() > 0;
        if is_second_pass && let Some(task) = self.first_of_second_pass(shared) {
            return (Some(task), false);
        }
        let (mut at, mut is_hindered) = (self.jobs.len(), false);
        let end = at.saturating_sub(LOOK);
        while at > end {
            at -= 1;
            let Some(job) = self.jobs.get(at).copied() else { break };
            if is_second_pass && matches!(job, Job::Ask(_, Kind::Contents)) {
                continue;
            }
            match self.step(shared, job) {
                Step::Task(task) => {
                    if matches!(job, Job::Begin(_) | Job::Enter(..)) {
                        self.jobs.remove(at);
                    }
                    return (Some(task), is_hindered);
                }
                Step::NoRoom => is_hindered = true,
                Step::NotYet => {}
                Step::Done => _ = self.jobs.remove(at),
            }
        }
        (None, is_hindered)
    }

    /// Reads what the program's threads have told.
    fn read(&mut self, shared: &Shared) {
        loop {
            // Its lock is held for one word only.
            let Ok(word) = shared.inbox.lock().map(|mut inbox| inbox.pop()) else { return };
            match word {
                Some(Word::Visit(visit)) => self.visited(shared, visit),
                Some(Word::Enter(key)) => self.entered(shared, key),
                Some(Word::Want(want)) => self.wanted(shared, want),
                None => return,
            }
        }
    }

    fn visited(&mut self, shared: &Shared, visit: Visit) {
        self.leave_old(shared, AGE, Leave::Old);
        let known = self.known.iter_mut().enumerate().find_map(|(at, known)| {
            known.as_mut().filter(|known| known.folder.key == visit.key).map(|known| (at, known))
        });
        if let Some((at, known)) = known {
            if !known.is_visited {
                known.is_visited = true;
                shared.demand.lists.used();
                counts::add(Count::ListedAheadUsed, 1);
            }
            if visit.descriptor != BY_NAMES {
                shared.uses.of(at as u16).into_iter().for_each(Uses::set_listed);
            }
            return;
        }
        if let Some(place) = shared.table.find(visit.place) {
            // One that was listed ahead and left since, or that could not be, is listed now.
            if place.flags() & table::LISTING != 0 {
                return;
            }
            let listed = place.listed();
            let above = Number { folder: listed.folder, turn: listed.turn };
            if self.of(above).is_some() {
                self.push(Job::Descend(above));
            }
        }
        self.push(Job::Begin(visit));
    }

    fn entered(&mut self, shared: &Shared, key: Key) {
        let Some(place) = shared.table.find(key) else { return };
        let listed = place.listed();
        self.push(Job::Enter(Number { folder: listed.folder, turn: listed.turn }, listed.position));
    }

    fn wanted(&mut self, shared: &Shared, want: Want) {
        let number = Number { folder: want.folder, turn: want.turn };
        if !is_on(shared, number, want.kind) {
            shared.uses.of(want.folder).into_iter().for_each(|uses| uses.unwanted(want.kind));
        } else if self.of(number).is_some() {
            self.push(Job::Ask(number, want.kind));
        }
    }

    /// Puts a job on top, unless it is there or there is no room.
    fn push(&mut self, job: Job) {
        if self.jobs.len() < self.jobs.capacity() && !self.jobs.contains(&job) {
            self.jobs.push(job);
        }
    }

    fn of(&mut self, number: Number) -> Option<&mut Known> {
        let known = self.known.get_mut(usize::from(number.folder))?.as_mut()?;
        (known.turn == number.turn).then_some(known)
    }

    fn step(&mut self, shared: &Shared, job: Job) -> Step {
        match job {
            Job::Begin(visit) => Step::Task(Task::Begin(visit)),
            Job::Ask(number, kind) => {
                self.judge_order(shared, number, kind);
                let known = self.known.get_mut(usize::from(number.folder)).and_then(Option::as_mut);
                let known = known.filter(|known| known.turn == number.turn);
                let found = (&mut self.worth, &mut self.kept);
                let step = known.map_or(Step::Done, |known| known.ask(shared, found, number, kind));
                if matches!(step, Step::Done) && !is_on(shared, number, kind) {
                    let uses = shared.uses.of(number.folder);
                    uses.into_iter().for_each(|uses| uses.unwanted(kind));
                }
                step
            }
            Job::Descend(number) => {
                self.judge_order(shared, number, Kind::Folders);
                let open = self.known.iter().flatten().count();
                let has_room = open < self.open_most;
                match self.of(number) {
                    Some(_) if !has_room => Step::NoRoom,
                    Some(known) => known.descend(shared, number),
                    None => Step::Done,
                }
            }
            Job::Enter(number, position) => self
                .of(number)
                .map_or(Step::Done, |known| known.enter_below(shared, number, position)),
        }
    }

    /// Takes in a folder to which the program has come before it was listed here.
    pub(crate) fn take_in_visited(
        &mut self,
        shared: &Shared,
        found: (Folder, Listing),
        way: Way,
        is_under_way: bool,
    ) {
        let come = if is_under_way { Come::UnderWay } else { Come::Before };
        self.take_in(shared, found, way, come);
    }

    /// Takes in a folder that was listed ahead; the key is that of its name.
    pub(crate) fn listed(&mut self, shared: &Shared, key: Key, found: (Folder, Listing), way: Way) {
        let flags = shared.table.find(key).map_or(0, table::Place::flags);
        match flags & table::VISITED != 0 {
            // Whoever came meanwhile to a folder that was being listed has listed it.
            true if way == Way::Ahead => {
                self.take_in(shared, found, Way::Listed, Come::Meanwhile);
            }
            true => self.take_in(shared, found, way, Come::Meanwhile),
            false => self.take_in(shared, found, way, Come::NotYet),
        }
    }

    fn take_in(
        &mut self,
        shared: &Shared,
        (folder, listing): (Folder, Listing),
        way: Way,
        come: Come,
    ) {
        counts::add(Count::Listed, 1);
        let is_all_cold = shared.settings.is_all_cold;
        let warmth = if is_all_cold { Warmth::Cold } else { listing.warmth };
        // Names in memory say nothing of the contents: these are weighed as they are asked.
        let are_contents_asked =
            folder.tells_contents && shared.demand.is_on(Kind::Contents, Class::File);
        if !(warmth == Warmth::Warm && are_contents_asked) {
            self.judge(warmth);
        }
        let bytes: usize = self.known.iter().flatten().map(|known| known.names.bytes()).sum();
        if bytes + listing.names.bytes() > MOST_BYTES {
            self.leave_old(shared, AGE_HINDERING, Leave::Old);
        }
        let Some(at) = self.place(shared) else { return };
        let (Some(turn), Some(place)) = (self.turns.get_mut(at), self.known.get_mut(at)) else {
            return;
        };
        *turn = turn.wrapping_add(1);
        let number = Number { folder: at as u16, turn: *turn };
        let now = shared.visits.load(Ordering::Relaxed);
        let is_visited = come != Come::NotYet;
        let names = (listing.names, self.orders);
        let mut known = Known::new(number.turn, folder, names, now, is_visited);
        known.is_under_way = come == Come::UnderWay;
        known.enter(shared, number);
        if come == Come::Meanwhile {
            shared.demand.lists.used();
            counts::add(Count::ListedAheadUsed, 1);
        }
        *place = Some(known);
        let Some(uses) = shared.uses.of(number.folder) else { return };
        uses.begin(number.turn, now, way);
        self.push(Job::Descend(number));
        for kind in [Kind::Attributes, Kind::Contents] {
            let is_cold = warmth == Warmth::Cold
                || kind == Kind::Contents && are_contents_asked && self.are_contents_cold;
            if is_cold && is_on(shared, number, kind) {
                uses.wanted(kind);
                self.push(Job::Ask(number, kind));
            }
        }
    }

    /// The program has gone from a folder, which was listed only now, into this one.
    pub(crate) fn came_from(&mut self, shared: &Shared, key: Key) {
        if let Some(place) = shared.table.find(key) {
            let now = shared.visits.load(Ordering::Relaxed);
            shared.uses.visit(&shared.demand, place, now);
        }
    }

    /// True once if folders were found warm, or requests did not sleep, so often that asking is in vain.
    pub(crate) fn is_all_warm(&mut self) -> bool {
        let is_all_warm = self.worth.is_in_vain() || self.warm >= WARM;
        if is_all_warm {
            self.warm = 0;
        }
        is_all_warm
    }

    /// Counts a request by the time that it slept in, if it did.
    pub(crate) fn took(&mut self, ns: u64, kind: Kind) {
        let has_slept = self.worth.took(ns, kind == Kind::Attributes);
        if kind == Kind::Contents {
            self.are_contents_cold = has_slept;
        }
        if has_slept && kind != Kind::Attributes {
            // Names whose attributes came with their listing are in memory: that says nothing of listings and contents.
            self.warm = 0;
        }
    }

    /// Counts folders found warm one after the other.
    fn judge(&mut self, warmth: Warmth) {
        match warmth {
            Warmth::Cold => self.warm = 0,
            Warmth::Warm => {
                counts::add(Count::Warm, 1);
                self.warm = self.warm.saturating_add(1);
            }
            Warmth::Unknown => {}
        }
    }

    /// A folder was listed ahead, or could not be.
    pub(crate) fn listed_below(&mut self, shared: &Shared, above: Number, key: Key) {
        self.finished(above);
        shared.table.find(key).into_iter().for_each(|place| place.clear(table::LISTING));
    }

    /// A request was made.
    pub(crate) fn finished(&mut self, number: Number) {
        if let Some(known) = self.of(number) {
            known.busy = known.busy.saturating_sub(1);
        }
    }

    /// A name of which the listing did not tell it is a folder, or none.
    pub(crate) fn learnt(
        &mut self,
        shared: &Shared,
        number: Number,
        position: u32,
        is_folder: bool,
    ) {
        let Some(known) = self.of(number) else { return };
        known.learn(shared, position, is_folder);
        if is_folder {
            self.push(Job::Descend(number));
        }
    }

    /// A number that is free, or is made so.
    fn place(&mut self, shared: &Shared) -> Option<usize> {
        let open = self.known.iter().flatten().count();
        if open >= self.open_most && !self.leave_old(shared, AGE_HINDERING, Leave::Old) {
            self.leave_oldest(shared);
        }
        if self.known.iter().flatten().count() >= self.open_most {
            return None;
        }
        self.known.iter().position(Option::is_none)
    }
}
