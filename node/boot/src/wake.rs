//! A start of a kernel that sleeps in memory: by its own page tables, to where it goes on.

use crate::paging::HALF_BYTES;
use crate::plan::{WayIn, way_in};
use crate::{Error, Partition, Plan, Result};

/// A kernel asleep, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asleep<'a> {
    /// Address at which it goes on: one of its own, mapped by its page tables.
    pub entry: u64,
    /// Its first page table, 4096 bytes, of which the upper half is used.
    pub table: &'a [u8],
}

/// The first address of the upper half.
const UPPER: u64 = 0xffff_8000_0000_0000;
const PRESENT: u8 = 1;

impl Plan {
    /// The writes of a start that jumps to where the kernel in this partition's memory sleeps. It
    /// finds its first time stamp at `time_stamp`, an offset in the shared window.
    ///
    /// They cover the first two pages of the slice, which are the kernel's own.
    pub fn wake(partition: &Partition, kernel: &Asleep<'_>, time_stamp: u64) -> Result<Self> {
        let wrong = |problem, value, needs| Err(Error::Partition { problem, value, needs });
        let upper = match kernel.table.split_at_checked(HALF_BYTES) {
            Some((_, upper)) if upper.len() == HALF_BYTES => upper,
            _ => {
                return wrong(
                    "has a page table of another length",
                    kernel.table.len() as u64,
                    "4096 bytes",
                );
            }
        };
        let at = (kernel.entry >> 39 & 0xff) as usize * 8;
        if kernel.entry < UPPER || upper[at] & PRESENT == 0 {
            let needs = "an address that its page tables map";
            return wrong("has its sleeping kernel elsewhere, at", kernel.entry, needs);
        }
        let writes = way_in(
            partition,
            &WayIn {
                entry: kernel.entry,
                boot_params: 0,
                time_stamp: partition.window().address + time_stamp,
                upper: Some(upper),
            },
        )?;
        Ok(Plan { writes: writes.into(), trampoline: partition.trampoline() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Piece, Source};

    const ENTRY: u64 = 0xffff_ffff_c012_3450;

    fn wake(entry: u64, table: &[u8]) -> Result<Plan> {
        let first = Piece { address: 1 << 30, bytes: 128 << 20 };
        let partition = Partition::new(0x3_0000, vec![first]).unwrap();
        Plan::wake(&partition, &Asleep { entry, table }, 0x48)
    }

    #[test]
    fn its_own_half_of_the_addresses_is_beside_the_machines() {
        let mut table = vec![0xee; 4096];
        table[4088] = 0x67;
        let plan = wake(ENTRY, &table).unwrap();
        let [pml4, tables, trampoline] = &plan.writes[..] else { panic!("{:?}", plan.writes) };
        let Source::Bytes(bytes) = &pml4.source else { panic!("{pml4:?}") };
        assert_eq!((pml4.address, &bytes[2048..]), (0x3_1000, &table[2048..]));
        // Not the process's that slept.
        assert_eq!(bytes[8..16], [0; 8]);
        assert_eq!((tables.address, trampoline.address), ((1 << 30) + 0x8000, 0x3_0000));
        let Source::Bytes(code) = &trampoline.source else { panic!("{trampoline:?}") };
        assert!(code.windows(8).any(|word| word == ENTRY.to_le_bytes()));
    }

    #[test]
    fn a_place_that_no_kernel_has_is_refused() {
        let mut table = vec![0; 4096];
        for (entry, length) in [(ENTRY, 4096), (0x1000, 4096), (ENTRY, 4095), (ENTRY, 8192)] {
            table.resize(length, 0);
            assert!(wake(entry, &table).is_err(), "{entry:#x} {length}");
        }
        table[4088] = 1;
        table.truncate(4096);
        assert!(wake(ENTRY, &table).is_ok());
    }
}
