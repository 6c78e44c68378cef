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
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod account;
#[doc(hidden)]
pub mod entry;
#[doc(hidden)]
pub mod image;
#[doc(hidden)]
pub mod leaving;
#[doc(hidden)]
pub mod load;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod snapshot;
#[doc(hidden)]
pub mod state_sizes;
#[doc(hidden)]
pub mod unflushed;
mod writer;

pub use kumiki_journal::{Disk, DiskFile, Folder};

use crate::error::Result;

/// Name of the file beside a copy of which it is not known whether the place has left its former folder.
#[doc(hidden)]
pub const ARRIVING: &str = "arriving";

/// True if files are those of a place; not if that has left them for another folder, or may not have come.
///
/// # Errors
/// [`Error::Rotten`](crate::Error::Rotten), [`Error::OtherForm`](crate::Error::OtherForm); the disk's.
pub fn has_place(disk: &dyn Disk) -> Result<bool> {
    let names = disk.list().map_err(kumiki_journal::failed("reading the folder", disk, ""))?;
    if names.iter().any(|name| name == ARRIVING) {
        return Ok(false);
    }
    let loaded = load::load(disk)?;
    Ok(loaded.head.is_some() && loaded.found.left.is_none())
}
