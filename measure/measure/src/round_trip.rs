//! The raw round trip of one cache line between two cpus.
//!
//! It is what any communication between these cpus costs at least, and on a
//! virtual machine it moves by a factor of ten within seconds as the
//! hypervisor moves the vCPUs. So it is measured before and after every case
//! and stored beside the figure.
//!
//! # Protocol
//!
//! ```text
//! caller (cpu_a)                      helper (cpu_b)
//!                                     sleeps while state == SLEEP (futex)
//! state = RUN, futex wake  ─────────▶ wakes, spins on `line`
//! line = odd n             ─────────▶ sees n odd
//! spins until line == n+1  ◀───────── line = n+1
//!   … some bursts of round trips …
//! state = SLEEP            ─────────▶ sees it between polls, sleeps again
//! ```
//!
//! - Only the caller writes odd values, only the helper even ones, and the
//!   helper writes only in answer to an odd one. Each odd value is greater than
//!   every value before it, so an answer that comes late, after the caller gave
//!   up, never equals the answer that a later measurement waits for: the worst
//!   it does is to let that one end without a figure.
//! - `state` has its own line: the helper reads it once in `POLLS` polls, so
//!   that the round trip is of one line and nothing else.
//! - Both sides give up after `PATIENCE`: a caller whose helper is off its cpu
//!   returns `None`, a helper whose caller is off its cpu goes to sleep.
//!
//! `line` is written with Release and read with Acquire, each the other side's
//! partner; on x86-64 both are plain moves, so nothing but the line's way is in
//! the figure. `state` needs no more than Release and Acquire either: the futex
//! call compares it under the kernel's lock, so a wake between the helper's
//! read and its sleep is not lost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kumiki_sys::clock::Clock;
use kumiki_sys::futex::{self, Scope};

use crate::cache_line::CacheLine;
use crate::error::{Error, Result};
use crate::helper::{Helper, Part};

/// Bursts in a measurement: enough for a median.
const BURSTS: usize = 9;
/// Round trips in a burst: enough that reading the clock does not count, few
/// enough that all bursts stay below 100 µs between the most distant cpus.
const TRIPS: u32 = 12;
/// Polls of the line between two looks at anything else.
const POLLS: u32 = 256;
/// Time after which a side stops waiting for the other.
const PATIENCE: Duration = Duration::from_millis(20);

const SLEEP: u32 = 0;
const RUN: u32 = 1;
const QUIT: u32 = 2;

#[derive(Default)]
struct Lines {
    line: CacheLine<AtomicU64>,
    state: CacheLine<AtomicU32>,
}

/// Two cpus, ready to have their round trip measured. The helper thread sleeps
/// between measurements and ends when this is dropped.
#[derive(Debug)]
pub struct RoundTrip {
    cpu_a: usize,
    helper: Helper<Lines>,
}

impl RoundTrip {
    /// Starts the helper on `cpu_b`, for a caller that has bound itself, or
    /// will, to `cpu_a`.
    ///
    /// # Errors
    /// The cpus are one and the same, or the helper cannot run on `cpu_b`.
    pub fn start(cpu_a: usize, cpu_b: usize) -> Result<Self> {
        if cpu_a == cpu_b {
            return Err(Error::Invalid(format!(
                "a round trip needs two different cpus, both are cpu {cpu_a}"
            )));
        }
        Ok(RoundTrip { cpu_a, helper: Helper::start(cpu_b, Lines::default())? })
    }

    /// The round trip now, nanoseconds: the median over short bursts of the
    /// mean within a burst. Takes below 200 µs when both cpus are free.
    ///
    /// `None` if the helper did not answer within 20 ms (its cpu is busy), or
    /// if the calling thread is not on `cpu_a`, where the figure would be
    /// another pair's.
    pub fn measure(&mut self, clock: &Clock) -> Option<f64> {
        if rustix::thread::sched_getcpu() != self.cpu_a {
            return None;
        }
        let lines = self.helper.part();
        lines.set_state(RUN);
        let figure = lines.bursts(clock);
        // The helper is awake and looks at `state`: no call needed.
        lines.state.0.store(SLEEP, Ordering::Release);
        figure
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("state", &self.state.0).finish_non_exhaustive()
    }
}

impl Lines {
    fn set_state(&self, state: u32) {
        self.state.0.store(state, Ordering::Release);
        // Waking a word that is mapped cannot fail.
        let _ = futex::wake(&self.state.0, 1, Scope::Private);
    }

    /// The caller's side.
    fn bursts(&self, clock: &Clock) -> Option<f64> {
        let deadline = Instant::now() + PATIENCE;
        // The helper may be late with an answer to an odd value that an earlier
        // measurement left: skip beyond both.
        let mut odd = (self.line.0.load(Ordering::Acquire) | 1) + 2;
        // Only when it has answered once is the helper awake.
        self.trip(&mut odd, deadline)?;
        let mut means = [0.0; BURSTS];
        for mean in &mut means {
            let start = clock.start();
            for _ in 0..TRIPS {
                self.trip(&mut odd, deadline)?;
            }
            *mean = clock.ns(clock.end().saturating_sub(start)) / f64::from(TRIPS);
        }
        means.sort_by(f64::total_cmp);
        Some(means[BURSTS / 2])
    }

