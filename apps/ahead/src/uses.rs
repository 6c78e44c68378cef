//! What the program has used of each folder that is listed: counted by its threads without a lock.
//!
//! A folder is a number that is given again, with the next turn, when the program has left it behind. A use of
//! an earlier turn's name is a late one.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::demand::{Class, Demand, KINDS, Kind, Left};
use crate::table::{ASKED, ASKED_OPEN, FOLDER, OPENED, Place, TOUCHED, VISITED};

/// Folders at a time.
pub(crate) const FOLDERS: usize = 256;

/// Files looked at that tell what the program does with a folder's files.
const TOLD: u32 = 8;
/// Files looked at and not opened yet where it opens each as it comes to it.
const AT_ONCE: u32 = 2;
/// Files opened that tell the same.
const TOLD_OPEN: u32 = 2;

/// Names used last by which the order is judged: one in 720 drawn orders ascends.
pub(crate) const RECENT: usize = 6;

/// Nobody has asked for it; somebody has, or it is under way; or it was done.
const UNWANTED: u8 = 0;
const WANTED: u8 = 1;

/// Way by which the program comes to the names of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Way {
    /// Listed by the program.
    Listed = 0,
    /// Not come to yet, or just about to be listed.
    Ahead = 1,
    /// Known to it by their names, without a listing.
    Named = 2,
}

/// Positions of the names that were used last in one way. Two threads that add one may lose one.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    count: AtomicU32,
    positions: [AtomicU32; RECENT],
}

impl Recent {
    pub(crate) fn add(&self, position: u32) {
        let count = self.count();
        if let Some(place) = self.positions.get(count as usize % RECENT) {
            place.store(position, Ordering::Relaxed);
        }
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Names used so far.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// The last ones, the oldest first; none while they are fewer.
    pub(crate) fn last(&self) -> Option<[u32; RECENT]> {
        let count = self.count() as usize;
        (count >= RECENT).then(|| {
            std::array::from_fn(|at| {
                let place = self.positions.get((count + at) % RECENT);
                place.map_or(0, |place| place.load(Ordering::Relaxed))
            })
        })
    }

    /// True at the counts at which the order is judged: a few, and twice as many each time.
    fn is_to_be_judged(&self) -> bool {
        let count = self.count();
        count.is_multiple_of(RECENT as u32) && (count / RECENT as u32).is_power_of_two()
    }
}

/// Uses of one folder's names.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    turn: AtomicU8,
    way: AtomicU8,
    files_touched: AtomicU32,
    files_opened: AtomicU32,
    folders_touched: AtomicU32,
    visited: AtomicU32,
    /// Uses of names asked ahead.
    used_attributes: AtomicU32,
    used_contents: AtomicU32,
    /// Number of the visit during which one was used last.
    last: AtomicU32,
    wants: [AtomicU8; 2],
    /// Recent names that were looked at, opened and gone into.
    recent: [Recent; KINDS],
}

/// Sums of a folder that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Class of its files.
    pub(crate) class: Class,
    pub(crate) files: Left,
    pub(crate) folders: Left,
    pub(crate) visited: u32,
    pub(crate) used_attributes: u32,
    pub(crate) used_contents: u32,
}

impl Uses {
    /// Begins a turn.
    pub(crate) fn begin(&self, turn: u8, now: u32, way: Way) {
        for count in [
            &self.files_touched,
            &self.files_opened,
            &self.folders_touched,
            &self.visited,
            &self.used_attributes,
            &self.used_contents,
        ] {
            count.store(0, Ordering::Relaxed);
        }
        self.wants.iter().for_each(|want| want.store(UNWANTED, Ordering::Relaxed));
        self.recent.iter().for_each(|recent| recent.count.store(0, Ordering::Relaxed));
        self.last.store(now, Ordering::Relaxed);
        self.way.store(way as u8, Ordering::Relaxed);
        self.turn.store(turn, Ordering::Relaxed);
    }

