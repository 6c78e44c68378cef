//! What changes keys is noted for the log that outlives the process, if there is one.

use std::sync::Arc;

use super::Keys;
use crate::kept::{Kept, Loads, Noted, gone_bytes};

/// A shard's part in the log.
#[derive(Debug)]
pub(super) struct Own {
    log: Arc<Kept>,
    /// The shard's number.
    number: usize,
    noted: Noted,
    /// True while a transaction runs: all of it is one record.
    is_whole: bool,
}

impl Keys {
    /// Begins or ends to be loaded.
    pub(crate) fn loads(&mut self, is_loading: bool) {
        self.is_loading = is_loading;
    }

    /// Notes changes from now on, for a shard of this number.
    pub(crate) fn keep(&mut self, log: Arc<Kept>, number: usize, generation: u32) {
        let noted = Noted { bytes: Vec::new(), generation };
        self.kept = Some(Own { log, number, noted, is_whole: false });
    }

    /// Notes a change.
    #[inline]
    pub(super) fn note(&mut self, note: impl FnOnce(&mut Noted)) {
        if let Some(own) = &mut self.kept {
            note(&mut own.noted);
        }
    }

    /// Number of times that it was cleared.
    pub(crate) fn generation(&self) -> u32 {
        self.kept.as_ref().map_or(0, |own| own.noted.generation)
    }

    /// True if a command is to ask for room in the log before it runs: there is one, and no transaction runs that has asked.
    pub(crate) fn asks_for_room(&self) -> bool {
        self.kept.as_ref().is_some_and(|own| !own.is_whole)
    }

    /// Sees to it that the log has room for what the next command, or transaction, may write.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        match &self.kept {
            Some(own) if !own.is_whole => own.log.has_room(own.number, bytes),
            _ => true,
        }
    }

    /// Sees to it that the log has room for the record that all keys go.
    pub(crate) fn has_room_to_clear(&self) -> bool {
        match &self.kept {
            Some(own) if !own.is_whole => own.log.has_room_to_clear(own.number),
            _ => true,
        }
    }

    /// Begins a transaction: until [`handed_over`](Self::handed_over) all is one.
    pub(crate) fn begin_whole(&mut self) {
        if let Some(own) = &mut self.kept {
            own.is_whole = true;
        }
    }

    /// Ends it.
    pub(crate) fn end_whole(&mut self) {
        if let Some(own) = &mut self.kept {
            own.is_whole = false;
        }
        self.hand_over();
    }

    /// Gives the log what a command has done.
    #[inline]
    pub(crate) fn hand_over(&mut self) {
        if let Some(own) = &mut self.kept
            && !own.is_whole
            && !own.noted.bytes.is_empty()
        {
            own.log.append(own.number, &mut own.noted.bytes);
        }
    }

    /// Notes the keys of one table, with their values and when they go; false if there is no such table.
    pub(crate) fn note_table(&self, at: usize, noted: &mut Noted) -> bool {
        let Some(table) = self.tables.get(at) else { return false };
        for loc in table.entries.iter() {
            let entry = self.log.get(loc);
            noted.set(entry.key, &[entry.value], entry.goes_at);
        }
        true
    }
}

impl Own {
    /// Notes that these keys have expired. Without it they would be there again after a restart whose clock is behind:
    /// what is read as gone stays gone. If the disk is so full that it has no room even for that, they are not noted.
    pub(super) fn expired<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]> + Clone) {
        let bytes = keys.clone().map(|key| gone_bytes(key) as u64).sum();
        if bytes > 0 && self.log.has_room_for_expired(self.number, bytes) {
            keys.for_each(|key| self.noted.gone(key));
            self.log.append(self.number, &mut self.noted.bytes);
        }
    }
}

impl Loads for Keys {
    fn clear(&mut self) {
        Keys::clear(self, 0, Vec::new());
    }

    fn set(&mut self, key: &[u8], value: &[u8], goes_at: u64) -> bool {
        Keys::set(self, key, value, goes_at).is_ok()
    }

    fn goes(&mut self, key: &[u8], at: u64) {
        Keys::goes(self, key, at);
    }

    fn remove(&mut self, key: &[u8]) {
        Keys::remove(self, key, 0);
    }
}
