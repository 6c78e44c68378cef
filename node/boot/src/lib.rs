//! What a stock Linux kernel needs to start in a part of the machine.
//!
//! Bytes in, bytes out: nothing here touches the machine. A kernel image is
//! parsed and its ELF file taken out ([`BzImage`], [`Vmlinux`]), an initramfs put
//! together ([`Initramfs`]), and a [`Partition`] laid out. The result is a
//! [`Plan`]: what to write at which physical address, and where the cpu begins.
//!
//! ```text
//!   low slice L, below 1 MiB          partition's first piece P, first 2 MiB
//!   +--------------------------+     +-----------------------------------+
//!   | trampoline, SIPI's page  |     | boot_params, command line         |
//!   | PML4                     |---->|                                   |
//!   | … both RAM for the node's|     | ACPI: RSDP, XSDT, FADT, MADT, DSDT|
//!   |   real-mode trampoline   |     | PDPT, page directories            |
//!   | RAM that poses as IO-APIC|     +-----------------------------------+
//!   +--------------------------+     | RAM … kernel at P+16M … initramfs |
//!                                    | shared window, the last 2 MiB     |
//!                                    +-----------------------------------+
//! ```
//!
//! [linux-loader](https://docs.rs/linux-loader) does the first half for virtual
//! machines: it loads into a guest's mapped memory and at the address where the
//! kernel was linked. Here the kernel goes elsewhere, and the machine is not ours.
//!
//! ```
//! use kumiki_boot::{Kernel, BzImage, Error};
//!
//! let error = BzImage::parse(b"not a kernel").unwrap_err();
//! assert!(matches!(error, Error::NotAKernel));
//! # let _ = Kernel::parse(b"not a kernel").unwrap_err();
//! ```
#![forbid(unsafe_code)]

mod acpi;
mod archive;
mod bytes;
mod bzimage;
mod command_line;
mod compression;
mod config;
mod decompress;
mod e820;
mod elf;
mod error;
mod initramfs;
mod kernel;
mod lack;
mod lzop;
mod module;
mod paging;
mod params;
mod partition;
mod plan;
mod program;
mod trampoline;
mod wake;
pub mod zstd;

pub use acpi::{Acpi, PciBus, pm_timer};
pub use archive::packing;
pub use bzimage::BzImage;
pub use command_line::CommandLine;
pub use compression::Compression;
pub use config::KernelConfig;
pub use decompress::LIMIT_BYTES;
pub use e820::{Kind, MemoryMap};
pub use elf::{Segment, Vmlinux};
pub use error::{Error, Result};
pub use initramfs::Initramfs;
pub use kernel::{Form, Kernel};
pub use lack::Lack;
pub use module::{loaded_before, module_name};
pub use partition::{Partition, Piece, SLICE_BYTES, WINDOW_BYTES};
pub use plan::{Plan, Source, Write};
pub use program::{Placed, libraries, with_libraries};
pub use wake::Asleep;
