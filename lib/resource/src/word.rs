//! Words of names as they are compared: short ones in a few instructions, without a call.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

/// One for the process, so that a [`Name`](crate::Name) has its hash for all tables.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// The hash of a name's unique part.
pub(crate) fn hash(unique: &str) -> u64 {
    HASHER.hash_one(unique)
}

/// Bytes that fit.
const BYTES: usize = 24;

/// A word of a name, beside its text: equal ones are of equal texts, and a word that is longer
/// than fits equals none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word([u64; BYTES / 8]);

impl Word {
    pub(crate) fn new(text: &str) -> Word {
        let mut bytes = [0; BYTES];
        // The words of names hold no zero byte, so that padding makes no two of them equal.
        if let Some(room) = bytes.get_mut(..text.len()) {
            room.copy_from_slice(text.as_bytes());
        }
        let mut words = [0; BYTES / 8];
        for (word, eight) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(eight.try_into().unwrap_or_default());
        }
        Word(words)
    }

    /// True if both are of one text, as far as that fits.
    #[inline(always)]
    pub(crate) fn is(&self, other: &Word) -> bool {
        let [a, b, c] = self.0;
        let [d, e, f] = other.0;
        a != 0 && (a ^ d) | (b ^ e) | (c ^ f) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_text_are_one_unless_they_are_too_long() {
        for (text, other, same) in [
            ("memory", "memory", true),
            ("memory", "memorx", false),
            ("memory", "memory-2m", false),
            ("", "", false),
            (&"a".repeat(24), &"a".repeat(24), true),
            (&"a".repeat(24), &"a".repeat(23), false),
            (&"a".repeat(25), &"a".repeat(25), false),
            (&"a".repeat(25), &"a".repeat(24), false),
        ] {
            assert_eq!(Word::new(text).is(&Word::new(other)), same, "{text:?}, {other:?}");
        }
    }
}
