//! A shard's keys: tables over the log, and when keys go.

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use std::hash::{BuildHasher, RandomState};

use super::log::{Full, Loc, Log, size};
use super::slots::Slots;
use super::watch::{Seen, Watches};

/// Tables of a shard: each grows by itself, so that no growth is long and none takes much memory,
/// and a walk over all keys ([`scan`](Keys::scan)) goes table by table.
const TABLES: usize = 1024;
/// Entries that are looked at in one go for those whose time has come.
const LOOKED_AT: usize = 50_000;

/// The hash of keys, drawn anew by each process, so that nobody can choose keys that collide.
#[derive(Clone, Debug)]
pub struct Hash(SeedableRandomState);

impl Default for Hash {
    fn default() -> Hash {
        // Its keys are from getrandom(2).
        let seed = RandomState::new().hash_one("keys");
        Hash(SeedableRandomState::with_seed(seed, SharedSeed::global_random()))
    }
}

impl Hash {
    /// The hash of a key.
    #[inline]
    pub fn of(&self, key: &[u8]) -> u64 {
        self.0.hash_one(key)
    }
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) entries: Slots,
    /// No entry goes before this.
    earliest: u64,
    /// It is not looked through before this.
    not_before: u64,
}

/// The keys of one core.
#[derive(Debug)]
pub struct Keys {
    pub(super) tables: Vec<Table>,
    pub(super) log: Log,
    pub(super) hash: Hash,
    pub(super) watches: Watches,
    /// Bytes of the tables.
    table_bytes: usize,
    limit: usize,
    count: usize,
    /// Those that go.
    going: usize,
    /// No key goes before this.
    earliest: u64,
    expired: u64,
}

/// A key that is there.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Its value.
    pub value: &'a [u8],
    /// When it goes, ms since 1970; 0: never.
    pub goes_at: u64,
}

/// Which table has a key.
pub(super) fn table_of(hash: u64) -> usize {
    // Neither bits by which a table goes nor those that say whose the key is.
    (hash >> 47) as usize % TABLES
}

impl Keys {
    /// None yet, and so many bytes at most.
    pub fn new(limit: usize, hash: Hash) -> Keys {
        let table = || Table { entries: Slots::default(), earliest: u64::MAX, not_before: 0 };
        Keys {
            tables: (0..TABLES).map(|_| table()).collect(),
            log: Log::new(limit),
            hash,
            watches: Watches::default(),
            table_bytes: 0,
            limit,
            count: 0,
            going: 0,
            earliest: u64::MAX,
            expired: 0,
        }
    }

    /// Bytes of memory that keys and values have.
    pub fn bytes(&self) -> usize {
        self.log.mapped() + self.table_bytes
    }

    /// Sets how many there may be.
    pub fn limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// How many there are, those among them whose time has come and that nobody has seen since.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many of them go at some time.
    pub fn going(&self) -> usize {
        self.going
    }

    /// How many have gone since it began.
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
                self.watches.changed(key);
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
        self.watches.changed(key);
        Ok(())
    }

    /// Notes that a key goes now at another time.
    #[inline]
    fn noted(&mut self, hash: u64, before: u64, goes_at: u64) {
        if before == goes_at {
            return;
        }
        self.going -= usize::from(before != 0);
        if goes_at != 0 {
            self.going += 1;
            let table = &mut self.tables[table_of(hash)];
            table.earliest = table.earliest.min(goes_at.max(table.not_before));
            self.earliest = self.earliest.min(table.earliest);
        }
    }

    /// Sees to it that an entry of so many bytes may be had.
    fn make_room(&mut self, bytes: usize, hash: u64) -> Result<(), Full> {
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
        self.bytes() + needed + kept <= self.limit
    }

    /// Whether all these keys and values can be had, of so many bytes each: a command sets all of
    /// them or none.
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
            if self.bytes() + bytes <= self.limit {
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
        if was_there {
            self.watches.changed(key);
        }
        was_there
    }

    /// Sets when a key goes that is there; 0: never.
    pub fn goes(&mut self, key: &[u8], at: u64) {
        let Some(loc) = self.loc(key) else { return };
        let before = self.log.get(loc).goes_at;
        self.log.goes(loc, at);
        self.noted(self.hash.of(key), before, at);
        self.watches.changed(key);
    }

    /// Begins to watch a key.
    pub fn watch(&mut self, key: &[u8], now: u64) -> Seen {
        let was_there = self.get(key, now).is_some();
        self.watches.watch(key, was_there)
    }

    /// Ends to watch a key; whether it is as it was.
    pub fn unwatch(&mut self, seen: &Seen, now: u64) -> bool {
        let is_there = self.get(&seen.key, now).is_some();
        self.watches.unwatch(seen, is_there)
    }

    /// Takes all away.
    pub fn clear(&mut self, now: u64) {
        let mut watches = std::mem::take(&mut self.watches);
        watches.all_changed(|key| self.get(key, now).is_some());
        let expired = self.expired;
        *self = Keys::new(self.limit, self.hash.clone());
        (self.watches, self.expired) = (watches, expired);
    }

    /// Takes keys away whose time has come; when it is to be asked again, if ever.
    ///
    /// There is no list of times, which would be memory and work for each key that has one: a
    /// table that has a key whose time may have come is looked through, but not so often that
    /// it would take more than about a twentieth of the time. Nobody sees such a key meanwhile.
    pub fn clean(&mut self, now: u64) -> Option<u64> {
        if self.going == 0 {
            self.earliest = u64::MAX;
            return None;
        }
        if self.earliest > now {
            return Some(self.earliest);
        }
        let pause = self.count as u64 / 1000;
        let (mut looked_at, mut earliest) = (0, u64::MAX);
        let Keys { tables, log, hash, .. } = self;
        let (mut gone, mut bytes) = (0, self.table_bytes);
        for table in tables {
            if table.earliest <= now && looked_at < LOOKED_AT {
                looked_at += table.entries.len() + 10;
                table.not_before = now + pause;
                let (mut next, mut dead) = (u64::MAX, Vec::new());
                bytes -= table.entries.bytes();
                let keeps = |loc: Loc| {
                    let at = log.get(loc).goes_at;
                    let stays = at == 0 || at > now;
                    match at {
                        0 => {}
                        _ if stays => next = next.min(at.max(table.not_before)),
                        _ => dead.push(loc),
                    }
                    stays
                };
                table.entries.retain(keeps, |loc| hash.of(log.get(loc).key));
                table.earliest = next;
                bytes += table.entries.bytes();
                gone += dead.len();
                dead.into_iter().for_each(|loc| log.dead(loc));
            }
            earliest = earliest.min(table.earliest);
        }
        self.count -= gone;
        self.going -= gone;
        self.expired += gone as u64;
        self.table_bytes = bytes;
        self.earliest = earliest;
        (self.going > 0).then_some(earliest.max(now + 1))
    }
}
