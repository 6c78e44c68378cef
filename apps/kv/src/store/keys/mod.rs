//! A shard's keys: tables over the log, and when keys go.

mod hash;
mod noted;
mod observed;
mod room;
mod times;

pub use hash::Hash;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::followed::Followed;
use super::log::{Full, Loc, Log, size};
use super::slots::Slots;
use super::watch::Watches;
use crate::kept::Noted;
use noted::Own;

/// Tables of a shard: each grows by itself, so that no growth is long and none takes much memory,
/// and a walk over all keys ([`scan`](Keys::scan)) goes table by table.
const TABLES: usize = 1024;

#[derive(Debug)]
pub(super) struct Table {
    pub(super) entries: Slots,
    /// No entry goes before this.
    earliest: u64,
    /// Time before which the table is not looked through.
    not_before: u64,
}

/// The keys of one core.
#[derive(Debug)]
pub struct Keys {
    pub(super) tables: Vec<Table>,
    pub(super) log: Log,
    pub(super) hash: Hash,
    watches: Watches,
    followed: Followed,
    /// The client whose command runs; 0: none.
    by: u64,
    /// Bytes of the tables.
    table_bytes: usize,
    /// Bytes that there may be, as they are set now.
    limit: Arc<AtomicUsize>,
    count: usize,
    /// Keys that expire.
    going: usize,
    /// No key goes before this.
    earliest: u64,
    expired: u64,
    /// The log that outlives the process.
    kept: Option<Own>,
    /// True while that is read: what was there is there again, and more is refused afterwards.
    is_loading: bool,
}

/// A key that is there.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Its value.
    pub value: &'a [u8],
    /// Time at which it expires, ms since 1970; 0: never.
    pub goes_at: u64,
}

/// Number of the table that has a key.
pub(super) fn table_of(hash: u64) -> usize {
    // Neither bits by which a table goes nor those that say whose the key is.
    (hash >> 47) as usize % TABLES
}

impl Keys {
    /// None yet, and so many bytes at most; `limit` may change at any time, and holds from then on.
    pub fn new(limit: Arc<AtomicUsize>, hash: Hash) -> Keys {
        let table = || Table { entries: Slots::default(), earliest: u64::MAX, not_before: 0 };
        Keys {
            tables: (0..TABLES).map(|_| table()).collect(),
            log: Log::new(limit.load(Relaxed)),
            hash,
            watches: Watches::default(),
            followed: Followed::default(),
            by: 0,
            table_bytes: 0,
            limit,
            count: 0,
            going: 0,
            earliest: u64::MAX,
            expired: 0,
            kept: None,
            is_loading: false,
        }
    }

    /// Bytes of memory that keys and values have, and what is known of who follows them.
    pub fn bytes(&self) -> usize {
        self.log.mapped() + self.table_bytes + self.followed.bytes()
    }

    fn limit(&self) -> usize {
        if self.is_loading { usize::MAX } else { self.limit.load(Relaxed) }
    }

    /// Number of keys, those among them whose time has come and that nobody has seen since.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of keys that expire at some time.
    pub fn going(&self) -> usize {
        self.going
    }

    /// Number of keys that have expired since it began.
    pub fn expired(&self) -> u64 {
        self.expired
    }

    #[inline]
    fn loc(&self, key: &[u8]) -> Option<Loc> {
        let hash = self.hash.of(key);
        let table = &self.tables[table_of(hash)].entries;
        table.find(hash, |loc| self.log.is(loc, key))
    }

