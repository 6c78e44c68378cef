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
//! The order is that of a program that goes depth first, in the order of the folder. One that does otherwise tells
//! where it is by the folders that it opens: these go on top.
//!
//! All of it is under one lock, which only the pool's threads take; requests are made without it.

use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use crate::counts::{self, Count};
use crate::demand::{Class, Kind};
use crate::folder::{Folder, Listing, Warmth};
use crate::inbox::{BY_NAMES, Visit, Want, Word};
use crate::kept::{Finding, Kept};
use crate::names::{Name, Names};
use crate::shared::Shared;
use crate::table::{self, Key, Listed};
use crate::text::Text;
use crate::uses::{FOLDERS, Uses, Way};
use crate::worth::Worth;

use rustix::fs::FileType;

/// Jobs that are looked at for one that may be made now.
const LOOK: usize = 64;
/// Folders that the program begins after it has used a name of another one, until it has left that behind;
/// and where that hinders.
const AGE: u32 = 128;
const AGE_HINDERING: u32 = 4;
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
        /// Device of which this file shows whether contents are kept.
        tries: Option<u64>,
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

/// A listed folder.
#[derive(Debug)]
struct Known {
    turn: u8,
    folder: Folder,
    names: Names,
    files: u32,
    folders: u32,
    /// Next position of each kind.
    attributes: u32,
    contents: u32,
    descend: u32,
    /// Requests made of it.
    asked_attributes: u32,
    asked_contents: u32,
    /// Requests under way that use its descriptor.
    busy: u32,
    is_visited: bool,
    /// Number of the program's visit when it was listed.
    since: u32,
}

/// Moments at which the program has come to a folder that was listed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Come {
    /// Told by the program itself.
    Before,
    /// Come to while it was listed ahead.
    Meanwhile,
    NotYet,
}

/// Folders that are left: those that are old, or of these the ones that take room ahead of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    Old,
    InVain,
}

/// Outcome of a step of a job.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, and a box needs memory")]
enum Step {
    Task(Task),
    /// No room ahead of the program.
    NoRoom,
    /// Not before something is known that is being tried.
    NotYet,
    /// Nothing is left of it, or it is not wanted.
    Done,
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

    /// True for the one who looks again after a while whether folders may be closed.
    pub(crate) fn keep(&mut self, shared: &Shared) -> bool {
        let is_keeper = !self.has_keeper && self.known.iter().any(Option::is_some);
        if is_keeper {
            self.has_keeper = true;
            self.moved = moved(shared);
        }
        is_keeper
    }

    /// Closes all folders if the program has used nothing for that long: what is open keeps a file system mounted.
    pub(crate) fn kept(&mut self, shared: &Shared, is_late: bool) {
        self.has_keeper = false;
        if is_late && moved(shared) == self.moved {
            (0..self.known.len()).for_each(|at| self.leave_idle(shared, at));
        }
    }

    fn leave_idle(&mut self, shared: &Shared, at: usize) {
        if self.known.get(at).and_then(Option::as_ref).is_some_and(|known| known.busy == 0) {
            drop(self.leave(shared, at));
        }
    }

