//! A clock for short intervals: the time stamp counter (TSC) where it is
//! trustworthy, `CLOCK_MONOTONIC_RAW` through the vDSO elsewhere.
//!
//! The TSC is used if the processor calls it invariant and the kernel still
//! trusts it: its clocksource watchdog compares the TSC of all cpus with
//! another timer and stops offering `tsc` when they drift apart
//! (`clocksource_mark_unstable`, kernel/time/clocksource.c). Other processors
//! than x86-64 have none.

mod calibrate;
mod source;
#[cfg_attr(not(target_arch = "x86_64"), path = "clock/no_tsc.rs")]
mod tsc;

use std::time::Duration;

use source::{Source, monotonic_raw_ns};
use tsc::Tsc;

/// A calibrated clock. It is plain data: clone it into every thread.
///
/// ```
/// use kumiki_sys::clock::Clock;
///
/// let clock = Clock::new();
/// let start = clock.start();
/// let sum: u64 = (0..1000).sum();
/// let end = clock.end();
/// assert_eq!(sum, 499_500);
/// println!("{:.0} ns by {}", clock.between(start, end), clock.name());
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    ns_per_tick: f64,
    error_ppm: f64,
    resolution_ns: f64,
    read_cost_ns: f64,
}

impl Clock {
    /// The best clock of this machine, calibrated for 50 ms.
    pub fn new() -> Self {
        Self::calibrate(Duration::from_millis(50))
    }

    /// The best clock of this machine. The TSC is calibrated against
    /// `CLOCK_MONOTONIC_RAW` for `span`, in which the thread sleeps; the
    /// longer, the smaller [`error_ppm`](Self::error_ppm).
    pub fn calibrate(span: Duration) -> Self {
        match Tsc::trusted() {
            Ok(tsc) => Self::characterised(Source::Tsc(tsc), calibrate::rate(tsc, span)),
            Err(_) => Self::monotonic_raw(),
        }
    }

    /// The best clock of this machine at a rate that another process of it has found
    /// ([`hz`](Self::hz)): nothing is waited for.
    pub fn with_rate(hz: f64) -> Self {
        match Tsc::trusted() {
            Ok(tsc) => {
                let known = calibrate::Rate { ns_per_tick: 1e9 / hz, error_ppm: 0.0 };
                Self::characterised(Source::Tsc(tsc), known)
            }
            Err(_) => Self::monotonic_raw(),
        }
    }

    /// `CLOCK_MONOTONIC_RAW`, even if the TSC would do.
    pub fn monotonic_raw() -> Self {
        let exact = calibrate::Rate { ns_per_tick: 1.0, error_ppm: 0.0 };
        Self::characterised(Source::MonotonicRaw, exact)
    }

    fn characterised(source: Source, rate: calibrate::Rate) -> Self {
        let mut clock = Clock {
            source,
            ns_per_tick: rate.ns_per_tick,
            error_ppm: rate.error_ppm,
            resolution_ns: 0.0,
            read_cost_ns: 0.0,
        };
        (clock.resolution_ns, clock.read_cost_ns) = calibrate::resolution_and_cost(&clock);
        clock
    }

