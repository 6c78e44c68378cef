//! A walk over all keys, step by step, while others change them.

use super::Keys;

/// Bits of a hash that order keys: tables are by the upper ones.
const BITS: u32 = 44;

fn order(hash: u64) -> u64 {
    // The ten upper bits of it are `table_of`.
    (hash >> 13) & ((1 << BITS) - 1)
}

impl Keys {
    /// Calls `each` for about `count` keys from `cursor` on, and gives the next cursor; none at
    /// the end. A key that is there from the first step to the last is among them once.
    ///
    /// Keys go by the order of their hashes, which no growth of a table changes.
    pub fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(&[u8], u64)) -> Option<u64> {
        let tables = self.tables.len() as u64;
        let mut from = cursor;
        let mut left = count.max(1);
        loop {
            let at = from >> (BITS - 10);
            if at >= tables {
                return None;
            }
            let table = &self.tables[at as usize].entries;
            let mut here: Vec<(u64, _)> = table
                .iter()
                .map(|loc| (order(self.hash.of(self.log.get(loc).key)), loc))
                .filter(|(order, _)| *order >= from)
                .collect();
            if here.len() > left {
                here.select_nth_unstable_by_key(left, |(order, _)| *order);
                let next = here[left].0;
                // Those of one order go together.
                here.retain(|(order, _)| *order < next || *order == from);
                let next =
                    if here.iter().all(|(order, _)| *order < next) { next } else { next + 1 };
                for (_, loc) in here {
                    let entry = self.log.get(loc);
                    each(entry.key, entry.goes_at);
                }
                return Some(next);
            }
            left -= here.len();
            for (_, loc) in here {
                let entry = self.log.get(loc);
                each(entry.key, entry.goes_at);
            }
            from = (at + 1) << (BITS - 10);
            if left == 0 {
                return (at + 1 < tables).then_some(from);
            }
        }
    }

    /// Calls `each` with every key that is there, and with its value's time.
    pub fn each(&self, mut each: impl FnMut(&[u8], u64)) {
        for table in &self.tables {
            for loc in table.entries.iter() {
                let entry = self.log.get(loc);
                each(entry.key, entry.goes_at);
            }
        }
    }

    /// Draws a key out of those that are there at this time, by a random number: each as likely.
    pub fn random(&self, draw: u64, now: u64) -> Option<&[u8]> {
        let mut skip = (draw % self.len().max(1) as u64) as usize;
        let first = self.tables.iter().position(|table| {
            let is_here = skip < table.entries.len();
            skip -= if is_here { 0 } else { table.entries.len() };
            is_here
        })?;
        // The next one, if that has gone.
        let (before, from) = self.tables.split_at(first);
        let locs = from.iter().chain(before).flat_map(|table| table.entries.iter());
        let there = |loc| {
            let entry = self.log.get(loc);
            (entry.goes_at == 0 || entry.goes_at > now).then_some(entry.key)
        };
        let mut keys = locs.skip(skip).filter_map(&there);
        keys.next().or_else(|| {
            let mut all = self.tables.iter().flat_map(|table| table.entries.iter());
            all.find_map(there)
        })
    }
}
