//! Ingredients of images: read, laid out, and put into memory that stays.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use kumiki_boot::Kernel;
use kumiki_node_wire::device::{self, Device};
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, requests, sysfs};
use kumiki_node_wire::stages::{LoadParts, timed};

use crate::drivers;
use crate::image::{
    HEADER_BYTES, Header, Image, ImageInfo, ImageKind, PAGE_BYTES, content_hash, fill, link,
    same_content, whole,
};
use crate::initramfs::Base;
use crate::module_file;
use crate::needs::Needs;
use crate::origin::{Bytes, Extent, Origin};
use crate::root::{Made, Unpacked};
use crate::shipped::Shipped;
use crate::watchmen::abandon;
use crate::{Error, ErrorKind, Result, Subject, json};

/// Parts of an image to be, read and not yet uncompressed.
#[derive(Debug)]
pub struct Ingredients {
    file: Vec<u8>,
    /// The kernel as it is shipped; a bare vmlinux has no such form.
    bzimage: Option<Kernel>,
    initramfs: Vec<u8>,
    unpacked_bytes: u64,
    /// Taken when it is first asked for.
    sha256: OnceCell<String>,
    /// Trimmed bytes of a bare vmlinux.
    trimmed: Option<Vec<u8>>,
    /// The file with the kernel's configuration, if there is one.
    config: Option<String>,
    kernel_file: PathBuf,
    base: Base,
    /// The container image that is its root.
    root: Option<Unpacked>,
}

impl Ingredients {
    /// Reads the kernel and what belongs into the initramfs.
    pub fn read(kernel_file: &Path, base: &Base) -> Result<Self> {
        let read = Self::of_files(kernel_file, base);
        read.map_err(|error| error.about(|| Subject::File(kernel_file.to_owned())))
    }

    fn of_files(kernel_file: &Path, base: &Base) -> Result<Self> {
        let file = module_file::read(kernel_file)?;
        let is_bare = file.starts_with(b"\x7fELF");
        let bzimage = if is_bare { None } else { Some(Kernel::compressed(&file)?) };
        let trimmed = if is_bare { Some(Kernel::parse(&file)?) } else { None };
        let kernel = bzimage.as_ref().or(trimmed.as_ref().map(|(kernel, _)| kernel));
        let release = kernel.and_then(Kernel::release);
        let config = base.check_config(kernel_file, release)?;
        if base.root.is_some() {
            drivers::has_of_root(release)?;
        }
        let root = base.root.as_ref().map(Unpacked::read).transpose()?;
        let program = root.as_ref().map(Unpacked::program).transpose()?;
        let (initramfs, unpacked_bytes) = base.compose(release, program.as_deref())?;
        let (kernel_file, base) = (kernel_file.to_owned(), base.clone());
        Ok(Ingredients {
            file,
            bzimage,
            initramfs,
            unpacked_bytes,
            sha256: OnceCell::new(),
            trimmed: trimmed.map(|(_, bytes)| bytes),
            config,
            kernel_file,
            base,
            root,
        })
    }

    /// Hash of the kernel and the initramfs, as [`ImageInfo::sha256`].
    pub fn sha256(&self) -> &str {
        // Of what is in memory: a bare vmlinux's trimmed bytes.
        let kernel = self.trimmed.as_ref().unwrap_or(&self.file);
        let root = self.root.as_ref().map(Unpacked::identity);
        self.sha256.get_or_init(|| content_hash(kernel, &self.initramfs, root))
    }

    /// An image of the same content, if one is in memory. Nothing is hashed where none has
    /// the same lengths.
    pub fn resident(&self) -> Result<Option<String>> {
        let kernel = self.trimmed.as_ref().unwrap_or(&self.file).len() as u64;
        let same_lengths = |header: &Header| {
            let own =
                if header.bzimage.is_some() { header.bzimage_bytes } else { header.kernel_bytes };
            own.bytes == kernel && header.initramfs.bytes == self.initramfs.len() as u64
        };
        for entry in sysfs::all(Holding::Image)?.into_iter().filter(|entry| entry.state == "sealed")
        {
            let header = whole(&entry)?.filter(same_lengths);
            if header.is_some_and(|header| header.sha256 == self.sha256()) {
                return Ok(Some(entry.name));
            }
        }
        Ok(None)
    }

    /// Name of an image of this content that nobody has named.
    pub fn name(&self) -> String {
        format!("kept-{}", &self.sha256()[..12])
    }

