//! Which threads the pool has.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use crate::life::Life;

/// The most threads, with the one that makes the others.
const MOST: usize = 65;

/// The pool's threads.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) life: Life,
    /// Threads to be joined.
    count: AtomicU32,
    all: [AtomicUsize; MOST],
    /// Their numbers in the kernel, where a thread goes on for a moment after it was joined.
    numbers: [AtomicI32; MOST],
}

impl Threads {
    pub(crate) fn new() -> Self {
        Threads {
            life: Life::new(),
            count: AtomicU32::new(0),
            all: [const { AtomicUsize::new(0) }; MOST],
            numbers: [const { AtomicI32::new(0) }; MOST],
        }
    }

    pub(crate) fn add(&self, thread: libc::pthread_t) {
        let at = self.count.fetch_add(1, Ordering::Relaxed) as usize;
        if let Some(place) = self.all.get(at) {
            place.store(thread as usize, Ordering::Release);
        }
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
}
