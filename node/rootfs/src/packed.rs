//! Archives as they are packed: a reader of what is within, of how much of it came, and of its
//! hash.

use std::io::{self, BufReader, Cursor, Read};

use sha2::{Digest, Sha256};

use crate::header::{BLOCK, Header};
use crate::pieces::{self, Pieces};

const XZ: &[u8] = b"\xfd7zXZ\0";
/// Packers whose archives are not read here, by their first bytes (file(1), `compress`).
const OTHERS: [(&[u8], &str); 11] = [
    (b"BZh", "bzip2"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x02\x21\x4c\x18", "lz4"),
    (b"LZIP", "lzip"),
    (b"\x89LZO", "lzop"),
    (b"\x1f\x9d", "compress"),
    (b"\x5d\0\0", "lzma"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf", "7-Zip"),
    (b"070701", "cpio"),
    (b"hsqs", "squashfs"),
];
/// Memory that an xz dictionary may ask for, KiB.
const DICTIONARY_LIMIT_KIB: u32 = 256 << 10;

/// Reader of the bytes within: gzip, zstd and xz, of one piece or of several after each other, are
/// told by their first bytes. What begins with a header of tar is as it is, whatever its first
/// file is called; of what else is known is said what it is.
pub(crate) fn unpacked<'a>(mut packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let first = first(&mut packed)?;
    let is_tar = is_tar(&first);
    let is = |magic: &[u8]| !is_tar && first.starts_with(magic);
    let (pieces, xz) = (!is_tar && pieces::begin(&first), is(XZ));
    let other = OTHERS.iter().find(|(magic, _)| is(magic)).map(|(_, name)| name);
    let packed = BufReader::with_capacity(1 << 16, Cursor::new(first).chain(packed));
    if pieces {
        return Ok(Box::new(Pieces::new(packed)));
    }
    if xz {
        let several = true;
        return Ok(Box::new(lzma_rust2::XzReader::new_mem_limit(
            packed,
            several,
            DICTIONARY_LIMIT_KIB,
        )));
    }
    match other {
        None => Ok(Box::new(packed)),
        Some(name) => Err(io::Error::other(format!(
            "it is packed by {name}; tar archives are read, as they are or packed by gzip, zstd \
             or xz: pack it anew"
        ))),
    }
}

fn first(packed: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(BLOCK);
    packed.take(BLOCK as u64).read_to_end(&mut first)?;
    Ok(first)
}

fn is_tar(first: &[u8]) -> bool {
    <&[u8; BLOCK]>::try_from(first).is_ok_and(|block| {
        let header = Header(block);
        header.is_empty() || header.is_whole()
    })
}

/// True if a file begins as a packed one does, and no archive.
pub(crate) fn is_packed(file: &mut impl Read) -> io::Result<bool> {
    let first = first(file)?;
    let others = OTHERS.iter().map(|(magic, _)| *magic).chain([XZ]);
    let mut magics = others.filter(|magic| first.starts_with(magic));
    Ok(!is_tar(&first) && (pieces::begin(&first) || magics.next().is_some()))
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

/// Ends with an error when more comes than may.
pub(crate) struct Counted<'a, R> {
    inner: R,
    left: &'a mut u64,
}

impl<'a, R: Read> Counted<'a, R> {
    /// `left`: bytes that may still come, of this archive and of all that follow.
    pub(crate) fn new(inner: R, left: &'a mut u64) -> Self {
        Counted { inner, left }
    }
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            // The reader of xz would take it for the end of a block.
            return Ok(0);
        }
        let count = self.inner.read(into)?;
        *self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(
                "it unpacks to more than the limit: what a node's root has stays in memory",
            )
        })?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    type Pack = fn(&[u8]) -> Vec<u8>;
    const PACKS: [(&str, Pack); 3] = [("gzip", gzip), ("zstd", zstd), ("xz", xz)];

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn xz(text: &[u8]) -> Vec<u8> {
        let mut packed = lzma_rust2::XzWriter::new(Vec::new(), Default::default()).unwrap();
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    /// A frame that is to be skipped.
    fn skipped(length: u32) -> Vec<u8> {
        let head = [&b"\x53\x2a\x4d\x18"[..], &length.to_le_bytes()].concat();
        [head, vec![b'z'; length as usize]].concat()
    }

    fn all(packed: impl Read) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        unpacked(packed)?.read_to_end(&mut read)?;
        Ok(read)
    }

    /// Gives a byte at a time, as a pipe may.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = into.len().min(1);
            self.0.read(&mut into[..most])
        }
    }

    fn archive() -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(600);
        header.set_cksum();
        archive.append_data(&mut header, "a/file", &[7; 600][..]).unwrap();
        archive.into_inner().unwrap()
    }

    #[test]
    fn what_is_packed_in_pieces_is_whole_wherever_it_was_split() {
        let text = archive();
        assert_eq!(all(&text[..]).unwrap(), text);
        for (name, pack) in PACKS {
            // Of xz, whose packing reserves much, not at every byte.
            let step = if name == "xz" { 61 } else { 1 };
            for at in (0..=text.len()).step_by(step) {
                let (first, second) = text.split_at(at);
                let mut packed = [pack(first), pack(second)].concat();
                if at % 64 == 0 && name == "zstd" {
                    packed = [skipped(9), zstd(b""), packed, skipped(0)].concat();
                }
                assert!(all(&packed[..]).unwrap() == text, "{name}, split at {at}");
                if at % 512 == 1 {
                    assert!(all(Slow(&packed)).unwrap() == text, "{name}, split at {at}, slowly");
                }
            }
        }
        let tape = [gzip(&text), vec![0; 1000]].concat();
        assert_eq!(all(&tape[..]).unwrap(), text);
    }

    #[test]
    fn what_was_cut_or_spoilt_is_an_error_and_no_shorter_text() {
        let text = archive();
        for (name, pack) in PACKS {
            let packed = [pack(&text[..700]), pack(&text[700..])].concat();
            let border = pack(&text[..700]).len();
            // From its name on, without which nothing is known of it.
            for at in (6..packed.len()).filter(|&at| at != border) {
                assert!(all(&packed[..at]).is_err(), "{name}, cut at {at} of {}", packed.len());
            }
            let more = [&packed[..], b"more"].concat();
            assert!(all(&more[..]).is_err(), "{name}, and more");
        }
        let cut = [zstd(&text), skipped(9)].concat();
        assert!(all(&cut[..cut.len() - 1]).is_err());
        // Of two kinds.
        assert!(all(&[zstd(&text), gzip(&text)].concat()[..]).is_err());
        // A checksum that is wrong: what stands last in a frame.
        let mut spoilt = zstd(&text);
        if let Some(last) = spoilt.last_mut() {
            *last ^= 1;
        }
        assert!(all(&spoilt[..]).is_err());
    }

    #[test]
    fn what_others_pack_is_refused_by_its_name() {
        for (first, name) in [(&b"BZh91AY"[..], "bzip2"), (b"\x04\x22\x4d\x18\x64", "lz4")] {
            let error = all(first).unwrap_err().to_string();
            assert!(error.contains(&format!("packed by {name};")), "{error}");
        }
        assert_eq!(Hashed::new(&b""[..]).finish().unwrap()[..8], *"e3b0c442");
    }

    #[test]
    fn no_more_is_unpacked_than_may_be() {
        let mut left = 100;
        let packed = gzip(&[0; 101]);
        let mut counted = Counted::new(unpacked(&packed[..]).unwrap(), &mut left);
        let error = counted.read_to_end(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("unpacks to more than the limit"), "{error}");
    }
}
