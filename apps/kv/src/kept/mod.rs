//! Keys that outlive their process (`--durable FOLDER`): one log of all shards, flushed before an answer leaves.
//!
//! ```text
//!  command in a shard ──▶ records ──▶ pending ─╮   a worker that has run what its clients sent,
//!                                              │   before it sends the answers:
//!  answers wait ◀──── one flush for all ◀──────╯   whoever comes first flushes for all
//! ```
//!
//! What is written is what has come of a command: a value, a time, that a key has gone. So it is read by any number of
//! shards. No worker waits for another to flush: who finds its records flushed goes on, and who does not flushes.

mod load;
mod record;
mod save;
#[cfg(test)]
mod tests;

pub(crate) use load::{Loads, load};
pub(crate) use record::{Noted, gone_bytes};
pub(crate) use save::Part;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use kumiki_journal::{Disk, Folder, Segments, settle, sweep};

use save::Save;

use crate::clock::now;
use crate::say::{DIED, say};

/// Bytes of records that wait to be flushed, at which a command waits for that before it runs.
const MUCH: usize = 4 << 20;
/// Bytes that are left when commands are refused: for taking all keys away, and for noting that keys have expired.
const SLACK: u64 = 64 << 10;
/// Bytes that are left when these are refused, too: for the other shards' records of what one of them has begun.
const LEAST: u64 = 32 << 10;
/// Bytes of a shard's record that it is cleared, and more.
const CLEARED: u64 = 16;
/// Closed files before a snapshot takes their place, at least.
const CLOSED: u64 = 2;

/// The log of all shards.
pub struct Kept {
    disk: Arc<dyn Disk>,
    pending: Mutex<Pending>,
    /// Held while it is flushed.
    files: Mutex<Files>,
    /// Numbers of the last record that was appended, and of the last that is flushed.
    appended: AtomicU64,
    flushed: AtomicU64,
    save: Save,
    /// Counts for who asks.
    pub(crate) counts: Counts,
}

/// Counts of what is kept, for who asks.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Flushes, and those that were for a snapshot.
    pub(crate) flushes: AtomicU64,
    /// Commands that were refused as there was no room on the disk.
    pub(crate) refused: AtomicU64,
    /// Bytes of all logs, and of the snapshot.
    pub(crate) log_bytes: AtomicU64,
    pub(crate) snapshot_bytes: AtomicU64,
    /// Records since the last snapshot began.
    pub(crate) changes: AtomicU64,
    /// Time of the last snapshot, seconds since 1970.
    pub(crate) saved: AtomicU64,
    /// Snapshots that have failed since the last that has not.
    pub(crate) failed: AtomicU64,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("folder", &self.disk.name()).finish_non_exhaustive()
    }
}

/// Records that are not flushed.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    /// Bytes that the running command of each worker may still append.
    promised: Vec<u64>,
    /// Bytes that a frame may have.
    fits: u64,
    /// Bytes that are being flushed, which `fits` does not know yet.
    in_flight: u64,
}

impl Pending {
    /// Bytes that may have to be written yet, whatever commands do, and that are left then.
    fn needed(&self) -> u64 {
        let promised: u64 = self.promised.iter().sum();
        self.bytes.len() as u64 + self.in_flight + promised + SLACK
    }

    /// Promises no more than what fits there, in the file that comes next; false if more is needed.
    fn counts_on(&mut self, fits: u64) -> bool {
        let is_enough = self.needed() <= fits;
        if is_enough {
            self.fits = self.fits.min(fits);
        }
        is_enough
    }
}

struct Files {
    segments: Segments,
    /// Bytes of closed logs that no snapshot has taken the place of.
    closed: u64,
    /// True once it was said that the disk is full.
    is_full: bool,
    /// Time before which no snapshot is begun, as one has failed.
    back_off_until: Option<Instant>,
    /// The log says that the server has ended: nothing is written behind that.
    has_ended: bool,
}

