//! The vmlinux: its LOAD segments, without the zeros that they end in.

use object::Endianness;
use object::elf::{EM_X86_64, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use serde::{Deserialize, Serialize};

use crate::bytes::{contains, part};
use crate::{Error, Result};

/// The span of a kernel in memory; more is no kernel.
const SPAN_LIMIT_BYTES: u64 = 1 << 30;

/// Large pages map the kernel, so it moves by multiples of them.
const ALIGNMENT: u64 = 2 << 20;

/// A kernel that refuses further cpus if the first lacks the BSP bit says so by
/// this text (Linux 6.10 and later, `linux/arch/x86/kernel/cpu/topology.c`).
const CHECKS_BSP_BIT: &[u8] = b"not marked in APICBASE MSR";

/// An uncompressed kernel: what to copy where, and its entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vmlinux {
    /// Physical address of the 64-bit entry, as linked.
    pub entry: u64,
    /// Lowest address first.
    pub segments: Vec<Segment>,
    /// True if an SMP node of it must find a foreign cpu first in its MADT.
    pub checks_bsp_bit: bool,
}

/// A LOAD segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Physical address as linked.
    pub address: u64,
    /// Offset of its bytes in the part that [`Vmlinux::parse`] returned beside it.
    pub offset: u64,
    /// Bytes to copy; the zeros at its end are not among them.
    pub bytes: u64,
    /// Bytes in memory, the rest being zero.
    pub memory_bytes: u64,
}

impl Vmlinux {
    /// The segments of an ELF file, and their bytes one after the other.
    pub fn parse(file: &[u8]) -> Result<(Self, Vec<u8>)> {
        let wrong = |reason: String| Error::Elf(reason);
        let header = FileHeader64::<Endianness>::parse(file)
            .map_err(|error| wrong(format!("{error}; a 64-bit ELF file is needed")))?;
        let endian = header.endian().map_err(|error| wrong(error.to_string()))?;
        if header.e_machine(endian) != EM_X86_64 {
            let machine = header.e_machine(endian);
            return Err(wrong(format!("machine {machine} is not x86-64 (62)")));
        }
        let headers =
            header.program_headers(endian, file).map_err(|error| wrong(error.to_string()))?;
        let mut loads: Vec<_> = headers
            .iter()
            .filter(|header| header.p_type(endian) == PT_LOAD && header.p_memsz(endian) > 0)
            .collect();
        loads.sort_by_key(|header| header.p_paddr(endian));

        let mut kernel = Vmlinux {
            entry: header.e_entry(endian),
            segments: Vec::new(),
            checks_bsp_bit: contains(file, CHECKS_BSP_BIT),
        };
        let mut bytes = Vec::new();
        for header in loads {
            let (address, offset) = (header.p_paddr(endian), header.p_offset(endian));
            let (file_bytes, memory_bytes) = (header.p_filesz(endian), header.p_memsz(endian));
            let content = part(file, offset, file_bytes).ok_or(Error::Truncated {
                what: "a LOAD segment",
                need: offset.saturating_add(file_bytes),
                have: file.len() as u64,
            })?;
            if file_bytes > memory_bytes {
                return Err(beyond_memory(address, file_bytes, memory_bytes));
            }
            let used = content.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            kernel.segments.push(Segment {
                address,
                offset: bytes.len() as u64,
                bytes: used as u64,
                memory_bytes,
            });
            bytes.extend_from_slice(&content[..used]);
        }
        kernel.check()?;
        Ok((kernel, bytes))
    }

    /// Checks that it can be started at all.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(first) = self.segments.first() else {
            return Err(Error::Elf("it has no LOAD segment, so there is nothing to start".into()));
        };
        if !first.address.is_multiple_of(ALIGNMENT) {
            return Err(Error::Elf(format!(
                "its first segment is at {:#x}, not at a multiple of 2 MiB",
                first.address
            )));
        }
        let mut end = first.address;
        for segment in &self.segments {
            if segment.address < end {
                return Err(Error::Elf(format!(
                    "the segment at {:#x} overlaps the one before, which ends at {end:#x}",
                    segment.address
                )));
            }
            if segment.bytes > segment.memory_bytes {
                let Segment { address, bytes, memory_bytes, .. } = *segment;
                return Err(beyond_memory(address, bytes, memory_bytes));
            }
            end = segment
                .address
                .checked_add(segment.memory_bytes)
                .filter(|end| end - first.address <= SPAN_LIMIT_BYTES)
                .ok_or_else(|| {
                    Error::Elf(format!(
                        "the segment at {:#x} has {} bytes; a kernel spans at most 1 GiB",
                        segment.address, segment.memory_bytes
                    ))
                })?;
        }
        if !(first.address..end).contains(&self.entry) {
            return Err(Error::Elf(format!(
                "its entry {:#x} is not within {:#x}..{end:#x}; a vmlinux's is a physical address",
                self.entry, first.address
            )));
        }
        Ok(())
    }

    /// Physical address at which it was linked.
    pub fn base(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.address)
    }

    /// Bytes from its base to the end of the last segment in memory.
    pub fn span_bytes(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.address + last.memory_bytes - self.base())
    }
}

