//! Subjects that fork a job to a helper and join it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::thread::sched_getcpu;
use rustix::time::{ClockId, clock_gettime};

use crate::pair::Pair;
use crate::shadow::request::Request;
use crate::shadow::sum::sum;
use crate::stopwatch::{Amount, Stopwatch};

pub(crate) mod crossbeam;
pub(crate) mod futex;
pub(crate) mod helper;
pub(crate) mod kumiki;
pub(crate) mod park;
pub(crate) mod pthread;
pub(crate) mod rayon;
pub(crate) mod sequential;
pub(crate) mod std_scope;
pub(crate) mod team;
pub(crate) mod tokio;

#[cfg(feature = "peers")]
pub(crate) mod forkunion;
#[cfg(highway)]
pub(crate) mod highway;
#[cfg(feature = "peers")]
pub(crate) mod onetbb;
#[cfg(feature = "peers")]
pub(crate) mod openmp;

/// A way to fork and join, ready on its two cpus. It has `both`, or where main takes jobs back `split`.
pub(crate) trait Fork: Sized {
    /// Whether it places its threads itself; else the kernel does, within the
    /// two cpus.
    const BOUND: bool = true;

    /// Runs `other` on the helper and `main` here, and waits for both: a
    /// forced handoff.
    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        forced(self, main, other)
    }

    /// The same with jobs that do nothing, one right after the other.
    #[inline]
    fn null(&mut self) {
        self.both(|| (), || ());
    }

    /// The same as its users write it: main may take `other` back.
    fn split<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        self.both(main, other)
    }

    /// Forks an empty job and joins it. Nanoseconds of the fork alone, if that
    /// is a call of its own.
    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        let _ = watch;
        None
    }

    /// Sum of `data` in two halves.
    fn sum(&mut self, data: &[f32]) -> f32 {
        let (mine, others) = data.split_at(data.len() / 2);
        let (a, b) = self.split(|| sum(mine), || sum(others));
        a + b
    }
}

/// How long main stays away for a helper that does not come: oneTBB's workers are
/// not bound to, and now and then sleep on.
const PATIENCE: Duration = Duration::from_secs(1);
/// Looks between two at the clock.
const LOOKS: u32 = 1 << 16;

/// Does [`Fork::both`] of a subject whose main takes jobs back that have not begun:
/// main stays away until the other has run, or has not begun for long.
#[inline]
fn forced<S: Fork, A: Send, B: Send>(
    subject: &mut S,
    main: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    let done = AtomicBool::new(false);
    subject.split(
        || {
            let a = main();
            let mut looks = 0;
            let mut until = None;
            while !done.load(Ordering::Acquire) {
                std::hint::spin_loop();
                looks += 1;
                if looks % LOOKS == 0
                    && Instant::now() > *until.get_or_insert_with(|| Instant::now() + PATIENCE)
                {
                    break;
                }
            }
            a
        },
        || {
            let b = other();
            done.store(true, Ordering::Release);
            b
        },
    )
}

/// Asked for again and again before a subject counts as ready.
const CHECKS: usize = 100;

/// Checks that jobs run where they should. A job that the helper does not begin, because
/// something else has its cpu, main may make itself.
pub(crate) fn check<S: Fork>(subject: &mut S, pair: Pair) -> Result<()> {
    let Pair { main, helper } = pair;
    let mut handed_over = !S::BOUND;
    for _ in 0..if S::BOUND { CHECKS } else { 0 } {
        let cpus = subject.both(sched_getcpu, sched_getcpu);
        let is_one = cpus == (main, helper) || cpus == (main, main);
        ensure!(is_one, "jobs ran on cpus {cpus:?}, not on {main} and {helper}");
        handed_over |= cpus.1 == helper;
    }
    ensure!(handed_over, "cpu {helper} made none of {CHECKS} jobs; is something else there?");
    Ok(())
}

/// A fork-and-join subject and the data it works on.
pub(crate) struct Forker<S> {
    subject: S,
    watch: Stopwatch,
    ones: Vec<f32>,
}

impl<S: Fork> Forker<S> {
    /// Asks `subject` from now on.
    pub(crate) fn new(subject: S) -> Self {
        Forker { subject, watch: Stopwatch::new(), ones: Vec::new() }
    }

    /// Samples of one turn; `None` if this subject has nothing of the kind.
    pub(crate) fn answer(&mut self, request: Request) -> Option<Vec<f64>> {
        let Forker { subject, watch, ones } = self;
        match request {
            Request::ForkJoinNull => Some(watch.each(NULL, || subject.null())),
            Request::ForkCall => {
                subject.fork_call(watch)?;
                Some(watch.samples(CALL, |watch| subject.fork_call(watch).unwrap_or(f64::NAN)))
            }
            Request::ForkJoinGap { ns } => Some(watch.samples(gap(ns), |watch| {
                watch.busy_wait(ns);
                let start = watch.clock().start();
                subject.both(|| (), || ());
                watch.ns(start, watch.clock().end())
            })),
            Request::IdleBurn => {
                subject.both(|| (), || ());
                Some(idle_burn())
            }
            Request::SumF32 { elements } => {
                // Sums of ones are exact up to 2^24.
                ones.resize(ones.len().max(elements + LINE), 1.0);
                // All begin where a line does: 16 bytes later a sum takes up to a
                // quarter longer, and malloc's place differs from process to process.
                let start = ones.as_ptr().align_offset(LINE * size_of::<f32>());
                let data = &ones[start..][..elements];
                Some(watch.each(SUM, || {
                    let sum = subject.sum(std::hint::black_box(data));
                    assert!(sum == elements as f32, "sum of {elements} ones is {sum}");
                }))
            }
            Request::Copy { .. } | Request::NBody { .. } => None,
        }
    }
}

/// Elements in a cache line.
const LINE: usize = 16;

const NULL: Amount = Amount::hot(200);
const CALL: Amount = Amount::hot(100);
const SUM: Amount = Amount::hot(50);

fn gap(ns: u64) -> Amount {
    let most = (10_000_000 / ns.max(1)).clamp(5, 50) as usize;
    Amount { warm: 1, warm_span: Duration::ZERO, least: 3, most, span: Duration::from_millis(10) }
}

/// Long after every threshold that a helper spins for.
const SETTLE: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_millis(500);
const WINDOWS: usize = 4;

/// Processor time of this process for each second asleep.
fn idle_burn() -> Vec<f64> {
    let seconds = |clock| {
        let t = clock_gettime(clock);
        t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
    };
    std::thread::sleep(SETTLE);
    let window = || {
        let wall = seconds(ClockId::Monotonic);
        let cpu = seconds(ClockId::ProcessCPUTime);
        std::thread::sleep(WINDOW);
        let cpu = seconds(ClockId::ProcessCPUTime) - cpu;
        cpu / (seconds(ClockId::Monotonic) - wall)
    };
    (0..WINDOWS).map(|_| window()).collect()
}

#[cfg(test)]
mod tests;
