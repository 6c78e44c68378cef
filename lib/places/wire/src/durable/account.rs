//! What a log's owner and the log's thread share: records that have come, room for them, and what is flushed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::error::Error;

/// Interval between two tries to make room on a disk that had none.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// Records of a log that are flushed.
#[derive(Clone, Debug, Default)]
pub struct Flushed {
    /// Number of the last record that is flushed, from 1 on.
    pub upto: u64,
    /// Reason for which nothing more is.
    pub failed: Option<Arc<Error>>,
}

/// Order to the thread of a log.
#[derive(Debug)]
pub(super) enum Order {
    Record(Vec<u8>),
    /// Room for a record that is longer than what is made ahead.
    Room,
    /// The last word: all leaves for another folder.
    Leave(Vec<u8>),
}

/// An account of records that have come, of room for them, and of the files.
#[derive(Debug)]
pub(super) struct Account {
    /// Number of the last record.
    pub(super) appended: u64,
    /// Bytes of those that are not written yet.
    pub(super) waits: u64,
    /// Bytes of records that can be written whatever comes, as each of them is in one file.
    pub(super) fits: u64,
    /// Reason for which there is no more room.
    pub(super) full: Option<String>,
    /// Room that was asked for, as it is more than what is made ahead.
    pub(super) longer: Option<Longer>,
    /// Name and bytes of the snapshot.
    pub(super) snapshot: Option<(String, u64)>,
    /// Closed logs behind it, by their first frames, and their bytes.
    pub(super) closed: Vec<(u64, u64)>,
    /// The log that is written, and its flushed bytes.
    pub(super) now: (u64, u64),
    /// No snapshot is begun before this.
    pub(super) pinned: Option<Instant>,
}

/// Room for a record that is longer than what is made ahead.
#[derive(Debug)]
pub(super) struct Longer {
    pub(super) bytes: u64,
    /// Moment and reason for which it could not be made; none as long as it is tried.
    pub(super) refused: Option<(Instant, String)>,
}

pub(super) fn held(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that nothing more is flushed.
pub(super) fn fail(tell: &watch::Sender<Flushed>, error: Error) {
    tell.send_modify(|flushed| _ = flushed.failed.get_or_insert(Arc::new(error)));
}

/// Bytes that a record takes, at most.
pub(super) fn size(record: &[u8]) -> u64 {
    kumiki_journal::size(record.len()) as u64
}
