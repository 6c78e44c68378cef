//! The bzImage: a setup header, a protected-mode part, and in it the payload.
//!
//! Source: the kernel's `Documentation/arch/x86/boot.rst`. Offsets are from the
//! file's start, and the same in `boot_params`.

use std::ops::RangeInclusive;

use crate::bytes::{array, part, u16_le, u32_le};
use crate::{Compression, Error, Result};

pub(crate) const HEADER_AT: usize = 0x1f1;
/// Length of the size at the end of most payloads: the kernel's.
const SIZE_BYTES: usize = 4;
const BOOT_FLAG: usize = 0x1fe;
const JUMP: usize = 0x201;
const MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const KERNEL_ALIGNMENT: usize = 0x230;
const RELOCATABLE: usize = 0x234;
const XLOADFLAGS: usize = 0x236;
const CMDLINE_SIZE: usize = 0x238;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const INIT_SIZE: usize = 0x260;
/// Offsets at which the setup header may end.
const HEADER_END: RangeInclusive<usize> = INIT_SIZE + 4..=0x290;

/// Protocol 2.12, Linux 3.8: the first with xloadflags.
const OLDEST_VERSION: u16 = 0x020c;
const XLF_KERNEL_64: u16 = 1;
const XLF_CAN_BE_LOADED_ABOVE_4G: u16 = 2;

/// A bzImage that a node can be started with.
#[derive(Clone, Copy, Debug)]
pub struct BzImage<'a> {
    file: &'a [u8],
    /// Offset of the protected-mode part, bytes.
    protected_at: usize,
}

impl<'a> BzImage<'a> {
    /// True if `file` begins like one.
    pub fn is(file: &[u8]) -> bool {
        u16_le(file, BOOT_FLAG) == Some(0xaa55) && array(file, MAGIC) == Some(*b"HdrS")
    }

