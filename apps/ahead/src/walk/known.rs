//! A listed folder: what of its names is asked next.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;

use super::order::{By, Orders};
use super::{Number, Task};
use crate::counts::{self, Count};
use crate::demand::{Class, KINDS, Kind};
use crate::folder::Folder;
use crate::kept::{Finding, Kept};
use crate::names::{Name, Names};
use crate::shared::Shared;
use crate::table::{self, Key, Listed};
use crate::text::Text;
use crate::uses::{RECENT, Uses, Way};
use crate::worth::Worth;

/// A listed folder.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) turn: u8,
    pub(super) folder: Folder,
    pub(super) names: Names,
    pub(super) files: u32,
    pub(super) folders: u32,
    /// The next name of each kind.
    pub(super) orders: Orders,
    /// Requests made of it.
    pub(super) asked_attributes: u32,
    pub(super) asked_contents: u32,
    /// Requests under way that use its descriptor.
    pub(super) busy: u32,
    pub(super) is_visited: bool,
    /// The program is somewhere in it, and where is not known yet.
    pub(super) is_under_way: bool,
    /// Number of the program's visit when it was listed.
    pub(super) since: u32,
}

/// Outcome of a step of a job.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, and a box needs memory")]
pub(super) enum Step {
    Task(Task),
    /// No room ahead of the program.
    NoRoom,
    /// Not before something is known that is being tried.
    NotYet,
    /// Nothing is left of it, or it is not wanted.
    Done,
}

pub(super) fn is_on(shared: &Shared, number: Number, kind: Kind) -> bool {
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
    let names = shared.names.load(Ordering::Relaxed);
    let bytes = shared.bytes.load(Ordering::Relaxed);
    shared.demand.has_room(kind, names, bytes)
}

fn class(name: &Name<'_>) -> Class {
    match name.kind {
        FileType::Directory => Class::Folder,
        _ => Class::File,
    }
}

impl Known {
    pub(super) fn new(
        turn: u8,
        folder: Folder,
        (names, by): (Names, [By; KINDS]),
        since: u32,
        is_visited: bool,
    ) -> Self {
        let all = (0..names.len()).filter_map(|position| names.get(position));
        let folders = all.filter(|name| class(name) == Class::Folder).count() as u32;
        Known {
            turn,
            files: names.len() - folders,
            folders,
            folder,
            orders: Orders::begin(&names, by),
            names,
            asked_attributes: 0,
            asked_contents: 0,
            busy: 0,
            is_visited,
            is_under_way: false,
            since,
        }
    }

    /// True if it was listed, or names of it were asked, and the program has not come to that.
    pub(super) fn takes_room(&self, shared: &Shared, number: u16) -> bool {
        let Some(uses) = shared.uses.of(number) else { return true };
        let sum = uses.sum(self.files, self.folders);
        !self.is_visited
            || self.asked_attributes > sum.used_attributes
            || self.asked_contents > sum.used_contents
    }

    /// The program goes another way: what was asked does not take room any more.
    pub(super) fn give_up(&mut self, shared: &Shared, uses: &Uses, kind: Kind) {
        let sum = uses.sum(self.files, self.folders);
        let (asked, used, requests) = match kind {
            Kind::Attributes => {
                (&mut self.asked_attributes, sum.used_attributes, &shared.demand.attributes)
            }
            Kind::Contents => {
                (&mut self.asked_contents, sum.used_contents, &shared.demand.contents)
            }
            Kind::Folders => return,
        };
        requests.left(asked.saturating_sub(used));
        *asked = used;
    }

    /// True once each name was looked at.
    pub(super) fn is_through(&self, kind: Kind) -> bool {
        self.orders.next(kind) >= self.names.len()
    }

    fn key(&self, name: &Name<'_>) -> Key {
        match name.is_unnumbered() {
            true => Key::named(self.folder.key, name.name.to_bytes()),
            false => Key::of(self.folder.device, name.inode),
        }
    }

