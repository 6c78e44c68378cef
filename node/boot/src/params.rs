//! `boot_params`, the page by which a loader talks to the kernel.
//!
//! Source: `Documentation/arch/x86/zero-page.rst`. All that is not set is zero:
//! no screen, no EFI, no disks.

use crate::bzimage::HEADER_AT;
use crate::e820::{LIMIT, MemoryMap};

const PAGE_BYTES: usize = 4096;
const ACPI_RSDP: usize = 0x070;
const EXT_RAMDISK_IMAGE: usize = 0x0c0;
const EXT_RAMDISK_SIZE: usize = 0x0c4;
const EXT_CMD_LINE_PTR: usize = 0x0c8;
const E820_ENTRIES: usize = 0x1e8;
const BOOT_FLAG: usize = 0x1fe;
const MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const TYPE_OF_LOADER: usize = 0x210;
const LOADFLAGS: usize = 0x211;
const RAMDISK_IMAGE: usize = 0x218;
const RAMDISK_SIZE: usize = 0x21c;
const CMD_LINE_PTR: usize = 0x228;
const HARDWARE_SUBARCH: usize = 0x23c;
const E820_TABLE: usize = 0x2d0;

/// A loader without a number of its own.
const UNDEFINED_LOADER: u8 = 0xff;
const LOADED_HIGH: u8 = 1;
/// `X86_SUBARCH_CE4100`: on x86-64 its only effect is that the kernel looks for
/// no real-time clock, PNP BIOS or i8042, which are the host's.
const SUBARCH_WITHOUT_LEGACY: u32 = 4;

pub(crate) struct BootParams<'a> {
    /// The image's setup header; empty for a bare vmlinux.
    pub(crate) header: &'a [u8],
    pub(crate) memory: &'a MemoryMap,
    pub(crate) command_line: u64,
    pub(crate) initramfs: (u64, u64),
    pub(crate) rsdp: u64,
}

impl BootParams<'_> {
    /// The page; at most [`LIMIT`] ranges of memory, which the partition has checked.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        let low = |address: u64| (address as u32).to_le_bytes();
        let high = |address: u64| ((address >> 32) as u32).to_le_bytes();

        put(HEADER_AT, self.header);
        if self.header.is_empty() {
            put(BOOT_FLAG, &[0x55, 0xaa]);
            put(MAGIC, b"HdrS");
            put(VERSION, &0x020fu16.to_le_bytes());
            put(LOADFLAGS, &[LOADED_HIGH]);
        }
        put(TYPE_OF_LOADER, &[UNDEFINED_LOADER]);
        put(HARDWARE_SUBARCH, &SUBARCH_WITHOUT_LEGACY.to_le_bytes());
        put(ACPI_RSDP, &self.rsdp.to_le_bytes());
        put(CMD_LINE_PTR, &low(self.command_line));
        put(EXT_CMD_LINE_PTR, &high(self.command_line));
        let (initramfs, bytes) = self.initramfs;
        put(RAMDISK_IMAGE, &low(initramfs));
        put(EXT_RAMDISK_IMAGE, &high(initramfs));
        put(RAMDISK_SIZE, &low(bytes));
        put(EXT_RAMDISK_SIZE, &high(bytes));
        put(E820_ENTRIES, &[self.memory.ranges().len().min(LIMIT) as u8]);
        let entries = self.memory.to_bytes();
        put(E820_TABLE, &entries[..entries.len().min(LIMIT * 20)]);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::bytes::{u32_le, u64_le};

    #[test]
    fn addresses_above_4_gib_are_split() {
        let mut memory = MemoryMap::default();
        memory.add(0x1_4000_0000, 0x1_5000_0000, Kind::Ram);
        let params = BootParams {
            header: &[],
            memory: &memory,
            command_line: 0x1_4000_2000,
            initramfs: (0x1_4800_0000, 0x123_4567),
            rsdp: 0x1_4000_3000,
        };
        let page = params.to_bytes();
        assert_eq!(page.len(), 4096);
        assert_eq!(u32_le(&page, 0x228), Some(0x4000_2000));
        assert_eq!(u32_le(&page, 0x0c8), Some(1));
        assert_eq!(u32_le(&page, 0x218), Some(0x4800_0000));
        assert_eq!(u32_le(&page, 0x0c0), Some(1));
        assert_eq!(u32_le(&page, 0x21c), Some(0x123_4567));
        assert_eq!(u64_le(&page, 0x070), Some(0x1_4000_3000));
        assert_eq!(page[0x1e8], 1);
        assert_eq!(u64_le(&page, 0x2d0), Some(0x1_4000_0000));
        // The kernel takes a page with this byte set for garbage.
        assert_eq!(page[0x1ef], 0);
    }
}