fn beyond_memory(address: u64, bytes: u64, memory_bytes: u64) -> Error {
    Error::Elf(format!(
        "the segment at {address:#x} has {bytes} bytes for {memory_bytes} of memory"
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use object::elf::{ELFMAG, PF_R};
    use proptest::prelude::*;

    use super::*;

    /// An ELF file of (physical address, bytes, bytes in memory).
    pub(crate) fn vmlinux(entry: u64, segments: &[(u64, &[u8], u64)]) -> Vec<u8> {
        let mut file = Vec::new();
        file.extend(ELFMAG);
        file.extend([2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        file.extend(2u16.to_le_bytes());
        file.extend(EM_X86_64.0.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        for word in [entry, 64, 0] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for half in [64u16, 56, segments.len() as u16, 64, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        let mut at = 64 + 56 * segments.len() as u64;
        for &(address, bytes, memory) in segments {
            file.extend(PT_LOAD.0.to_le_bytes());
            file.extend(PF_R.0.to_le_bytes());
            let words = [at, 0xffff_ffff_8000_0000 + address, address];
            for word in words.into_iter().chain([bytes.len() as u64, memory, 0x1000]) {
                file.extend(word.to_le_bytes());
            }
            at += bytes.len() as u64;
        }
        segments.iter().for_each(|(_, bytes, _)| file.extend(*bytes));
        file
    }

    const BASE: u64 = 0x100_0000;

    #[test]
    fn segments_come_in_order_and_without_their_zeros() {
        let file = vmlinux(
            BASE + 2,
            &[(BASE + 0x20_0000, b"data\0\0\0", 0x9000), (BASE, b"text\0more", 9)],
        );
        let (kernel, bytes) = Vmlinux::parse(&file).unwrap();
        assert_eq!(bytes, b"text\0moredata");
        assert_eq!(kernel.entry, BASE + 2);
        assert_eq!((kernel.base(), kernel.span_bytes()), (BASE, 0x20_9000));
        let data = kernel.segments[1];
        assert_eq!((data.offset, data.bytes, data.memory_bytes), (9, 4, 0x9000));
        assert!(!kernel.checks_bsp_bit);
    }

    #[test]
    fn a_kernel_that_checks_the_bsp_bit_is_told_by_its_text() {
        let file = vmlinux(BASE, &[(BASE, b"\x01Boot CPU not marked in APICBASE MSR.\0", 99)]);
        assert!(Vmlinux::parse(&file).unwrap().0.checks_bsp_bit);
    }

    #[test]
    fn what_cannot_be_loaded_is_refused_with_its_value() {
        let refused = |entry, segments: &[(u64, &[u8], u64)], says: &str| {
            let error = Vmlinux::parse(&vmlinux(entry, segments)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        refused(BASE, &[], "no LOAD");
        refused(BASE, &[(BASE + 0x1000, b"x", 1)], "0x1001000");
        refused(BASE, &[(BASE, b"xyz", 2)], "3 bytes for 2");
        refused(BASE, &[(BASE, b"x", 0x3000), (BASE + 0x2000, b"x", 1)], "overlaps");
        refused(BASE + 1, &[(BASE, b"x", 1)], "entry 0x1000001");
        refused(BASE, &[(BASE, b"x", 1), (BASE + 0x1000, b"x", u64::MAX)], "at most 1 GiB");
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_a_result(
            noise in prop::collection::vec((0..64 + 56 * 2usize, any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = vmlinux(BASE, &[(BASE, b"text", 64), (BASE + 0x1000, b"data", 64)]);
            for (at, byte) in noise {
                file[at] = byte;
            }
            file.truncate(cut.index(file.len() + 1));
            if let Ok((kernel, bytes)) = Vmlinux::parse(&file) {
                for segment in &kernel.segments {
                    prop_assert!(segment.offset + segment.bytes <= bytes.len() as u64);
                    prop_assert!(segment.bytes <= segment.memory_bytes);
                }
                prop_assert!(kernel.span_bytes() <= SPAN_LIMIT_BYTES);
            }
        }
    }
}
