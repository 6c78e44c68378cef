//! The thread of a durable place's log: it writes what has come, has it flushed, makes room ahead, and has snapshots made.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_journal::{Disk, Segments, is_full, snapshot_name};
use tokio::sync::watch;

use crate::durable::account::{AGAIN, Account, Flushed, Longer, Order, fail, held, size};
use crate::durable::snapshot;
use crate::error::Error;

/// Bytes of records that are flushed at once, at most.
const MOST: usize = 4 << 20;
/// Closed files before a snapshot takes their place, at least.
const CLOSED: u64 = 2;
/// Time for which none is begun when one has failed.
const REST: Duration = Duration::from_secs(10);
/// Share of the last flush's time for which more records are waited for, in all, and behind each that has come: those who
/// were answered by it are about to ask again.
const GATHER: (u32, u32) = (4, 32);
/// Shortest and longest of the latter.
const PAUSE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_micros(500));

/// The log's own thread.
pub(super) struct Writer {
    come: Receiver<Order>,
    account: Arc<Mutex<Account>>,
    tell: watch::Sender<Flushed>,
    disk: Arc<dyn Disk>,
    segments: Segments,
    /// Orders that came while records waited for room.
    early: VecDeque<Order>,
    /// A snapshot that is being written, and whether it is to be given up.
    snapshot: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
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
    pub(super) fn new(
        come: Receiver<Order>,
        account: Arc<Mutex<Account>>,
        tell: watch::Sender<Flushed>,
        disk: Arc<dyn Disk>,
        segments: Segments,
        is_over: Arc<AtomicBool>,
    ) -> Writer {
        let (early, snapshot, leaves, last) = (VecDeque::new(), None, None, (0, Duration::ZERO));
        Writer { come, account, tell, disk, segments, early, snapshot, is_over, leaves, last }
    }

    pub(super) fn run(mut self) {
        let mut upto = 0;
        let outcome = loop {
            let Some(records) = self.next() else { break self.segments.end() };
            upto += records.len() as u64;
            if !records.is_empty() {
                let begin = Instant::now();
                if let Err(error) = self.write(&records) {
                    break Err(error);
                }
                self.last = (records.len(), begin.elapsed());
            }
            if let Some(word) = self.leaves.take() {
                let left = self.segments.leave(&word);
                upto += u64::from(left.is_ok());
                self.tell.send_modify(|flushed| flushed.upto = upto);
                break left;
            }
            self.tell.send_modify(|flushed| flushed.upto = upto);
            self.make_room();
        };
        if let Err(error) = outcome {
            // What was flushed before a flush failed is, and of what was not nobody knows: it is not tried again.
            fail(&self.tell, error.into());
        }
        // The folder is locked as long as it is written, and somebody may wait for it.
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.snapshot.take() {
            let _ = thread.join();
        }
    }

    /// Writes records, and returns when they are flushed.
    fn write(&mut self, records: &[Vec<u8>]) -> kumiki_journal::Result<()> {
        self.wait_for_room(records.iter().map(|record| record.len() as u64).sum())?;
        let former = self.segments.first();
        let closed = self.segments.write(records)?;
        let mut account = held(&self.account);
        account.closed.extend(closed.map(|bytes| (former, bytes)));
        account.now = (self.segments.first(), self.segments.written());
        // Before anybody is answered, who asks for more then.
        let written = records.iter().map(|record| size(record)).sum();
        account.waits = account.waits.saturating_sub(written);
        account.fits = self.segments.fits();
        drop(account);
        // By the first one, too, what the place has come with: who moves it again soon has its files stay as they are, and
        // each move would copy the logs of all places before.
        if closed.is_some() || self.last.0 == 0 {
            self.snapshot();
        }
        Ok(())
    }

