//! One operation over and over, by one thread or by one on each cpu at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::pair::Pair;
use crate::stopwatch::{Amount, Stopwatch};

/// A sample lasts so long: many operations, few interruptions.
const SAMPLE_NS: f64 = 50_000.0;
/// Operations before anything is timed, and runs of which the shortest tells how long one
/// takes: memory that is touched for the first time, or an interruption, takes longer than a
/// sample is to.
const WARM: u64 = 1000;
/// No longer than this.
const WARM_SPAN: Duration = Duration::from_millis(5);
const RUNS: usize = 3;

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
struct SharedCount {
    /// Operations of a sample; 0: at rest.
    count: OwnCount,
    /// Samples so far.
    samples: OwnCount,
    /// The last one: nanoseconds an operation, as bits.
    last: OwnCount,
}

#[derive(Default)]
#[repr(align(128))]
struct OwnCount(AtomicU64);

/// The thread on the other cpu.
struct OtherThread {
    shared: Arc<SharedCount>,
    thread: Thread,
}

impl OtherThread {
    /// Starts it, at rest; `make` runs in it.
    fn start<O: FnMut()>(pair: Pair, make: impl FnOnce() -> O + Send + 'static) -> Result<Self> {
        let shared = Arc::new(SharedCount::default());
        let its = Arc::clone(&shared);
        let run = move || {
            let (mut operation, watch) = (make(), Stopwatch::new());
            warm(&mut operation);
            let mut samples = 1;
            loop {
                // Release: partner is the load in `samples`.
                its.samples.0.store(samples, Ordering::Release);
                match its.count.0.load(Ordering::Acquire) {
                    0 => thread::park(),
                    count => {
                        let each = time(&mut operation, count, &watch) / count as f64;
                        its.last.0.store(each.to_bits(), Ordering::Relaxed);
                        samples += 1;
                    }
                }
            }
        };
        let thread = pair.on_helper(|| thread::Builder::new().spawn(run))??.thread().clone();
        while shared.samples.0.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        Ok(OtherThread { shared, thread })
    }

    fn samples(&self) -> u64 {
        self.shared.samples.0.load(Ordering::Acquire)
    }

    /// Runs `f` while it works, its own samples being of `count` operations.
    fn beside<T>(&self, count: u64, f: impl FnOnce() -> T) -> T {
        let before = self.samples();
        self.shared.count.0.store(count, Ordering::Release);
        self.thread.unpark();
        while self.samples() == before {
            std::hint::spin_loop();
        }
        let result = f();
        self.shared.count.0.store(0, Ordering::Release);
        result
    }

    /// Nanoseconds an operation took it in its last sample.
    fn last(&self) -> f64 {
        f64::from_bits(self.shared.last.0.load(Ordering::Relaxed))
    }
}

/// An operation of this thread, and of the other one.
pub(crate) struct Together<O> {
    operation: O,
    other: Option<OtherThread>,
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
        Ok(Together { other: Some(OtherThread::start(pair, make)?), ..Self::alone(operation) })
    }

    /// Samples of a turn by so many threads: nanoseconds of a thread an operation. Of two
    /// threads each times its own; what they do together is the sum of their rates, so that a
    /// sample is the harmonic mean of both times.
    pub(crate) fn turn(&mut self, threads: u64) -> Option<Vec<f64>> {
        let Together { operation, other, watch, count } = self;
        if *count == 0 {
            *count = calibrate(operation, watch);
        }
        let count = *count;
        let mut each = |watch: &Stopwatch| time(operation, count, watch) / count as f64;
        if threads == 1 {
            return Some(watch.means(AMOUNT, each));
        }
        let other = other.as_ref()?;
        Some(other.beside(count, || {
            watch.means(AMOUNT, |watch| {
                let own = each(watch);
                2.0 / (1.0 / own + 1.0 / other.last())
            })
        }))
    }
}

fn warm(operation: &mut impl FnMut()) {
    let start = Instant::now();
    (0..WARM).take_while(|_| start.elapsed() < WARM_SPAN).for_each(|_| operation());
}

/// So many operations take about a sample's time.
fn calibrate(operation: &mut impl FnMut(), watch: &Stopwatch) -> u64 {
    warm(operation);
    let mut count = 1;
    loop {
        let runs = (0..RUNS).map(|_| time(operation, count, watch));
        if runs.fold(f64::INFINITY, f64::min) >= SAMPLE_NS {
            return count;
        }
        count *= 2;
    }
}

/// How long so many operations take, nanoseconds.
fn time(operation: &mut impl FnMut(), count: u64, watch: &Stopwatch) -> f64 {
    let start = watch.clock().start();
    repeat(operation, count);
    watch.ns(start, watch.clock().end())
}

/// The loop of both threads, apart from what is around it: where their operations are of one
/// type, they run the same machine code.
#[inline(never)]
fn repeat(operation: &mut impl FnMut(), count: u64) {
    (0..count).for_each(|_| operation());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_operation_that_takes_long_is_not_taken_for_all() {
        let mut first = true;
        let operation = || {
            if std::mem::take(&mut first) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let mut alone = Together::alone(operation);
        let samples = alone.turn(1).unwrap();
        assert!(alone.count > WARM, "{} operations a sample", alone.count);
        assert!(samples.len() >= AMOUNT.least);
        assert!(alone.turn(2).is_none(), "it is alone");
    }
}