    fn way(&self) -> Way {
        match self.way.load(Ordering::Relaxed) {
            0 => Way::Listed,
            1 => Way::Ahead,
            _ => Way::Named,
        }
    }

    /// True if the program opens files of it without listing it.
    pub(crate) fn is_by_names(&self) -> bool {
        self.way() == Way::Named
    }

    /// The program lists it.
    pub(crate) fn set_listed(&self) {
        self.way.store(Way::Listed as u8, Ordering::Relaxed);
    }

    /// Class as which its files' uses count.
    fn class(&self) -> Class {
        match self.way() {
            Way::Listed => Class::File,
            Way::Ahead | Way::Named => Class::Named,
        }
    }

    /// Classes by which its files are asked ahead: any of these. One that the program has used names of, and has not
    /// listed, may be of either sort.
    pub(crate) fn classes(&self) -> &'static [Class] {
        let is_touched = self.files_touched.load(Ordering::Relaxed) > 0;
        match self.way() {
            Way::Ahead if is_touched => &[Class::File, Class::Named],
            Way::Listed | Way::Ahead => &[Class::File],
            Way::Named => &[Class::Named],
        }
    }

    pub(crate) fn sum(&self, files: u32, folders: u32) -> Sum {
        let value = |count: &AtomicU32| count.load(Ordering::Relaxed);
        Sum {
            class: self.class(),
            files: Left {
                names: files,
                touched: value(&self.files_touched),
                opened: value(&self.files_opened),
            },
            folders: Left { names: folders, touched: value(&self.folders_touched), opened: 0 },
            visited: value(&self.visited),
            used_attributes: value(&self.used_attributes),
            used_contents: value(&self.used_contents),
        }
    }

    /// True if the program opens the files of this folder that it looks at; none while it has done so to few.
    pub(crate) fn opens(&self) -> Option<bool> {
        let touched = self.files_touched.load(Ordering::Relaxed);
        let opened = self.files_opened.load(Ordering::Relaxed);
        let is_half = opened.saturating_mul(2) >= touched;
        (touched >= TOLD || is_half && opened >= TOLD_OPEN).then_some(is_half)
    }

    /// Files that the program has looked at and not opened.
    fn unopened(&self) -> u32 {
        let touched = self.files_touched.load(Ordering::Relaxed);
        touched.saturating_sub(self.files_opened.load(Ordering::Relaxed))
    }

    pub(crate) fn last(&self) -> u32 {
        self.last.load(Ordering::Relaxed)
    }

    pub(crate) fn recent(&self, kind: Kind) -> Option<&Recent> {
        self.recent.get(kind as usize)
    }

    fn came_to(&self, kind: Kind, position: u32) {
        self.recent(kind).into_iter().for_each(|recent| recent.add(position));
    }

    fn want(&self, kind: Kind) -> Option<&AtomicU8> {
        self.wants.get(usize::from(kind == Kind::Contents))
    }

    /// True for the first who wants this kind asked.
    fn is_first(&self, kind: Kind) -> bool {
        self.want(kind).is_some_and(|want| want.swap(WANTED, Ordering::Relaxed) == UNWANTED)
    }

    /// Nobody has wanted it from now on.
    pub(crate) fn unwanted(&self, kind: Kind) {
        self.want(kind).into_iter().for_each(|want| want.store(UNWANTED, Ordering::Relaxed));
    }

    pub(crate) fn wanted(&self, kind: Kind) {
        self.want(kind).into_iter().for_each(|want| want.store(WANTED, Ordering::Relaxed));
    }
}

/// Uses of all folders.
#[derive(Debug)]
pub(crate) struct AllUses([Uses; FOLDERS]);

/// Use of a name by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Looked,
    /// Looked at, and a folder, which the listing may not have told.
    LookedAtFolder,
    Opened,
}

/// Finding of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Asked ahead.
    Ahead,
    /// Nothing of this kind was asked of its folder, and nobody has wanted it yet.
    Wanted(Kind),
    Nothing,
}

