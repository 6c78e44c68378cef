//! Room for entries: what others have left is gathered.

use super::{Keys, TABLES, table_of};
use crate::store::log::{Full, size};

impl Keys {
    /// Sees to it that an entry of so many bytes may be had.
    pub(super) fn make_room(&mut self, bytes: usize, hash: u64) -> Result<(), Full> {
        let table = &self.tables[table_of(hash)].entries;
        // While it grows there are the old one and one twice as large.
        let grows = table.grows();
        if self.fits(bytes, grows) {
            return Ok(());
        }
        // What others have left is gathered, where it is worth the way.
        let lost = self.log.segment() / 16;
        for _ in 0..TABLES {
            let Some(emptiest) = self.log.emptiest(lost) else { break };
            self.evacuate(emptiest)?;
            if self.fits(bytes, grows) {
                return Ok(());
            }
        }
        Err(Full)
    }

    fn fits(&self, bytes: usize, grows: usize) -> bool {
        let needed = self.log.needed(bytes) + grows;
        // A segment is kept free, to which others can be moved.
        let kept = if needed == 0 { 0 } else { self.log.segment() };
        self.bytes() + needed + kept <= self.limit()
    }

    /// Checks that all these keys and values can be had, of so many bytes each: a command sets all
    /// of them or none.
    ///
    /// # Errors
    /// [`Full`]: no.
    pub fn room_for(&mut self, sizes: impl Iterator<Item = (usize, usize)>) -> Result<(), Full> {
        let bytes: usize = sizes
            .map(|(key, value)| {
                64 + size(key, value).next_multiple_of(
                    if size(key, value) > self.log.segment() / 8 { 4096 } else { 8 },
                )
            })
            .sum();
        let bytes = bytes + bytes / 8 + 2 * self.log.segment();
        let lost = self.log.segment() / 16;
        for _ in 0..TABLES {
            if self.bytes() + bytes <= self.limit() {
                return Ok(());
            }
            let Some(emptiest) = self.log.emptiest(lost) else { break };
            self.evacuate(emptiest)?;
        }
        Err(Full)
    }

    /// Moves all entries of a segment that live.
    fn evacuate(&mut self, segment: usize) -> Result<(), Full> {
        let Keys { tables, log, hash, .. } = self;
        for old in log.entries(segment) {
            let key_hash = hash.of(log.get(old).key);
            let table = &mut tables[table_of(key_hash)].entries;
            if table.find(key_hash, |loc| loc == old).is_some() {
                let new = log.moved(old)?;
                table.replace(key_hash, new, |loc| loc == old);
            }
        }
        Ok(())
    }
}
