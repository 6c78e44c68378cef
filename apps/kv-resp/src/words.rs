//! The words of a command: where they stand in the bytes that have come, or in memory of its own.

use std::fmt;

/// A word's place: from, to.
pub(super) type Span = (u32, u32);

/// Words of a command that stand in others' bytes.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) spans: &'a [Span],
}

impl<'a> Words<'a> {
    /// Number of words.
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// True if there is none.
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// Word number `at`; empty if it is not there.
    #[inline]
    pub fn get(self, at: usize) -> &'a [u8] {
        match self.spans.get(at) {
            Some((from, to)) => self.bytes.get(*from as usize..*to as usize).unwrap_or_default(),
            None => b"",
        }
    }

    /// Words from `at` on.
    pub fn from(self, at: usize) -> Words<'a> {
        Words { bytes: self.bytes, spans: self.spans.get(at..).unwrap_or_default() }
    }

    /// One after the other.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        (0..self.len()).map(move |at| self.get(at))
    }
}

impl fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}

/// Bytes that a block of memory takes beside what it is for, about.
const BLOCK: usize = 16;

/// A command with memory of its own, as it waits for its turn or travels to another shard.
#[derive(Clone, Debug, Default)]
pub struct Command {
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
}

impl Command {
    /// Copies these.
    pub fn of<'a>(words: impl Iterator<Item = &'a [u8]> + Clone) -> Command {
        let mut bytes = Vec::with_capacity(words.clone().map(<[u8]>::len).sum());
        let mut spans = Vec::with_capacity(words.clone().count());
        for word in words {
            let from = bytes.len() as u32;
            bytes.extend_from_slice(word);
            spans.push((from, bytes.len() as u32));
        }
        Command { bytes: bytes.into(), spans: spans.into() }
    }

    /// Its words.
    pub fn words(&self) -> Words<'_> {
        Words { bytes: &self.bytes, spans: &self.spans }
    }

    /// Bytes of memory that it has.
    pub fn kept(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.spans) + 2 * (size_of::<Command>() + BLOCK)
    }
}
