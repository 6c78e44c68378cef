//! The log of a durable place: records that its thread appends, and a thread that flushes all of them that have come,
//! while the next ones come.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_journal::{Disk, Segments, log_name, snapshot_name};
use tokio::sync::watch;

use crate::durable::entry::{Entry, FileHead};
use crate::durable::load::Loaded;
use crate::durable::snapshot;
use crate::error::{Error, Result};

/// Bytes of records that are flushed at once, at most.
const MOST: usize = 4 << 20;
/// Interval between two tries to make room on a disk that had none.
const AGAIN: Duration = Duration::from_secs(1);
/// Closed files before a snapshot takes their place, at least.
const CLOSED: u64 = 2;
/// Share of the last flush's time for which more records are waited for, in all, and behind each that has come: those who
/// were answered by it are about to ask again.
const GATHER: (u32, u32) = (4, 32);
/// Shortest and longest of the latter.
const PAUSE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(500));
/// Time for which no snapshot is begun after somebody has asked for the files.
const PINNED: Duration = Duration::from_secs(10);

/// Records of a log that are flushed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushed {
    /// Number of the last record that is flushed, from 1 on.
    pub(crate) upto: u64,
    /// Reason for which nothing more is.
    pub(crate) failed: Option<Arc<Error>>,
}

/// A log that is written to.
pub(crate) struct Log {
    /// Its thread's; none at the end.
    records: Option<Sender<Order>>,
    account: Arc<Mutex<Account>>,
    tell: watch::Sender<Flushed>,
    /// Bytes for which there is room before an operation begins: more than it and what goes before it may take.
    ahead: u64,
    thread: Option<JoinHandle<()>>,
}

/// Order to the thread of a log.
enum Order {
    Record(Vec<u8>),
    /// The last word: all leaves for another folder.
    Leave(Vec<u8>),
}

/// An account of records that have come, of room for them, and of the files.
struct Account {
    /// Number of the last record.
    appended: u64,
    /// Bytes of those that are not written yet.
    waits: u64,
    /// Bytes that can be written.
    room: u64,
    /// Reason for which there is no more room.
    full: Option<String>,
    /// Name and bytes of the snapshot.
    snapshot: Option<(String, u64)>,
    /// Closed logs behind it, by their first frames, and their bytes.
    closed: Vec<(u64, u64)>,
    /// The log that is written, and its flushed bytes.
    now: (u64, u64),
    /// No snapshot is begun before this.
    pinned: Option<Instant>,
}

