//! A start, worked out: what goes where, and nothing of it done yet.

use crate::acpi::Tables;
use crate::params::BootParams;
use crate::trampoline::Trampoline;
use crate::{Acpi, CommandLine, Error, Form, Kernel, Partition, Result, paging};

const PAGE_BYTES: u64 = 4096;

/// Bytes to put at a physical address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The first byte's address.
    pub address: u64,
    /// Source of the bytes.
    pub source: Source,
}

/// Source of a write's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Bytes at hand.
    Bytes(Vec<u8>),
    /// The kernel's, of those that [`Kernel::parse`] or the file gave.
    Kernel {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// All of the initramfs.
    Initramfs {
        /// Its length.
        bytes: u64,
    },
    /// Zeros: memory is as the last start left it.
    Zero {
        /// Number of bytes.
        bytes: u64,
    },
}

impl Source {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Kernel { bytes, .. } | Source::Initramfs { bytes } | Source::Zero { bytes } => {
                *bytes
            }
        }
    }
}

/// All writes of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Writes in any order; none overlaps another.
    pub writes: Vec<Write>,
    /// Page to which the SIPI sends the first cpu.
    pub trampoline: u64,
}

impl Plan {
    /// Lays `kernel` and an initramfs of so many bytes out in `partition`.
    /// The node finds its restart register at `reset_register` and its first
    /// time stamp at `time_stamp`, both offsets in the shared window.
    pub fn new(
        partition: &Partition,
        kernel: &Kernel,
        initramfs_bytes: u64,
        command_line: &CommandLine,
        acpi: &Acpi,
        (reset_register, time_stamp): (u64, u64),
    ) -> Result<Self> {
        let first = partition.first();
        let kernel_at = partition.kernel();
        let need = Partition::needs(kernel, initramfs_bytes);
        if need > first.bytes {
            return Err(Error::TooSmall { need, have: first.bytes });
        }
        if first.end() > 1 << 32 && !kernel.above_4g {
            return Err(Error::Header {
                field: "xloadflags",
                value: 0,
                needs: "bit 1 says that a kernel may lie above 4 GiB, where this partition is",
            });
        }
        let window = partition.window().address;
        let initramfs = window - initramfs_bytes.next_multiple_of(PAGE_BYTES);

        let mut writes = Vec::new();
        let mut write = |address, source| writes.push(Write { address, source });
        let entry = match &kernel.form {
            Form::BzImage { protected_at, file_bytes, alignment, .. } => {
                if !kernel_at.is_multiple_of(*alignment) {
                    return Err(Error::Partition {
                        problem: "does not suit this kernel's alignment at",
                        value: kernel_at,
                        needs: "its bzImage wants a larger multiple: start it uncompressed",
                    });
                }
                let bytes = file_bytes - protected_at;
                write(kernel_at, Source::Kernel { offset: *protected_at, bytes });
                kernel_at + 0x200
            }
            Form::Vmlinux(vmlinux) => {
                for segment in &vmlinux.segments {
                    let address = segment.address - vmlinux.base() + kernel_at;
                    write(address, Source::Kernel { offset: segment.offset, bytes: segment.bytes });
                    let rest = segment.memory_bytes - segment.bytes;
                    write(address + segment.bytes, Source::Zero { bytes: rest });
                }
                vmlinux.entry - vmlinux.base() + kernel_at
            }
        };
        write(initramfs, Source::Initramfs { bytes: initramfs_bytes });

        let params = BootParams {
            header: &kernel.header,
            memory: &partition.memory_map(),
            command_line: partition.command_line(),
            initramfs: (initramfs, initramfs_bytes),
            rsdp: partition.acpi(),
        };
        write(partition.boot_params(), Source::Bytes(params.to_bytes()));
        // The command line has one page.
        let limit = kernel.command_line_limit.min(PAGE_BYTES as usize - 1);
        write(partition.command_line(), Source::Bytes(command_line.to_bytes(limit)?));
        let tables = Tables {
            at: partition.acpi(),
            acpi,
            io_apic: partition.io_apic() as u32,
            reset_register: window + reset_register,
        };
        write(partition.acpi(), Source::Bytes(tables.to_bytes()));
        write(partition.io_apic(), Source::Zero { bytes: PAGE_BYTES });

        writes.extend(way_in(
            partition,
            &WayIn {
                entry,
                boot_params: partition.boot_params(),
                time_stamp: window + time_stamp,
                upper: None,
            },
        )?);
        writes.retain(|write| write.source.bytes() > 0);
        Ok(Plan { writes, trampoline: partition.trampoline() })
    }
}

/// Way from the SIPI to a kernel.
pub(crate) struct WayIn<'a> {
    pub(crate) entry: u64,
    pub(crate) boot_params: u64,
    pub(crate) time_stamp: u64,
    /// The upper half of the first page table, of a kernel that has its own.
    pub(crate) upper: Option<&'a [u8]>,
}

