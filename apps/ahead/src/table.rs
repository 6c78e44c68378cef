//! Which file is that? Names of listed folders, by device and inode number, looked up by the program's threads
//! at each call and without a lock.
//!
//! A place holds a name's key and, in one word, whose it is and what was asked and used of it. It is taken again
//! for another name when the table fills up; a use that is counted for the wrong name then only makes a guess
//! a little worse.

use std::sync::atomic::{AtomicU64, Ordering};

/// Names at a time.
const PLACES: usize = 1 << 16;
/// Places in which a key may be.
const NEAR: usize = 8;

/// Attributes were asked ahead.
pub(crate) const ASKED: u64 = 1;
/// Opened ahead, and its first bytes read.
pub(crate) const ASKED_OPEN: u64 = 2;
/// Folder that was listed ahead.
pub(crate) const ASKED_LIST: u64 = 4;
/// The program has looked at its attributes, or opened it.
pub(crate) const TOUCHED: u64 = 8;
/// The program has opened it.
pub(crate) const OPENED: u64 = 16;
/// Folder that the program has begun to read.
pub(crate) const VISITED: u64 = 32;
/// Folder.
pub(crate) const FOLDER: u64 = 64;
/// Folder that is being listed ahead.
pub(crate) const LISTING: u64 = 128;

/// A file's key: its device and inode number, mixed. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn of(device: u64, inode: u64) -> Self {
        // Numbers of files stand close together: the multiplication spreads them (Knuth 6.4).
        let mixed = inode.wrapping_add(device.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Key((mixed ^ (mixed >> 29)) | 1)
    }

    /// Key of a name whose file's number is not told: its folder's key and its bytes, mixed.
    pub(crate) fn named(folder: Key, name: &[u8]) -> Self {
        Key::of(folder.0, sum(name))
    }

    pub(crate) fn as_number(self) -> u64 {
        self.0
    }

    /// The key that was this number; none for zero.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        (number != 0).then_some(Key(number))
    }

    fn first(self) -> usize {
        (self.0 >> 40) as usize % PLACES
    }
}

/// Sum of a text (FNV-1a).
fn sum(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A listed name: its folder's number with the turn in which that has it, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) folder: u16,
    pub(crate) turn: u8,
    pub(crate) position: u32,
}

impl Listed {
    fn word(self, flags: u64) -> u64 {
        flags
            | u64::from(self.turn) << 8
            | u64::from(self.folder) << 16
            | u64::from(self.position) << 32
    }

    fn of(word: u64) -> Self {
        Listed {
            folder: (word >> 16) as u16,
            turn: (word >> 8) as u8,
            position: (word >> 32) as u32,
        }
    }
}

/// A name in the table.
#[derive(Debug)]
pub(crate) struct Place {
    key: AtomicU64,
    word: AtomicU64,
}

impl Place {
    /// Adds flags; gives those that were there.
    pub(crate) fn mark(&self, flags: u64) -> u64 {
        self.word.fetch_or(flags, Ordering::Relaxed) & 0xff
    }

    /// Takes flags away.
    pub(crate) fn clear(&self, flags: u64) {
        self.word.fetch_and(!flags, Ordering::Relaxed);
    }

    pub(crate) fn flags(&self) -> u64 {
        self.word.load(Ordering::Relaxed) & 0xff
    }

    pub(crate) fn listed(&self) -> Listed {
        Listed::of(self.word.load(Ordering::Relaxed))
    }
}

/// All names.
#[derive(Debug)]
pub(crate) struct Table([Place; PLACES]);

impl Table {
    /// Finds a file that stands in a listed folder.
    pub(crate) fn find(&self, key: Key) -> Option<&Place> {
        // Acquire: with the release in `put`, the word is not older than the key.
        self.near(key).find(|place| place.key.load(Ordering::Acquire) == key.0)
    }

    /// Has a name stand in the table. Only under the walk's lock, so that there are no two of one key.
    pub(crate) fn put(&self, key: Key, listed: Listed, flags: u64) {
        let taken = self.near(key).find(|place| {
            let there = place.key.load(Ordering::Relaxed);
            there == 0 || there == key.0
        });
        // Which one gives way is any of them.
        let place = taken.or_else(|| self.0.get((key.first() + key.0 as usize % NEAR) % PLACES));
        let Some(place) = place else { return };
        place.word.store(listed.word(flags), Ordering::Relaxed);
        place.key.store(key.0, Ordering::Release);
    }

    fn near(&self, key: Key) -> impl Iterator<Item = &Place> {
        let first = key.first();
        (0..NEAR).filter_map(move |step| self.0.get((first + step) % PLACES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Box<Table> {
        let places = (0..PLACES).map(|_| Place { key: AtomicU64::new(0), word: AtomicU64::new(0) });
        let places: Box<[Place]> = places.collect();
        let places: Box<[Place; PLACES]> = places.try_into().unwrap();
        // SAFETY: the one field of a table, which has no other form.
        unsafe { Box::from_raw(Box::into_raw(places).cast()) }
    }

    #[test]
    fn each_of_many_names_is_found_as_it_was_put() {
        let table = table();
        for inode in 0..20_000_u64 {
            let listed = Listed { folder: inode as u16, turn: 3, position: inode as u32 };
            table.put(Key::of(7, inode), listed, FOLDER);
        }
        let found = |inode: &u64| {
            let place = table.find(Key::of(7, *inode))?;
            Some(place.listed().position == *inode as u32 && place.listed().turn == 3)
        };
        let right = (0..20_000).filter(|inode| found(inode) == Some(true)).count();
        assert!(right > 19_900, "{right}");
        assert!((0..20_000).all(|inode| found(&inode) != Some(false)));
        assert!(table.find(Key::of(8, 5)).is_none());
    }

    #[test]
    fn names_without_numbers_have_a_key_in_each_folder() {
        let (one, other) = (Key::of(1, 2), Key::of(1, 3));
        let mut keys: Vec<u64> = (0..2000)
            .flat_map(|at| {
                let name = format!("name{at}");
                [one, other].map(|folder| Key::named(folder, name.as_bytes()).as_number())
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 4000);
        assert_eq!(Key::named(one, b"name7"), Key::named(Key::of(1, 2), b"name7"));
        assert_eq!((Key::of_number(one.as_number()), Key::of_number(0)), (Some(one), None));
    }

    #[test]
    fn flags_add_up_and_do_not_touch_whose_it_is() {
        let table = table();
        let listed = Listed { folder: 513, turn: 255, position: u32::MAX };
        table.put(Key::of(1, 2), listed, 0);
        let place = table.find(Key::of(1, 2)).unwrap();
        assert_eq!(place.mark(ASKED), 0);
        assert_eq!(place.mark(TOUCHED), ASKED);
        assert_eq!((place.flags(), place.listed()), (ASKED | TOUCHED, listed));
        place.clear(ASKED | LISTING);
        assert_eq!((place.flags(), place.listed()), (TOUCHED, listed));
    }
}
