//! Files that outlive their process: a log of frames, each flushed at once before the next one is written, and
//! snapshots that take the place of what was closed.
//!
//! ```text
//!  records ──▶ frame ── write, flush ──▶ log-0000000000000007   (the next file is made ahead)
//!                                        log-000000000000002c
//!       closed logs, or what they come to ──▶ snapshot-000000000000002c
//! ```
//!
//! What heads and records say is their user's. Whoever answers for something only when [`Segments::write`] has returned
//! has not answered for anything that is lost. The form is on one page of `docs/design/places.md` (*Kept*).
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

#[cfg(test)]
mod crashes;
mod disk;
mod error;
mod files;
mod frame;
mod segments;
mod snapshot;
#[cfg(test)]
mod tests;
mod view;

pub use disk::{Disk, DiskFile, Folder, failed, is_full};
pub use error::{Error, Result};
pub use files::{Found, Reader, log_name, read, read_on, settle, snapshot_name};
pub use frame::size;
pub use segments::{Segments, say_left};
pub use snapshot::{Snapshot, sweep};
pub use view::FolderView;
