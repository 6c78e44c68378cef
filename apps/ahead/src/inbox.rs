//! What the program's threads tell the pool: folders that they begin to read, and kinds that are worth asking.
//!
//! They try its lock and never wait for it: what finds it held or full is not told, and a folder is slower.
//!
//! A folder that the C library opens within itself (scandir), or that the program does not open, is told by its path:
//! there is room for one at a time.

use crate::demand::Kind;
use crate::table::Key;
use crate::text::Text;

/// Words of each sort that wait.
const PLACES: usize = 64;

/// A folder that the program has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) descriptor: i32,
    pub(crate) key: Key,
    /// Key by which it stands in the table, if it does.
    pub(crate) place: Key,
    /// The program has used names of it before.
    pub(crate) is_under_way: bool,
}

/// Descriptor of a folder that is told by its path: the program lists it.
pub(crate) const BY_PATH: i32 = -1;
/// Folder as above, of which the program opens files without listing it.
pub(crate) const BY_NAMES: i32 = -2;

/// Names of this folder are used in a way that nobody has asked ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) folder: u16,
    pub(crate) turn: u8,
    pub(crate) kind: Kind,
}

/// A word that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Visit(Visit),
    /// The program uses names of this folder without listing it.
    Enter(Key),
    Want(Want),
}

/// The words, the oldest first.
#[derive(Debug)]
pub(crate) struct Inbox {
    words: [Option<Word>; PLACES],
    first: usize,
    count: usize,
    path: Option<Text>,
}

impl Inbox {
    pub(crate) const fn new() -> Self {
        Inbox { words: [None; PLACES], first: 0, count: 0, path: None }
    }

    /// Takes a word; false if there is no room.
    pub(crate) fn push(&mut self, word: Word) -> bool {
        if self.count < PLACES
            && let Some(place) = self.words.get_mut((self.first + self.count) % PLACES)
        {
            *place = Some(word);
            self.count += 1;
            return true;
        }
        false
    }

    /// Tells a folder by its path, as `BY_PATH` or `BY_NAMES`; false if there is no room.
    pub(crate) fn push_path(&mut self, path: Text, visit: Visit) -> bool {
        let is_told = self.push(Word::Visit(visit));
        if is_told {
            self.path = Some(path);
        }
        is_told
    }

    pub(crate) fn take_path(&mut self) -> Option<Text> {
        self.path.take()
    }

    pub(crate) fn pop(&mut self) -> Option<Word> {
        self.count = self.count.checked_sub(1)?;
        let word = self.words.get_mut(self.first)?.take();
        self.first = (self.first + 1) % PLACES;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_in_order_and_those_beyond_its_room_are_dropped() {
        let mut inbox = Inbox::new();
        let key = Key::of(1, 1);
        let word =
            |descriptor| Word::Visit(Visit { descriptor, key, place: key, is_under_way: false });
        for round in 0..3 {
            for number in 0..100 {
                assert_eq!(inbox.push(word(round * 1000 + number)), number < PLACES as i32);
            }
            for number in 0..PLACES as i32 {
                assert_eq!(inbox.pop(), Some(word(round * 1000 + number)));
            }
            assert_eq!(inbox.pop(), None);
        }
    }
}
