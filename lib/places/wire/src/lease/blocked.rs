//! Operations that block, each on a thread of its own, and requests that wait for them.
//!
//! A request with an operation that blocks has no reply until that has ended: the place keeps its message,
//! and answers it again as if it had come anew. By then the answer is kept with the client's lease, as
//! that of any operation. A client that asks again meanwhile takes the place of its own former message.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use kumiki_resource::Id;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;

use crate::wire::{Outcome, Refusal, Why};

/// Operations of one place that block at a time, at most.
pub const MOST_BLOCKED: usize = 256;
/// Messages that wait for them, at most; who sends more is not answered, and asks again.
const MOST_WAITING: usize = 4 * MOST_BLOCKED;
/// Bytes of those messages, at most.
const MOST_WAITING_BYTES: usize = 16 << 20;

/// An operation that is waited for: a lease's serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Awaited {
    pub lease: Id,
    pub serial: u64,
}

/// An operation that has blocked, and its answer.
#[derive(Debug)]
pub struct Finished {
    pub of: Awaited,
    pub outcome: Outcome,
}

/// The blocking rest of an operation, on whichever thread.
pub type Rest = Box<dyn FnOnce() -> Outcome + Send>;

/// Threads of one place's operations that block.
#[derive(Debug)]
pub struct Threads {
    runtime: Handle,
    busy: Arc<AtomicUsize>,
    tell: UnboundedSender<Finished>,
}

impl Threads {
    pub fn new(runtime: Handle, tell: UnboundedSender<Finished>) -> Threads {
        Threads { runtime, busy: Arc::default(), tell }
    }

    /// True if there is room for one more. The owner alone starts some, so that it stays true for
    /// it.
    pub fn have_room(&self) -> bool {
        self.busy.load(Relaxed) < MOST_BLOCKED
    }

    /// Runs the rest of an operation. The thread is a child of the calling one, and so on its cpu.
    pub fn start(&self, of: Awaited, rest: Rest) {
        self.busy.fetch_add(1, Relaxed);
        let (busy, tell) = (Arc::clone(&self.busy), self.tell.clone());
        let running = Running { of, outcome: None, busy, tell };
        let work = move || {
            let mut running = running;
            running.outcome = Some(rest());
        };
        // Nobody waits for it: it tells. Where no thread can be had tokio panics, and what was to run is dropped.
        drop(catch_unwind(AssertUnwindSafe(|| self.runtime.spawn_blocking(work))));
    }
}

/// An operation on its thread; dropped, it tells what it has given, or that its thread has gone.
struct Running {
    of: Awaited,
    outcome: Option<Outcome>,
    busy: Arc<AtomicUsize>,
    tell: UnboundedSender<Finished>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Relaxed);
        let outcome = self.outcome.take().unwrap_or_else(|| {
            let text = "there was no thread for it, or it has ended before it was done";
            Err(Refusal::new(Why::Died, text))
        });
        // A place that has ended hears it no more.
        let _ = self.tell.send(Finished { of: self.of, outcome });
    }
}

/// Requests that wait for operations that block; `R` is a reply's way back.
#[derive(Debug)]
pub struct Waiting<R> {
    by: HashMap<Awaited, Vec<Waits<R>>>,
    count: usize,
    bytes: usize,
}

#[derive(Debug)]
pub struct Waits<R> {
    pub payload: Bytes,
    pub to: R,
    /// Its first serial: the same request that was sent again has it, too.
    pub first: u64,
}

impl<R> Default for Waiting<R> {
    fn default() -> Self {
        Waiting { by: HashMap::new(), count: 0, bytes: 0 }
    }
}

impl<R> Waiting<R> {
    /// Keeps a request until that operation has ended, if there is room for it.
    pub fn add(&mut self, of: Awaited, waits: Waits<R>) {
        let bytes = waits.payload.len();
        let same = self.by.entry(of).or_default();
        if let Some(former) = same.iter_mut().find(|former| former.first == waits.first) {
            self.bytes = self.bytes + bytes - former.payload.len();
            *former = waits;
        } else if self.count < MOST_WAITING && self.bytes + bytes <= MOST_WAITING_BYTES {
            self.count += 1;
            self.bytes += bytes;
            same.push(waits);
        }
    }

    /// Requests that have waited for this one.
    pub fn take(&mut self, of: Awaited) -> Vec<Waits<R>> {
        let taken = self.by.remove(&of).unwrap_or_default();
        self.count -= taken.len();
        self.bytes -= taken.iter().map(|waits| waits.payload.len()).sum::<usize>();
        taken
    }

    /// All of them.
    pub fn take_all(&mut self) -> Vec<Waits<R>> {
        std::mem::take(self).by.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a panic is an answer: its request would wait for ever, and its room be gone.
    #[tokio::test]
    async fn what_panics_on_its_thread_is_told_as_what_gives_something_is() {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let threads = Threads::new(Handle::current(), tell);
        let of = |serial| Awaited { lease: Id::from_u64(7), serial };
        threads.start(of(1), Box::new(|| panic!("on its thread")));
        let ended = told.recv().await.unwrap();
        assert_eq!((ended.of, ended.outcome.unwrap_err().why), (of(1), Why::Died as u16));
        threads.start(of(2), Box::new(|| Ok(Bytes::from_static(b"it"))));
        assert_eq!(told.recv().await.unwrap().outcome.unwrap(), "it");
        assert_eq!(threads.busy.load(Relaxed), 0);
    }
}
