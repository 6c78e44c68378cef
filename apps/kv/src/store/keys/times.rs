//! When keys go.

use super::{Keys, table_of};
use crate::store::log::Loc;

/// Entries that are looked at in one go for those whose time has come.
const LOOKED_AT: usize = 50_000;

impl Keys {
    /// Notes that a key goes now at another time.
    #[inline]
    pub(super) fn noted(&mut self, hash: u64, before: u64, goes_at: u64) {
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

    /// Sets when a key goes that is there; 0: never.
    pub fn goes(&mut self, key: &[u8], at: u64) {
        let Some(loc) = self.loc(key) else { return };
        let before = self.log.get(loc).goes_at;
        self.log.goes(loc, at);
        self.noted(self.hash.of(key), before, at);
        self.changed(key);
        self.note(|noted| noted.goes(key, at));
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
        let Keys { tables, log, hash, followed, kept, .. } = self;
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
                if let Some(own) = kept {
                    own.expired(dead.iter().map(|loc| log.get(*loc).key));
                }
                for loc in dead {
                    followed.changed(log.get(loc).key, 0);
                    log.dead(loc);
                }
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
