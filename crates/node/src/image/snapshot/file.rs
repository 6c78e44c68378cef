//! A snapshot in a file, and back from it: its bytes as they are in memory, in one frame of zstd.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use kumiki_boot::zstd::{Unpacked, compress};
use tempfile::NamedTempFile;

use super::{HEAD_BYTES, MAGIC, Snapshot, read_head};
use crate::host::device::{self, Device};
use crate::host::identity::Identity;
use crate::image;
use crate::memory::Memory;
use crate::module::holding::{Holding, padded};
use crate::module::{abi, sysfs};
use crate::{Error, ErrorKind, Result};

const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of memory, read as a file is.
struct Bytes<'a> {
    memory: &'a Memory,
    at: u64,
    end: u64,
}

impl Read for Bytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min((self.end - self.at) as usize);
        self.memory.read(self.at as usize, &mut into[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// Writes the first bytes of memory.
fn pack(memory: &Memory, end: u64, file: &mut dyn Write) -> io::Result<()> {
    compress(&mut Bytes { memory, at: 0, end }, file)
}

/// A file whose header has been read, and is this machine's.
struct Packed<'a> {
    path: &'a Path,
    decoder: Unpacked<'a>,
    head: Vec<u8>,
    /// Bytes that are in it, and the memory that takes.
    end: u64,
    total: u64,
}

impl<'a> Packed<'a> {
    fn open(file: impl Read + 'a, path: &'a Path, here: &Identity) -> Result<Self> {
        let no_file = |why: &str| {
            Error::refused(
                ErrorKind::Invalid,
                format!(
                    "{} is no file of a snapshot ({why}): kumiki image save makes one",
                    path.display()
                ),
            )
        };
        let decoder = Unpacked::of(file);
        let mut decoder = decoder.map_err(|error| no_file(&error.to_string()))?;
        let mut head = vec![0; HEAD_BYTES as usize];
        decoder.read_exact(&mut head).map_err(|error| damaged(path, error))?;
        if !head.starts_with(&MAGIC.to_le_bytes()) {
            return Err(no_file("its first bytes"));
        }
        let header = read_head(&head, u64::MAX).map_err(|what| damaged(path, what))?;
        if header.machine != *here {
            return Err(Error::refused(
                ErrorKind::Invalid,
                format!(
                    "{} was kept on machine {}, and this one is {here}: its kernel has fitted itself \
                     to that one's processor and addresses, and goes on nowhere else",
                    path.display(),
                    header.machine
                ),
            ));
        }
        let end = header.pages.at + header.pages.bytes;
        let total = end.checked_next_multiple_of(abi::PIECE_UNIT);
        let total = total.ok_or_else(|| damaged(path, "a part beyond all memory"))?;
        Ok(Packed { path, decoder, head, end, total })
    }

    /// Writes it into memory.
    fn unpack(mut self, into: &Memory) -> Result<()> {
        into.write(0, &self.head);
        let (mut at, mut chunk) = (HEAD_BYTES, vec![0; CHUNK_BYTES]);
        while at < self.end {
            let part = &mut chunk[..(self.end - at).min(CHUNK_BYTES as u64) as usize];
            self.decoder.read_exact(part).map_err(|error| damaged(self.path, error))?;
            into.write(at as usize, part);
            at += part.len() as u64;
        }
        match self.decoder.read(&mut chunk) {
            Ok(0) => Ok(()),
            Ok(_) => Err(damaged(self.path, "more bytes than its header says")),
            Err(error) => Err(damaged(self.path, error)),
        }
    }
}

fn damaged(path: &Path, what: impl fmt::Display) -> Error {
    Error::refused(
        ErrorKind::Damaged,
        format!("{} is damaged ({what}): save the snapshot again", path.display()),
    )
}

/// Writes a snapshot, which is whole, into a file that is there only when all of it is. Returns
/// the file's length, bytes.
pub(crate) fn save(name: &str, path: &Path) -> Result<u64> {
    let snapshot = Snapshot::open(name)?;
    if let Some(what) = snapshot.verify()? {
        return Err(super::damaged(name, what));
    }
    let failed = |error: io::Error| Error::file(path, error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    let pages = snapshot.header.pages;
    pack(&snapshot.memory, pages.at + pages.bytes, &mut file.as_file()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    let bytes = file.as_file().metadata().map_err(failed)?.len();
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(bytes)
}

/// Puts a file's snapshot into memory, under this name, if it was kept on this machine and is as
/// it was written. Returns the memory that it takes, bytes.
pub(crate) fn load(name: &str, path: &Path) -> Result<u64> {
    padded(Holding::Image, name)?;
    if sysfs::exists(Holding::Image, name) {
        return Err(device::exists(Holding::Image, name));
    }
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    let packed = Packed::open(file, path, &Identity::of_host())?;
    let total = packed.total;
    let (device, _) = Device::create(Holding::Image, name)?;
    let filled = image::sealed(&device, total, abi::PIECE_UNIT, |into| packed.unpack(into));
    let checked = filled.and_then(|()| match Snapshot::open(name)?.verify()? {
        Some(what) => Err(damaged(path, what)),
        None => Ok(total),
    });
    checked.inspect_err(|_| {
        // It would only be in the way; its own error matters more than this one's.
        let _ = device.release();
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::made;
    use super::*;

    fn packed() -> (Vec<u8>, u64) {
        let (image, _, header) = made();
        let mut file = Vec::new();
        pack(&image, header.pages.at + header.pages.bytes, &mut file).unwrap();
        (file, image.bytes() as u64)
    }

    fn unpacked(file: &[u8], bytes: u64) -> Result<Snapshot> {
        let packed = Packed::open(file, Path::new("f"), &Identity::of_host())?;
        assert!(packed.total <= bytes);
        let memory = Memory::zeroed(bytes);
        packed.unpack(&memory)?;
        Snapshot::of("warm", memory, None)
    }

    #[test]
    fn a_file_gives_the_snapshot_back() {
        let (file, bytes) = packed();
        assert!((file.len() as u64) < HEAD_BYTES, "{}", file.len());
        let snapshot = unpacked(&file, bytes).unwrap();
        assert_eq!((snapshot.verify().unwrap(), snapshot.header), (None, made().2));
    }

    /// By the compressor's own checks or by the snapshot's.
    #[test]
    fn a_file_that_is_not_whole_is_refused() {
        let (file, bytes) = packed();
        let is_whole = |file: &[u8]| {
            unpacked(file, bytes).is_ok_and(|it| it.verify().is_ok_and(|what| what.is_none()))
        };
        for at in (0..file.len()).step_by(41) {
            let mut other = file.clone();
            other[at] ^= 0x10;
            // A checksum that nobody needs, and bits without meaning, may be at the end.
            let same = || unpacked(&other, bytes).is_ok_and(|it| it.header == made().2);
            assert!(!is_whole(&other) || same(), "{at}");
            assert!(!is_whole(&file[..at]), "the first {at} bytes");
        }
        let said = unpacked(b"no such thing", bytes).err().unwrap().to_string();
        assert!(said.contains("f is no file of a snapshot"), "{said}");
    }

    #[test]
    fn a_file_of_another_machine_is_refused_by_what_that_is() {
        let mut header = made().2;
        header.machine = Identity::of("another", "cpu");
        let image = Memory::zeroed(abi::PIECE_UNIT);
        super::super::write_head(&image, &header).unwrap();
        let mut file = Vec::new();
        pack(&image, header.pages.at, &mut file).unwrap();
        let said = unpacked(&file, 1 << 30).err().unwrap().to_string();
        assert!(
            said.contains("f was kept on machine another (cpu cpu), and this one is"),
            "{said}"
        );
    }
}