    #[inline]
    fn trip(&self, odd: &mut u64, deadline: Instant) -> Option<()> {
        self.line.0.store(*odd, Ordering::Release);
        let answer = *odd + 1;
        *odd += 2;
        loop {
            for _ in 0..POLLS {
                if self.line.0.load(Ordering::Acquire) == answer {
                    return Some(());
                }
                // No PAUSE: its up to 140 cycles would be in the figure.
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    /// The helper's answers, as long as a measurement runs.
    fn answer(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.state.0.load(Ordering::Acquire) == RUN {
            for _ in 0..POLLS {
                let value = self.line.0.load(Ordering::Acquire);
                if value % 2 == 1 {
                    self.line.0.store(value + 1, Ordering::Release);
                }
            }
            if Instant::now() >= deadline {
                // The caller has given up as well, at the latest now. Should it
                // be measuring anew already, that measurement has no figure.
                // Relaxed: the loop's load is what orders.
                let (run, sleep) = (RUN, SLEEP);
                let _ =
                    self.state.0.compare_exchange(run, sleep, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

impl Part for Lines {
    fn help(&self) {
        loop {
            match self.state.0.load(Ordering::Acquire) {
                QUIT => return,
                RUN => self.answer(),
                state => {
                    // Interrupted, changed or woken: all the same, look again.
                    let _ = futex::wait(&self.state.0, state, Scope::Private, None);
                }
            }
        }
    }

    fn stop(&self) {
        self.set_state(QUIT);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt;

    use kumiki_sys::affinity;

    use super::*;

    fn two_cpus() -> Option<(usize, usize)> {
        let allowed = affinity::current().unwrap();
        let mut cpus = allowed.iter();
        let pair = cpus.next().zip(cpus.next());
        if pair.is_none() {
            eprintln!("skipped: this machine lends one cpu only");
        }
        pair
    }

    fn cpu_time(thread: libc::pthread_t) -> Duration {
        let mut clock = 0;
        // SAFETY: the thread is not joined yet, `clock` is writable.
        let error = unsafe { libc::pthread_getcpuclockid(thread, &mut clock) };
        assert_eq!(error, 0);
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is writable.
        assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    #[test]
    fn measures_and_then_sleeps() {
        let Some((a, b)) = two_cpus() else { return };
        let _bound = affinity::bind(a).unwrap();
        let clock = Clock::calibrate(Duration::from_millis(10));
        let mut pair = RoundTrip::start(a, b).unwrap();
        // A busy machine may spoil single measurements, not fifty.
        let figures: Vec<f64> = (0..50).filter_map(|_| pair.measure(&clock)).collect();
        assert!(!figures.is_empty());
        assert!(figures.iter().all(|ns| (1.0..20e6).contains(ns)), "{figures:?}");

        let thread = pair.helper.thread().unwrap().as_pthread_t();
        // Whatever it still had to do, it gives up after PATIENCE.
        std::thread::sleep(4 * PATIENCE);
        let before = cpu_time(thread);
        std::thread::sleep(Duration::from_millis(300));
        let used = cpu_time(thread) - before;
        assert!(used < Duration::from_millis(50), "an idle helper used {used:?}");
        // Others may have its cpu first, one after the other.
        let (begin, long) = (Instant::now(), Duration::from_secs(30));
        let mut wakes = std::iter::repeat_with(|| pair.measure(&clock).is_some());
        assert!(wakes.any(|woken| woken || begin.elapsed() > long) && begin.elapsed() < long);
    }

    #[test]
    fn an_absent_helper_is_no_figure() {
        let Some((a, b)) = two_cpus() else { return };
        let _bound = affinity::bind(a).unwrap();
        let clock = Clock::calibrate(Duration::from_millis(10));
        let mut pair = RoundTrip::start(a, b).unwrap();
        pair.helper.end();
        assert_eq!(pair.measure(&clock), None);
    }

    #[test]
    fn a_caller_elsewhere_is_no_figure() {
        let Some((a, b)) = two_cpus() else { return };
        let clock = Clock::calibrate(Duration::from_millis(10));
        let mut pair = RoundTrip::start(a, b).unwrap();
        let _bound = affinity::bind(b).unwrap();
        assert_eq!(pair.measure(&clock), None);
    }

    #[test]
    fn one_cpu_is_no_pair() {
        let error = RoundTrip::start(3, 3).unwrap_err().to_string();
        assert!(error.contains("two different cpus"), "{error}");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        let error = RoundTrip::start(0, 100_000).unwrap_err().to_string();
        assert!(error.contains("cpu 100000"), "{error}");
    }
}