    /// Checks all that a start relies on.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        if !Self::is(file) {
            return Err(Error::NotAKernel);
        }
        let truncated = |what, need: usize| Error::Truncated {
            what,
            need: need as u64,
            have: file.len() as u64,
        };
        let version = u16_le(file, VERSION).unwrap_or(0);
        let header = |field, value: u64, needs| Err(Error::Header { field, value, needs });
        if version < OLDEST_VERSION {
            return header("version", version.into(), "0x20c or later is needed, Linux 3.8");
        }
        let header_end = Self::header_end(file);
        if !HEADER_END.contains(&header_end) {
            return header("length", header_end as u64, "it is to end between 0x264 and 0x290");
        }
        if file.len() < header_end {
            return Err(truncated("the setup header", header_end));
        }
        let setup_sectors = match file[HEADER_AT] {
            0 => 4,
            sectors => usize::from(sectors),
        };
        let image = BzImage { file, protected_at: (setup_sectors + 1) * 512 };
        // In paragraphs of 16 bytes; may be off by the padding, never too large.
        let paragraphs = u32_le(file, 0x1f4).unwrap_or(0) as usize;
        let end = image.protected_at + paragraphs * 16;
        if paragraphs == 0 || file.len() + 15 < end || file.len() <= image.protected_at {
            return Err(truncated("the protected-mode part", end.max(image.protected_at + 1)));
        }
        let flags = image.u16(XLOADFLAGS);
        if flags & XLF_KERNEL_64 == 0 {
            return header("xloadflags", flags.into(), "bit 0 says that a kernel is for 64 bits");
        }
        if file[RELOCATABLE] == 0 {
            let needs = "a kernel built with CONFIG_RELOCATABLE=y is needed";
            return header("relocatable_kernel", 0, needs);
        }
        if !image.alignment().is_power_of_two() {
            return header("kernel_alignment", image.alignment(), "a power of two is needed");
        }
        Ok(image)
    }

    /// The setup header ends where the jump before it goes.
    fn header_end(file: &[u8]) -> usize {
        MAGIC + usize::from(file.get(JUMP).copied().unwrap_or(0))
    }

    fn u16(&self, at: usize) -> u16 {
        u16_le(self.file, at).unwrap_or(0)
    }

    fn u32(&self, at: usize) -> u32 {
        u32_le(self.file, at).unwrap_or(0)
    }

    /// True if a header that was kept has a length that one can have.
    pub(crate) fn is_header(kept: &[u8]) -> bool {
        HEADER_END.contains(&(HEADER_AT + kept.len()))
    }

    /// The setup header, which goes into `boot_params` as it is.
    pub fn header(&self) -> &'a [u8] {
        &self.file[HEADER_AT..Self::header_end(self.file)]
    }

    /// Offset of the protected-mode part in the file; it goes to its end.
    pub fn protected_at(&self) -> u64 {
        self.protected_at as u64
    }

    /// The physical address's alignment that the kernel asks for, bytes.
    pub fn alignment(&self) -> u64 {
        self.u32(KERNEL_ALIGNMENT).into()
    }

    /// Memory from its load address on that it needs before it can look at the
    /// memory map, bytes.
    pub fn init_bytes(&self) -> u64 {
        self.u32(INIT_SIZE).into()
    }

    /// True if it may lie above 4 GiB, together with its initramfs.
    pub fn above_4g(&self) -> bool {
        self.u16(XLOADFLAGS) & XLF_CAN_BE_LOADED_ABOVE_4G != 0
    }

    /// Longest command line, bytes without its end.
    pub fn command_line_limit(&self) -> usize {
        self.u32(CMDLINE_SIZE) as usize
    }

    /// Version that `uname -rv` and the builder will say, e.g. `6.1.0-56-amd64 (…) #1 …`.
    pub fn version(&self) -> Option<&'a str> {
        let at = match self.u16(KERNEL_VERSION) {
            0 => return None,
            offset => usize::from(offset) + 0x200,
        };
        let bytes = self.file.get(at..self.protected_at)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok().filter(|text| !text.is_empty())
    }

    /// The compressed kernel, mostly with the four bytes of its size.
    pub fn payload(&self) -> Result<&'a [u8]> {
        let protected = &self.file[self.protected_at..];
        let (offset, length) = (self.u32(PAYLOAD_OFFSET), self.u32(PAYLOAD_LENGTH));
        part(protected, offset.into(), length.into()).ok_or(Error::Truncated {
            what: "the compressed kernel",
            need: self.protected_at() + u64::from(offset) + u64::from(length),
            have: self.file.len() as u64,
        })
    }

    /// The vmlinux inside, an ELF file.
    pub fn decompress(&self) -> Result<Vec<u8>> {
        let payload = self.payload()?;
        let compression = Compression::of(payload)?;
        // A legacy lz4 stream has no end: the size would be its next block.
        let without = if compression == Compression::Lz4 { SIZE_BYTES } else { 0 };
        let bytes = compression.decompress(&payload[..payload.len().saturating_sub(without)])?;
        if compression != Compression::None {
            // The build appends the size, and gzip's own trailer is the same.
            let at = payload.len().saturating_sub(SIZE_BYTES);
            let announced = u64::from(u32_le(payload, at).unwrap_or(0));
            let have = bytes.len() as u64;
            if announced != have {
                return Err(Error::WrongSize { announced, have });
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decompress::tests::{ALL, compress};

    /// A bzImage around `kernel`, with a header as Debian's.
    pub(crate) fn bzimage(compression: Compression, kernel: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 512 * 5];
        let mut payload = compress(compression, kernel);
        if !matches!(compression, Compression::Gzip | Compression::None) {
            payload.extend((kernel.len() as u32).to_le_bytes());
        }
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(HEADER_AT, &[4]);
        put(0x1f4, &((0x400 + payload.len() as u32).div_ceil(16)).to_le_bytes());
        put(BOOT_FLAG, &[0x55, 0xaa, 0xeb, 0x6a]);
        put(MAGIC, b"HdrS");
        put(VERSION, &0x020fu16.to_le_bytes());
        put(KERNEL_VERSION, &0x100u16.to_le_bytes());
        put(KERNEL_ALIGNMENT, &0x20_0000u32.to_le_bytes());
        put(RELOCATABLE, &[1, 21, 0x7f, 0]);
        put(CMDLINE_SIZE, &2047u32.to_le_bytes());
        put(PAYLOAD_OFFSET, &0x400u32.to_le_bytes());
        put(PAYLOAD_LENGTH, &(payload.len() as u32).to_le_bytes());
        put(INIT_SIZE, &0x200_0000u32.to_le_bytes());
        put(0x300, b"6.1.0-test-amd64 (builder) #1\0");
        file.resize(file.len() + 0x400, 0x90);
        file.extend(payload);
        file.resize(file.len().next_multiple_of(16), 0);
        file
    }

    #[test]
    fn the_kernel_comes_out_of_each_compression() {
        let kernel = b"\x7fELF and what a kernel has".repeat(50);
        for compression in ALL {
            let file = bzimage(compression, &kernel);
            let image = BzImage::parse(&file).unwrap();
            assert_eq!(image.decompress().unwrap(), kernel, "{compression}");
            assert_eq!(image.version(), Some("6.1.0-test-amd64 (builder) #1"));
            assert_eq!(image.protected_at(), 512 * 5);
            assert_eq!(image.header().len(), 0x6c + 0x11 - 2);
            assert!(image.above_4g());
        }
    }

    #[test]
    fn a_size_behind_lz4_is_no_block_of_it() {
        // Larger than the blocks of a legacy stream, as every kernel.
        let kernel = [b"\x7fELF".to_vec(), vec![7; 9 << 20]].concat();
        let file = bzimage(Compression::Lz4, &kernel);
        assert!(BzImage::parse(&file).unwrap().decompress().unwrap() == kernel);
    }

    #[test]
    fn another_file_is_no_kernel() {
        assert!(matches!(BzImage::parse(b"#!/bin/sh\n"), Err(Error::NotAKernel)));
        assert!(matches!(BzImage::parse(&[]), Err(Error::NotAKernel)));
    }

    #[test]
    fn half_a_file_says_how_much_is_missing() {
        let file = bzimage(Compression::Gzip, &[7; 99_999]);
        let error = BzImage::parse(&file[..file.len() / 2]).unwrap_err();
        assert!(error.to_string().contains(&format!("has {}", file.len() / 2)), "{error}");
    }

    #[test]
    fn a_kernel_for_32_bits_or_one_place_is_refused() {
        let mut file = bzimage(Compression::Gzip, &[7; 99]);
        file[XLOADFLAGS] = 0;
        assert!(BzImage::parse(&file).unwrap_err().to_string().contains("xloadflags"));
        let mut file = bzimage(Compression::Gzip, &[7; 99]);
        file[RELOCATABLE] = 0;
        assert!(BzImage::parse(&file).unwrap_err().to_string().contains("CONFIG_RELOCATABLE"));
    }

    #[test]
    fn a_wrong_size_is_damage() {
        let mut file = bzimage(Compression::Xz, &[7; 99]);
        let size = 512 * 5 + 0x400 + BzImage::parse(&file).unwrap().payload().unwrap().len() - 4;
        file[size] += 1;
        let error = BzImage::parse(&file).unwrap().decompress().unwrap_err();
        assert!(matches!(error, Error::WrongSize { announced: 100, have: 99 }), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_a_result(
            noise in prop::collection::vec((0x1f0..0x270usize, any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = bzimage(Compression::Lz4, &[7; 999]);
            for (at, byte) in noise {
                file[at] = byte;
            }
            file.truncate(cut.index(file.len() + 1));
            if let Ok(image) = BzImage::parse(&file) {
                let _ = (image.version(), image.header().len(), image.payload().is_ok());
            }
        }
    }
}
