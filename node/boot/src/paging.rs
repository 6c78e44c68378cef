//! Page tables for the first instructions in 64-bit mode: physical addresses as
//! they are, in pages of 2 MiB, for those gigabytes that the start touches.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) const TABLE_BYTES: u64 = 4096;
/// Half of a first page table; the upper one is the kernel's.
pub(crate) const HALF_BYTES: usize = 2048;
const GIB: u64 = 1 << 30;
const LARGE_PAGE_BYTES: u64 = 2 << 20;
const PRESENT_WRITABLE: u64 = 0b11;
const LARGE: u64 = 1 << 7;

/// The PML4, and the other tables one after the other from `tables` on.
pub(crate) struct PageTables {
    pub(crate) pml4: Vec<u8>,
    pub(crate) tables: Vec<u8>,
}

/// Maps every gigabyte that one of `ranges` (start, end) touches.
pub(crate) fn identity(ranges: &[(u64, u64)], tables: u64) -> PageTables {
    let gigabytes: BTreeSet<u64> = ranges
        .iter()
        .filter(|(start, end)| start < end)
        .flat_map(|(start, end)| start / GIB..=(end - 1) / GIB)
        .collect();
    // A PDPT holds 512 gigabytes.
    let mut pdpts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for &gigabyte in &gigabytes {
        pdpts.entry(gigabyte / 512).or_default().push(gigabyte);
    }
    let mut pml4 = vec![0; 512];
    let mut rest: Vec<[u64; 512]> = Vec::new();
    let mut next = tables;
    let mut place = || {
        next += TABLE_BYTES;
        next - TABLE_BYTES
    };
    for (index, gigabytes) in pdpts {
        let mut pdpt = [0; 512];
        pml4[index as usize] = place() | PRESENT_WRITABLE;
        let mut directories = Vec::new();
        for gigabyte in gigabytes {
            pdpt[(gigabyte % 512) as usize] = place() | PRESENT_WRITABLE;
            let large = |page| gigabyte * GIB + page * LARGE_PAGE_BYTES;
            let entries = (0..512).map(|page| large(page) | LARGE | PRESENT_WRITABLE);
            directories.push(std::array::from_fn({
                let entries: Vec<u64> = entries.collect();
                move |page| entries[page]
            }));
        }
        rest.push(pdpt);
        rest.extend(directories);
    }
    let bytes = |entries: &[u64]| entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    PageTables { pml4: bytes(&pml4), tables: bytes(rest.as_flattened()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bytes::u64_le;

    /// Address that the processor would find for `address`.
    fn walk(tables: &PageTables, at: u64, address: u64) -> Option<u64> {
        let entry = |table: &[u8], base: u64, index: u64| {
            let entry = u64_le(table, (base + index * 8) as usize).unwrap();
            (entry & 1 == 1).then_some(entry)
        };
        let pml4 = entry(&tables.pml4, 0, address >> 39)?;
        let pdpt = entry(&tables.tables, (pml4 & !0xfff) - at, address >> 30 & 511)?;
        let large = entry(&tables.tables, (pdpt & !0xfff) - at, address >> 21 & 511)?;
        assert_eq!(large & 0x80, 0x80);
        Some((large & !0x1f_ffff) | (address & 0x1f_ffff))
    }

    proptest! {
        #[test]
        fn every_address_of_a_range_is_itself_and_others_are_absent(
            ranges in prop::collection::vec((0..1u64 << 40, 1..1u64 << 32), 1..4),
            inside in any::<prop::sample::Index>(),
        ) {
            let at = 0x1234_5000;
            let ranges: Vec<_> = ranges.iter().map(|&(start, n)| (start, start + n)).collect();
            let tables = identity(&ranges, at);
            for &(start, end) in &ranges {
                for address in [start, end - 1, start + inside.index((end - start) as usize) as u64] {
                    prop_assert_eq!(walk(&tables, at, address), Some(address));
                }
            }
            let beyond = ranges.iter().map(|&(_, end)| end).max().unwrap() + GIB;
            prop_assert_eq!(walk(&tables, at, beyond), None);
        }
    }
}
