//! What this program does with names that it lists, and so what is worth asking ahead.
//!
//! Nothing is tried to find out: the program's own calls on names of listed folders are counted, asked ahead or
//! not. A kind is on as soon as some were seen and as long as at least half of the names of the folders that the
//! program has left behind were used so. How far ahead is asked grows with what was used: a guess that is
//! in vain costs a bounded number of requests, however large the tree is.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Request for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Attributes,
    /// Open it, and read its first bytes.
    Contents,
    /// List it.
    Folders,
}

/// Number of kinds.
pub(crate) const KINDS: usize = 3;

/// Names that a program uses alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// File of a folder that the program lists.
    File,
    /// File of a folder whose names it knows without listing it. An interpreter opens each of its compiled modules and only
    /// looks at the sources beside them: what it does with the one says nothing of the other.
    Named,
    Folder,
}

/// ClassUses that must have been seen first.
const SEEN: u32 = 4;
/// Opened files of all folders until the next one's are taken for such: a few are opened by any program that reads settings.
const SEEN_OPEN: u32 = 8;
/// Names of folders left behind from which on their share counts.
const ENOUGH: u32 = 64;
const ENOUGH_FOLDERS: u32 = 8;
/// Counts above this are halved: what a program does now weighs more than what it did.
const MANY: u32 = 1024;
const MANY_RECENT: u32 = 256;
/// Requests ahead without any use, and more of them for each use.
const FIRST: u32 = 64;
const FIRST_FOLDERS: u32 = 4;
const GROWTH: u32 = 2;
/// Folders of which one is tried while nothing is asked ahead; doubled so often at most.
const TRIED: u32 = 64;
const MOST_VAIN: u32 = 7;
/// Uses that are worth a start.
const USEFUL: u32 = 16;
/// Openings behind that are a second pass, each so many of which have folders kept twice as long, and the most that count.
const BEHIND: u32 = 8;
const MOST_BEHIND: u32 = 40;
/// Folders listed ahead that the program has not come to.
const MOST_FOLDERS: u32 = 128;

/// Names of one class.
#[derive(Debug, Default)]
struct ClassUses {
    /// Lately, of any listed folder.
    touched: AtomicU32,
    opened: AtomicU32,
    /// Names of folders left behind, and the uses of these.
    names: AtomicU32,
    names_touched: AtomicU32,
    names_opened: AtomicU32,
}

/// Requests of one kind.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    asked: AtomicU32,
    /// Asked names that the program has come to, and those that it has left behind.
    used: AtomicU32,
    vain: AtomicU32,
    bytes: AtomicU64,
}

impl Requests {
    /// Asked and neither used nor left behind.
    fn outstanding(&self) -> u32 {
        let settled =
            self.used.load(Ordering::Relaxed).wrapping_add(self.vain.load(Ordering::Relaxed));
        // A use is seen before it is counted as asked, or later than it was given up.
        let outstanding = self.asked.load(Ordering::Relaxed).wrapping_sub(settled);
        if outstanding > u32::MAX / 2 { 0 } else { outstanding }
    }

    fn window(&self, first: u32, most: u32) -> u32 {
        let grown = self.used.load(Ordering::Relaxed).saturating_mul(GROWTH);
        first.saturating_add(grown).min(most)
    }

    pub(crate) fn asked(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn left(&self, count: u32) {
        self.vain.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts the bytes of a request; gives how many were asked.
    pub(crate) fn read(&self, bytes: u64) -> u32 {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.asked.load(Ordering::Relaxed)
    }

    /// Requests that as many bytes are, by what one was so far.
    fn worth(&self, bytes: u64) -> u32 {
        let asked = u64::from(self.asked.load(Ordering::Relaxed)).max(1);
        let each = (self.bytes.load(Ordering::Relaxed) / asked).max(4096);
        u32::try_from(bytes / each).unwrap_or(u32::MAX)
    }
}

/// All of it; zeros are a program of which nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    files: ClassUses,
    named: ClassUses,
    folders: ClassUses,
    /// Listed folders' folders that the program went into.
    visited: AtomicU32,
    /// Uses of listed names, asked ahead or not.
    moves: AtomicU32,
    /// Openings that come long after the folder was looked at, less those that do not.
    behind: AtomicU32,
    left_folders: AtomicU32,
    left_visited: AtomicU32,
    /// Times that asking was in vain, and uses when that was so last.
    vain: AtomicU32,
    vain_used: AtomicU32,
    pub(crate) attributes: Requests,
    pub(crate) contents: Requests,
    pub(crate) lists: Requests,
}

/// Names of one class of a folder that is left, and their uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) names: u32,
    pub(crate) touched: u32,
    pub(crate) opened: u32,
}