fn held(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that nothing more is flushed.
fn fail(tell: &watch::Sender<Flushed>, error: Error) {
    tell.send_modify(|flushed| _ = flushed.failed.get_or_insert(Arc::new(error)));
}

/// Bytes that a record takes, at most.
fn size(record: &[u8]) -> u64 {
    kumiki_journal::size(record.len()) as u64
}

impl Log {
    /// Begins a log's next file behind what was loaded.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        head: FileHead,
        loaded: &Loaded,
        number: u16,
    ) -> Result<Log> {
        let ahead = disk.file_bytes() / 2;
        let mut segments = Segments::behind(&disk, head.written()?, &loaded.found)?;
        let full = segments.prepare().err().map(|error| error.to_string());
        let account = Account {
            appended: 0,
            waits: 0,
            room: segments.room(),
            full,
            snapshot: loaded.found.snapshot.clone(),
            closed: loaded.found.logs.clone(),
            now: (segments.first(), segments.written()),
            pinned: None,
        };
        let account = Arc::new(Mutex::new(account));
        let (records, come) = channel();
        let tell = watch::Sender::new(Flushed::default());
        let writer = Writer {
            come,
            account: Arc::clone(&account),
            tell: tell.clone(),
            disk,
            segments,
            snapshot: None,
            leaves: None,
            last: (0, Duration::ZERO),
        };
        let work = move || writer.run();
        let thread = kumiki_crew::with_signals_blocked(|| {
            Builder::new().name(format!("kumiki-log-{number}")).spawn(work)
        });
        let what = "starting the thread of a place's log".to_owned();
        let thread = Some(thread.map_err(|source| Error::Io { what, source })?);
        Ok(Log { records: Some(records), account, tell, ahead, thread })
    }

    /// Checks that there is room for what an operation may write.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub(crate) fn has_room(&self) -> std::result::Result<(), String> {
        let account = held(&self.account);
        if account.room.saturating_sub(account.waits) >= self.ahead {
            return Ok(());
        }
        Err(account.full.clone().unwrap_or_else(|| "its disk is slower than that".to_owned()))
    }

    /// Appends a record: what one operation has done. It may be flushed from now on.
    pub(crate) fn append(&self, record: &[Entry]) {
        let bytes = match rmp_serde::to_vec(record) {
            Ok(bytes) => bytes,
            // Numbers and bytes can be written.
            Err(error) => return self.fail(Error::of_given("a place's log", &error)),
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
    pub(crate) fn fail(&self, error: Error) {
        // The number of a record that is never flushed.
        held(&self.account).appended += 1;
        fail(&self.tell, error);
    }

    /// Appends the last word: all leaves for another folder. Its number.
    pub(crate) fn leave(&self, word: &str) -> u64 {
        let mut account = held(&self.account);
        account.appended += 1;
        // What could not be written is not in the copy either.
        if self.tell.borrow().failed.is_none() {
            let _ = self.records.as_ref().map(|records| records.send(Order::Leave(word.into())));
        }
        account.appended
    }

    /// Files by their names, the oldest first, and their flushed bytes. They stay for a while.
    pub(crate) fn files(&self) -> Vec<(String, u64)> {
        let mut account = held(&self.account);
        account.pinned = Some(Instant::now() + PINNED);
        let logs = account.closed.iter().chain([&account.now]);
        let logs = logs.map(|(first, bytes)| (log_name(*first), *bytes));
        account.snapshot.iter().cloned().chain(logs).collect()
    }

    /// Number of the last record that was appended, if it is not flushed yet.
    pub(crate) fn unflushed(&self) -> Option<u64> {
        let appended = held(&self.account).appended;
        let flushed = self.tell.borrow();
        (flushed.upto < appended || flushed.failed.is_some()).then_some(appended)
    }

    /// Records that are flushed, from now on.
    pub(crate) fn flushed(&self) -> watch::Receiver<Flushed> {
        self.tell.subscribe()
    }
}

impl Drop for Log {
    /// Returns when all is flushed, and the log says that it has ended.
    fn drop(&mut self) {
        drop(self.records.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns when this record is flushed; false if it never is.
pub(crate) async fn is_flushed(mut flushed: watch::Receiver<Flushed>, number: u64) -> bool {
    let known = flushed.wait_for(|flushed| flushed.upto >= number || flushed.failed.is_some());
    known.await.is_ok_and(|flushed| flushed.upto >= number)
}

/// The reason for which nothing more is flushed; it waits for ever where all is well.
pub(crate) async fn failed(mut flushed: watch::Receiver<Flushed>) -> Arc<Error> {
    let known = flushed.wait_for(|flushed| flushed.failed.is_some()).await;
    match known.ok().and_then(|flushed| flushed.failed.clone()) {
        Some(error) => error,
        None => std::future::pending().await,
    }
}

/// The log's own thread.
struct Writer {
    come: Receiver<Order>,
    account: Arc<Mutex<Account>>,
    tell: watch::Sender<Flushed>,
    disk: Arc<dyn Disk>,
    segments: Segments,
    /// A snapshot that is being written.
    snapshot: Option<JoinHandle<()>>,
    /// The last word, when it has come.
    leaves: Option<Vec<u8>>,
    /// Records of the last flush, and its time.
    last: (usize, Duration),
}

impl Drop for Writer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (place, text) = (self.disk.name(), "in its log's thread".to_owned());
            fail(&self.tell, Error::Panicked { place, text });
        }
    }
}

impl Writer {
    fn run(mut self) {
        let mut upto = 0;
        let outcome = loop {
            let Some(records) = self.next() else { break self.segments.end() };
            upto += records.len() as u64;
            let begin = Instant::now();
            let written = if records.is_empty() { Ok(()) } else { self.write(&records) };
            self.last = (records.len(), begin.elapsed());
            if let Err(error) = written {
                break Err(error);
            }
            if let Some(word) = self.leaves.take() {
                let left = self.segments.leave(&word);
                upto += u64::from(left.is_ok());
                self.tell.send_modify(|flushed| flushed.upto = upto);
                break left;
            }
            self.tell.send_modify(|flushed| flushed.upto = upto);
            self.make_room(records.iter().map(|record| size(record)).sum());
        };
        if let Err(error) = outcome {
            // What was flushed before a flush failed is, and of what was not nobody knows: it is not tried again.
            fail(&self.tell, error.into());
        }
        if let Some(thread) = self.snapshot.take() {
            let _ = thread.join();
        }
    }

    /// Writes records, and returns when they are flushed.
    fn write(&mut self, records: &[Vec<u8>]) -> kumiki_journal::Result<()> {
        let former = self.segments.first();
        let closed = self.segments.write(records)?;
        let mut account = held(&self.account);
        account.closed.extend(closed.map(|bytes| (former, bytes)));
        account.now = (self.segments.first(), self.segments.written());
        drop(account);
        if closed.is_some() {
            self.snapshot();
        }
        Ok(())
    }

    /// Waits for records: all that have come, as far as they are to be flushed at once. None at the end.
    fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut given = loop {
            if self.segments.has_spare() {
                break self.come.recv().ok()?;
            }
            match self.come.recv_timeout(AGAIN) {
                Ok(record) => break record,
                Err(RecvTimeoutError::Timeout) => self.make_room(0),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        };
        let (mut bytes, mut records) = (0, Vec::new());
        let (usual, took) = self.last;
        let until = Instant::now() + took / GATHER.0;
        let pause = (took / GATHER.1).clamp(PAUSE.0, PAUSE.1);
        loop {
            match given {
                Order::Record(record) => {
                    bytes += record.len();
                    records.push(record);
                }
                Order::Leave(word) => {
                    self.leaves = Some(word);
                    break;
                }
            }
            if bytes >= MOST {
                break;
            }
            let next = match self.come.try_recv() {
                // As many as came last time go with one flush, where they come at once.
                Err(_) if records.len() < usual => {
                    let left = until.saturating_duration_since(Instant::now());
                    self.come.recv_timeout(pause.min(left)).ok()
                }
                next => next.ok(),
            };
            let Some(next) = next else { break };
            given = next;
        }
        Some(records)
    }

    /// Makes the next file ahead, and says how much room there is after so many bytes were written.
    fn make_room(&mut self, written: u64) {
        let full = match self.segments.prepare() {
            Ok(()) => None,
            Err(error) => Some(format!("{}: {error}", self.disk.name())),
        };
        let mut account = held(&self.account);
        account.waits = account.waits.saturating_sub(written);
        account.room = self.segments.room();
        account.full = full;
    }

    /// Begins a snapshot, if it is time for one.
    fn snapshot(&mut self) {
        if self.snapshot.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let account = held(&self.account);
        let closed: u64 = account.closed.iter().map(|(_, bytes)| bytes).sum();
        let least = account.snapshot.as_ref().map_or(0, |(_, bytes)| *bytes);
        if closed < (CLOSED * self.segments.bytes()).max(least)
            || account.pinned.is_some_and(|until| Instant::now() < until)
        {
            return;
        }
        drop(account);
        let (disk, below) = (Arc::clone(&self.disk), self.segments.first());
        let account = Arc::clone(&self.account);
        let work = move || {
            // One that has failed is tried again with a later file: the logs have all that it would.
            let Ok(bytes) = snapshot::write(&disk, below) else { return };
            let mut account = held(&account);
            account.snapshot = Some((snapshot_name(below), bytes));
            account.closed.retain(|(first, _)| *first >= below);
        };
        let thread = Builder::new().name("kumiki-snapshot".to_owned());
        self.snapshot = kumiki_crew::with_signals_blocked(|| thread.spawn(work)).ok();
    }
}
