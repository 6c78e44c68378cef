//! Where cores that work at the same time meet: memory that threads and processes see.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kumiki_measure::{Error, Result};
use kumiki_sys::futex::{self, Scope};
use kumiki_sys::shm::{Huge, Shared};

/// Words, each on lines of its own: the sample that is asked for …
const SAMPLE: usize = 0;
/// Offset of the number of the one whose start has been.
const STARTED: usize = 128;
/// Offset of the number of times that each works in it.
const TIMES: usize = 256;
/// Offset of the number of those that wait for the start, over all samples.
const ARRIVED: usize = 384;
/// Offset of the number of those that are done.
const DONE: usize = 512;
/// Offset of the word that says whether one has given up.
const FAILED: usize = 640;
/// Offset of the times that each took.
const TOOK: usize = 768;

/// The last sample.
const QUIT: u32 = u32::MAX;

/// The board.
pub(super) struct Board {
    memory: Shared,
    others: u64,
}

impl Board {
    /// Makes a board for this thread and so many others.
    pub(super) fn new(others: usize) -> Result<Self> {
        let memory = Shared::new("kumiki-cores", TOOK + 128 * others, Huge::Policy)?;
        Ok(Board { memory, others: others as u64 })
    }

    fn sample(&self) -> &AtomicU32 {
        self.memory.atomic_u32(SAMPLE)
    }

    fn took(&self, other: usize) -> &AtomicU64 {
        self.memory.atomic_u64(TOOK + 128 * other)
    }

    fn failed(&self) -> &AtomicU32 {
        self.memory.atomic_u32(FAILED)
    }

    /// Has the others begin a sample, in which each works so often, as soon as all are there.
    pub(super) fn ask(&self, sample: u32, times: u64) -> Result<()> {
        self.memory.atomic_u64(TIMES).store(times, Ordering::Relaxed);
        self.call(sample);
        self.wait(self.memory.atomic_u64(ARRIVED), u64::from(sample) * self.others)?;
        // Release: partner is the load in `follow`.
        self.memory.atomic_u32(STARTED).store(sample, Ordering::Release);
        Ok(())
    }

    /// The nanoseconds that each of the others took for its middle third.
    pub(super) fn answers(&self, sample: u32) -> Result<Vec<u64>> {
        self.wait(self.memory.atomic_u64(DONE), u64::from(sample) * self.others)?;
        Ok((0..self.others as usize).map(|n| self.took(n).load(Ordering::Relaxed)).collect())
    }

    /// No further sample.
    pub(super) fn quit(&self) {
        self.call(QUIT);
    }

    fn call(&self, sample: u32) {
        // Release: partner is the load in `follow`.
        self.sample().store(sample, Ordering::Release);
        let _ = futex::wake(self.sample(), u32::MAX, Scope::Shared);
    }

    /// Waits until the others have counted so far.
    fn wait(&self, counter: &AtomicU64, all: u64) -> Result<()> {
        while counter.load(Ordering::Acquire) < all {
            if self.failed().load(Ordering::Relaxed) != 0 {
                let text = "a core could not do what is measured; it has said why".to_owned();
                return Err(Error::Invalid(text));
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// The other number `other`: runs `work`, which is told how often and says how many
    /// nanoseconds its middle third took, in each sample, until there are no more.
    pub(super) fn follow(&self, other: usize, mut work: impl FnMut(u64, &dyn Fn()) -> Result<u64>) {
        let mut last = 0;
        loop {
            let sample = self.sample().load(Ordering::Acquire);
            if sample == QUIT {
                return;
            }
            if sample == last {
                let _ = futex::wait(self.sample(), last, Scope::Shared, None);
                continue;
            }
            last = sample;
            let start = || {
                // Release: partners are the loads in `wait`.
                self.memory.atomic_u64(ARRIVED).fetch_add(1, Ordering::Release);
                let started = self.memory.atomic_u32(STARTED);
                while started.load(Ordering::Acquire) != sample {
                    std::hint::spin_loop();
                }
            };
            match work(self.memory.atomic_u64(TIMES).load(Ordering::Relaxed), &start) {
                Ok(ns) => self.took(other).store(ns, Ordering::Relaxed),
                Err(error) => {
                    eprintln!("kumiki: {error}");
                    return self.give_up();
                }
            }
            self.memory.atomic_u64(DONE).fetch_add(1, Ordering::Release);
        }
    }

    /// Gives up: nobody is to wait for this one any more.
    pub(super) fn give_up(&self) {
        self.failed().store(1, Ordering::Relaxed);
    }
}
