//! Snapshots: each worker writes its keys, some at a time, while it serves; the last one has them flushed and named by a
//! thread.
//!
//! A snapshot has each key as it was at some time since it was begun, and the log from there on has what came then.
//! Records say what is, not what was done: so both together come to what there was. It counts when all that it may have
//! seen is flushed in the log.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kumiki_journal::{Snapshot, failed};

use super::load::HEAD;
use super::record::Noted;
use super::{Files, Kept, died, held};
use crate::clock::now;
use crate::say::say;

/// Bytes of records that a worker writes before it serves others.
const PIECE: usize = 256 << 10;
/// Time before another snapshot is begun by itself when one could not be.
const REST: Duration = Duration::from_secs(10);

/// Snapshots of a server.
pub(super) struct Save {
    /// Number of the snapshot that is being written, or was.
    number: AtomicU64,
    workers: usize,
    saving: Mutex<Option<Saving>>,
}

/// A snapshot that is being written.
struct Saving {
    /// None while it is flushed and named.
    snapshot: Option<Snapshot>,
    /// Workers that have not written all of theirs.
    left: usize,
    /// Logs before it have so many bytes.
    closed: u64,
}

/// Progress of a worker with a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Number of the snapshot.
    number: u64,
    /// The next of its tables; none when all are written.
    next: Option<usize>,
}

impl Save {
    pub(super) fn new(workers: usize) -> Save {
        Save { number: AtomicU64::new(0), workers, saving: Mutex::new(None) }
    }
}

impl Kept {
    /// Begins a snapshot; false if one is at it already, or it cannot be.
    pub(crate) fn begin_save(&self) -> bool {
        self.flush() && self.begin_save_in(&mut held(&self.files))
    }

    /// Returns true while a snapshot is written.
    pub(crate) fn is_saving(&self) -> bool {
        held(&self.save.saving).is_some()
    }

    pub(super) fn begin_save_in(&self, files: &mut Files) -> bool {
        if files.has_ended {
            return false;
        }
        let mut saving = held(&self.save.saving);
        if saving.is_some() {
            return false;
        }
        let begun = match files.segments.has_frames() {
            true => match self.close(files) {
                // More was promised meanwhile: it begins with a later flush.
                Ok(false) => return false,
                closed => closed.map(drop),
            },
            // By one that has failed: nothing was written since.
            false => Ok(()),
        };
        let begun = begun.and_then(|()| Snapshot::begin(&self.disk, &HEAD, files.segments.first()));
        match begun {
            Ok(snapshot) => {
                // What the file before had made ahead is in use now.
                let _ = files.segments.prepare();
                held(&self.pending).fits = files.segments.fits();
                let (left, closed) = (self.save.workers, files.closed);
                *saving = Some(Saving { snapshot: Some(snapshot), left, closed });
                self.counts.changes.store(0, Relaxed);
                self.save.number.fetch_add(1, Release);
                true
            }
            Err(error) => {
                files.back_off_until = Some(Instant::now() + REST);
                self.save_failed(&error);
                false
            }
        }
    }

    /// Closes the file that is written: what commands were promised there has to have room in the next one. False if it
    /// has not. What is missing is room: the logs go on.
    fn close(&self, files: &mut Files) -> kumiki_journal::Result<bool> {
        let ahead = files.segments.prepare_ahead(held(&self.pending).needed());
        ahead.map_err(failed("making", &*self.disk, "spare"))?;
        if !held(&self.pending).counts_on(files.segments.fits_ahead()) {
            return Ok(false);
        }
        match files.segments.another(0) {
            Ok(closed) => files.closed += closed,
            Err(error) => died(&error),
        }
        Ok(true)
    }

    /// Ends a snapshot that has failed. What waits for room would have the next one begin with each flush.
    fn save_ended_by(&self, error: &kumiki_journal::Error) {
        held(&self.files).back_off_until = Some(Instant::now() + REST);
        *held(&self.save.saving) = None;
        self.save_failed(error);
    }

    fn save_failed(&self, error: &kumiki_journal::Error) {
        self.counts.failed.fetch_add(1, Relaxed);
        say(format_args!("no snapshot was written, and the logs stay: {error}"));
    }

    /// Number of the last snapshot that was begun.
    pub(crate) fn save_number(&self) -> u64 {
        self.save.number.load(Acquire)
    }

    /// True if a worker has keys to write.
    #[inline]
    pub(crate) fn wants(&self, part: &Part) -> bool {
        part.next.is_some() || part.number != self.save.number.load(Acquire)
    }

    /// Writes some of a worker's keys, of this generation: `table` notes those of a table, if there is one of that number.
    pub(crate) fn save_some(
        self: &Arc<Kept>,
        part: &mut Part,
        generation: u32,
        table: impl Fn(usize, &mut Noted) -> bool,
    ) {
        let number = self.save.number.load(Acquire);
        if part.number != number {
            (part.number, part.next) = (number, Some(0));
        }
        let Some(mut next) = part.next else { return };
        let mut noted = Noted { bytes: Vec::new(), generation };
        while noted.bytes.len() < PIECE {
            let is_there = table(next, &mut noted);
            if !is_there {
                part.next = None;
                break;
            }
            next += 1;
            part.next = Some(next);
        }
        let mut saving = held(&self.save.saving);
        // Another one may have begun since the keys were read: it is to have them as they are then.
        let is_same = self.save.number.load(Acquire) == number;
        let Some(its) = saving.as_mut().filter(|_| is_same) else { return };
        let Some(snapshot) = its.snapshot.as_mut() else { return };
        snapshot.frame().extend_from_slice(&noted.bytes);
        if let Err(error) = snapshot.gathered() {
            // From the disk, too: the logs may need its room.
            its.snapshot = None;
            drop(saving);
            return self.save_ended_by(&error);
        }
        if part.next.is_none() {
            its.left -= 1;
            let is_last = its.left == 0;
            drop(saving);
            if is_last {
                self.finish();
            }
        }
    }

    /// Has a thread flush and name it.
    fn finish(self: &Arc<Kept>) {
        let kept = Arc::clone(self);
        let thread = std::thread::Builder::new().name("kv-snapshot".to_owned());
        let started = thread.spawn(move || kept.finished());
        if let Err(source) = started {
            let what = "starting the thread of a snapshot".to_owned();
            self.save_ended_by(&kumiki_journal::Error::Io { what, source });
        }
    }

    fn finished(&self) {
        // All that was seen. What was not written is not to be in it alone: it goes, as the server does.
        if !self.flush() {
            *held(&self.save.saving) = None;
            return;
        }
        let (snapshot, closed) = match held(&self.save.saving).as_mut() {
            Some(its) => (its.snapshot.take(), its.closed),
            None => (None, 0),
        };
        let ended = snapshot.map(|snapshot| snapshot.end());
        match ended {
            None => *held(&self.save.saving) = None,
            Some(Ok(bytes)) => {
                // The next one may begin.
                *held(&self.save.saving) = None;
                let mut files = held(&self.files);
                files.closed -= closed.min(files.closed);
                let log = files.closed + files.segments.written();
                drop(files);
                self.counts.log_bytes.store(log, Relaxed);
                self.counts.snapshot_bytes.store(bytes, Relaxed);
                self.counts.saved.store(now() / 1000, Relaxed);
                self.counts.failed.store(0, Relaxed);
            }
            Some(Err(error)) => self.save_ended_by(&error),
        }
    }
}
