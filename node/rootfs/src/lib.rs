//! A container image's files as one read-only file system.
//!
//! ```text
//!   FILE.tar, oci:DIR,            Tree: names, owners,        folder        erofs
//!   docker-archive:FILE  --read-> modes, attributes --lay_out-> of this --> image
//!   layers, each checked          Store: contents             machine
//! ```
//!
//! What is in an archive is somebody else's word. So nothing of it is done while it is
//! read: names, links and whiteouts change a tree in memory, contents go to numbered
//! files, and what must not be is refused by its name. Only then is the tree laid out in
//! an empty folder, where no name leads anywhere else, since each folder on the way was
//! made a moment before.
//!
//! ```
//! use kumiki_rootfs::Source;
//!
//! assert_eq!(Source::parse("oci:/srv/nginx"), Source::Oci("/srv/nginx".into()));
//! assert_eq!(Source::parse("root.tar"), Source::Tar("root.tar".into()));
//! ```
#![forbid(unsafe_code)]

mod archive;
mod blobs;
mod docker;
mod erofs;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fixtures;
mod header;
mod lay_out;
mod layer;
mod limits;
mod oci;
mod packed;
mod pax;
mod pieces;
mod program;
mod read;
mod source;
mod sparse;
mod store;
mod tree;

pub use erofs::{erofs, mkfs};
pub use error::{Error, Result};
pub use limits::Limits;
pub use program::{HealthTimes, Program};
pub use read::{Root, read};
pub use source::Source;
