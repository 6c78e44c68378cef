//! One helper thread that waits for jobs by the means of a subject.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::{Job, lend};
use crate::stopwatch::Stopwatch;

/// How one side sleeps until a word changes, and the other wakes it.
pub(crate) trait Sleep: Send + Sync + Sized + 'static {
    /// For the calling thread as main, and the helper.
    fn new() -> Self;

    /// Called by the helper before anything else.
    fn helper_is_here(&self) {}

    /// Sleeps as long as `word` is `value`; wakes too early if it likes.
    fn wait(&self, word: &AtomicU32, value: u32);

    /// Main wakes the helper, which may wait on `word`.
    fn wake_helper(&self, word: &AtomicU32);

    /// The helper wakes main, which may wait on `word`.
    fn wake_main(&self, word: &AtomicU32);
}

/// Odd: a job is there; even: none is, or it is done.
struct Shared<W> {
    word: AtomicU32,
    job: UnsafeCell<Option<Job>>,
    sleep: W,
}

// SAFETY: only main writes `job`, while `word` is even; only the helper reads
// it, while `word` is odd.
unsafe impl<W: Sync> Sync for Shared<W> {}

/// A helper that sleeps between jobs, for as long as the process lives.
pub(crate) struct Sleeper<W> {
    shared: Arc<Shared<W>>,
}

impl<W: Sleep> Sleeper<W> {
    /// Starts the helper.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let shared = Arc::new(Shared {
            word: AtomicU32::new(0),
            job: UnsafeCell::new(None),
            sleep: W::new(),
        });
        let its = Arc::clone(&shared);
        pair.on_helper(move || std::thread::Builder::new().spawn(move || its.help()))??;
        Ok(Sleeper { shared })
    }
}

impl<W: Sleep> Shared<W> {
    fn help(&self) {
        self.sleep.helper_is_here();
        loop {
            // Acquire: main's store of the job.
            let word = self.word.load(Ordering::Acquire);
            if word.is_multiple_of(2) {
                self.sleep.wait(&self.word, word);
                continue;
            }
            // SAFETY: the word is odd, so main does not write.
            let job = unsafe { *self.job.get() };
            if let Some(job) = job {
                // SAFETY: once, as the word becomes even now, before main goes on.
                unsafe { job.run() };
            }
            // Release: what the job wrote.
            self.word.store(word.wrapping_add(1), Ordering::Release);
            self.sleep.wake_main(&self.word);
        }
    }

    #[inline]
    fn fork(&self, job: Job) {
        // SAFETY: the word is even, so the helper does not read.
        unsafe { *self.job.get() = Some(job) };
        // Only main makes it odd, and it is even. Release: the job.
        self.word.fetch_add(1, Ordering::Release);
        self.sleep.wake_helper(&self.word);
    }

    #[inline]
    fn join(&self) {
        loop {
            // Acquire: what the job wrote.
            let word = self.word.load(Ordering::Acquire);
            if word.is_multiple_of(2) {
                return;
            }
            self.sleep.wait(&self.word, word);
        }
    }
}

impl<W: Sleep> Fork for Sleeper<W> {
    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        lend(other, |job| {
            self.shared.fork(job);
            let a = main();
            self.shared.join();
            a
        })
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        let (ns, ()) = lend(
            || (),
            |job| {
                let start = watch.clock().start();
                self.shared.fork(job);
                let end = watch.clock().end();
                self.shared.join();
                watch.ns(start, end)
            },
        );
        Some(ns)
    }
}
