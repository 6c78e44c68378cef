//! A table of places in the log, in memory that is given back whole.
//!
//! Open addressing with linear probing, of our own and not a crate's: a large table is mapped by
//! itself, so that what it had is the system's again once it grows or goes, which no general
//! allocator promises. A slot is a word: 16 bits of the hash above, the place below. By those bits
//! most other keys are distinguished without a look at them, and entries are moved without a hash
//! anew as long as the table has no more than 65,536 slots.

use memmap2::MmapMut;

use super::log::{Full, Loc};

/// Slots of a table that is mapped: a page.
const PAGE: usize = 4096 / size_of::<u64>();
/// Slots of the smallest table.
const LEAST: usize = 8;
/// Bits of a slot that have the place.
const PLACE: u32 = 48;

/// Places by the hashes of their keys.
#[derive(Debug, Default)]
pub(super) struct Slots {
    memory: Memory,
    len: usize,
}

#[derive(Debug, Default)]
enum Memory {
    #[default]
    None,
    Small(Box<[u64]>),
    Mapped(MmapMut),
}

impl Memory {
    fn of(slots: usize) -> Result<Memory, Full> {
        Ok(match slots {
            0 => Memory::None,
            PAGE.. => {
                Memory::Mapped(MmapMut::map_anon(slots * size_of::<u64>()).map_err(|_| Full)?)
            }
            _ => Memory::Small(vec![0; slots].into()),
        })
    }

    #[inline]
    fn words(&self) -> &[u64] {
        match self {
            Memory::None => &[],
            Memory::Small(words) => words,
            // A mapping begins at a page.
            Memory::Mapped(map) => bytemuck::try_cast_slice(map).unwrap_or_default(),
        }
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u64] {
        match self {
            Memory::None => &mut [],
            Memory::Small(words) => words,
            Memory::Mapped(map) => bytemuck::try_cast_slice_mut(map).unwrap_or_default(),
        }
    }
}

fn word(hash: u64, loc: Loc) -> u64 {
    // Nought is an empty slot.
    hash << PLACE | (loc.bits() + 1)
}

fn loc(word: u64) -> Loc {
    Loc::of_bits((word & ((1 << PLACE) - 1)) - 1)
}

/// The hash of a slot's key, as far as a table with so many slots needs it.
fn hash_of(word: u64, slots: usize, hash: &impl Fn(Loc) -> u64) -> u64 {
    if slots <= 1 << 16 { word >> PLACE } else { hash(loc(word)) }
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that it has.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.memory.words())
    }

    /// Bytes that it needs more while one is put into it.
    pub(super) fn grows(&self) -> usize {
        let slots = self.memory.words().len();
        let is_full = (self.len + 1) * 4 > slots * 3;
        if is_full { (2 * slots).max(LEAST) * size_of::<u64>() } else { 0 }
    }

    #[inline]
    fn at(&self, hash: u64, mut is: impl FnMut(Loc) -> bool) -> Option<usize> {
        let words = self.memory.words();
        let mask = words.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let word = *words.get(at)?;
            if word == 0 {
                return None;
            }
            if (word >> PLACE) as u16 == hash as u16 && is(loc(word)) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// The place of a key with this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl FnMut(Loc) -> bool) -> Option<Loc> {
        self.at(hash, is).map(|at| loc(self.memory.words()[at]))
    }

    /// Puts another place where a key's is, which is given; none if there is none.
    pub(super) fn replace(
        &mut self,
        hash: u64,
        new: Loc,
        is: impl FnMut(Loc) -> bool,
    ) -> Option<Loc> {
        let at = self.at(hash, is)?;
        let slot = &mut self.memory.words_mut()[at];
        Some(loc(std::mem::replace(slot, word(hash, new))))
    }

    /// Adds a place; `hash_of_loc` is the hash of the key at one.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        new: Loc,
        hash_of_loc: impl Fn(Loc) -> u64,
    ) -> Result<(), Full> {
        if self.grows() > 0 {
            self.resize((2 * self.memory.words().len()).max(LEAST), &hash_of_loc)?;
        }
        put(self.memory.words_mut(), hash, word(hash, new));
        self.len += 1;
        Ok(())
    }

    fn resize(&mut self, slots: usize, hash: &impl Fn(Loc) -> u64) -> Result<(), Full> {
        let mut memory = Memory::of(slots)?;
        let words = memory.words_mut();
        for word in self.memory.words().iter().filter(|word| **word != 0) {
            put(words, hash_of(*word, slots, hash), *word);
        }
        self.memory = memory;
        Ok(())
    }

    /// Takes a key's place away, and gives it.
    pub(super) fn remove(
        &mut self,
        hash: u64,
        is: impl FnMut(Loc) -> bool,
        hash_of_loc: impl Fn(Loc) -> u64,
    ) -> Option<Loc> {
        let mut hole = self.at(hash, is)?;
        let words = self.memory.words_mut();
        let (gone, slots) = (loc(words[hole]), words.len());
        let mask = slots - 1;
        // Those behind it move up, as far as they are not before their own first slot then.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let word = words[at];
            if word == 0 {
                break;
            }
            let home = hash_of(word, slots, &hash_of_loc) as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                words[hole] = word;
                hole = at;
            }
        }
        words[hole] = 0;
        self.len -= 1;
        self.shrink(&hash_of_loc);
        Some(gone)
    }

    /// Takes away those that `keeps` refuses.
    pub(super) fn retain(
        &mut self,
        mut keeps: impl FnMut(Loc) -> bool,
        hash_of_loc: impl Fn(Loc) -> u64,
    ) {
        let words = self.memory.words_mut();
        let slots = words.len();
        let all = words.iter().copied().filter(|word| *word != 0);
        let kept: Vec<u64> = all.filter(|word| keeps(loc(*word))).collect();
        if kept.len() == self.len {
            return;
        }
        words.fill(0);
        for word in &kept {
            put(words, hash_of(*word, slots, &hash_of_loc), *word);
        }
        self.len = kept.len();
        self.shrink(&hash_of_loc);
    }

    /// Memory of many is not kept for few.
    fn shrink(&mut self, hash: &impl Fn(Loc) -> u64) {
        let slots = self.memory.words().len();
        if self.len == 0 {
            self.memory = Memory::None;
        } else if slots > 8 * LEAST && self.len * 8 < slots {
            // Without memory for a smaller one the large one stays.
            let _ = self.resize((self.len * 2).next_power_of_two().max(LEAST), hash);
        }
    }

    /// All places.
    pub(super) fn iter(&self) -> impl Iterator<Item = Loc> {
        self.memory.words().iter().filter(|word| **word != 0).map(|word| loc(*word))
    }
}

