//! What a durable place has, in files that outlive its process: a log of what it has done, group-committed, and
//! snapshots.
//!
//! ```text
//!  place's thread ── record of each operation ──▶ log ── one flush for all ──▶ log-0000000000000007
//!        ▲                                         │       that have come        log-000000000000002c
//!        ╰── answers leave when they are flushed ◀─╯
//!                      closed logs + snapshot ── written anew, of the files alone ──▶ snapshot-000000000000002c
//! ```
//!
//! The form of the files is on one page of `docs/design/places.md` (*Kept*).

pub mod disk;
pub(crate) mod entry;
pub(crate) mod frame;
pub(crate) mod image;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod segments;
pub(crate) mod snapshot;

pub use disk::{Disk, DiskFile, Folder};