impl Demand {
    fn of(&self, class: Class) -> &ClassUses {
        match class {
            Class::File => &self.files,
            Class::Named => &self.named,
            Class::Folder => &self.folders,
        }
    }

    /// The program has used a listed name, for the first time or again.
    pub(crate) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    /// The program has used a listed name for the first time.
    pub(crate) fn touched(&self, class: Class) {
        let uses = self.of(class);
        if uses.touched.fetch_add(1, Ordering::Relaxed) > MANY_RECENT {
            halve(&[&uses.touched, &uses.opened]);
        }
    }

    /// The program has opened one for the first time.
    pub(crate) fn opened(&self, class: Class) {
        let uses = self.of(class);
        if uses.opened.fetch_add(1, Ordering::Relaxed) > MANY_RECENT {
            halve(&[&uses.touched, &uses.opened]);
        }
    }

    pub(crate) fn visited(&self) {
        self.visited.fetch_add(1, Ordering::Relaxed);
    }

    /// A name of a folder that was counted as left is used late.
    pub(crate) fn late(&self, class: Class, kind: Kind) {
        let uses = self.of(class);
        let count = match kind {
            Kind::Attributes => &uses.names_touched,
            Kind::Contents => &uses.names_opened,
            Kind::Folders => &self.left_visited,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// The program has opened a file long after it has looked at it, as one that first makes a list.
    pub(crate) fn came_behind(&self) {
        let behind = self.behind.load(Ordering::Relaxed);
        self.behind.store((behind + 1).min(MOST_BEHIND), Ordering::Relaxed);
    }

    /// True once it has opened one right after it has looked at it.
    pub(crate) fn came_at_once(&self) {
        let behind = self.behind.load(Ordering::Relaxed);
        self.behind.store(behind.saturating_sub(1), Ordering::Relaxed);
    }

    /// Times that the folders of a program are kept twice as long, which opens their files in a second pass; zero for one that
    /// does not.
    pub(crate) fn passes_behind(&self) -> u32 {
        self.behind.load(Ordering::Relaxed) / BEHIND
    }

    /// A number that changes with each use of a listed name.
    pub(crate) fn uses(&self) -> u32 {
        self.moves.load(Ordering::Relaxed)
    }

    /// Has folders be tried more rarely, unless something was of use meanwhile.
    pub(crate) fn wait_longer(&self) {
        let used = self.attributes.used.load(Ordering::Relaxed);
        let before = self.vain_used.swap(used, Ordering::Relaxed);
        let vain = match used.wrapping_sub(before) < USEFUL {
            true => self.vain.load(Ordering::Relaxed).saturating_add(1).min(MOST_VAIN),
            false => 0,
        };
        self.vain.store(vain, Ordering::Relaxed);
    }

    /// Folders of which one is tried: more after each time in vain.
    pub(crate) fn tried_of(&self) -> u32 {
        TRIED << self.vain.load(Ordering::Relaxed).min(MOST_VAIN)
    }

    /// The program has left a folder behind, whose files are of this class.
    pub(crate) fn leave(&self, class: Class, files: Left, folders: Left, visited: u32) {
        for (uses, left) in [(self.of(class), files), (&self.folders, folders)] {
            uses.names_touched.fetch_add(left.touched, Ordering::Relaxed);
            uses.names_opened.fetch_add(left.opened, Ordering::Relaxed);
            if uses.names.fetch_add(left.names, Ordering::Relaxed) > MANY {
                halve(&[&uses.names, &uses.names_touched, &uses.names_opened]);
            }
        }
        self.left_visited.fetch_add(visited, Ordering::Relaxed);
        if self.left_folders.fetch_add(folders.names, Ordering::Relaxed) > MANY {
            halve(&[&self.left_folders, &self.left_visited]);
        }
    }

    /// True while it is worth asking.
    pub(crate) fn is_on(&self, kind: Kind, class: Class) -> bool {
        let uses = self.of(class);
        let value = |count: &AtomicU32| count.load(Ordering::Relaxed);
        match kind {
            Kind::Attributes => {
                value(&uses.touched) >= SEEN
                    && is_half(value(&uses.names_touched), value(&uses.names), ENOUGH)
            }
            Kind::Contents => {
                let (opened, touched) = (value(&uses.opened), value(&uses.touched));
                // In a second pass it has looked at more than it can have opened.
                let is_second_pass = class == Class::File && self.passes_behind() > 0;
                opened >= SEEN_OPEN
                    && (is_second_pass || is_half(opened, touched, 0))
                    && is_half(value(&uses.names_opened), value(&uses.names), ENOUGH)
            }
            Kind::Folders => {
                value(&self.visited) > 0
                    && is_half(value(&self.left_visited), value(&self.left_folders), ENOUGH_FOLDERS)
            }
        }
    }

    /// True while there is room for one more request of a kind, within these bounds.
    pub(crate) fn has_room(&self, kind: Kind, names: u32, bytes: u64) -> bool {
        let (requests, window) = match kind {
            Kind::Attributes => (&self.attributes, self.attributes.window(FIRST, names)),
            Kind::Contents => {
                let most = names.min(self.contents.worth(bytes));
                (&self.contents, self.contents.window(FIRST, most))
            }
            Kind::Folders => {
                (&self.lists, self.lists.window(FIRST_FOLDERS, MOST_FOLDERS.min(names)))
            }
        };
        requests.outstanding() < window
    }
}

/// True if at least half of all are of it, or too few are known.
fn is_half(part: u32, all: u32, enough: u32) -> bool {
    all < enough || part.saturating_mul(2) >= all
}

/// Another thread's count in between may be lost: it is a weight, no sum.
fn halve(counts: &[&AtomicU32]) {
    for count in counts {
        count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: u32 = 4096;
    const BYTES: u64 = 64 << 20;

    fn left(names: u32, touched: u32, opened: u32) -> Left {
        Left { names, touched, opened }
    }

    #[test]
    fn nothing_is_on_before_the_program_has_shown_it() {
        let demand = Demand::default();
        for kind in [Kind::Attributes, Kind::Contents, Kind::Folders] {
            assert!(!demand.is_on(kind, Class::File) && !demand.is_on(kind, Class::Folder));
        }
    }

    #[test]
    fn a_program_that_looks_and_opens_nothing_has_attributes_alone() {
        let demand = Demand::default();
        (0..100).for_each(|_| demand.touched(Class::File));
        assert!(demand.is_on(Kind::Attributes, Class::File));
        assert!(!demand.is_on(Kind::Contents, Class::File));
        assert!(!demand.is_on(Kind::Attributes, Class::Folder));
    }

    #[test]
    fn one_that_opens_what_it_looks_at_has_contents_too() {
        let demand = Demand::default();
        for _ in 0..10 {
            demand.touched(Class::File);
            demand.opened(Class::File);
        }
        assert!(demand.is_on(Kind::Contents, Class::File));
        demand.leave(Class::File, left(100, 100, 100), Left::default(), 0);
        assert!(demand.is_on(Kind::Contents, Class::File));
    }

    #[test]
    fn what_is_opened_by_name_alone_says_nothing_of_files_in_listed_folders() {
        let demand = Demand::default();
        for _ in 0..10 {
            demand.touched(Class::File);
            demand.touched(Class::Named);
            demand.opened(Class::Named);
        }
        assert!(demand.is_on(Kind::Contents, Class::Named));
        assert!(!demand.is_on(Kind::Contents, Class::File));
        assert!(demand.is_on(Kind::Attributes, Class::File));
        // Nor does that which is left behind.
        demand.leave(Class::File, left(100, 100, 0), Left::default(), 0);
        assert!(demand.is_on(Kind::Contents, Class::Named));
    }

    #[test]
    fn one_of_each_folder_turns_it_off_and_all_of_each_on_again() {
        let demand = Demand::default();
        for _ in 0..10 {
            demand.touched(Class::File);
            demand.opened(Class::File);
            demand.leave(Class::File, left(100, 1, 1), Left::default(), 0);
        }
        assert!(!demand.is_on(Kind::Contents, Class::File));
        assert!(!demand.is_on(Kind::Attributes, Class::File));
        (0..20).for_each(|_| demand.leave(Class::File, left(100, 100, 100), Left::default(), 0));
        assert!(demand.is_on(Kind::Contents, Class::File));
    }

    #[test]
    fn late_uses_count_as_much_as_others() {
        let demand = Demand::default();
        (0..8).for_each(|_| demand.touched(Class::File));
        (0..8).for_each(|_| demand.opened(Class::File));
        demand.leave(Class::File, left(200, 200, 0), Left::default(), 0);
        assert!(!demand.is_on(Kind::Contents, Class::File));
        (0..100).for_each(|_| demand.late(Class::File, Kind::Contents));
        assert!(demand.is_on(Kind::Contents, Class::File));
    }

    #[test]
    fn what_is_asked_in_vain_is_bounded_and_grows_by_what_is_used() {
        let demand = Demand::default();
        let mut asked = 0;
        while demand.has_room(Kind::Attributes, NAMES, BYTES) {
            demand.attributes.asked();
            asked += 1;
        }
        assert_eq!(asked, FIRST);
        (0..10).for_each(|_| demand.attributes.used());
        while demand.has_room(Kind::Attributes, NAMES, BYTES) {
            demand.attributes.asked();
            asked += 1;
        }
        assert_eq!(asked, FIRST + 10 + 10 * GROWTH);
        demand.attributes.left(20);
        assert!(demand.has_room(Kind::Attributes, NAMES, BYTES));
        assert!(!demand.has_room(Kind::Attributes, 1, BYTES));
    }

    #[test]
    fn large_files_are_fewer_ahead() {
        let demand = Demand::default();
        (0..1000).for_each(|_| demand.contents.used());
        demand.contents.asked();
        demand.contents.read(1 << 20);
        // A thousand were used that nobody asked for: none outstanding.
        assert!(demand.has_room(Kind::Contents, NAMES, BYTES));
        assert_eq!(demand.contents.worth(BYTES), 64);
        assert_eq!(demand.contents.worth(1), 0);
    }

    #[test]
    fn after_each_time_in_vain_folders_are_tried_more_rarely_until_one_is_of_use() {
        let demand = Demand::default();
        assert_eq!(demand.tried_of(), 64);
        demand.wait_longer();
        demand.wait_longer();
        assert_eq!(demand.tried_of(), 256);
        (0..20).for_each(|_| demand.wait_longer());
        assert_eq!(demand.tried_of(), 64 << 7);
        (0..USEFUL).for_each(|_| demand.attributes.used());
        demand.wait_longer();
        assert_eq!(demand.tried_of(), 64);
    }

    #[test]
    fn folders_that_nobody_goes_into_are_not_listed() {
        let demand = Demand::default();
        demand.visited();
        assert!(demand.is_on(Kind::Folders, Class::Folder));
        demand.leave(Class::File, Left::default(), left(20, 20, 0), 2);
        assert!(!demand.is_on(Kind::Folders, Class::Folder));
        demand.leave(Class::File, Left::default(), left(40, 40, 0), 40);
        assert!(demand.is_on(Kind::Folders, Class::Folder));
    }
}
