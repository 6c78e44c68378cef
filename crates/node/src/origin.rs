//! What a start copies from: an image that stays in memory, or files read for it.

use std::fs;
use std::path::{Path, PathBuf};

use kumiki_boot::Kernel;

use crate::image::{Image, Part};
use crate::memory::Memory;
use crate::needs::Needs;
use crate::{Error, Result};

/// A kernel and an initramfs to start from.
pub(crate) struct Origin<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) kernel_bytes: Bytes<'a>,
    pub(crate) initramfs: Bytes<'a>,
    /// Memory that its files take once they are unpacked, as far as that is known.
    pub(crate) unpacked_bytes: u64,
    /// Whether the kernel wants a foreign cpu listed first; the uncompressed one tells.
    pub(crate) checks_bsp_bit: bool,
}

impl Origin<'_> {
    /// What a node needs for it.
    pub(crate) fn needs(&self) -> Needs {
        Needs::of(self.kernel, self.initramfs.length(), self.unpacked_bytes)
    }
}

pub(crate) enum Bytes<'a> {
    Resident(&'a Memory, Part),
    Read(&'a [u8]),
}

impl Bytes<'_> {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Bytes::Resident(_, part) => part.bytes,
            Bytes::Read(bytes) => bytes.len() as u64,
        }
    }

    /// Copies some of them to a place in `to`.
    pub(crate) fn copy(&self, offset: u64, bytes: u64, to: &Memory, at: usize) {
        match self {
            Bytes::Resident(from, part) => {
                to.copy(at, from, (part.at + offset) as usize, bytes as usize);
            }
            Bytes::Read(from) => to.write(at, &from[offset as usize..][..bytes as usize]),
        }
    }
}

/// A kernel as it is shipped and the initramfs for it, as files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The bzImage.
    pub kernel: PathBuf,
    /// The initramfs, with agent and module in it: see [`Image::save`].
    pub initramfs: PathBuf,
}

/// Files in this process's memory.
pub(crate) struct Read {
    kernel: Kernel,
    file: Vec<u8>,
    initramfs: Vec<u8>,
}

impl Files {
    pub(crate) fn read(&self) -> Result<Read> {
        let read = |path: &Path| fs::read(path).map_err(|error| Error::file(path, error));
        let file = read(&self.kernel)?;
        let initramfs = read(&self.initramfs)?;
        Ok(Read { kernel: Kernel::compressed(&file)?, file, initramfs })
    }
}

impl Read {
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin {
            kernel: &self.kernel,
            kernel_bytes: Bytes::Read(&self.file),
            initramfs: Bytes::Read(&self.initramfs),
            unpacked_bytes: self.initramfs.len() as u64,
            checks_bsp_bit: false,
        }
    }

    /// Keeps them as an image that has the kernel in this form only.
    pub(crate) fn keep(&self, name: &str) -> Result<()> {
        Image::keep_compressed(name, &self.kernel, &self.file, &self.initramfs)
    }
}

impl Image {
    /// Writes its kernel, as it is shipped, and its initramfs to files.
    pub fn save(&self, files: &Files) -> Result<()> {
        for (path, part) in
            [(&files.kernel, self.kernel(true)?.1), (&files.initramfs, self.initramfs())]
        {
            let mut bytes = vec![0; part.bytes as usize];
            self.memory().read(part.at as usize, &mut bytes);
            fs::write(path, bytes).map_err(|error| Error::file(path, error))?;
        }
        Ok(())
    }

    /// To start from it with its kernel in one of its forms.
    pub(crate) fn origin(&self, compressed: bool) -> Result<Origin<'_>> {
        let (kernel, part) = self.kernel(compressed)?;
        Ok(Origin {
            kernel,
            kernel_bytes: Bytes::Resident(self.memory(), part),
            initramfs: Bytes::Resident(self.memory(), self.initramfs()),
            unpacked_bytes: self.unpacked_bytes(),
            checks_bsp_bit: self.kernel(false)?.0.checks_bsp_bit() == Some(true),
        })
    }
}
