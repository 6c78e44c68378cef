//! The memory map that the node's kernel is given, in the BIOS's old form.

use serde::{Deserialize, Serialize};

/// Entries that fit into `boot_params`.
pub(crate) const LIMIT: usize = 128;

/// Kind of a range, by its number in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum Kind {
    /// The kernel's to use.
    Ram = 1,
    /// Reserved: not to be touched without a reason; /dev/mem may map it.
    Reserved = 2,
    /// Tables that the kernel reads, as ACPI's.
    Tables = 3,
    /// Memory with something in it that stays: a device of the kernel's, `/dev/pmem0`
    /// (`E820_TYPE_PRAM`).
    Persistent = 12,
}

/// Ranges of physical addresses; everything else is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryMap {
    ranges: Vec<(u64, u64, Kind)>,
}

impl MemoryMap {
    /// Adds `start..end`; a range of no bytes is left out.
    pub fn add(&mut self, start: u64, end: u64, kind: Kind) {
        if start < end {
            self.ranges.push((start, end, kind));
            self.ranges.sort_by_key(|&(start, ..)| start);
        }
    }

    /// Lowest first: start, end, what for.
    pub fn ranges(&self) -> &[(u64, u64, Kind)] {
        &self.ranges
    }

    /// Entries of 20 bytes: start, bytes, kind.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.ranges.len() * 20);
        for &(start, end, kind) in &self.ranges {
            bytes.extend(start.to_le_bytes());
            bytes.extend((end - start).to_le_bytes());
            bytes.extend((kind as u32).to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_packed() {
        let mut map = MemoryMap::default();
        map.add(0x20_0000, 0x40_0000, Kind::Ram);
        map.add(0x1000, 0x1000, Kind::Ram);
        map.add(0x1000, 0x3000, Kind::Tables);
        assert_eq!(map.ranges().len(), 2);
        let bytes = map.to_bytes();
        assert_eq!(bytes.len(), 40);
        assert_eq!(bytes[..20], [0, 16, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    }
}
