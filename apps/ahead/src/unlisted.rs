//! Folders whose files the program opens without reading their names: a compiler's headers, an interpreter's modules.
//!
//! A program says by its calls which folders it reads; of these it says only which file it has come to. So openings
//! are counted by folder, and by the folder above where the folder is a new one. Only those count before which the thread
//! has slept since the last one: whoever finds all of it in memory does not. At the fourth one in a folder
//! its names are read by the pool, as if the program had listed it.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::table::Key;

/// Folders at a time: those of a search path, and what is above them.
const FOLDERS: usize = 16;
/// Openings in a folder that are a habit.
const HABIT: u64 = 4;
/// Bits of a place that are its count; the others are of a key.
const COUNT: u64 = 0b111;
/// Sleeps between two of the calls that are watched while nothing is asked ahead, for the next ones to be watched each.
const SLEPT: u32 = 4;
/// Calls that are then watched.
const FOLLOWED: u8 = 64;

/// Openings counted, and the thread's sleeps at the last one. Zeros are none.
#[derive(Debug, Default)]
pub(crate) struct Unlisted {
    places: [AtomicU64; FOLDERS],
    sleeps: AtomicU32,
    followed: AtomicU8,
}

/// Finding of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The first one in this folder.
    First,
    /// The one that makes it a habit.
    Habit,
    /// One more.
    More,
}

impl Unlisted {
    /// Counts an opening in this folder. Two threads that count one may count it once.
    pub(crate) fn count(&self, key: Key) -> Opening {
        let key = key.as_number() & !COUNT;
        let Some(place) = self.places.get((key >> 40) as usize % FOLDERS) else {
            return Opening::More;
        };
        let before = place.load(Ordering::Relaxed);
        let counted = if before & !COUNT == key { before & COUNT } else { 0 };
        place.store(key | (counted + 1).min(COUNT), Ordering::Relaxed);
        match counted + 1 {
            1 => Opening::First,
            HABIT => Opening::Habit,
            _ => Opening::More,
        }
    }

    /// Forgets what was counted of a folder: nobody could be told.
    pub(crate) fn forget(&self, key: Key) {
        let key = key.as_number() & !COUNT;
        if let Some(place) = self.places.get((key >> 40) as usize % FOLDERS)
            && place.load(Ordering::Relaxed) & !COUNT == key
        {
            place.store(0, Ordering::Relaxed);
        }
    }

    /// True if the thread has slept since this was asked last. Of another thread it is another count: then it is a guess.
    pub(crate) fn has_slept(&self, sleeps: u64) -> bool {
        self.slept(sleeps) > 0
    }

    /// True if the call that is about to be made is one of those that are followed.
    #[inline]
    pub(crate) fn is_followed(&self) -> bool {
        let left = self.followed.load(Ordering::Relaxed);
        if left != 0 {
            self.followed.store(left - 1, Ordering::Relaxed);
        }
        left != 0
    }

    /// One call of some was watched: has the next ones be followed if the thread sleeps that often.
    pub(crate) fn sampled(&self, sleeps: u64) {
        if self.slept(sleeps) >= SLEPT {
            self.followed.store(FOLLOWED, Ordering::Relaxed);
        }
    }

    /// Sleeps since this was asked last; none the first time, when they are those of the program's start.
    fn slept(&self, sleeps: u64) -> u32 {
        let sleeps = sleeps as u32 | 1 << 31;
        match self.sleeps.swap(sleeps, Ordering::Relaxed) {
            0 => 0,
            before => sleeps.saturating_sub(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_opening_in_a_folder_makes_a_habit_once() {
        let unlisted = Unlisted::default();
        let (one, other) = (Key::of(1, 2), Key::of(1, 3));
        let counted: Vec<_> = (0..12).map(|_| unlisted.count(one)).collect();
        let (first, more, habit) = (Opening::First, Opening::More, Opening::Habit);
        assert_eq!(counted[..4], [first, more, more, habit]);
        assert!(counted[4..].iter().all(|opening| *opening == Opening::More));
        assert_eq!(unlisted.count(other), Opening::First);
        unlisted.forget(one);
        assert_eq!(unlisted.count(one), Opening::First);
    }

    #[test]
    fn calls_are_followed_where_the_thread_sleeps_at_many() {
        let unlisted = Unlisted::default();
        // The program's start has slept, not these calls.
        unlisted.sampled(100);
        assert!(!unlisted.is_followed());
        unlisted.sampled(101);
        assert!(!unlisted.is_followed() && !unlisted.has_slept(101) && unlisted.has_slept(102));
        unlisted.sampled(110);
        assert!((0..FOLLOWED).all(|_| unlisted.is_followed()));
        assert!(!unlisted.is_followed());
    }
}
