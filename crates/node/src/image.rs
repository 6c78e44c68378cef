//! Images: a kernel and an initramfs in memory that every node can read.
//!
//! The first page holds a magic number, a length and that many bytes of JSON;
//! kernel and initramfs follow at multiples of a page. A sealed image is never
//! written again, so a reader relies on what it has checked.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use kumiki_boot::{Kernel, Partition, Piece};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::compose::{self, Base};
use crate::device::{self, Device, Kind};
use crate::memory::Memory;
use crate::{Error, Result, abi, tree};

const MAGIC: u64 = u64::from_le_bytes(*b"kumikimg");
const PAGE_BYTES: u64 = 4096;
const HEADER_BYTES: u64 = 4 * PAGE_BYTES;

/// Bytes within an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    /// Of the kernel's file and the initramfs.
    sha256: String,
    kernel: Kernel,
    kernel_bytes: Part,
    /// The same kernel as it is shipped.
    bzimage: Option<Kernel>,
    bzimage_bytes: Part,
    initramfs: Part,
    /// Where the kernel's configuration was found that was checked.
    #[serde(default)]
    config: Option<String>,
}

/// An image, mapped for reading.
pub struct Image {
    name: String,
    header: Header,
    memory: Memory,
    // Holds the image: it cannot be removed while a descriptor is open.
    _device: Device,
}

/// An image as it is listed.
#[derive(Debug, Serialize)]
pub struct ImageInfo {
    /// Its name.
    pub name: String,
    /// Its kernel's release, where the image says it.
    pub release: Option<String>,
    /// Physical memory that it takes.
    pub bytes: u64,
    /// Of kernel and initramfs.
    pub sha256: Option<String>,
    /// Where the kernel's configuration was found that was checked; none if none was.
    pub config: Option<String>,
    /// `sealed`, or `created` if making it did not come to its end.
    pub state: String,
}

/// What an image is to be made of, read and not yet uncompressed.
pub(crate) struct Ingredients {
    file: Vec<u8>,
    /// The kernel as it is shipped; a bare vmlinux has no such form.
    bzimage: Option<Kernel>,
    initramfs: Vec<u8>,
    sha256: String,
    kernel_file: PathBuf,
    base: Base,
}

impl Ingredients {
    /// Reads the kernel and what belongs into the initramfs.
    pub(crate) fn read(kernel_file: &Path, base: &Base) -> Result<Self> {
        let file = compose::read(kernel_file)?;
        let is_bare = file.starts_with(b"\x7fELF");
        let bzimage = if is_bare { None } else { Some(Kernel::compressed(&file)?) };
        let initramfs = base.compose(bzimage.as_ref().and_then(Kernel::release))?;
        let mut hash = Sha256::new();
        hash.update(&file);
        hash.update(&initramfs);
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let (kernel_file, base) = (kernel_file.to_owned(), base.clone());
        Ok(Ingredients { file, bzimage, initramfs, sha256, kernel_file, base })
    }

    /// Of the kernel's file and the initramfs.
    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Uncompresses the kernel and lays the image out.
    pub(crate) fn prepare(self) -> Result<Prepared> {
        let (kernel, kernel_bytes) = Kernel::parse(&self.file)?;
        let release = kernel.release();
        let config = self.base.check_config(&self.kernel_file, &kernel_bytes, release)?;
        let file = if self.bzimage.is_some() { self.file } else { Vec::new() };
        let mut at = HEADER_BYTES;
        let mut place = |bytes: &[u8]| {
            let part = Part { at, bytes: bytes.len() as u64 };
            at = (at + part.bytes).next_multiple_of(PAGE_BYTES);
            part
        };
        let header = Header {
            version: 1,
            sha256: self.sha256,
            kernel,
            kernel_bytes: place(&kernel_bytes),
            bzimage: self.bzimage,
            bzimage_bytes: place(&file),
            initramfs: place(&self.initramfs),
            config,
        };
        let total = at.next_multiple_of(abi::PIECE_UNIT);
        let json =
            serde_json::to_vec(&header).map_err(|error| Error::Refused(error.to_string()))?;
        if json.len() as u64 + 16 > HEADER_BYTES {
            return Err(Error::Refused(format!(
                "the kernel's description has {} bytes; at most {} fit: it has too many segments",
                json.len(),
                HEADER_BYTES - 16
            )));
        }
        Ok(Prepared { header, json, kernel: kernel_bytes, file, initramfs: self.initramfs, total })
    }
}

/// An image that only has to be copied into memory that stays.
pub(crate) struct Prepared {
    header: Header,
    json: Vec<u8>,
    kernel: Vec<u8>,
    file: Vec<u8>,
    initramfs: Vec<u8>,
    total: u64,
}

