//! Images: a kernel and an initramfs in memory that every node can read.
//!
//! The first page holds a magic number, a length and that many bytes of JSON;
//! kernel and initramfs follow at multiples of a page. A sealed image is never
//! written again, so a reader relies on what it has checked.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use kumiki_boot::{Kernel, Piece};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::compose::Base;
use crate::device::{self, Device, Kind};
use crate::memory::Memory;
use crate::taking::{self, MemorySource};
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
    /// `sealed`, or `created` if making it did not come to its end.
    pub state: String,
}

impl Image {
    /// Puts a kernel and what belongs into its initramfs into memory.
    pub fn add(name: &str, kernel_file: &Path, base: &Base) -> Result<ImageInfo> {
        let file = fs::read(kernel_file).map_err(|error| Error::file(kernel_file, error))?;
        if tree::all(Kind::Image)?.iter().any(|image| image.name == name) {
            return Err(device::exists(Kind::Image, name));
        }
        // A bare vmlinux has no compressed form.
        let is_bare = file.starts_with(b"\x7fELF");
        let bzimage = if is_bare { None } else { Some(Kernel::compressed(&file)?) };
        let initramfs = base.compose(bzimage.as_ref().and_then(Kernel::release))?;
        // The longest step comes when nothing else can be refused.
        let (kernel, bytes) = Kernel::parse(&file)?;

        let mut hash = Sha256::new();
        hash.update(&file);
        hash.update(&initramfs);
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();

        let kept: &[u8] = if bzimage.is_some() { &file } else { &[] };
        let mut at = HEADER_BYTES;
        let mut place = |bytes: &[u8]| {
            let part = Part { at, bytes: bytes.len() as u64 };
            at = (at + part.bytes).next_multiple_of(PAGE_BYTES);
            part
        };
        let header = Header {
            version: 1,
            sha256,
            kernel,
            kernel_bytes: place(&bytes),
            bzimage,
            bzimage_bytes: place(kept),
            initramfs: place(&initramfs),
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

        let (device, _) = Device::create(Kind::Image, name)?;
        let filled = fill(
            &device,
            total,
            &[
                (16, &json),
                (header.kernel_bytes.at, &bytes),
                (header.bzimage_bytes.at, kept),
                (header.initramfs.at, &initramfs),
            ],
            json.len(),
        );
        if let Err(error) = filled {
            // It would only be in the way; its own error matters more than this one's.
            let _ = device.release();
            return Err(error);
        }
        Ok(ImageInfo {
            name: name.to_owned(),
            release: header.kernel.release().map(str::to_owned),
            bytes: total,
            sha256: Some(header.sha256),
            state: "sealed".to_owned(),
        })
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
                sha256: header
                    .map(|header| header.sha256.clone())
                    .filter(|sha256| !sha256.is_empty()),
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

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Image {
    /// Keeps a kernel in the form that it is shipped in, and nothing else of it. It
    /// is not hashed, which would take longer than all the rest.
    pub(crate) fn keep_compressed(
        name: &str,
        kernel: &Kernel,
        file: &[u8],
        initramfs: &[u8],
    ) -> Result<()> {
        let kernel_bytes = Part { at: HEADER_BYTES, bytes: file.len() as u64 };
        let at = (kernel_bytes.at + kernel_bytes.bytes).next_multiple_of(PAGE_BYTES);
        let header = Header {
            version: 1,
            sha256: String::new(),
            kernel: kernel.clone(),
            kernel_bytes,
            bzimage: Some(kernel.clone()),
            bzimage_bytes: kernel_bytes,
            initramfs: Part { at, bytes: initramfs.len() as u64 },
        };
        let json =
            serde_json::to_vec(&header).map_err(|error| Error::Refused(error.to_string()))?;
        let total = (at + header.initramfs.bytes).next_multiple_of(abi::PIECE_UNIT);
        let (device, _) = Device::create(Kind::Image, name)?;
        let parts = [(16, &json[..]), (kernel_bytes.at, file), (at, initramfs)];
        fill(&device, total, &parts, json.len()).inspect_err(|_| {
            // It would only be in the way; its own error matters more than this one's.
            let _ = device.release();
        })
    }
}

fn fill(device: &Device, total: u64, parts: &[(u64, &[u8])], json_bytes: usize) -> Result<()> {
    let pieces = taking::pieces(device, total, abi::PIECE_UNIT, MemorySource::Any)?;
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
