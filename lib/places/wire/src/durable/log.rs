//! The log of a durable place: records that its thread appends, and a thread that flushes all of them that have come,
//! while the next ones come.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_journal::{Disk, Segments, log_name};
use tokio::sync::watch;

use crate::durable::account::{AGAIN, Account, Longer, Order, fail, held, size};
use crate::durable::entry::{Entry, FileHead};
use crate::durable::load::Loaded;
use crate::durable::writer::Writer;
use crate::error::{Error, Result};

/// Time for which no snapshot is begun after somebody has asked for the files.
const PINNED: Duration = Duration::from_secs(10);

pub use crate::durable::account::Flushed;

/// A log that is written to.
#[derive(Debug)]
pub struct Log {
    /// Its thread's; none at the end.
    records: Option<Sender<Order>>,
    account: Arc<Mutex<Account>>,
    tell: watch::Sender<Flushed>,
    /// Bytes for which there is room before an operation begins, beside what it is known to write.
    ahead: u64,
    /// True once nobody needs a snapshot any more.
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Reason for which an operation does not begin.
#[derive(Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// No room, for the reason that this sentence gives.
    Full(String),
    /// Room is going to be there: the disk is behind, or a longer file is being made.
    Soon,
}

impl Log {
    /// Begins a log's next file behind what was loaded.
    pub fn begin(disk: Arc<dyn Disk>, head: FileHead, loaded: &Loaded, number: u16) -> Result<Log> {
        let ahead = disk.file_bytes() / 4;
        let mut segments = Segments::behind(&disk, head.written()?, &loaded.found)?;
        let full = segments.prepare().err().map(|error| error.to_string());
        let account = Account {
            appended: 0,
            waits: 0,
            fits: segments.fits(),
            full,
            longer: None,
            snapshot: loaded.found.snapshot.clone(),
            closed: loaded.found.logs.clone(),
            now: (segments.first(), segments.written()),
            pinned: None,
        };
        let account = Arc::new(Mutex::new(account));
        let (records, come) = channel();
        let tell = watch::Sender::new(Flushed::default());
        let is_over = Arc::new(AtomicBool::new(false));
        let (its, over) = (Arc::clone(&account), Arc::clone(&is_over));
        let writer = Writer::new(come, its, tell.clone(), disk, segments, over);
        let work = move || writer.run();
        let thread = kumiki_crew::with_signals_blocked(|| {
            Builder::new().name(format!("kumiki-log-{number}")).spawn(work)
        });
        let what = "starting the thread of a place's log".to_owned();
        let thread = Some(thread.map_err(|source| Error::Io { what, source })?);
        Ok(Log { records: Some(records), account, tell, ahead, is_over, thread })
    }

    /// Checks that there is room for an operation whose record is known to have so many bytes, and may have a few more. For
    /// one that is longer than what is made ahead it is made.
    ///
    /// # Errors
    /// There is none, or none yet.
    pub fn has_room(&self, record: u64) -> std::result::Result<(), NoRoom> {
        let mut account = held(&self.account);
        let own = self.ahead.saturating_add(record);
        let needed = account.waits.saturating_add(own);
        if needed <= account.fits {
            return Ok(());
        }
        // A file of the usual size has room for it, when there is one.
        if own <= self.ahead * 3 {
            // Where the disk is not full it is behind, and this waits for it.
            return Err(account.full.clone().map_or(NoRoom::Soon, NoRoom::Full));
        }
        match &account.longer {
            Some(Longer { bytes, refused: None }) if *bytes >= needed => return Err(NoRoom::Soon),
            Some(Longer { bytes, refused: Some((at, why)) })
                if *bytes <= needed && at.elapsed() < AGAIN =>
            {
                let why = format!("it may write {record} bytes at once, and {why}");
                return Err(NoRoom::Full(why));
            }
            _ => {}
        }
        account.longer = Some(Longer { bytes: needed, refused: None });
        // A thread that has failed has said so.
        let _ = self.records.as_ref().map(|records| records.send(Order::Room));
        Err(NoRoom::Soon)
    }

    /// Appends a record: what one operation has done. It may be flushed from now on.
    pub fn append(&self, record: &[Entry]) {
        let bytes = match rmp_serde::to_vec(record) {
            Ok(bytes) => bytes,
            // Numbers and bytes can be written.
            Err(error) => return self.fail(Error::undecodable("a place's log", &error)),
        };
        let mut account = held(&self.account);
        account.appended += 1;
        // Behind a record that could not be written none would have its own number.
        if self.tell.borrow().failed.is_some() {
            return;
        }
        account.waits += size(&bytes);
        // A thread that has failed has said so.
        let _ = self.records.as_ref().map(|records| records.send(Order::Record(bytes)));
    }

    /// Notes that what one operation has done cannot be written. It has run: no answer of it leaves, and nothing more is
    /// written.
    pub fn fail(&self, error: Error) {
        // The number of a record that is never flushed.
        held(&self.account).appended += 1;
        fail(&self.tell, error);
    }

    /// Appends the last word: all leaves for another folder. Its number.
    pub fn leave(&self, word: &str) -> u64 {
        let mut account = held(&self.account);
        account.appended += 1;
        // What could not be written is not in the copy either.
        if self.tell.borrow().failed.is_none() {
            let _ = self.records.as_ref().map(|records| records.send(Order::Leave(word.into())));
        }
        account.appended
    }

    /// Files by their names, the oldest first, and their flushed bytes. They stay for a while.
    pub fn files(&self) -> Vec<(String, u64)> {
        let mut account = held(&self.account);
        account.pinned = Some(Instant::now() + PINNED);
        let logs = account.closed.iter().chain([&account.now]);
        let logs = logs.map(|(first, bytes)| (log_name(*first), *bytes));
        account.snapshot.iter().cloned().chain(logs).collect()
    }

    /// Number of the last record that was appended, if it is not flushed yet.
    pub fn unflushed(&self) -> Option<u64> {
        let appended = held(&self.account).appended;
        let flushed = self.tell.borrow();
        (flushed.upto < appended || flushed.failed.is_some()).then_some(appended)
    }

    /// Records that are flushed, from now on.
    pub fn flushed(&self) -> watch::Receiver<Flushed> {
        self.tell.subscribe()
    }
}

impl Drop for Log {
    /// Returns when all is flushed, and the log says that it has ended.
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        drop(self.records.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns when this record is flushed; false if it never is.
pub async fn is_flushed(mut flushed: watch::Receiver<Flushed>, number: u64) -> bool {
    let known = flushed.wait_for(|flushed| flushed.upto >= number || flushed.failed.is_some());
    known.await.is_ok_and(|flushed| flushed.upto >= number)
}

/// The reason for which nothing more is flushed; it waits for ever where all is well.
pub async fn failed(mut flushed: watch::Receiver<Flushed>) -> Arc<Error> {
    let known = flushed.wait_for(|flushed| flushed.failed.is_some()).await;
    match known.ok().and_then(|flushed| flushed.failed.clone()) {
        Some(error) => error,
        None => std::future::pending().await,
    }
}
