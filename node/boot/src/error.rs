//! What can be wrong with an image or a partition.

use std::path::PathBuf;

use thiserror::Error;

use crate::{Compression, Lack};

/// Reason for which a kernel cannot be started as asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file ends before what its header promises.
    #[error(
        "the kernel image is truncated: {what} needs {need} bytes and the file has {have}; \
         copy the file again"
    )]
    Truncated {
        /// Field that was to be read.
        what: &'static str,
        /// Bytes up to its end.
        need: u64,
        /// Bytes of the file.
        have: u64,
    },
    /// Neither a bzImage nor an ELF file.
    #[error(
        "this is no Linux kernel image: neither the boot sector's mark 0xaa55 with \"HdrS\" nor \
         an ELF header is there; give a bzImage (/boot/vmlinuz-*) or a vmlinux"
    )]
    NotAKernel,
    /// A setup header that a node cannot be started with.
    #[error("the bzImage's {field} is {value:#x}: {needs}")]
    Header {
        /// Field of the setup header.
        field: &'static str,
        /// Value that stands there.
        value: u64,
        /// Values that are right.
        needs: &'static str,
    },
    /// A payload that no known decompressor begins with.
    #[error(
        "the bzImage's payload begins with {0:02x?}, which is none of gzip, bzip2, lzma, xz, lzo, \
         lz4, zstd or ELF"
    )]
    UnknownCompression([u8; 6]),
    /// A decompressor stopped.
    #[error("the kernel's {compression} payload does not decompress: {reason}")]
    Decompress {
        /// The compression.
        compression: Compression,
        /// The decompressor's reason.
        reason: String,
    },
    /// More comes out than any kernel has.
    #[error("the kernel's {compression} payload has more than {limit_bytes} bytes uncompressed")]
    TooLarge {
        /// The compression whose decompressor it is.
        compression: Compression,
        /// The limit.
        limit_bytes: u64,
    },
    /// Other bytes come out than the image announces.
    #[error(
        "the kernel's payload has {have} bytes uncompressed where the image says {announced}; \
         the file is damaged"
    )]
    WrongSize {
        /// Size by the image's last four bytes.
        announced: u64,
        /// Bytes that came out.
        have: u64,
    },
    /// An ELF file that is no kernel for this processor.
    #[error("the kernel's ELF file: {0}")]
    Elf(String),
    /// No line of a configuration sets an option.
    #[error("this is no kernel configuration: no line sets a CONFIG_ option")]
    NotAConfig,
    /// A kernel that was built so that no node can be started with it.
    #[error("the kernel was built {}: no node starts so; choose another kernel", list(.0))]
    Config(Vec<Lack>),
    /// A partition that cannot hold what is to be put there.
    #[error("the partition {problem}: {value:#x}; {needs}")]
    Partition {
        /// Fault of the file.
        problem: &'static str,
        /// The value.
        value: u64,
        /// Way out.
        needs: &'static str,
    },
    /// Kernel and initramfs do not fit.
    #[error(
        "the partition's first piece has {have} bytes; kernel, initramfs and tables need {need}: \
         give the node more memory, or a smaller initramfs"
    )]
    TooSmall {
        /// Bytes needed.
        need: u64,
        /// Bytes there are.
        have: u64,
    },
    /// A command line longer than the kernel reads.
    #[error("the kernel's command line has {have} bytes; this kernel reads at most {limit}")]
    CommandLine {
        /// Its length.
        have: usize,
        /// The kernel's limit.
        limit: usize,
    },
    /// A program of this machine that cannot go into an initramfs.
    #[error("{}: {reason}", path.display())]
    Program {
        /// Its file.
        path: PathBuf,
        /// Fault, and the way out.
        reason: String,
    },
    /// An initrd or overlay that no kernel unpacks to its end.
    #[error(
        "at byte {at} is {what}; give an archive as `cpio -o -H newc` writes it, as it is or packed"
    )]
    Archive {
        /// Address in the plan.
        at: u64,
        /// Content at that address.
        what: &'static str,
    },
    /// An initramfs that cannot be written.
    #[error("the initramfs entry {name:?}: {reason}")]
    Initramfs {
        /// Path in the archive.
        name: String,
        /// Fault of the field.
        reason: String,
    },
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn list(lacks: &[Lack]) -> String {
    lacks.iter().map(Lack::to_string).collect::<Vec<_>>().join(", ")
}
