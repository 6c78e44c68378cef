//! The container that `lzop` puts around LZO1X blocks, as the kernel's build
//! writes it and `linux/lib/decompress_unlzo.c` reads it.
//!
//! Magic, a header of variable length with its checksum, then blocks: size
//! uncompressed, size compressed, checksums by the header's flags, the bytes.
//! All numbers are big-endian; a block of size 0 ends it.

use crate::bytes::{array, u32_be};

pub(crate) const MAGIC: &[u8] = &[0x89, b'L', b'Z', b'O', 0, 0x0d, 0x0a, 0x1a, 0x0a];

/// `lzop -9` uses 256 KiB; lzop itself refuses more than 64 MiB.
const BLOCK_LIMIT_BYTES: usize = 64 << 20;

const ADLER32_UNCOMPRESSED: u32 = 1;
const ADLER32_COMPRESSED: u32 = 2;
const EXTRA_FIELD: u32 = 0x40;
const CRC32_UNCOMPRESSED: u32 = 0x100;
const CRC32_COMPRESSED: u32 = 0x200;
const FILTER: u32 = 0x800;

/// The bytes of all blocks.
pub(crate) fn decompress(file: &[u8], limit_bytes: u64) -> Result<Vec<u8>, String> {
    let mut input = Input { file, at: MAGIC.len() };
    let flags = input.header()?;
    let mut out = Vec::new();
    loop {
        let size = input.number("a block's size")? as usize;
        if size == 0 {
            return Ok(out);
        }
        let packed = input.number("a block's compressed size")? as usize;
        if size > BLOCK_LIMIT_BYTES || packed > size {
            return Err(format!("a block of {size} bytes is stored in {packed}"));
        }
        if out.len() as u64 + size as u64 > limit_bytes {
            return Err(format!("it has more than {limit_bytes} bytes uncompressed"));
        }
        for flag in [ADLER32_UNCOMPRESSED, CRC32_UNCOMPRESSED] {
            if flags & flag != 0 {
                input.number("a checksum")?;
            }
        }
        for flag in [ADLER32_COMPRESSED, CRC32_COMPRESSED] {
            if flags & flag != 0 && packed < size {
                input.number("a checksum")?;
            }
        }
        let block = input.take(packed, "a block")?;
        if packed == size {
            out.extend_from_slice(block);
            continue;
        }
        let start = out.len();
        out.resize(start + size, 0);
        let written = lzokay::decompress::decompress(block, &mut out[start..])
            .map_err(|error| format!("a block of {packed} bytes: {error:?}"))?;
        if written != size {
            return Err(format!("a block has {written} bytes where {size} are announced"));
        }
    }
}

struct Input<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    /// Skips the header; returns its flags.
    fn header(&mut self) -> Result<u32, String> {
        let [v0, v1] = self.bytes("the version")?;
        let version = u16::from_be_bytes([v0, v1]);
        self.bytes::<2>("the library's version")?;
        if version >= 0x0940 {
            self.bytes::<2>("the version needed")?;
        }
        let [method] = self.bytes("the method")?;
        if !(1..=3).contains(&method) {
            return Err(format!("method {method} is none of LZO1X's 1 to 3"));
        }
        if version >= 0x0940 {
            self.bytes::<1>("the level")?;
        }
        let flags = self.number("the flags")?;
        if flags & FILTER != 0 {
            self.number("the filter")?;
        }
        self.number("the mode")?;
        self.number("the time")?;
        if version >= 0x0940 {
            self.number("the time's high half")?;
        }
        let [name] = self.bytes("the name's length")?;
        self.take(name.into(), "the name")?;
        self.number("the header's checksum")?;
        if flags & EXTRA_FIELD != 0 {
            let length = self.number("the extra field's length")? as usize;
            self.take(length, "the extra field")?;
            self.number("the extra field's checksum")?;
        }
        Ok(flags)
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], String> {
        let bytes = array(self.file, self.at).ok_or_else(|| self.short(what))?;
        self.at += N;
        Ok(bytes)
    }

    fn number(&mut self, what: &str) -> Result<u32, String> {
        let number = u32_be(self.file, self.at).ok_or_else(|| self.short(what))?;
        self.at += 4;
        Ok(number)
    }

    fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8], String> {
        let rest = self.file.get(self.at..).unwrap_or_default();
        let bytes = rest.get(..length).ok_or_else(|| self.short(what))?;
        self.at += length;
        Ok(bytes)
    }

    fn short(&self, what: &str) -> String {
        format!("it ends at byte {} within {what}", self.file.len())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `lzop -9`'s container, version 1.030, with an Adler-32 a block.
    pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([0x10, 0x30, 0x20, 0xa0, 0x09, 0x40, 3, 9]);
        out.extend((ADLER32_UNCOMPRESSED | ADLER32_COMPRESSED).to_be_bytes());
        out.extend([0; 12]);
        out.push(4);
        out.extend(b"name");
        out.extend([0; 4]);
        for block in bytes.chunks(4096) {
            let packed = lzokay::compress::compress(block).unwrap();
            let stored = if packed.len() < block.len() { &packed[..] } else { block };
            out.extend((block.len() as u32).to_be_bytes());
            out.extend((stored.len() as u32).to_be_bytes());
            out.extend([0; 4]);
            if stored.len() < block.len() {
                out.extend([0; 4]);
            }
            out.extend(stored);
        }
        out.extend([0; 4]);
        out
    }

    #[test]
    fn a_block_larger_than_announced_is_refused() {
        let mut file = compress(&[7; 300]);
        let size = file.len() - 4 - lzokay::compress::compress(&[7; 300]).unwrap().len() - 16;
        assert_eq!(u32_be(&file, size), Some(300));
        file[size + 3] -= 1;
        assert!(decompress(&file, 1 << 20).is_err());
    }

    #[test]
    fn the_limit_holds_before_memory_is_taken() {
        assert!(decompress(&compress(&[7; 300]), 299).unwrap_err().contains("299"));
    }
}
