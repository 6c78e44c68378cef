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

pub(crate) mod entry;
pub(crate) mod image;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod snapshot;

pub use kumiki_journal::{Disk, DiskFile, Folder};

use crate::error::Result;

/// True if files are those of a place; not if that has left them for another folder.
///
/// # Errors
/// [`Error::Rotten`](crate::Error::Rotten), [`Error::OtherForm`](crate::Error::OtherForm); the disk's.
pub fn has_place(disk: &dyn Disk) -> Result<bool> {
    let loaded = load::load(disk, None)?;
    Ok(loaded.head.is_some() && loaded.found.left.is_none())
}
