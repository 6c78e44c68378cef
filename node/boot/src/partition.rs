//! The memory that a node gets, and what lies where in it.

use serde::{Deserialize, Serialize};

use crate::e820::LIMIT;
use crate::{Error, Kernel, Kind, MemoryMap, Result};

/// Bytes of a low slice: RAM below 1 MiB for the node's own real-mode trampoline, of which
/// Linux 6.1 to 6.12 need 25,188 bytes, and a false IO-APIC.
pub const SLICE_BYTES: u64 = 0x8000;

/// Bytes of the window that host and node share, at the first piece's end.
pub const WINDOW_BYTES: u64 = 2 << 20;

const LARGE_PAGE_BYTES: u64 = 2 << 20;
/// Tables for the start, at the first piece's beginning.
const TABLES_BYTES: u64 = 2 << 20;
/// Memory that a kernel of Debian takes beside its image before it unpacks its initramfs: its map
/// of pages, hash tables, the parts of each cpu. 14.4 MiB were seen of 6.1 in 176 MiB.
const KERNELS_OWN_BYTES: u64 = 20 << 20;
/// The kernel lies so far above the first piece's beginning.
pub(crate) const KERNEL_AT: u64 = 16 << 20;

const IO_APIC_AT: u64 = SLICE_BYTES - 0x1000;

/// A contiguous range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
}

impl Piece {
    /// One past its last byte.
    pub fn end(&self) -> u64 {
        self.address + self.bytes
    }
}

/// The memory of a node, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    slice: u64,
    pieces: Vec<Piece>,
    root: Option<Piece>,
}

impl Partition {
    /// The low slice at `slice`; kernel, initramfs and window go to the first of
    /// `pieces`, and the others are RAM.
    pub fn new(slice: u64, pieces: Vec<Piece>) -> Result<Self> {
        let wrong = |problem, value, needs| Err(Error::Partition { problem, value, needs });
        if !slice.is_multiple_of(4096) || slice == 0 || slice > (1 << 20) - SLICE_BYTES {
            let needs = "32 KiB below 1 MiB are needed, at a multiple of 4 KiB";
            return wrong("has its low slice elsewhere", slice, needs);
        }
        let Some(first) = pieces.first() else {
            return wrong("has no memory", 0, "one piece at least is needed");
        };
        let least = KERNEL_AT + WINDOW_BYTES;
        if first.bytes < least {
            return wrong(
                "has too small a first piece",
                first.bytes,
                "more than 18 MiB are needed",
            );
        }
        // Ranges of ours: low RAM, tables, the first piece's RAM, the window, a root.
        if pieces.len() + 4 > LIMIT {
            return wrong("has too many pieces", pieces.len() as u64, "at most 124 are possible");
        }
        let mut sorted = pieces.clone();
        sorted.sort_by_key(|piece| piece.address);
        let mut end = 1 << 20;
        for piece in &sorted {
            if !(piece.address | piece.bytes).is_multiple_of(LARGE_PAGE_BYTES) || piece.bytes == 0 {
                let needs = "address and length are to be multiples of 2 MiB";
                return wrong("has an unaligned piece", piece.address, needs);
            }
            if piece.address < end {
                let needs = "pieces may not overlap, nor lie below 1 MiB";
                return wrong("has a piece that overlaps another", piece.address, needs);
            }
            end = match piece.address.checked_add(piece.bytes) {
                Some(end) if end <= 1 << 46 => end,
                _ => return wrong("ends beyond 64 TiB", piece.address, "no machine has that"),
            };
        }
        Ok(Partition { slice, pieces, root: None })
    }

    /// Adds a file system that others see, too, in memory that is nobody's RAM.
    pub fn with_root(self, root: Piece) -> Result<Self> {
        let wrong = |problem, value, needs| Err(Error::Partition { problem, value, needs });
        if !(root.address | root.bytes).is_multiple_of(LARGE_PAGE_BYTES) || root.bytes == 0 {
            let needs = "address and length are to be multiples of 2 MiB";
            return wrong("has its root at an unaligned place", root.address, needs);
        }
        let overlaps = |piece: &Piece| root.address < piece.end() && piece.address < root.end();
        if root.address < 1 << 20 || self.pieces.iter().any(overlaps) {
            let needs = "it is to be beside the node's own memory";
            return wrong("has its root within its memory", root.address, needs);
        }
        Ok(Partition { root: Some(root), ..self })
    }

    /// Bytes that the first piece needs for a kernel and an initramfs.
    pub fn needs(kernel: &Kernel, initramfs_bytes: u64) -> u64 {
        [kernel.memory_bytes(), initramfs_bytes].into_iter().fold(
            KERNEL_AT + WINDOW_BYTES,
            |sum, bytes| {
                sum.saturating_add(bytes.checked_next_multiple_of(4096).unwrap_or(u64::MAX))
            },
        )
    }

    /// Bytes that all pieces together need: a kernel, an initramfs as it is packed, and its
    /// files unpacked beside it. Linux unpacks into at most a half of what it has left then,
    /// and what does not fit it leaves out (`shmem_default_max_blocks`, mm/shmem.c).
    pub fn needs_in_all(kernel: &Kernel, initramfs_bytes: u64, unpacked_bytes: u64) -> u64 {
        let files = unpacked_bytes.saturating_mul(2);
        [kernel.memory_bytes(), initramfs_bytes, files]
            .into_iter()
            .fold(TABLES_BYTES + WINDOW_BYTES + KERNELS_OWN_BYTES, u64::saturating_add)
    }

    /// The piece with the kernel.
    pub fn first(&self) -> Piece {
        self.pieces[0]
    }