/// Writes a word into the first free slot from its own on; there is one.
fn put(words: &mut [u64], hash: u64, word: u64) {
    let mask = words.len() - 1;
    let mut at = hash as usize & mask;
    while words[at] != 0 {
        at = (at + 1) & mask;
    }
    words[at] = word;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Places by hashes that collide often, small tables and mapped ones.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..4_u8, 0..3000_u64), 0..4000)) {
            let (mut slots, mut model) = (Slots::default(), BTreeMap::new());
            let hash = |loc: Loc| loc.bits() % 700 * 3;
            for (what, key) in steps {
                let place = Loc::of_bits(key);
                match what {
                    0 | 1 => {
                        if model.insert(key, ()).is_none() {
                            slots.insert(hash(place), place, hash).unwrap();
                        }
                    }
                    2 => {
                        let gone = slots.remove(hash(place), |loc| loc == place, hash);
                        prop_assert_eq!(gone.is_some(), model.remove(&key).is_some());
                    }
                    _ if key < 20 => {
                        slots.retain(|loc| loc.bits() % 20 != key, hash);
                        model.retain(|it, ()| it % 20 != key);
                    }
                    _ => {
                        let found = slots.find(hash(place), |loc| loc == place);
                        prop_assert_eq!(found.is_some(), model.contains_key(&key));
                    }
                }
                prop_assert_eq!(slots.len(), model.len());
            }
            let mut all: Vec<u64> = slots.iter().map(Loc::bits).collect();
            all.sort_unstable();
            prop_assert_eq!(all, model.keys().copied().collect::<Vec<_>>());
            for key in model.keys() {
                let place = Loc::of_bits(*key);
                prop_assert!(slots.find(hash(place), |loc| loc == place).is_some());
                slots.remove(hash(place), |loc| loc == place, hash);
            }
            prop_assert_eq!((slots.len(), slots.bytes()), (0, 0));
        }
    }

    /// More slots than there are bits of the hash in one.
    #[test]
    fn a_large_table_asks_for_hashes() {
        let hash = |loc: Loc| loc.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
        let mut slots = Slots::default();
        for key in 0..100_000 {
            slots.insert(hash(Loc::of_bits(key)), Loc::of_bits(key), hash).unwrap();
        }
        for key in (0..100_000).step_by(2) {
            let place = Loc::of_bits(key);
            assert_eq!(slots.remove(hash(place), |loc| loc == place, hash), Some(place));
        }
        for key in 0..100_000 {
            let place = Loc::of_bits(key);
            let found = slots.find(hash(place), |loc| loc == place);
            assert_eq!(found.is_some(), key % 2 == 1, "{key}");
        }
    }
}
