//! One operation over and over, by one thread or by one on each cpu at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::Result;

use crate::pair::Pair;
use crate::stopwatch::{Amount, Stopwatch};

/// A sample lasts so long: many operations, few interruptions.
const SAMPLE_NS: f64 = 50_000.0;
/// The other thread tells so often in a sample how far it is.
const TOLD: u64 = 32;

/// Samples of a turn.
const AMOUNT: Amount = Amount {
    warm: 4,
    warm_span: Duration::from_micros(500),
    least: 5,
    most: 60,
    span: Duration::from_millis(3),
};

/// What both threads see, each word on lines of its own.
#[derive(Default)]
struct Shared {
    /// So many operations between two tellings; 0: at rest.
    every: Own,
    /// Operations done.
    done: Own,
}

#[derive(Default)]
#[repr(align(128))]
struct Own(AtomicU64);

/// The thread on the other cpu.
struct Other {
    shared: Arc<Shared>,
    thread: Thread,
}

impl Other {
    /// Starts it, at rest; `make` runs in it.
    fn start<O: FnMut()>(pair: Pair, make: impl FnOnce() -> O + Send + 'static) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let run = move || {
            let mut operation = make();
            // Ready.
            its.done.0.store(1, Ordering::Release);
            loop {
                match its.every.0.load(Ordering::Acquire) {
                    0 => thread::park(),
                    every => {
                        repeat(&mut operation, every);
                        let done = its.done.0.load(Ordering::Relaxed) + every;
                        its.done.0.store(done, Ordering::Relaxed);
                    }
                }
            }
        };
        let thread = pair.on_helper(|| thread::Builder::new().spawn(run))??.thread().clone();
        while shared.done.0.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        Ok(Other { shared, thread })
    }

    fn done(&self) -> u64 {
        self.shared.done.0.load(Ordering::Relaxed)
    }

    /// Runs `f` while it works.
    fn beside<T>(&self, every: u64, f: impl FnOnce() -> T) -> T {
        let before = self.done();
        self.shared.every.0.store(every, Ordering::Release);
        self.thread.unpark();
        while self.done() == before {
            std::hint::spin_loop();
        }
        let result = f();
        self.shared.every.0.store(0, Ordering::Release);
        result
    }
}

/// An operation of this thread, and of the other one.
pub(crate) struct Together<O> {
    operation: O,
    other: Option<Other>,
    watch: Stopwatch,
    /// Operations of a sample, once it is known.
    count: u64,
}

impl<O: FnMut()> Together<O> {
    /// On this thread alone.
    pub(crate) fn alone(operation: O) -> Self {
        Together { operation, other: None, watch: Stopwatch::new(), count: 0 }
    }

    /// On both: `make` makes the other one's operation, in its thread.
    pub(crate) fn both<P: FnMut()>(
        operation: O,
        pair: Pair,
        make: impl FnOnce() -> P + Send + 'static,
    ) -> Result<Self> {
        Ok(Together { other: Some(Other::start(pair, make)?), ..Self::alone(operation) })
    }

    /// Samples of a turn by so many threads: nanoseconds of a thread an operation.
    pub(crate) fn turn(&mut self, threads: u64) -> Option<Vec<f64>> {
        let Together { operation, other, watch, count } = self;
        if *count == 0 {
            *count = calibrate(operation, watch);
        }
        let mut time = |watch: &Stopwatch| {
            let start = watch.clock().start();
            repeat(operation, *count);
            watch.ns(start, watch.clock().end())
        };
        if threads == 1 {
            return Some(watch.samples(AMOUNT, |watch| time(watch) / *count as f64));
        }
        let other = other.as_ref()?;
        let every = (*count / TOLD).max(1);
        Some(other.beside(every, || {
            watch.samples(AMOUNT, |watch| {
                let before = other.done();
                let ns = time(watch);
                let all = *count + (other.done() - before);
                ns * 2.0 / all as f64
            })
        }))
    }
}

/// So many operations take about a sample's time.
fn calibrate(operation: &mut impl FnMut(), watch: &Stopwatch) -> u64 {
    let mut count = 1;
    loop {
        let start = watch.clock().start();
        repeat(operation, count);
        let ns = watch.ns(start, watch.clock().end());
        if ns >= SAMPLE_NS {
            return count;
        }
        count *= 2;
    }
}

/// The loop of both threads, apart from what is around it: where their operations are of one
/// type, they run the same machine code.
#[inline(never)]
fn repeat(operation: &mut impl FnMut(), count: u64) {
    (0..count).for_each(|_| operation());
}