    fn shipped(&self) -> Option<Shipped<'_>> {
        Some(Shipped {
            kernel: self.bzimage.as_ref()?,
            file: &self.file,
            initramfs: &self.initramfs,
            unpacked_bytes: self.unpacked_bytes,
            config: self.config.clone(),
        })
    }

    /// Origin of a start from it as it is, unless that is a bare vmlinux.
    pub fn as_shipped(&self) -> Option<Origin<'_>> {
        debug_assert!(self.root.is_none(), "a root is seen where it is kept");
        Some(Origin {
            kernel: self.bzimage.as_ref()?,
            kernel_bytes: Bytes::Read(&self.file),
            initramfs: Bytes::Read(&self.initramfs),
            unpacked_bytes: self.unpacked_bytes,
            checks_bsp_bit: false,
            root: None,
        })
    }

    /// Puts it into memory with its kernel in that form only.
    pub fn keep_as_shipped(&self, parts: &mut LoadParts) -> Result<ImageInfo> {
        let shipped = self.shipped().expect("it is asked for where there is such a form");
        // Here the hash is taken, of what no image had the lengths of.
        let sha256 = timed(&mut parts.keep_ms, || self.sha256().to_owned());
        shipped.keep(&self.name(), sha256, parts)
    }

    /// Uncompresses the kernel and lays the image out.
    pub fn prepare(self) -> Result<Prepared> {
        let sha256 = self.sha256().to_owned();
        let parsed = Kernel::parse(&self.file).map_err(Error::from);
        let of_file = |error: Error| error.about(|| Subject::File(self.kernel_file.clone()));
        let (kernel, kernel_bytes) = parsed.map_err(of_file)?;
        let config = match self.config {
            None => self.base.check_own_config(&self.kernel_file, &kernel_bytes)?,
            checked => checked,
        };
        let file = if self.bzimage.is_some() { self.file } else { Vec::new() };
        let root = self.root.map(Unpacked::made).transpose()?;
        let mut at = HEADER_BYTES;
        let mut place = |bytes: &[u8]| {
            let part = Extent { at, bytes: bytes.len() as u64 };
            at = (at + part.bytes).next_multiple_of(PAGE_BYTES);
            part
        };
        let mut header = Header {
            version: 1,
            sha256,
            kernel,
            kernel_bytes: place(&kernel_bytes),
            bzimage: self.bzimage,
            bzimage_bytes: place(&file),
            initramfs: place(&self.initramfs),
            unpacked_bytes: self.unpacked_bytes,
            config,
            root: None,
        };
        at = at.next_multiple_of(abi::PIECE_UNIT);
        header.root = root.as_ref().map(|root| root.part(at));
        let total = at + root.as_ref().map_or(0, |root| root.bytes);
        let total = total.next_multiple_of(abi::PIECE_UNIT);
        let json = json(&header)?;
        if json.len() as u64 + 16 > HEADER_BYTES {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::limit(
                    "bytes of a kernel's description",
                    json.len(),
                    HEADER_BYTES as usize - 16,
                ),
                format!(
                    "the kernel's description has {} bytes; at most {} fit: it has too many segments",
                    json.len(),
                    HEADER_BYTES - 16
                ),
            ));
        }
        Ok(Prepared {
            header,
            json,
            kernel: kernel_bytes,
            file,
            initramfs: self.initramfs,
            root,
            total,
        })
    }
}

/// An image that only has to be copied into memory that stays.
#[derive(Debug)]
pub struct Prepared {
    header: Header,
    json: Vec<u8>,
    kernel: Vec<u8>,
    file: Vec<u8>,
    initramfs: Vec<u8>,
    root: Option<Made>,
    total: u64,
}

impl Prepared {
    /// Memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.total
    }

    /// Needs of a node for it.
    pub fn needs(&self) -> Needs {
        self.header.needs()
    }

    /// Place of its kernel's configuration, if that was checked.
    pub fn config(&self) -> Option<&str> {
        self.header.config.as_deref()
    }

    /// Origin of a start with its uncompressed kernel.
    pub fn origin(&self) -> Origin<'_> {
        Origin {
            kernel: &self.header.kernel,
            kernel_bytes: Bytes::Read(&self.kernel),
            initramfs: Bytes::Read(&self.initramfs),
            unpacked_bytes: self.header.unpacked_bytes,
            checks_bsp_bit: self.header.kernel.checks_bsp_bit() == Some(true),
            root: None,
        }
    }

    /// Puts it into memory under this name.
    pub fn keep(&self, name: &str) -> Result<ImageInfo> {
        let header = &self.header;
        if let Some(known) = same_content(&header.sha256)? {
            return link(name, &known);
        }
        let (device, _) = Device::create(Holding::Image, name)?;
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
            self.root.as_ref().zip(header.root.as_ref().map(|root| root.part.at)),
        );
        if let Err(error) = filled {
            abandon(&device);
            return Err(error);
        }
        Ok(ImageInfo {
            name: name.to_owned(),
            kind: ImageKind::Kernel,
            of: None,
            release: header.kernel.release().map(str::to_owned),
            bytes: self.total,
            sha256: Some(header.sha256.clone()),
            config: header.config.clone(),
            state: "sealed".to_owned(),
            nodes: Vec::new(),
            same_as: Vec::new(),
        })
    }
}

impl Image {
    /// Puts a kernel and what belongs into its initramfs into memory.
    pub fn add(name: &str, kernel_file: &Path, base: &Base) -> Result<ImageInfo> {
        requests::probe()?;
        if sysfs::all(Holding::Image)?.iter().any(|image| image.name == name) {
            return Err(device::exists(Holding::Image, name));
        }
        let ingredients = Ingredients::read(kernel_file, base)?;
        // Before the longest step.
        match same_content(ingredients.sha256())? {
            Some(known) => {
                let config = ingredients.config;
                link(name, &known).map(|info| ImageInfo { config: config.or(info.config), ..info })
            }
            None => ingredients.prepare()?.keep(name),
        }
    }
}