impl AllUses {
    pub(crate) fn of(&self, folder: u16) -> Option<&Uses> {
        self.0.get(usize::from(folder))
    }

    /// Counts that the program uses a name of a listed folder; `now` is the number of its visit.
    pub(crate) fn count(&self, demand: &Demand, place: &Place, what: Use, now: u32) -> Seen {
        let flags = match what {
            Use::Looked => TOUCHED,
            Use::LookedAtFolder => TOUCHED | FOLDER,
            Use::Opened => TOUCHED | OPENED,
        };
        let before = place.mark(flags) | flags & FOLDER;
        demand.moved();
        let listed = place.listed();
        let Some(uses) = self.of(listed.folder) else { return Seen::Nothing };
        let is_late = uses.turn.load(Ordering::Relaxed) != listed.turn;
        let class = match before & FOLDER == 0 {
            // What a folder that has been left was is not known any more.
            true if is_late => Class::File,
            true => uses.class(),
            false => Class::Folder,
        };
        if !is_late {
            uses.last.store(now, Ordering::Relaxed);
        }
        if before & TOUCHED == 0 {
            demand.touched(class);
            let count = match class {
                Class::File | Class::Named => &uses.files_touched,
                Class::Folder => &uses.folders_touched,
            };
            match is_late {
                true => demand.late(class, Kind::Attributes),
                false => {
                    count.fetch_add(1, Ordering::Relaxed);
                    uses.came_to(Kind::Attributes, listed.position);
                }
            }
            if before & ASKED != 0 && !is_late {
                uses.used_attributes.fetch_add(1, Ordering::Relaxed);
                demand.attributes.used();
            }
        }
        if what == Use::Opened && class != Class::Folder && before & OPENED == 0 {
            demand.opened(class);
            match uses.unopened() {
                _ if class != Class::File => {}
                _ if is_late => demand.came_behind(),
                TOLD.. if before & TOUCHED != 0 => demand.came_behind(),
                0..=AT_ONCE => demand.came_at_once(),
                // The last ones of a folder, in the one way or the other.
                _ => {}
            }
            match is_late {
                true => demand.late(class, Kind::Contents),
                false => {
                    uses.files_opened.fetch_add(1, Ordering::Relaxed);
                    uses.came_to(Kind::Contents, listed.position);
                }
            }
            if before & ASKED_OPEN != 0 && !is_late {
                uses.used_contents.fetch_add(1, Ordering::Relaxed);
                demand.contents.used();
            }
        }
        let (asked, kind) = match what {
            Use::Opened if class != Class::Folder => (ASKED_OPEN, Kind::Contents),
            _ => (ASKED, Kind::Attributes),
        };
        if before & asked != 0 {
            return Seen::Ahead;
        }
        let is_new = before & if kind == Kind::Contents { OPENED } else { TOUCHED } == 0;
        let is_to_be_judged = || is_new && uses.recent(kind).is_some_and(Recent::is_to_be_judged);
        match !is_late && (uses.is_first(kind) || is_to_be_judged()) {
            true => Seen::Wanted(kind),
            false => Seen::Nothing,
        }
    }

    /// Counts that the program begins to read a folder that stands in a listed one.
    pub(crate) fn visit(&self, demand: &Demand, place: &Place, now: u32) {
        // What is read is a folder, which the listing may not have told.
        if place.mark(VISITED | FOLDER) & VISITED != 0 {
            return;
        }
        let listed = place.listed();
        demand.visited();
        match self.of(listed.folder) {
            Some(uses) if uses.turn.load(Ordering::Relaxed) == listed.turn => {
                uses.visited.fetch_add(1, Ordering::Relaxed);
                uses.last.store(now, Ordering::Relaxed);
                uses.came_to(Kind::Folders, listed.position);
            }
            _ => demand.late(Class::Folder, Kind::Folders),
        }
    }
}
