//! Records of the log: what has come of a command.
//!
//! ```text
//!  1 set      generation u32 · goes at u64 · key's length u32 · value's length u32 · key · value
//!  2 goes     generation u32 · goes at u64 · key's length u32 · key
//!  3 gone     generation u32 · key's length u32 · key
//!  4 cleared  generation u32
//! ```
//!
//! All numbers are little-endian. A generation counts how often its shard was cleared. Shards are cleared one after the
//! other by one command. Who reads the log has one table for all of them: the first record of a higher generation clears
//! it, and one of a lower generation is of a shard that was to be cleared, too, and is passed over.

/// A record that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Set { key: &'a [u8], value: &'a [u8], goes_at: u64 },
    Goes { key: &'a [u8], at: u64 },
    Gone { key: &'a [u8] },
    Cleared,
}

/// Bytes of the record that a key has gone.
pub(crate) fn gone_bytes(key: &[u8]) -> usize {
    9 + key.len()
}

/// Records that a shard has written and not given away yet.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) bytes: Vec<u8>,
    /// Number of times that the shard was cleared.
    pub(crate) generation: u32,
}

impl Noted {
    fn begin(&mut self, what: u8) {
        self.bytes.push(what);
        self.bytes.extend_from_slice(&self.generation.to_le_bytes());
    }

    fn number(&mut self, number: usize) {
        // No word is as long as that.
        self.bytes.extend_from_slice(&(number as u32).to_le_bytes());
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[&[u8]], goes_at: u64) {
        self.begin(1);
        self.bytes.extend_from_slice(&goes_at.to_le_bytes());
        self.number(key.len());
        self.number(value.iter().map(|piece| piece.len()).sum());
        self.bytes.extend_from_slice(key);
        value.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
    }

    pub(crate) fn goes(&mut self, key: &[u8], at: u64) {
        self.begin(2);
        self.bytes.extend_from_slice(&at.to_le_bytes());
        self.number(key.len());
        self.bytes.extend_from_slice(key);
    }

    pub(crate) fn gone(&mut self, key: &[u8]) {
        self.begin(3);
        self.number(key.len());
        self.bytes.extend_from_slice(key);
    }

    /// The shard is cleared.
    pub(crate) fn cleared(&mut self) {
        self.generation += 1;
        self.begin(4);
    }
}

/// A byte string that is read by and by.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn small(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn large(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        let length = self.small()?;
        self.take(length as usize)
    }
}

/// The first of these records, with its generation, and the others; none if it cannot be read.
pub(crate) fn first(bytes: &[u8]) -> Option<(u32, Record<'_>, &[u8])> {
    let mut bytes = Bytes(bytes);
    let what = bytes.take(1)?[0];
    let generation = bytes.small()?;
    let record = match what {
        1 => {
            let goes_at = bytes.large()?;
            let (key, value) = (bytes.small()?, bytes.small()?);
            let (key, value) = (bytes.take(key as usize)?, bytes.take(value as usize)?);
            Record::Set { key, value, goes_at }
        }
        2 => {
            let at = bytes.large()?;
            Record::Goes { key: bytes.word()?, at }
        }
        3 => Record::Gone { key: bytes.word()? },
        4 => Record::Cleared,
        _ => return None,
    };
    Some((generation, record, bytes.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_their_order_and_none_that_is_cut() {
        let mut noted = Noted::default();
        noted.set(b"a", &[b"1", b"23"], 7);
        noted.goes(b"a", 9);
        noted.cleared();
        let before = noted.bytes.len();
        noted.gone(b"");
        assert_eq!(noted.bytes.len() - before, gone_bytes(b""));
        let (mut rest, mut all) = (&noted.bytes[..], Vec::new());
        while !rest.is_empty() {
            let (generation, record, more) = first(rest).unwrap();
            all.push((generation, record));
            rest = more;
        }
        let set = Record::Set { key: b"a", value: b"123", goes_at: 7 };
        let goes = Record::Goes { key: b"a", at: 9 };
        let wanted = [(0, set), (0, goes), (1, Record::Cleared), (1, Record::Gone { key: b"" })];
        assert_eq!(all, wanted);
        for cut in 0..25 {
            assert_eq!(first(&noted.bytes[..cut]), None, "{cut}");
        }
    }
}