    /// Waits until the disk has room for what has run, where that has come to more than was known before: nobody is
    /// answered meanwhile, and nothing more begins.
    fn wait_for_room(&mut self, payload: u64) -> kumiki_journal::Result<()> {
        loop {
            let Err(error) = self.segments.prepare_for(payload) else { return Ok(()) };
            let folder = self.disk.name();
            let failed = |source: io::Error| {
                let what = format!("making room for {payload} bytes in {folder}");
                kumiki_journal::Error::Io { what, source }
            };
            if !is_full(&error) {
                return Err(failed(error));
            }
            held(&self.account).full = Some(format!("{folder}: {error}"));
            self.snapshot();
            let until = Instant::now() + AGAIN;
            loop {
                match self.come.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(order) => self.early.push_back(order),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Err(failed(error)),
                }
            }
        }
    }

    /// The next order; none at the end, or if none has come until `until`, where that is given.
    fn order(&mut self, until: Option<Instant>) -> Result<Order, RecvTimeoutError> {
        if let Some(order) = self.early.pop_front() {
            return Ok(order);
        }
        match until {
            Some(until) => self.come.recv_timeout(until.saturating_duration_since(Instant::now())),
            None => self.come.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Waits for records: all that have come, as far as they are to be flushed at once. None at the end.
    fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut given = loop {
            let until = (!self.segments.has_spare()).then(|| Instant::now() + AGAIN);
            match self.order(until) {
                Ok(order) => break order,
                Err(RecvTimeoutError::Timeout) => self.make_room(),
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
                // It is made behind what has come before.
                Order::Room => break,
                Order::Leave(word) => {
                    self.leaves = Some(word);
                    break;
                }
            }
            if bytes >= MOST {
                break;
            }
            let next = match self.order(Some(Instant::now())) {
                // As many as came last time go with one flush, where they come at once.
                Err(_) if records.len() < usual => {
                    self.order(Some(until.min(Instant::now() + pause)))
                }
                next => next,
            };
            let Ok(next) = next else { break };
            given = next;
        }
        Some(records)
    }

    /// Makes the next file ahead, and says how much room there is.
    fn make_room(&mut self) {
        let why = |error: io::Error| format!("{}: {error}", self.disk.name());
        let asked = |longer: &Longer| longer.refused.is_none().then_some(longer.bytes);
        let asked = held(&self.account).longer.as_ref().and_then(asked);
        let longer = asked.map(|bytes| (bytes, self.segments.prepare_for(bytes).map_err(why)));
        let full = self.segments.prepare().map_err(why).err();
        let mut account = held(&self.account);
        account.fits = self.segments.fits();
        account.full = full;
        // More may have been asked for meanwhile.
        let is_told = account.longer.as_ref().map(|longer| longer.bytes) == asked;
        if let Some((bytes, outcome)) = longer.filter(|_| is_told) {
            let refused = outcome.err().map(|why| (Instant::now(), why));
            account.longer = refused.map(|refused| Longer { bytes, refused: Some(refused) });
        }
        let is_full = account.full.is_some();
        drop(account);
        if is_full {
            self.snapshot();
        }
    }

    /// Begins a snapshot, if it is time for one. Where the disk is full that is sooner: nothing is written that would
    /// close another file, and what fills the disk may be these logs.
    fn snapshot(&mut self) {
        if self.snapshot.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let account = held(&self.account);
        let closed: u64 = account.closed.iter().map(|(_, bytes)| bytes).sum();
        let last = account.snapshot.as_ref().map_or(0, |(_, bytes)| *bytes);
        let least = match account.full {
            Some(_) => self.segments.bytes() / 2,
            None => (CLOSED * self.segments.bytes()).max(last),
        };
        if closed < least || account.pinned.is_some_and(|until| Instant::now() < until) {
            return;
        }
        drop(account);
        let (disk, below) = (Arc::clone(&self.disk), self.segments.first());
        let (account, is_over) = (Arc::clone(&self.account), Arc::clone(&self.is_over));
        let work = move || {
            let written = snapshot::write(&disk, below, &is_over);
            let mut account = held(&account);
            let Ok(bytes) = written else {
                // It is tried again later: the logs have all that it would.
                account.pinned = account.pinned.max(Some(Instant::now() + REST));
                return;
            };
            account.snapshot = Some((snapshot_name(below), bytes));
            account.closed.retain(|(first, _)| *first >= below);
        };
        let thread = Builder::new().name("kumiki-snapshot".to_owned());
        self.snapshot = kumiki_crew::with_signals_blocked(|| thread.spawn(work)).ok();
    }
}
