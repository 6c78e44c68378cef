//! Kernel and initramfs as files: what a start reads that finds no image.

use std::fs;
use std::path::{Path, PathBuf};

use kumiki_boot::Kernel;
use kumiki_node_wire::stages::{LoadParts, timed};

use crate::image::{Image, ImageInfo, KernelForm, content_hash};
use crate::origin::{Bytes, Origin};
use crate::shipped::Shipped;
use crate::{Error, Result};

/// A kernel as it is shipped and the initramfs for it, as files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The bzImage.
    pub kernel: PathBuf,
    /// The initramfs, with agent and module in it: see [`Image::save`].
    pub initramfs: PathBuf,
}

/// Files in this process's memory.
#[derive(Debug)]
pub struct Read {
    kernel: Kernel,
    file: Vec<u8>,
    initramfs: Vec<u8>,
}

impl Files {
    pub fn read(&self, parts: &mut LoadParts) -> Result<Read> {
        let read = |path: &Path| fs::read(path).map_err(|error| Error::file(path, error));
        let file = timed(&mut parts.read_kernel_ms, || read(&self.kernel))?;
        let initramfs = timed(&mut parts.read_initramfs_ms, || read(&self.initramfs))?;
        Ok(Read { kernel: Kernel::compressed(&file)?, file, initramfs })
    }
}

impl Read {
    pub fn origin(&self) -> Origin<'_> {
        Origin {
            kernel: &self.kernel,
            kernel_bytes: Bytes::Read(&self.file),
            initramfs: Bytes::Read(&self.initramfs),
            unpacked_bytes: self.initramfs.len() as u64,
            checks_bsp_bit: false,
            root: None,
        }
    }

    /// Keeps them as an image that has the kernel in this form only.
    pub fn keep(&self, name: &str, parts: &mut LoadParts) -> Result<ImageInfo> {
        let sha256 = content_hash(&self.file, &self.initramfs, None);
        let shipped = Shipped {
            kernel: &self.kernel,
            file: &self.file,
            initramfs: &self.initramfs,
            unpacked_bytes: 0,
            config: None,
        };
        shipped.keep(name, sha256, parts)
    }
}

impl Image {
    /// Writes its kernel, as it is shipped, and its initramfs to files.
    pub fn save(&self, files: &Files) -> Result<()> {
        for (path, part) in [
            (&files.kernel, self.kernel(KernelForm::BzImage)?.1),
            (&files.initramfs, self.initramfs()),
        ] {
            let mut bytes = vec![0; part.bytes as usize];
            self.memory().read(part.at as usize, &mut bytes);
            fs::write(path, bytes).map_err(|error| Error::file(path, error))?;
        }
        Ok(())
    }

    /// Origin of a start with its kernel in one of its forms.
    pub fn origin(&self, form: KernelForm) -> Result<Origin<'_>> {
        let (kernel, part) = self.kernel(form)?;
        Ok(Origin {
            kernel,
            kernel_bytes: Bytes::Resident(self.memory(), part),
            initramfs: Bytes::Resident(self.memory(), self.initramfs()),
            unpacked_bytes: self.unpacked_bytes(),
            checks_bsp_bit: self.kernel(KernelForm::Vmlinux)?.0.checks_bsp_bit() == Some(true),
            root: self.root(),
        })
    }
}
