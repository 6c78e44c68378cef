//! A resource management table: what a place has of one kind.

use crate::id::Serial;

/// Reason for which a serial finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The resource was destroyed.
    Stale,
    /// The serial was never given out.
    Unknown,
}

/// Values by serials that are never reused.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    /// Empty slots that may be used again; the last one first, while it is in the cache.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Number of the use of `value`, or of the last one.
    usage: u32,
    value: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Puts `value` in; gives it back if there is no place left.
    #[inline(always)]
    pub(crate) fn insert(&mut self, value: T) -> Result<Serial, T> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < Serial::MOST as usize => {
                self.slots.push(Slot { usage: 0, value: None });
                self.slots.len() as u32 - 1
            }
            None => return Err(value),
        };
        let slot = &mut self.slots[index as usize];
        slot.usage += 1;
        slot.value = Some(value);
        Ok(Serial { index, usage: slot.usage })
    }

    /// True if it has had no value yet.
    pub(crate) fn is_new(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds the next slot as it was in a former life of the place: so many uses, of which the last one may have this
    /// value. Gives the value back if there is no place left, or if it has no use.
    pub(crate) fn restore(&mut self, uses: u32, value: Option<T>) -> Result<Serial, Option<T>> {
        let is_one = uses <= Serial::USES && (uses > 0 || value.is_none());
        if self.slots.len() >= Serial::MOST as usize || !is_one {
            return Err(value);
        }
        let index = self.slots.len() as u32;
        if value.is_none() && uses < Serial::USES {
            self.free.push(index);
        }
        self.slots.push(Slot { usage: uses, value });
        Ok(Serial { index, usage: uses })
    }

    /// The value of a serial.
    #[inline]
    pub(crate) fn get_mut(&mut self, serial: Serial) -> Result<&mut T, Missing> {
        self.slot(serial)?.value.as_mut().ok_or(Missing::Stale)
    }

    /// Takes it out.
    #[inline]
    pub(crate) fn remove(&mut self, serial: Serial) -> Result<T, Missing> {
        let value = self.slot(serial)?.value.take().ok_or(Missing::Stale)?;
        if serial.usage < Serial::USES {
            self.free.push(serial.index);
        }
        Ok(value)
    }

    #[inline(always)]
    fn slot(&mut self, serial: Serial) -> Result<&mut Slot<T>, Missing> {
        match self.slots.get_mut(serial.index as usize) {
            Some(slot) if slot.usage == serial.usage => Ok(slot),
            Some(slot) => Err(missing(slot.usage, serial)),
            None => Err(Missing::Unknown),
        }
    }

    /// All that there is.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Serial, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let serial = Serial { index: index as u32, usage: slot.usage };
            slot.value.as_ref().map(|value| (serial, value))
        })
    }
}

#[cold]
pub(crate) fn missing(usage: u32, serial: Serial) -> Missing {
    if (1..usage).contains(&serial.usage) { Missing::Stale } else { Missing::Unknown }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_never_given_out_is_unknown() {
        let mut table = Table::default();
        let serial = table.insert(1).unwrap();
        for (index, usage) in [(0, 0), (0, 2), (1, 1), (Serial::MOST - 1, 1)] {
            assert_eq!(table.get_mut(Serial { index, usage }), Err(Missing::Unknown));
        }
        assert_eq!(table.remove(serial), Ok(1));
        assert_eq!(table.get_mut(serial), Err(Missing::Stale));
    }

    #[test]
    fn a_slot_that_is_worn_out_is_not_used_again() {
        let mut table = Table::default();
        let first = table.insert(()).unwrap();
        table.slots[0].usage = Serial::USES;
        table.remove(Serial { usage: Serial::USES, ..first }).unwrap();
        assert_eq!(table.insert(()).unwrap().index, 1);
    }

    #[test]
    fn what_is_restored_has_its_serials_and_they_are_not_given_out_again() {
        let mut table = Table::default();
        let (kept, gone) = (table.restore(3, Some('a')).unwrap(), table.restore(2, None).unwrap());
        table.restore(Serial::USES, None).unwrap();
        table.restore(0, None).unwrap();
        assert_eq!(table.restore(0, Some('b')), Err(Some('b')), "a value is of some use");
        assert_eq!(table.restore(Serial::USES + 1, None), Err(None));
        assert_eq!(table.get_mut(kept), Ok(&mut 'a'));
        assert_eq!(table.get_mut(gone), Err(Missing::Stale));
        let new: Vec<_> = (0..3).map(|_| table.insert('c').unwrap()).collect();
        let of = |serial: &Serial| (serial.index, serial.usage);
        assert_eq!(new.iter().map(of).collect::<Vec<_>>(), [(3, 1), (1, 3), (4, 1)]);
    }

    proptest! {
        #[test]
        fn it_is_a_map_whose_keys_never_repeat(steps in prop::collection::vec(any::<(bool, u8)>(), 0..300)) {
            let (mut table, mut model) = (Table::default(), BTreeMap::new());
            let (mut ever, mut gone) = (BTreeSet::new(), Vec::new());
            for (insert, pick) in steps {
                if insert || model.is_empty() {
                    let serial = table.insert(pick).unwrap();
                    prop_assert!(ever.insert(serial));
                    model.insert(serial, pick);
                } else {
                    let serial = *model.keys().nth(pick as usize % model.len()).unwrap();
                    prop_assert_eq!(table.remove(serial).ok(), model.remove(&serial));
                    gone.push(serial);
                }
            }
            prop_assert!(table.iter().map(|(serial, value)| (serial, *value)).collect::<BTreeMap<_, _>>() == model);
            for serial in gone {
                prop_assert_eq!(table.get_mut(serial), Err(Missing::Stale));
            }
        }
    }
}