    /// Ticks now. Everything before has been executed, and nothing after is
    /// executed earlier.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        match self.source {
            Source::Tsc(tsc) => tsc.start(),
            Source::MonotonicRaw => monotonic_raw_ns(),
        }
    }

    /// Ticks now. Everything before has been executed, and nothing after is
    /// executed earlier.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        match self.source {
            Source::Tsc(tsc) => tsc.end(),
            Source::MonotonicRaw => monotonic_raw_ns(),
        }
    }

    /// Length of `ticks`, nanoseconds. A difference that wrapped around (the counter of
    /// another cpu was behind) counts as 0.
    #[inline]
    pub fn ns(&self, ticks: u64) -> f64 {
        (ticks as i64).max(0) as f64 * self.ns_per_tick
    }

    /// Nanoseconds from `start` to `end`; 0 if `end` is the earlier one.
    #[inline]
    pub fn between(&self, start: u64, end: u64) -> f64 {
        self.ns(end.wrapping_sub(start))
    }

    /// Ticks in `ns` nanoseconds, rounded down; for deadlines of spin loops.
    #[inline]
    pub fn ticks(&self, ns: f64) -> u64 {
        (ns / self.ns_per_tick) as u64
    }

    /// Ticks a second.
    pub fn hz(&self) -> f64 {
        1e9 / self.ns_per_tick
    }

    /// `tsc` or `CLOCK_MONOTONIC_RAW`.
    pub fn name(&self) -> &'static str {
        match self.source {
            Source::Tsc(_) => "tsc",
            Source::MonotonicRaw => "CLOCK_MONOTONIC_RAW",
        }
    }

    /// True if the ticks are those of the TSC.
    pub fn is_tsc(&self) -> bool {
        matches!(self.source, Source::Tsc(_))
    }

    /// Bound of the calibration's error, parts in a million, against
    /// `CLOCK_MONOTONIC_RAW`.
    pub fn error_ppm(&self) -> f64 {
        self.error_ppm
    }

    /// The smallest non-zero difference between two consecutive reads, nanoseconds: a
    /// shorter interval cannot be told from none.
    pub fn resolution_ns(&self) -> f64 {
        self.resolution_ns
    }

    /// Cost of one read, nanoseconds, as measured at calibration.
    pub fn read_cost_ns(&self) -> f64 {
        self.read_cost_ns
    }
}

/// Tells if [`Clock::new`] takes the TSC on this machine, and the reason if not.
///
/// # Errors
/// Why not, in words.
pub fn tsc_verdict() -> Result<(), String> {
    Tsc::trusted().map(|_| ())
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks() -> [Clock; 2] {
        [Clock::new(), Clock::monotonic_raw()]
    }

    #[test]
    fn time_goes_forward_on_one_cpu() {
        let cpu = rustix::thread::sched_getcpu();
        let _bound = crate::affinity::bind(cpu).unwrap();
        for clock in clocks() {
            let mut last = clock.start();
            for _ in 0..10_000 {
                let end = clock.end();
                let start = clock.start();
                assert!(last <= end && end <= start, "{}", clock.name());
                last = start;
            }
        }
    }

    #[test]
    fn a_rate_that_is_known_is_taken() {
        let (first, again) = (Clock::new(), Clock::with_rate(Clock::new().hz()));
        assert_eq!(first.name(), again.name());
        let apart = first.ns(1_000_000_000) / again.ns(1_000_000_000);
        assert!((apart - 1.0).abs() < 1e-3, "{apart}");
    }

    #[test]
    fn agrees_with_the_kernel_within_its_error() {
        for clock in clocks() {
            let outer0 = monotonic_raw_ns();
            let start = clock.start();
            let inner0 = monotonic_raw_ns();
            std::thread::sleep(Duration::from_millis(5));
            let inner1 = monotonic_raw_ns();
            let end = clock.end();
            let outer1 = monotonic_raw_ns();
            // The clock was read between the kernel's readings, so its
            // interval lies between theirs but for the calibration's error.
            let error = clock.error_ppm() * 1e-6;
            let ns = clock.between(start, end);
            assert!(ns >= (inner1 - inner0) as f64 * (1.0 - error) - 1.0);
            assert!(ns <= (outer1 - outer0) as f64 * (1.0 + error) + 1.0);
        }
    }

    #[test]
    fn steps_backwards_count_as_nothing() {
        for clock in clocks() {
            assert_eq!(clock.between(1_000_000, 999_999), 0.0);
            assert_eq!(clock.ns(u64::MAX), 0.0);
            assert_eq!(clock.between(u64::MAX, 1), clock.ns(2));
        }
    }

    #[test]
    fn ticks_and_nanoseconds_convert_both_ways() {
        for clock in clocks() {
            let ticks = clock.ticks(1e9);
            assert!((ticks as f64 - clock.hz()).abs() <= 1.0);
            assert!((clock.ns(ticks) - 1e9).abs() <= 2.0 * clock.ns(1));
        }
    }

    #[test]
    fn its_own_figures_are_consistent() {
        for clock in clocks() {
            assert!(clock.resolution_ns() > 0.0, "{clock:?}");
            assert!(clock.read_cost_ns() > 0.0, "{clock:?}");
            assert_eq!(clock.is_tsc(), clock.name() == "tsc");
        }
    }
}