    /// Has its names stand in the table. One that stood there keeps what was asked and used of it.
    pub(super) fn enter(&mut self, shared: &Shared, number: Number) {
        for position in 0..self.names.len() {
            let Some(name) = self.names.get(position) else { continue };
            if name.is_unnumbered() {
                shared.unnumbered.are_listed();
            }
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

    pub(super) fn ask(
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
        if self.is_under_way {
            let uses = shared.uses.of(number.folder).and_then(|uses| uses.recent(kind));
            let is_known = uses.is_some_and(|uses| uses.count() >= RECENT as u32);
            if !is_known && self.orders.is_judged(&self.names) {
                return Step::NotYet;
            }
            self.is_under_way = false;
        }
        loop {
            let position = self.orders.next(kind);
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
            self.orders.pass(kind);
            let (true, Some(text), Some(place)) = (is_asked, text, place) else { continue };
            // Contents are in blocks of their own.
            let is_untold = name.kind == FileType::Unknown;
            let has_block = !settings.is_all_cold && !name.is_unnumbered() && !is_untold;
            let untold = is_untold.then_some(position);
            if kind == Kind::Attributes
                && has_block
                && worth.is_near(self.folder.device, name.inode)
            {
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
            let tells = self.folder.tells_contents;
            let folder = number;
            let name = text;
            return Step::Task(Task::Ask { folder, descriptor, name, kind, untold, tries, tells });
        }
    }

    /// A name of which the listing did not tell it is a folder, or none.
    pub(super) fn learn(&mut self, shared: &Shared, position: u32, is_folder: bool) {
        let Some(name) = self.names.get(position) else { return };
        if name.kind != FileType::Unknown {
            return;
        }
        if is_folder {
            let place = shared.table.find(self.key(&name));
            place.into_iter().for_each(|place| _ = place.mark(table::FOLDER));
            self.files = self.files.saturating_sub(1);
            self.folders += 1;
        }
        let kind = if is_folder { FileType::Directory } else { FileType::Fifo };
        self.names.set_kind(position, kind);
    }

    /// Tells of a name of which the listing does not if it is a folder: by what the program has found, or by what is asked ahead. None
    /// while that is to come.
    fn is_folder(&self, shared: &Shared, number: Number, flags: u64) -> Option<bool> {
        if flags & (table::FOLDER | table::TOUCHED) != 0 {
            return Some(flags & table::FOLDER != 0);
        }
        let is_to_come = match flags & table::ASKED {
            0 => {
                let is_on = is_on_for(shared, number, Kind::Attributes, Class::File);
                is_on && !self.is_through(Kind::Attributes)
            }
            _ => self.busy > 0,
        };
        (!is_to_come).then_some(false)
    }

    /// Lists a folder in it that the program uses names of.
    pub(super) fn enter_below(&mut self, shared: &Shared, number: Number, position: u32) -> Step {
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

    pub(super) fn descend(&mut self, shared: &Shared, number: Number) -> Step {
        if !shared.demand.is_on(Kind::Folders, Class::Folder) {
            return Step::Done;
        }
        loop {
            let position = self.orders.next(Kind::Folders);
            let Some(mut name) = self.names.get(position) else { return Step::Done };
            let key = self.key(&name);
            let place = shared.table.find(key);
            if name.kind == FileType::Unknown {
                let flags = place.map_or(0, table::Place::flags);
                let Some(is_folder) = self.is_folder(shared, number, flags) else {
                    return Step::NotYet;
                };
                self.learn(shared, position, is_folder);
                let Some(learnt) = self.names.get(position) else { return Step::Done };
                name = learnt;
            }
            let had = table::VISITED | table::ASKED_LIST;
            let is_listed = place.is_some_and(|place| place.flags() & had != 0);
            let is_asked = class(&name) == Class::Folder && !is_listed;
            if is_asked && !has_room(shared, Kind::Folders) {
                return Step::NoRoom;
            }
            let text = Text::of(name.name);
            self.orders.pass(Kind::Folders);
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
