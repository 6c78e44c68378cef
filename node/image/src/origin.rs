//! Sources that a start copies from: an image that stays in memory, or files read for it.

use kumiki_boot::{Kernel, Piece};
use kumiki_node_wire::memory::Memory;
use serde::{Deserialize, Serialize};

use crate::needs::Needs;

/// Bytes within an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub at: u64,
    pub bytes: u64,
}

/// A kernel and an initramfs to start from.
#[derive(Debug)]
pub struct Origin<'a> {
    pub kernel: &'a Kernel,
    pub kernel_bytes: Bytes<'a>,
    pub initramfs: Bytes<'a>,
    /// Memory that its files take once they are unpacked, as far as that is known.
    pub unpacked_bytes: u64,
    /// True if the kernel wants a foreign cpu listed first; the uncompressed one tells.
    pub checks_bsp_bit: bool,
    /// Memory in which the node sees its root.
    pub root: Option<Piece>,
}

impl Origin<'_> {
    /// Needs of a node for it.
    pub fn needs(&self) -> Needs {
        let root = self.root.map_or(0, |root| root.bytes / 64);
        Needs::of(self.kernel, self.initramfs.length(), self.unpacked_bytes).beside(root)
    }
}

#[derive(Debug)]
pub enum Bytes<'a> {
    Resident(&'a Memory, Extent),
    Read(&'a [u8]),
}

impl Bytes<'_> {
    pub fn length(&self) -> u64 {
        match self {
            Bytes::Resident(_, part) => part.bytes,
            Bytes::Read(bytes) => bytes.len() as u64,
        }
    }

    /// Copies some of them to a place in `to`.
    pub fn copy(&self, offset: u64, bytes: u64, to: &Memory, at: usize) {
        match self {
            Bytes::Resident(from, part) => {
                to.copy(at, from, (part.at + offset) as usize, bytes as usize);
            }
            Bytes::Read(from) => to.write(at, &from[offset as usize..][..bytes as usize]),
        }
    }
}
