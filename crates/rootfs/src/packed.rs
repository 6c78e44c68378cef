//! Archives as they are packed: a reader of what is within, and of how much of it came.

use std::io::{self, BufRead, BufReader, Read};

use sha2::{Digest, Sha256};

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
const XZ: &[u8] = b"\xfd7zXZ\0";
/// Memory that an xz dictionary may ask for, KiB.
const DICTIONARY_LIMIT_KIB: u32 = 256 << 10;

/// Reader of the bytes within: gzip, zstd and xz are told by their first bytes, all else is as it is.
pub(crate) fn unpacked<'a>(packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut packed = BufReader::with_capacity(1 << 16, packed);
    let first = packed.fill_buf()?;
    let is = |magic: &[u8]| first.starts_with(magic);
    let (gzip, zstd, xz) = (is(GZIP), is(ZSTD), is(XZ));
    if gzip {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(packed)));
    }
    if zstd {
        let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
        return Ok(Box::new(decoder.map_err(|error| io::Error::other(error.to_string()))?));
    }
    if xz {
        let several = true;
        return Ok(Box::new(lzma_rust2::XzReader::new_mem_limit(
            packed,
            several,
            DICTIONARY_LIMIT_KIB,
        )));
    }
    Ok(Box::new(packed))
}

/// Takes the hash of what passes.
pub(crate) struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Hashed { inner, hash: Sha256::new() }
    }

    /// Reads what nobody has read yet; the hash of all.
    pub(crate) fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(hex(self.hash))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.hash.update(&into[..count]);
        Ok(count)
    }
}

pub(crate) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_by_its_first_bytes() {
        let text = b"a text, and more of it".repeat(50);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(
            &text[..],
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        for packed in [text.clone(), gzip.clone(), zstd] {
            let mut read = Vec::new();
            unpacked(&packed[..]).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
        }
        // Cut off it is an error, and no shorter text.
        let cut = unpacked(&gzip[..gzip.len() - 9]).unwrap().read_to_end(&mut Vec::new());
        assert!(cut.is_err());
        assert_eq!(Hashed::new(&b""[..]).finish().unwrap()[..8], *"e3b0c442");
    }
}