    /// The next request, if one may be made now.
    pub(crate) fn take(&mut self, shared: &Shared) -> Option<Task> {
        loop {
            self.read(shared);
            self.worth.missed(shared.missed.load(std::sync::atomic::Ordering::Relaxed));
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

    /// Contents of the folder that was listed first, where the program opens files in a second pass.
    fn first_of_second_pass(&mut self, shared: &Shared) -> Option<Task> {
        loop {
            let rest = self.known.iter().enumerate().filter_map(|(at, known)| {
                let known = known.as_ref().filter(|known| known.contents < known.names.len())?;
                Some((known.since, Number { folder: at as u16, turn: known.turn }))
            });
            let (_, number) = rest.min_by_key(|(since, _)| *since)?;
            match self.step(shared, Job::Ask(number, Kind::Contents)) {
                Step::Task(task) => return Some(task),
                // All of its names were looked through, and there is the next one.
                Step::Done if self.of(number)?.contents == self.of(number)?.names.len() => {}
                Step::Done | Step::NoRoom | Step::NotYet => return None,
            }
        }
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
        if let Some(place) = shared.table.find(visit.key) {
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
    pub(crate) fn begun(&mut self, shared: &Shared, folder: Folder, listing: Listing, way: Way) {
        self.take_in(shared, (folder, listing), way, Come::Before);
    }

    /// Takes in a folder that was listed ahead.
    pub(crate) fn listed(&mut self, shared: &Shared, folder: Folder, listing: Listing, way: Way) {
        let flags = shared.table.find(folder.key).map_or(0, table::Place::flags);
        match flags & table::VISITED != 0 {
            // Whoever came meanwhile to a folder that was being listed has listed it.
            true if way == Way::Ahead => {
                self.take_in(shared, (folder, listing), Way::Listed, Come::Meanwhile);
            }
            true => self.take_in(shared, (folder, listing), way, Come::Meanwhile),
            false => self.take_in(shared, (folder, listing), way, Come::NotYet),
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
        self.judge(warmth);
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
        let now = shared.visits.load(std::sync::atomic::Ordering::Relaxed);
        let is_visited = come != Come::NotYet;
        let mut known = Known::new(number.turn, folder, listing.names, now, is_visited);
        known.enter(shared, number);
        if come == Come::Meanwhile {
            shared.demand.lists.used();
            counts::add(Count::ListedAheadUsed, 1);
        }
        *place = Some(known);
        let Some(uses) = shared.uses.of(number.folder) else { return };
        uses.begin(number.turn, now, way);
        self.push(Job::Descend(number));
        if warmth == Warmth::Cold {
            for kind in [Kind::Attributes, Kind::Contents] {
                if is_on(shared, number, kind) {
                    uses.wanted(kind);
                    self.push(Job::Ask(number, kind));
                }
            }
        }
    }

    /// The program has gone from a folder, which was listed only now, into this one.
    pub(crate) fn came_from(&mut self, shared: &Shared, key: Key) {
        if let Some(place) = shared.table.find(key) {
            let now = shared.visits.load(std::sync::atomic::Ordering::Relaxed);
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
    pub(crate) fn took(&mut self, ns: u64, is_of_attributes: bool) {
        if self.worth.took(ns, is_of_attributes) && !is_of_attributes {
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

    /// Leaves folders that the program has left behind; true if there were some.
    fn leave_old(&mut self, shared: &Shared, age: u32, why: Leave) -> bool {
        let now = shared.visits.load(std::sync::atomic::Ordering::Relaxed);
        let age = age << shared.demand.passes_behind();
        let mut some = false;
        for at in 0..self.known.len() {
            let Some(Some(known)) = self.known.get(at) else { continue };
            let last = shared.uses.of(at as u16).map_or(0, |uses| uses.last()).max(known.since);
            // One that was listed ahead is ahead for longer.
            let age = if known.is_visited { age } else { age.saturating_mul(4) };
            let is_old = now.wrapping_sub(last) >= age && known.busy == 0;
            if is_old && (why == Leave::Old || known.takes_room(shared, at as u16)) {
                drop(self.leave(shared, at));
                some = true;
            }
        }
        some
    }

    fn leave_oldest(&mut self, shared: &Shared) {
        let idle = self.known.iter().enumerate().filter_map(|(at, known)| {
            let known = known.as_ref().filter(|known| known.busy == 0 && known.is_visited)?;
            let last = shared.uses.of(at as u16).map_or(0, |uses| uses.last());
            Some((at, last.max(known.since)))
        });
        if let Some((at, _)) = idle.min_by_key(|(_, last)| *last) {
            drop(self.leave(shared, at));
        }
    }

    /// Takes a folder out, and counts what was used of it.
    fn leave(&mut self, shared: &Shared, at: usize) -> Option<Known> {
        let known = self.known.get_mut(at).and_then(Option::take)?;
        let uses = shared.uses.of(at as u16)?;
        let sum = uses.sum(known.files, known.folders);
        // From now on uses are late ones.
        let turn = known.turn.wrapping_add(1);
        if let Some(next) = self.turns.get_mut(at) {
            *next = turn;
        }
        uses.begin(turn, 0, Way::Listed);
        shared.demand.attributes.left(known.asked_attributes.saturating_sub(sum.used_attributes));
        shared.demand.contents.left(known.asked_contents.saturating_sub(sum.used_contents));
        if known.is_visited {
            shared.demand.leave(sum.class, sum.files, sum.folders, sum.visited);
        } else {
            shared.demand.lists.left(1);
        }
        let number = Number { folder: at as u16, turn: known.turn };
        self.jobs.retain(|job| match job {
            Job::Begin(_) => true,
            Job::Ask(folder, _) | Job::Descend(folder) | Job::Enter(folder, _) => *folder != number,
        });
        Some(known)
    }
}

/// A number that changes whenever the program begins a folder or uses a name.
fn moved(shared: &Shared) -> u32 {
    let visits = shared.visits.load(std::sync::atomic::Ordering::Relaxed);
    visits.wrapping_add(shared.demand.uses())
}

fn is_on(shared: &Shared, number: Number, kind: Kind) -> bool {
    let is_of = |class| is_on_for(shared, number, kind, class);
    is_of(Class::File) || is_of(Class::Folder)
}

/// Uses of names of this folder say more than those of others', and those of folders to which the program comes in the same
/// way more than those of all.
fn is_on_for(shared: &Shared, number: Number, kind: Kind, class: Class) -> bool {
    let Some(uses) = shared.uses.of(number.folder) else { return false };
    let own = match (kind, class) {
        // One that opens in a second pass has opened none yet.
        (Kind::Contents, Class::File) if shared.demand.passes_behind() == 0 => uses.opens(),
        _ => None,
    };
    let classes: &[Class] = if class == Class::Folder { &[Class::Folder] } else { uses.classes() };
    own.unwrap_or_else(|| classes.iter().any(|class| shared.demand.is_on(kind, *class)))
}

fn has_room(shared: &Shared, kind: Kind) -> bool {
    let names = shared.names.load(std::sync::atomic::Ordering::Relaxed);
    let bytes = shared.bytes.load(std::sync::atomic::Ordering::Relaxed);
    shared.demand.has_room(kind, names, bytes)
}

fn class(name: &Name<'_>) -> Class {
    match name.kind {
        FileType::Directory => Class::Folder,
        _ => Class::File,
    }
}

impl Known {
    fn new(turn: u8, folder: Folder, names: Names, since: u32, is_visited: bool) -> Self {
        let all = (0..names.len()).filter_map(|position| names.get(position));
        let folders = all.filter(|name| class(name) == Class::Folder).count() as u32;
        Known {
            turn,
            files: names.len() - folders,
            folders,
            folder,
            names,
            attributes: 0,
            contents: 0,
            descend: 0,
            asked_attributes: 0,
            asked_contents: 0,
            busy: 0,
            is_visited,
            since,
        }
    }

    /// True if it was listed, or names of it were asked, and the program has not come to that.
    fn takes_room(&self, shared: &Shared, number: u16) -> bool {
        let Some(uses) = shared.uses.of(number) else { return true };
        let sum = uses.sum(self.files, self.folders);
        !self.is_visited
            || self.asked_attributes > sum.used_attributes
            || self.asked_contents > sum.used_contents
    }

    fn key(&self, name: &Name<'_>) -> Key {
        Key::of(self.folder.device, name.inode)
    }

    /// Has its names stand in the table. One that stood there keeps what was asked and used of it.
    fn enter(&mut self, shared: &Shared, number: Number) {
        for position in 0..self.names.len() {
            let Some(name) = self.names.get(position) else { continue };
            let key = self.key(&name);
            let kept = shared.table.find(key).map_or(0, table::Place::flags);
            let flags = match class(&name) {
                Class::File => kept,
                _ => kept | table::FOLDER,
            };
            let listed = Listed { folder: number.folder, turn: number.turn, position };
            shared.table.put(key, listed, flags);
        }
    }

    fn ask(
        &mut self,
        shared: &Shared,
        (worth, kept): (&mut Worth, &mut Kept),
        number: Number,
        kind: Kind,
    ) -> Step {
        let settings = shared.settings;
        let device = self.folder.device;
        let finding = match kind == Kind::Contents && self.folder.may_forget {
            true => kept.of(device),
            false => Finding::Kept,
        };
        // What is read would be forgotten when the program opens it.
        let kind = if finding == Finding::Forgotten { Kind::Attributes } else { kind };
        loop {
            let position = if kind == Kind::Contents { self.contents } else { self.attributes };
            let Some(name) = self.names.get(position) else { return Step::Done };
            let class = class(&name);
            let is_of_kind = kind == Kind::Attributes || class == Class::File;
            let place = shared.table.find(self.key(&name));
            let flags = place.map_or(0, |place| place.flags());
            let had = match kind {
                Kind::Contents => table::ASKED_OPEN | table::OPENED,
                _ => table::ASKED | table::TOUCHED,
            };
            let text = Text::of(name.name);
            let is_asked = is_of_kind && is_on_for(shared, number, kind, class) && flags & had == 0;
            if !is_asked && !is_on(shared, number, kind) {
                return Step::Done;
            }
            if is_asked && !has_room(shared, kind) {
                return Step::NoRoom;
            }
            if is_asked && finding == Finding::Tried {
                return Step::NotYet;
            }
            match kind {
                Kind::Contents => self.contents += 1,
                _ => self.attributes += 1,
            }
            let (true, Some(text), Some(place)) = (is_asked, text, place) else { continue };
            // Contents are in blocks of their own.
            let is_by_block = kind == Kind::Attributes && !settings.is_all_cold;
            if is_by_block && worth.is_near(self.folder.device, name.inode) {
                continue;
            }
            if flags & (table::ASKED | table::TOUCHED) == 0 {
                place.mark(table::ASKED);
                self.asked_attributes += 1;
                shared.demand.attributes.asked();
                counts::add(Count::Asked, 1);
            }
            if kind == Kind::Contents {
                place.mark(table::ASKED_OPEN);
                self.asked_contents += 1;
                shared.demand.contents.asked();
                counts::add(Count::Opened, 1);
            }
            let tries = (finding == Finding::Unknown).then_some(device);
            if tries.is_some() {
                kept.set(device, Finding::Tried);
            }
            self.busy += 1;
            let descriptor = self.folder.open.as_raw_fd();
            return Step::Task(Task::Ask { folder: number, descriptor, name: text, kind, tries });
        }
    }

    /// Lists a folder in it that the program uses names of.
    fn enter_below(&mut self, shared: &Shared, number: Number, position: u32) -> Step {
        let Some(name) = self.names.get(position) else { return Step::Done };
        let key = self.key(&name);
        let place = shared.table.find(key);
        let (Some(name), Some(place)) = (Text::of(name.name), place) else { return Step::Done };
        if place.mark(table::ASKED_LIST) & table::ASKED_LIST != 0 {
            return Step::Done;
        }
        place.mark(table::LISTING);
        shared.demand.lists.asked();
        counts::add(Count::ListedAhead, 1);
        self.busy += 1;
        let descriptor = self.folder.open.as_raw_fd();
        Step::Task(Task::Below { above: number, descriptor, name, key, way: Way::Named })
    }

    fn descend(&mut self, shared: &Shared, number: Number) -> Step {
        if !shared.demand.is_on(Kind::Folders, Class::Folder) {
            return Step::Done;
        }
        loop {
            let Some(name) = self.names.get(self.descend) else { return Step::Done };
            let key = self.key(&name);
            let place = shared.table.find(key);
            let had = table::VISITED | table::ASKED_LIST;
            let is_listed = place.is_some_and(|place| place.flags() & had != 0);
            let is_asked = class(&name) == Class::Folder && !is_listed;
            if is_asked && !has_room(shared, Kind::Folders) {
                return Step::NoRoom;
            }
            let text = Text::of(name.name);
            self.descend += 1;
            let (true, Some(name), Some(place)) = (is_asked, text, place) else { continue };
            place.mark(table::ASKED_LIST | table::LISTING);
            shared.demand.lists.asked();
            counts::add(Count::ListedAhead, 1);
            self.busy += 1;
            let descriptor = self.folder.open.as_raw_fd();
            // What it opens below one that it does not list, it does not list either.
            let is_by_names = shared.uses.of(number.folder).is_some_and(Uses::is_by_names);
            let way = if is_by_names { Way::Named } else { Way::Ahead };
            return Step::Task(Task::Below { above: number, descriptor, name, key, way });
        }
    }
}