    /// Address at which a SIPI starts the first cpu: its vector is this / 4096. The node's kernel
    /// has page tables of its own before it looks for memory for its trampoline, so that this page
    /// and the PML4 lie in what is RAM to it.
    pub fn trampoline(&self) -> u64 {
        self.slice
    }

    pub(crate) fn pml4(&self) -> u64 {
        self.slice + 0x1000
    }

    pub(crate) fn io_apic(&self) -> u64 {
        self.slice + IO_APIC_AT
    }

    pub(crate) fn boot_params(&self) -> u64 {
        self.first().address + 0x1000
    }

    pub(crate) fn command_line(&self) -> u64 {
        self.first().address + 0x2000
    }

    pub(crate) fn acpi(&self) -> u64 {
        self.first().address + 0x3000
    }

    pub(crate) fn page_tables(&self) -> u64 {
        self.first().address + 0x8000
    }

    /// Bytes that the page tables may have.
    pub(crate) const PAGE_TABLES_BYTES: u64 = TABLES_BYTES - 0x8000;

    /// Address of the kernel.
    pub fn kernel(&self) -> u64 {
        self.first().address + KERNEL_AT
    }

    /// The window that host and node share.
    pub fn window(&self) -> Piece {
        Piece { address: self.first().end() - WINDOW_BYTES, bytes: WINDOW_BYTES }
    }

    /// All that the start touches, to be mapped: start, end.
    pub(crate) fn touched(&self) -> [(u64, u64); 2] {
        [(self.slice, self.slice + SLICE_BYTES), (self.first().address, self.first().end())]
    }

    /// The memory that the node's kernel sees.
    pub fn memory_map(&self) -> MemoryMap {
        let mut map = MemoryMap::default();
        map.add(self.slice, self.slice + IO_APIC_AT, Kind::Ram);
        let (first, window) = (self.first(), self.window());
        let ram = first.address + TABLES_BYTES;
        map.add(first.address, ram, Kind::Tables);
        map.add(ram, window.address, Kind::Ram);
        map.add(window.address, window.end(), Kind::Reserved);
        for piece in &self.pieces[1..] {
            map.add(piece.address, piece.end(), Kind::Ram);
        }
        if let Some(root) = self.root {
            map.add(root.address, root.end(), Kind::Persistent);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn piece(address: u64, bytes: u64) -> Piece {
        Piece { address, bytes }
    }

    #[test]
    fn what_cannot_be_a_node_is_refused_with_its_value() {
        let good = || vec![piece(256 * MIB, 128 * MIB)];
        let refused = |slice, pieces, says: &str| {
            let error = Partition::new(slice, pieces).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        refused(0x1_0800, good(), "0x10800");
        refused(0xf_9000, good(), "below 1 MiB");
        refused(0x1_0000, vec![], "no memory");
        refused(0x1_0000, vec![piece(256 * MIB, 16 * MIB)], "18 MiB");
        refused(0x1_0000, vec![piece(255 * MIB, 128 * MIB)], "multiples of 2 MiB");
        let two = vec![piece(256 * MIB, 128 * MIB), piece(258 * MIB, 2 * MIB)];
        refused(0x1_0000, two, "overlap");
        refused(0x1_0000, vec![piece(1 << 46, 128 * MIB)], "64 TiB");
        refused(0x1_0000, vec![piece(!0x1f_ffff, 128 * MIB)], "64 TiB");
        let many = (0..126).map(|n| piece(n * 128 * MIB + 256 * MIB, 64 * MIB)).collect();
        refused(0x1_0000, many, "124");
    }

    #[test]
    fn a_root_is_beside_the_memory_and_no_ram() {
        let partition = || Partition::new(0x1_0000, vec![piece(256 * MIB, 128 * MIB)]).unwrap();
        let at = |address, bytes| partition().with_root(piece(address, bytes));
        let map = at(384 * MIB, 6 * MIB).unwrap().memory_map();
        assert_eq!(map.ranges().last(), Some(&(384 * MIB, 390 * MIB, Kind::Persistent)));
        for (address, bytes, says) in [
            (382 * MIB, 4 * MIB, "within its memory"),
            (128 * MIB, 130 * MIB, "within its memory"),
            (0, 2 * MIB, "within its memory"),
            (385 * MIB, 2 * MIB, "unaligned"),
            (384 * MIB, 0, "unaligned"),
        ] {
            let error = at(address, bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn the_map_is_disjoint_and_leaves_out_what_the_kernel_must_not_touch(
            slice in 2..32u64,
            sizes in prop::collection::vec((1..512u64, 9..200u64), 1..6),
        ) {
            let mut at = 128;
            let pieces: Vec<_> = sizes.iter().map(|&(gap, size)| {
                let address = at + gap;
                at = address + size;
                piece(address * 2 * MIB, size * 2 * MIB)
            }).collect();
            let partition = Partition::new(slice * SLICE_BYTES, pieces).unwrap();
            let map = partition.memory_map();
            let mut end = 0;
            for &(start, stop, _) in map.ranges() {
                prop_assert!(start >= end && stop > start);
                end = stop;
            }
            let kind = |address: u64| {
                let mut ranges = map.ranges().iter();
                ranges.find(|(start, end, _)| (*start..*end).contains(&address)).map(|r| r.2)
            };
            prop_assert_eq!(kind(partition.trampoline()), Some(Kind::Ram));
            prop_assert_eq!(kind(partition.pml4()), Some(Kind::Ram));
            prop_assert_eq!(kind(partition.io_apic()), None);
            prop_assert_eq!(kind(partition.boot_params()), Some(Kind::Tables));
            prop_assert_eq!(kind(partition.kernel()), Some(if sizes[0].1 == 9 { Kind::Reserved } else { Kind::Ram }));
            prop_assert_eq!(kind(partition.window().address), Some(Kind::Reserved));
        }
    }
}
