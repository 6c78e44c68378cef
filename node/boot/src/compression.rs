//! How the kernel inside a bzImage is compressed.
//!
//! The list is that of the kernel's `arch/x86/boot/compressed/Makefile`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way in which distributions compress their kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// `CONFIG_KERNEL_GZIP`
    Gzip,
    /// `CONFIG_KERNEL_BZIP2`
    Bzip2,
    /// `CONFIG_KERNEL_LZMA`
    Lzma,
    /// `CONFIG_KERNEL_XZ`, Debian 12
    Xz,
    /// `CONFIG_KERNEL_LZO`
    Lzo,
    /// `CONFIG_KERNEL_LZ4`
    Lz4,
    /// `CONFIG_KERNEL_ZSTD`, Debian 13
    Zstd,
    /// `CONFIG_KERNEL_UNCOMPRESSED`
    None,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::Gzip => "gzip",
            Compression::Bzip2 => "bzip2",
            Compression::Lzma => "lzma",
            Compression::Xz => "xz",
            Compression::Lzo => "lzo",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
            Compression::None => "uncompressed",
        })
    }
}
