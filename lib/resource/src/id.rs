//! Resource ids: where a resource is, what it is, and which one.
//!
//! ```text
//!  63        48 47     40 39        20 19         0
//!  place (16)   kind (8)  use (20)     place in the table (20)
//!                         ╰────── serial (40) ──────╯
//! ```
//!
//! The paper's resource identifier (Horii et al., Fig. 1): place, kind, serial number
//! within the kind. The serial is a place in the management table and the number of its
//! use, so that a resource is found by one look and a stale id is known for one. A place
//! that has been used 2²⁰ times is not used again: serials never repeat.

use std::fmt;
use std::num::ParseIntError;

use serde::{Deserialize, Serialize};

/// A resource's id. Numbers only: what it may be used for is a
/// [`Handle`](crate::Handle)'s matter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Id(u64);

/// A core, or what else keeps resources of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u16);

/// A kind of resource, as numbered by one [`Interface`](crate::Interface).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub u8);

const INDEX_BITS: u32 = 20;
const USE_BITS: u32 = 20;

/// Number of a resource of one kind at a place: never repeated there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial {
    pub(crate) index: u32,
    /// Number of the use, from 1 on.
    pub(crate) usage: u32,
}

impl Serial {
    /// Resources of one kind that a place has at the same time, at most.
    pub const MOST: u32 = 1 << INDEX_BITS;
    /// The place in the table.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Number of that place's use, from 1 on.
    pub fn uses(self) -> u32 {
        self.usage
    }

    /// The serial of something that is in no table.
    pub(crate) fn of_number(number: u64) -> Serial {
        let mask = (1 << INDEX_BITS) - 1;
        Serial { index: (number & mask) as u32, usage: (number >> INDEX_BITS) as u32 & Self::USES }
    }

    /// Uses of one place in the table.
    pub(crate) const USES: u32 = (1 << USE_BITS) - 1;
}

impl Id {
    pub(crate) fn new(place: Place, kind: KindId, serial: Serial) -> Id {
        let Serial { index, usage } = serial;
        let serial = u64::from(usage) << INDEX_BITS | u64::from(index);
        Id(u64::from(place.0) << 48 | u64::from(kind.0) << 40 | serial)
    }

    /// Makes an id from a number, as it was printed or sent. Whether there is such a resource is
    /// found out by using it.
    pub fn from_u64(number: u64) -> Id {
        Id(number)
    }

    /// The identity as a number.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// Place of the resource.
    #[inline]
    pub fn place(self) -> Place {
        Place((self.0 >> 48) as u16)
    }

    /// The resource's kind.
    #[inline]
    pub fn kind(self) -> KindId {
        KindId((self.0 >> 40) as u8)
    }

    /// Number of the resource at its place.
    #[inline]
    pub fn serial(self) -> Serial {
        let mask = |bits: u32| (1_u64 << bits) - 1;
        Serial {
            index: (self.0 & mask(INDEX_BITS)) as u32,
            usage: (self.0 >> INDEX_BITS & mask(USE_BITS)) as u32,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

// As text: many readers of JSON have no integers of 64 bits.
impl From<Id> for String {
    fn from(id: Id) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for Id {
    type Error = ParseIntError;

    fn try_from(text: String) -> Result<Id, ParseIntError> {
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).map(Id)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_come_back(place: u16, kind: u8, index in 0..Serial::MOST, usage in 1..=Serial::USES) {
            let serial = Serial { index, usage };
            let id = Id::new(Place(place), KindId(kind), serial);
            prop_assert_eq!((id.place(), id.kind(), id.serial()), (Place(place), KindId(kind), serial));
            prop_assert_eq!(Id::from_u64(id.to_u64()), id);
        }
    }
}
