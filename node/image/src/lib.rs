//! Images of OS nodes, kernels with what they start from, and snapshots, nodes that sleep: made of files,
//! packages and containers, and kept in memory that every node can read. With them is what they stand in:
//! memory taken from the host, and the nodes that use which image.
//!
//! ```text
//!   files · ingredients (kernel, modules, base, root) --> initramfs, root    made
//!                         |                                   |
//!                         v                                   v
//!   reservation --> image: header | kernel | initramfs | root     sealed     listing: who uses it
//!                   snapshot: header | runs | pages --> file, and back
//!                         |
//!                         v
//!                   load: what a start copies into a node's memory
//! ```
#![forbid(unsafe_code)]

use kumiki_node_wire::{Error, ErrorKind, Result, Subject, json};

mod drivers;
#[doc(hidden)]
pub mod fault;
#[doc(hidden)]
pub mod files;
mod hash;
#[doc(hidden)]
pub mod identity;
#[doc(hidden)]
pub mod image;
#[doc(hidden)]
pub mod ingredients;
#[doc(hidden)]
pub mod initramfs;
#[cfg(test)]
mod killed;
#[doc(hidden)]
pub mod listing;
#[doc(hidden)]
pub mod load;
mod module_file;
#[doc(hidden)]
pub mod needs;
#[doc(hidden)]
pub mod origin;
#[doc(hidden)]
pub mod reservation;
#[doc(hidden)]
pub mod root;
mod shipped;
#[doc(hidden)]
pub mod watchmen;
mod work;

#[doc(hidden)]
pub use image::snapshot;