impl Prepared {
    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.total
    }

    /// What a node's first piece needs for it.
    pub(crate) fn first_piece_bytes(&self) -> u64 {
        self.header.first_piece_bytes()
    }

    /// Where its kernel's configuration was found that was checked.
    pub(crate) fn config(&self) -> Option<&str> {
        self.header.config.as_deref()
    }

    /// Puts it into memory under this name.
    pub(crate) fn keep(self, name: &str) -> Result<ImageInfo> {
        let header = self.header;
        let (device, _) = Device::create(Kind::Image, name)?;
        let filled = fill(
            &device,
            self.total,
            &[
                (16, &self.json),
                (header.kernel_bytes.at, &self.kernel),
                (header.bzimage_bytes.at, &self.file),
                (header.initramfs.at, &self.initramfs),
            ],
            self.json.len(),
        );
        if let Err(error) = filled {
            // It would only be in the way; its own error matters more than this one's.
            let _ = device.release();
            return Err(error);
        }
        Ok(ImageInfo {
            name: name.to_owned(),
            release: header.kernel.release().map(str::to_owned),
            bytes: self.total,
            sha256: Some(header.sha256),
            config: header.config,
            state: "sealed".to_owned(),
        })
    }
}

impl Header {
    fn first_piece_bytes(&self) -> u64 {
        Partition::needs(&self.kernel, self.initramfs.bytes)
    }
}

impl Image {
    /// Puts a kernel and what belongs into its initramfs into memory.
    pub fn add(name: &str, kernel_file: &Path, base: &Base) -> Result<ImageInfo> {
        device::probe()?;
        if tree::all(Kind::Image)?.iter().any(|image| image.name == name) {
            return Err(device::exists(Kind::Image, name));
        }
        Ingredients::read(kernel_file, base)?.prepare()?.keep(name)
    }

    /// Maps an image.
    pub fn open(name: &str) -> Result<Self> {
        let device = Device::read(Kind::Image, name)?;
        let entry = tree::one(Kind::Image, name)?;
        if entry.state != "sealed" {
            return Err(Error::Refused(format!(
                "image {name} is not complete: its making was interrupted; kumiki image rm {name}"
            )));
        }
        let memory = device.map(&entry.pieces, false)?;
        let header = header(name, &memory)?;
        Ok(Image { name: name.to_owned(), header, memory, _device: device })
    }

    /// All images.
    pub fn list() -> Result<Vec<ImageInfo>> {
        let describe = |entry: tree::Entry| {
            let open = (entry.state == "sealed").then(|| Image::open(&entry.name)).transpose()?;
            let header = open.as_ref().map(|image| &image.header);
            Ok(ImageInfo {
                release: header.and_then(|header| header.kernel.release()).map(str::to_owned),
                sha256: header.map(|header| header.sha256.clone()),
                config: header.and_then(|header| header.config.clone()),
                bytes: entry.pieces.iter().map(|piece| piece.bytes).sum(),
                name: entry.name,
                state: entry.state,
            })
        };
        tree::all(Kind::Image)?.into_iter().map(describe).collect()
    }

    /// Gives its memory back. Nodes that run have copies.
    pub fn remove(name: &str) -> Result<()> {
        Device::own(Kind::Image, name)?.release()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel in one of its forms, and its bytes.
    pub(crate) fn kernel(&self, compressed: bool) -> Result<(&Kernel, Part)> {
        if !compressed {
            return Ok((&self.header.kernel, self.header.kernel_bytes));
        }
        let bzimage = self.header.bzimage.as_ref().ok_or_else(|| {
            Error::Refused(format!("image {} was made of a vmlinux and has no bzImage", self.name))
        })?;
        Ok((bzimage, self.header.bzimage_bytes))
    }

    pub(crate) fn initramfs(&self) -> Part {
        self.header.initramfs
    }

    /// What a node's first piece needs for it.
    pub(crate) fn first_piece_bytes(&self) -> u64 {
        self.header.first_piece_bytes()
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}

fn fill(device: &Device, total: u64, parts: &[(u64, &[u8])], json_bytes: usize) -> Result<()> {
    let pieces = device.pieces(total, abi::PIECE_UNIT)?;
    let memory = device.map(&pieces, true)?;
    memory.u64(0).store(MAGIC, Ordering::Relaxed);
    memory.u64(8).store(json_bytes as u64, Ordering::Relaxed);
    parts.iter().for_each(|(at, bytes)| memory.write(*at as usize, bytes));
    // Nobody may have it mapped when it is sealed.
    drop(memory);
    device.seal()
}

fn header(name: &str, memory: &Memory) -> Result<Header> {
    let damaged = |why: String| {
        Error::Refused(format!(
            "image {name} is damaged ({why}): something wrote to its memory; kumiki image rm {name}"
        ))
    };
    let length = memory.u64(8).load(Ordering::Relaxed);
    if memory.u64(0).load(Ordering::Relaxed) != MAGIC || length + 16 > HEADER_BYTES {
        return Err(damaged("its header is not there".into()));
    }
    let mut json = vec![0; length as usize];
    memory.read(16, &mut json);
    let header: Header =
        serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
    for part in [header.kernel_bytes, header.bzimage_bytes, header.initramfs] {
        if part.at.checked_add(part.bytes).is_none_or(|end| end > memory.bytes() as u64) {
            return Err(damaged(format!("a part at {:#x} of {} bytes", part.at, part.bytes)));
        }
    }
    Ok(header)
}

/// One piece's range of addresses as text, for people.
pub(crate) fn range(piece: &Piece) -> String {
    format!("{:#x}-{:#x}", piece.address, piece.end())
}
