//! Which threads the pool has, and whether they are there.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use kumiki_wait::EventCount;

/// The most threads, with the one that makes the others.
const MOST: usize = 65;

const STARTING: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

/// The pool's threads.
#[derive(Debug)]
pub(crate) struct Threads {
    /// Outcome of making them; with `changed`.
    outcome: AtomicU8,
    changed: EventCount,
    /// True once they are to end.
    is_over: AtomicU8,
    /// Threads to be joined.
    count: AtomicU32,
    all: [AtomicUsize; MOST],
    /// Their numbers in the kernel, where a thread goes on for a moment after it was joined.
    numbers: [AtomicI32; MOST],
}

impl Threads {
    pub(crate) fn new() -> Self {
        Threads {
            outcome: AtomicU8::new(STARTING),
            changed: EventCount::new(),
            is_over: AtomicU8::new(0),
            count: AtomicU32::new(0),
            all: [const { AtomicUsize::new(0) }; MOST],
            numbers: [const { AtomicI32::new(0) }; MOST],
        }
    }

    /// All are there, or there are none.
    pub(crate) fn tell(&self, is_there: bool) {
        let outcome = if is_there { READY } else { FAILED };
        self.outcome.store(outcome, Ordering::Release);
        self.changed.notify(u32::MAX);
    }

    /// Waits until the pool is there; false if it could not be made.
    pub(crate) fn wait(&self) -> bool {
        loop {
            let seen = self.changed.look();
            match self.outcome.load(Ordering::Acquire) {
                STARTING => _ = self.changed.sleep(seen, None),
                outcome => return outcome == READY,
            }
        }
    }

    /// True once they are there, until they have ended.
    pub(crate) fn are_there(&self) -> bool {
        self.outcome.load(Ordering::Acquire) == READY
    }

    /// True once they are to end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire) != 0
    }

    pub(crate) fn end(&self) {
        self.is_over.store(1, Ordering::Release);
    }

    /// Takes those that are to be joined.
    pub(crate) fn take(&self) -> impl Iterator<Item = libc::pthread_t> {
        let count = self.count.swap(0, Ordering::AcqRel) as usize;
        let taken = self.all.iter().take(count);
        taken.map(|thread| thread.load(Ordering::Acquire) as libc::pthread_t)
    }

    /// Keeps the calling thread's number in the kernel.
    pub(crate) fn enter(&self) {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let free = |place: &&AtomicI32| {
            place.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let _ = self.numbers.iter().find(free);
    }

    /// The numbers, each once.
    pub(crate) fn leave(&self) -> impl Iterator<Item = i32> {
        let numbers = self.numbers.iter().map(|place| place.swap(0, Ordering::AcqRel));
        numbers.filter(|number| *number != 0)
    }

    /// All have ended; others may be made.
    pub(crate) fn ended(&self) {
        self.is_over.store(0, Ordering::Release);
        self.outcome.store(STARTING, Ordering::Release);
    }

    pub(crate) fn add(&self, thread: libc::pthread_t) {
        let at = self.count.fetch_add(1, Ordering::Relaxed) as usize;
        if let Some(place) = self.all.get(at) {
            place.store(thread as usize, Ordering::Release);
        }
    }
}