/// Page tables and trampoline.
pub(crate) fn way_in(partition: &Partition, to: &WayIn<'_>) -> Result<[Write; 3]> {
    let mut tables = paging::identity(&partition.touched(), partition.page_tables());
    let table_bytes = tables.tables.len() as u64;
    if table_bytes > Partition::PAGE_TABLES_BYTES {
        return Err(Error::Partition {
            problem: "has too large a first piece",
            value: partition.first().bytes,
            needs: "page tables for it do not fit: make it of several pieces",
        });
    }
    if let Some(upper) = to.upper {
        tables.pml4[paging::HALF_BYTES..].copy_from_slice(upper);
    }
    let trampoline = Trampoline {
        page: partition.trampoline() as u32,
        pml4: partition.pml4() as u32,
        boot_params: to.boot_params,
        entry: to.entry,
        time_stamp: to.time_stamp,
        no_execute: to.upper.is_some(),
    };
    let write = |address, bytes| Write { address, source: Source::Bytes(bytes) };
    Ok([
        write(partition.pml4(), tables.pml4),
        write(partition.page_tables(), tables.tables),
        write(partition.trampoline(), trampoline.to_bytes()),
    ])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bytes::{u32_le, u64_le};
    use crate::elf::tests::vmlinux;
    use crate::{Compression, Piece, SLICE_BYTES, WINDOW_BYTES};

    const MIB: u64 = 1 << 20;
    const BASE: u64 = 16 * MIB;

    fn elf() -> Vec<u8> {
        vmlinux(BASE + 0x43, &[(BASE, &[1; 0x5000], 0x5000), (BASE + 2 * MIB, &[2; 9], 3 * MIB)])
    }

    fn kernels() -> [Kernel; 2] {
        let bzimage = crate::bzimage::tests::bzimage(Compression::Lzo, &elf());
        [Kernel::parse(&bzimage).unwrap().0, Kernel::compressed(&bzimage).unwrap()]
    }

    fn plan(pieces: Vec<Piece>, kernel: &Kernel, initramfs: u64) -> Result<Plan> {
        let partition = Partition::new(0x3_0000, pieces)?;
        let acpi = Acpi {
            cpus: (1..=200).collect(),
            foreign: Some(0xfe),
            pm_timer: Some(0x608),
            pci: vec![],
        };
        let line = CommandLine::of_node(1, 2_000_000);
        Plan::new(&partition, kernel, initramfs, &line, &acpi, (8, 0x40))
    }

    fn bytes_at(plan: &Plan, address: u64) -> &[u8] {
        let found = plan.writes.iter().find(|write| write.address == address).unwrap();
        match &found.source {
            Source::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_kernel_moves_and_its_entry_with_it() {
        let at = 0x1_4000_0000;
        let [uncompressed, compressed] = kernels();
        let pieces = || vec![Piece { address: at, bytes: 128 * MIB }];
        let entry = |plan: &Plan| u64_le(bytes_at(plan, 0x3_0000), 0x80 + 42);
        let elf = plan(pieces(), &uncompressed, 5000).unwrap();
        assert_eq!(elf.trampoline, 0x3_0000);
        assert_eq!(entry(&elf), Some(at + BASE + 0x43));
        let bzimage = plan(pieces(), &compressed, 5000).unwrap();
        assert_eq!(entry(&bzimage), Some(at + BASE + 0x200));
        let page = bytes_at(&elf, at + 0x1000);
        let initramfs = u64::from(u32_le(page, 0x218).unwrap()) | 1 << 32;
        assert_eq!(initramfs, at + 126 * MIB - 8192);
        let tail = elf.writes.iter().find(|write| write.address == at + BASE + 2 * MIB + 9);
        assert_eq!(tail.unwrap().source, Source::Zero { bytes: 3 * MIB - 9 });
    }

    #[test]
    fn what_does_not_fit_is_told_in_bytes() {
        let [kernel, _] = kernels();
        let pieces = || vec![Piece { address: 256 * MIB, bytes: 64 * MIB }];
        assert!(plan(pieces(), &kernel, 41 * MIB).is_ok());
        let error = plan(pieces(), &kernel, 41 * MIB + 1).unwrap_err();
        assert!(matches!(error, Error::TooSmall { have: 0x400_0000, need: 0x400_1000 }), "{error}");
        assert!(matches!(plan(pieces(), &kernel, u64::MAX), Err(Error::TooSmall { .. })));
    }

    #[test]
    fn a_first_piece_that_page_tables_cannot_cover_is_refused() {
        let [kernel, _] = kernels();
        let pieces = vec![Piece { address: 1 << 40, bytes: 600 << 30 }];
        assert!(plan(pieces, &kernel, 1).unwrap_err().to_string().contains("several pieces"));
    }

    proptest! {
        #[test]
        fn no_write_overlaps_another_or_leaves_the_partition(
            address in 1..4096u64, size in 64..600u64, initramfs in 0..14 * MIB, which in 0..2usize,
        ) {
            let kernel = &kernels()[which];
            let first = Piece { address: address * 2 * MIB, bytes: (size * MIB) & !(2 * MIB - 1) };
            let plan = plan(vec![first], kernel, initramfs).unwrap();
            let mut writes = plan.writes.clone();
            writes.sort_by_key(|write| write.address);
            let mut end = 0;
            for write in &writes {
                let (start, bytes) = (write.address, write.source.bytes());
                prop_assert!(start >= end, "{start:#x} begins before {end:#x}");
                end = start + bytes;
                let inside = |from: u64, to: u64| from <= start && end <= to;
                prop_assert!(
                    inside(0x3_0000, 0x3_0000 + SLICE_BYTES)
                        || inside(first.address + 0x1000, first.end() - WINDOW_BYTES)
                );
            }
        }
    }
}