    /// A key, if it is there at this time.
    #[inline]
    pub fn get(&self, key: &[u8], now: u64) -> Option<Found<'_>> {
        let entry = self.log.get(self.loc(key)?);
        let is_there = entry.goes_at == 0 || entry.goes_at > now;
        is_there.then_some(Found { value: entry.value, goes_at: entry.goes_at })
    }

    /// Sets a key's value, and when it goes.
    ///
    /// # Errors
    /// [`Full`]: nothing has changed.
    #[inline]
    pub fn set(&mut self, key: &[u8], value: &[u8], goes_at: u64) -> Result<(), Full> {
        let hash = self.hash.of(key);
        let found = self.tables[table_of(hash)].entries.find(hash, |loc| self.log.is(loc, key));
        if let Some(loc) = found {
            let before = self.log.get(loc).goes_at;
            if self.log.replace(loc, value, goes_at) {
                self.noted(hash, before, goes_at);
                self.changed(key);
                self.note(|noted| noted.set(key, &[value], goes_at));
                return Ok(());
            }
        }
        self.put(hash, key, &[value], goes_at)
    }

    /// Sets a key's value in pieces, and when it goes.
    ///
    /// # Errors
    /// [`Full`]: nothing has changed.
    pub fn set_pieces(&mut self, key: &[u8], value: &[&[u8]], goes_at: u64) -> Result<(), Full> {
        self.put(self.hash.of(key), key, value, goes_at)
    }

    fn put(&mut self, hash: u64, key: &[u8], value: &[&[u8]], goes_at: u64) -> Result<(), Full> {
        let bytes = size(key.len(), value.iter().map(|piece| piece.len()).sum());
        self.make_room(bytes, hash)?;
        let new = self.log.put(key, value, goes_at)?;
        // Only now: others may have been moved to make room.
        let Keys { tables, log, hash: hasher, .. } = self;
        let table = &mut tables[table_of(hash)].entries;
        let before = match table.replace(hash, new, |loc| log.is(loc, key)) {
            Some(old) => {
                let before = log.get(old).goes_at;
                log.dead(old);
                before
            }
            None => {
                let bytes = table.bytes();
                if table.insert(hash, new, |loc| hasher.of(log.get(loc).key)).is_err() {
                    log.dead(new);
                    return Err(Full);
                }
                self.table_bytes = self.table_bytes + table.bytes() - bytes;
                self.count += 1;
                0
            }
        };
        self.noted(hash, before, goes_at);
        self.changed(key);
        self.note(|noted| noted.set(key, value, goes_at));
        Ok(())
    }

    /// Takes a key away; whether it was there at this time.
    pub fn remove(&mut self, key: &[u8], now: u64) -> bool {
        let hash = self.hash.of(key);
        let Keys { tables, log, hash: hasher, .. } = self;
        let table = &mut tables[table_of(hash)].entries;
        let bytes = table.bytes();
        let gone = table.remove(hash, |loc| log.is(loc, key), |loc| hasher.of(log.get(loc).key));
        let Some(loc) = gone else { return false };
        self.table_bytes = self.table_bytes + table.bytes() - bytes;
        let goes_at = log.get(loc).goes_at;
        log.dead(loc);
        self.count -= 1;
        self.going -= usize::from(goes_at != 0);
        let was_there = goes_at == 0 || goes_at > now;
        self.note(|noted| noted.gone(key));
        match was_there {
            true => self.changed(key),
            // Its invalidation is not sent yet.
            false => self.followed.changed(key, 0),
        }
        was_there
    }

    /// Takes all away, and sends an invalidation to all clients that follow keys, and to these.
    pub fn clear(&mut self, now: u64, also: Vec<u64>) {
        let mut watches = std::mem::take(&mut self.watches);
        watches.all_changed(|key| self.get(key, now).is_some());
        let mut followed = std::mem::take(&mut self.followed);
        followed.all_changed(also);
        let (expired, by) = (self.expired, self.by);
        let (kept, is_loading) = (self.kept.take(), self.is_loading);
        *self = Keys::new(Arc::clone(&self.limit), self.hash.clone());
        (self.kept, self.is_loading) = (kept, is_loading);
        self.note(Noted::cleared);
        (self.watches, self.followed) = (watches, followed);
        (self.expired, self.by) = (expired, by);
    }
}