impl Files {
    /// True for a while after a snapshot has failed.
    fn backs_off(&self) -> bool {
        self.back_off_until.is_some_and(|until| Instant::now() < until)
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process: what was not flushed nobody knows, and no answer is to leave.
fn died(error: &kumiki_journal::Error) -> ! {
    say(format_args!(
        "{error}; nobody was answered by what was not flushed. The server ends with status {}, by which \
         its unit starts it anew",
        DIED
    ));
    std::process::exit(DIED)
}

impl Kept {
    /// Opens a folder, for so many workers; what it has is read by [`load`].
    ///
    /// # Errors
    /// Another process uses it; it is not what was written; the disk's.
    pub fn open(folder: &Path, workers: usize) -> Result<Kept> {
        Kept::on(Arc::new(Folder::open(folder)?), workers)
    }

    pub(crate) fn on(disk: Arc<dyn Disk>, workers: usize) -> Result<Kept> {
        let found = load::looked(&*disk)?;
        if let Some(cut) = &found.cut {
            say(format_args!("{cut}"));
        }
        // First what takes room that the start may need.
        sweep(&*disk)?;
        settle(&*disk, &found)?;
        let mut segments = Segments::behind(&disk, load::HEAD.to_vec(), &found)?;
        // Said when something is refused for it.
        let _ = segments.prepare();
        let counts = Counts::default();
        let closed = found.logs.iter().map(|(_, bytes)| bytes).sum();
        let snapshot = found.snapshot.map_or(0, |(_, bytes)| bytes);
        counts.log_bytes.store(closed, Relaxed);
        counts.snapshot_bytes.store(snapshot, Relaxed);
        counts.saved.store(now() / 1000, Relaxed);
        let pending = Pending {
            bytes: Vec::new(),
            promised: vec![0; workers],
            fits: segments.fits(),
            in_flight: 0,
        };
        Ok(Kept {
            disk,
            pending: Mutex::new(pending),
            files: Mutex::new(Files {
                segments,
                closed,
                is_full: false,
                back_off_until: None,
                has_ended: false,
            }),
            appended: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            save: Save::new(workers),
            counts,
        })
    }

    /// The folder.
    pub(crate) fn folder(&self) -> String {
        self.disk.name()
    }

    /// Sees to it that there is room for so many bytes that a worker's next command may write.
    pub(crate) fn has_room(&self, worker: usize, bytes: u64) -> bool {
        self.or_refused(self.has_room_beside(worker, bytes, SLACK))
    }

    /// Sees to it that there is room for the records that all shards are cleared. It takes less than other commands do,
    /// and is refused later.
    pub(crate) fn has_room_to_clear(&self, worker: usize) -> bool {
        let bytes = CLEARED * held(&self.pending).promised.len() as u64;
        self.or_refused(self.has_room_beside(worker, bytes, LEAST))
    }

    /// Sees to it that there is room for so many bytes that nobody has asked for: that keys have expired.
    pub(crate) fn has_room_for_expired(&self, worker: usize, bytes: u64) -> bool {
        self.has_room_beside(worker, bytes, LEAST)
    }

    fn or_refused(&self, has_room: bool) -> bool {
        self.counts.refused.fetch_add(u64::from(!has_room), Relaxed);
        has_room
    }

    /// Sees to it that there is room, and that so many bytes stay.
    fn has_room_beside(&self, worker: usize, bytes: u64, stay: u64) -> bool {
        let promise = |pending: &mut Pending| {
            let others: u64 = pending.promised.iter().sum();
            let others = others - pending.promised.get(worker).copied().unwrap_or(0);
            let appended = pending.bytes.len() as u64 + pending.in_flight;
            let needed = appended + others + bytes + stay;
            if let Some(own) = pending.promised.get_mut(worker) {
                *own = bytes;
            }
            (needed <= pending.fits, needed)
        };
        let mut pending = held(&self.pending);
        let much = pending.bytes.len() >= MUCH;
        if !much && promise(&mut pending).0 {
            return true;
        }
        drop(pending);
        if !self.flush() {
            return false;
        }
        let mut files = held(&self.files);
        let mut pending = held(&self.pending);
        let (has_room, needed) = promise(&mut pending);
        if has_room {
            return true;
        }
        let made = files.segments.prepare_for(needed);
        pending.fits = files.segments.fits();
        let has_room = needed <= pending.fits;
        if let Some(own) = pending.promised.get_mut(worker).filter(|_| !has_room) {
            *own = 0;
        }
        drop(pending);
        match made {
            Ok(()) => {
                if std::mem::take(&mut files.is_full) {
                    files.back_off_until = None;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut files.is_full, true) {
                    let folder = self.disk.name();
                    say(format_args!("{folder}: {error}: commands that write are refused"));
                }
                // Nothing is flushed from now on, and what may have filled the disk are these logs.
                self.save_for_room(&mut files);
            }
        }
        has_room
    }

    /// Begins a snapshot where it takes the place of half a file of the log at least.
    fn save_for_room(&self, files: &mut Files) {
        if files.closed + files.segments.written() >= files.segments.bytes() / 2
            && !files.backs_off()
        {
            let _ = self.begin_save_in(files);
        }
    }

    /// Appends what a command has done.
    pub(crate) fn append(&self, worker: usize, records: &mut Vec<u8>) {
        let mut pending = held(&self.pending);
        pending.bytes.append(records);
        if let Some(own) = pending.promised.get_mut(worker) {
            *own = 0;
        }
        // Under the lock: who takes the bytes knows which they are.
        self.appended.fetch_add(1, Release);
        self.counts.changes.fetch_add(1, Relaxed);
    }

    /// True if something was appended that is not flushed.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.flushed.load(Acquire) < self.appended.load(Acquire)
    }

    /// Returns when all is flushed that was appended before; whoever comes first does it for all. False if it never is, as
    /// the log has ended: nobody is to be answered by it.
    #[must_use = "no answer leaves by what is not flushed"]
    pub(crate) fn flush(&self) -> bool {
        let wanted = self.appended.load(Acquire);
        if self.flushed.load(Acquire) >= wanted {
            return true;
        }
        let mut files = held(&self.files);
        // Somebody who had them before has flushed.
        if self.flushed.load(Acquire) < wanted {
            self.flush_in(&mut files);
        }
        self.flushed.load(Acquire) >= wanted
    }

    fn flush_in(&self, files: &mut Files) {
        // Workers go on until the process ends, and keys expire.
        if files.has_ended {
            return;
        }
        let (bytes, upto) = {
            let mut pending = held(&self.pending);
            pending.in_flight = pending.bytes.len() as u64;
            (std::mem::take(&mut pending.bytes), self.appended.load(Acquire))
        };
        if !bytes.is_empty() {
            match files.segments.write(&[&bytes]) {
                Ok(closed) => files.closed += closed.unwrap_or(0),
                Err(error) => died(&error),
            }
            self.counts.flushes.fetch_add(1, Relaxed);
            // Without it a command finds no room, and says so.
            let _ = files.segments.prepare();
        }
        {
            let mut pending = held(&self.pending);
            (pending.fits, pending.in_flight) = (files.segments.fits(), 0);
        }
        let log = files.closed + files.segments.written();
        self.counts.log_bytes.store(log, Relaxed);
        self.flushed.store(upto, Release);
        let snapshot = self.counts.snapshot_bytes.load(Relaxed);
        if files.closed >= (CLOSED * files.segments.bytes()).max(snapshot) && !files.backs_off() {
            // One that is at it already ends first.
            let _ = self.begin_save_in(files);
        }
    }

    /// True if commands that write were refused for want of room, and are still, as far as is known.
    pub(crate) fn is_full(&self) -> bool {
        held(&self.files).is_full
    }

    /// Flushes, and says in the log that the server has ended by itself.
    pub(crate) fn end(&self) {
        let mut files = held(&self.files);
        self.flush_in(&mut files);
        files.has_ended = true;
        if let Err(error) = files.segments.end() {
            say(format_args!("{error}"));
        }
    }
}
