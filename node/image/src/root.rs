//! A root from a container image: read and checked, made one file system, kept in an image's
//! memory once, and seen there by every node that starts from it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kumiki_boot::Piece;
use kumiki_node_wire::device;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::abi;
use kumiki_rootfs::{HealthTimes, Limits, Program, Source};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hash::hex;
use crate::origin::Extent;
use crate::work::Work;
use crate::{Error, ErrorKind, Result, Subject, json};

/// Read and put into memory at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// A container image as a root, and what to run in it.
#[derive(Clone, Debug)]
pub struct RootOf {
    /// Source of the root.
    pub source: Source,
    /// Program and arguments instead of those that it names; none: those.
    pub words: Vec<String>,
}

/// A root in an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootPart {
    /// The file system, from a multiple of 2 MiB on.
    #[serde(flatten)]
    pub part: Extent,
    /// Hash of the archives that it was made of.
    pub identity: String,
    /// Hash of the file system's bytes.
    pub sha256: String,
    /// Times of its program's health check.
    #[serde(default)]
    pub health_times: HealthTimes,
}

impl RootPart {
    /// Piece in which a node sees it, if that is one range of memory.
    pub fn piece(&self, pieces: &[Piece]) -> Option<Piece> {
        let bytes = self.part.bytes.checked_next_multiple_of(abi::PIECE_UNIT)?;
        let mut begin = 0;
        for piece in pieces {
            let within = self.part.at.checked_sub(begin)?;
            if within < piece.bytes {
                let fits = bytes <= piece.bytes - within && within % abi::PIECE_UNIT == 0;
                return fits.then(|| Piece { address: piece.address + within, bytes });
            }
            begin += piece.bytes;
        }
        None
    }

    /// Memory that a node's kernel takes for it: what it knows of each page.
    pub fn kernels_bytes(&self) -> u64 {
        self.part.bytes / 64
    }
}

fn refused(error: kumiki_rootfs::Error) -> Error {
    match error {
        kumiki_rootfs::Error::File { path, source } => Error::File { path, source },
        kumiki_rootfs::Error::Unsupported { feature, needs } => {
            Error::Unsupported { feature, needs }
        }
        other => Error::inner(ErrorKind::Invalid, other.to_string()),
    }
}

/// A container image that was read, in a folder of its own.
#[derive(Debug)]
pub struct Unpacked {
    work: Work,
    root: kumiki_rootfs::Root,
}

impl Unpacked {
    /// Reads and checks it. All of it will be in memory, beside what the host keeps.
    pub fn read(of: &RootOf) -> Result<Self> {
        kumiki_rootfs::mkfs().map_err(refused)?;
        let available = device::available_bytes()?.saturating_sub(device::HOST_KEEPS_BYTES);
        let limits = Limits { bytes: available.max(abi::PIECE_UNIT), ..Limits::default() };
        let place = place();
        let work = Work::new_in(&place);
        let work = work.map_err(|error| Error::file(&place, error))?;
        let data = work.path().join("data");
        fs::create_dir(&data).map_err(|error| Error::file(&data, error))?;
        let root = kumiki_rootfs::read(&of.source, &of.words, &data, limits);
        let root = root.map_err(|error| {
            let (Source::Tar(path) | Source::Oci(path) | Source::Docker(path)) = &of.source;
            refused(error).about(|| Subject::File(path.clone()))
        })?;
        Ok(Unpacked { work, root })
    }

    pub fn identity(&self) -> &str {
        self.root.identity()
    }

    /// Contents of [`PROGRAM`].
    pub fn program(&self) -> Result<Vec<u8>> {
        program_json(self.root.program())
    }

    /// Makes it a file system.
    pub fn made(self) -> Result<Made> {
        let root = self.work.path().join("root");
        fs::create_dir(&root).map_err(|error| Error::file(&root, error))?;
        self.root.lay_out(&root).map_err(refused)?;
        let image = self.work.path().join("root.erofs");
        kumiki_rootfs::erofs(&root, &image).map_err(refused)?;
        // Before it is in memory twice.
        fs::remove_dir_all(&root).map_err(|error| Error::file(&root, error))?;
        let failed = |error| Error::file(&image, error);
        let mut file = File::open(&image).map_err(failed)?;
        let mut hash = Sha256::new();
        let bytes = chunks(&mut file, |chunk, _| hash.update(chunk)).map_err(failed)?;
        Ok(Made {
            _work: self.work,
            identity: self.root.identity().to_owned(),
            image,
            bytes,
            sha256: hex(hash),
            health_times: self.root.program().health_times,
        })
    }
}

/// Folder with room for a root: not in memory, if there is a disk.
fn place() -> PathBuf {
    match std::env::var_os("TMPDIR") {
        Some(folder) => folder.into(),
        None if Path::new("/var/tmp").is_dir() => "/var/tmp".into(),
        None => std::env::temp_dir(),
    }
}

fn program_json(program: &Program) -> Result<Vec<u8>> {
    json(program)
}

/// A file system that only has to be copied into memory that stays.
#[derive(Debug)]
pub struct Made {
    _work: Work,
    identity: String,
    image: PathBuf,
    pub bytes: u64,
    sha256: String,
    health_times: HealthTimes,
}

impl Made {
    pub fn part(&self, at: u64) -> RootPart {
        RootPart {
            part: Extent { at, bytes: self.bytes },
            identity: self.identity.clone(),
            sha256: self.sha256.clone(),
            health_times: self.health_times,
        }
    }

    pub fn copy(&self, memory: &Memory, at: u64) -> Result<()> {
        let failed = |error| Error::file(&self.image, error);
        let mut file = File::open(&self.image).map_err(failed)?;
        let bytes = chunks(&mut file, |chunk, offset| {
            memory.write((at + offset) as usize, chunk);
        });
        bytes.map_err(failed).map(drop)
    }
}

/// Hands a file on in pieces with their places; how many bytes it has.
fn chunks(file: &mut File, mut hand_on: impl FnMut(&[u8], u64)) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(at);
        }
        hand_on(&chunk[..count], at);
        at += count as u64;
    }
}

/// The hash of a root in memory.
pub fn sha256(memory: &Memory, part: Extent) -> String {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < part.bytes {
        let length = (part.bytes - at).min(CHUNK_BYTES as u64) as usize;
        memory.read((part.at + at) as usize, &mut chunk[..length]);
        hash.update(&chunk[..length]);
        at += length as u64;
    }
    hex(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_one_range_of_memory() {
        const MIB: u64 = 1 << 20;
        let pieces =
            [(4, 4), (64, 8)].map(|(at, bytes)| Piece { address: at * MIB, bytes: bytes * MIB });
        let at = |at: u64, bytes: u64| {
            let part = Extent { at, bytes };
            let (identity, sha256) = (String::new(), String::new());
            RootPart { part, identity, sha256, health_times: HealthTimes::default() }.piece(&pieces)
        };
        assert_eq!(at(4 * MIB, 1), Some(Piece { address: 64 * MIB, bytes: 2 * MIB }));
        assert_eq!(at(6 * MIB, 6 * MIB), Some(Piece { address: 66 * MIB, bytes: 6 * MIB }));
        // Over an edge, beyond the end, at no place where a node could see it.
        for (begin, bytes) in [(2, 4 * MIB), (6, 7 * MIB), (12, 1), (5, 1), (2, u64::MAX)] {
            assert_eq!(at(begin * MIB, bytes), None);
        }
    }
}
