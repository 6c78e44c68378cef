//! Times operations one by one, with the clock's own cost taken off: for what a
//! [`Sampler`](crate::sampler::Sampler) cannot repeat in a batch, as each operation
//! begins in a state of its own.

use std::time::{Duration, Instant};

use kumiki_sys::clock::Clock;

use crate::stats::describe;

/// Empty intervals, from which the clock's own cost is known.
const EMPTY: usize = 10_000;
/// Number of the shortest that were not interrupted.
const UNDISTURBED: usize = EMPTY / 10 * 9;

/// Amount of samples that a turn takes.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Operations before the first sample.
    pub warm: usize,
    /// Time for further such operations: a thing that adapts itself to its use has seen a stopped
    /// process before, and gets time to see that it is used again.
    pub warm_span: Duration,
    /// Smallest number of samples, however long they take.
    pub least: usize,
    /// Largest number of samples.
    pub most: usize,
    /// No further sample is begun after this.
    pub span: Duration,
}

impl Amount {
    /// Amount of a hot case.
    pub const fn hot(most: usize) -> Self {
        Amount {
            warm: 20,
            warm_span: Duration::from_micros(500),
            least: 10,
            most,
            span: Duration::from_millis(2),
        }
    }
}

/// A clock that knows what reading it costs.
///
/// The TSC of some processors advances in steps (10 ns on AMD's Zen 5), as long
/// as a tenth of what is measured here. So a sample is spread evenly over its
/// step: the median of many then lies where it would on a finer clock, and not
/// on the next step.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    clock: Clock,
    /// Mean of an empty interval.
    cost_ns: f64,
    /// Step of the clock: every interval is a multiple of it.
    step_ns: f64,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Stopwatch {
    /// A stopwatch on the best clock of this machine.
    pub fn new() -> Self {
        let clock = Clock::new();
        let empty: Vec<u64> = (0..EMPTY)
            .map(|_| {
                let start = clock.start();
                clock.end().saturating_sub(start)
            })
            .collect();
        let step = empty.iter().copied().fold(0, greatest_common_divisor);
        let empty = describe::sorted(empty.into_iter().map(|ticks| clock.ns(ticks)));
        let cost_ns = empty[..UNDISTURBED].iter().sum::<f64>() / UNDISTURBED as f64;
        Stopwatch { cost_ns, step_ns: clock.ns(step), clock }
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Nanoseconds from the clock's `start` to its `end`, without what reading
    /// it cost; below 0 if that was more than usual.
    #[inline]
    pub fn ns(&self, start: u64, end: u64) -> f64 {
        self.clock.between(start, end) - self.cost_ns
    }

    /// Times `operation`, nanoseconds each.
    #[inline]
    pub fn each(&self, amount: Amount, mut operation: impl FnMut()) -> Vec<f64> {
        self.samples(amount, |watch| {
            let start = watch.clock.start();
            operation();
            watch.ns(start, watch.clock.end())
        })
    }

    /// Takes samples, nanoseconds, of one operation each, that `sample` times itself.
    #[inline]
    pub fn samples(&self, amount: Amount, sample: impl FnMut(&Self) -> f64) -> Vec<f64> {
        let mut samples = self.means(amount, sample);
        samples.iter_mut().for_each(|sample| *sample += self.step_ns * (fastrand::f64() - 0.5));
        samples
    }

    /// Takes samples that are each a mean of many operations which were timed together: the
    /// clock's step is a small part of what was timed, and may be many times the mean.
    #[inline]
    pub fn means(&self, amount: Amount, mut sample: impl FnMut(&Self) -> f64) -> Vec<f64> {
        let start = Instant::now();
        let mut warm = 0;
        while warm < amount.warm || start.elapsed() < amount.warm_span {
            sample(self);
            warm += 1;
        }
        let mut samples = Vec::with_capacity(amount.most);
        let start = Instant::now();
        while samples.len() < amount.least
            || (samples.len() < amount.most && start.elapsed() < amount.span)
        {
            samples.push(sample(self));
        }
        samples
    }

    /// Waits awake.
    pub fn busy_wait(&self, ns: u64) {
        let start = self.clock.start();
        let ticks = self.clock.ticks(ns as f64);
        while self.clock.end().wrapping_sub(start) < ticks {
            std::hint::spin_loop();
        }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Amount =
        Amount { warm: 3, warm_span: Duration::ZERO, least: 5, most: 100, span: Duration::ZERO };

    #[test]
    fn the_least_is_taken_and_the_warm_up_left_out() {
        let mut calls = 0;
        let samples = Stopwatch::new().each(NO_TIME, || calls += 1);
        assert_eq!((samples.len(), calls), (5, 8));
    }

    #[test]
    fn a_mean_is_not_spread_over_the_clock_s_step() {
        let watch = Stopwatch { step_ns: 10.0, ..Stopwatch::new() };
        assert!(watch.means(NO_TIME, |_| 1.0).iter().all(|sample| *sample == 1.0));
        let spread = watch.samples(NO_TIME, |_| 100.0);
        assert!(spread.iter().all(|sample| (95.0..105.0).contains(sample)), "{spread:?}");
        assert!(spread.iter().any(|sample| *sample != 100.0), "{spread:?}");
    }

    #[test]
    fn never_more_than_the_most() {
        let amount = Amount { span: Duration::from_secs(60), ..NO_TIME };
        assert_eq!(Stopwatch::new().each(amount, || ()).len(), 100);
    }

    #[test]
    fn the_step_is_what_divides_every_interval() {
        let step = |ticks: &[u64]| ticks.iter().copied().fold(0, greatest_common_divisor);
        assert_eq!(step(&[52, 78, 52, 2808]), 26);
        assert_eq!(step(&[52, 51]), 1);
        assert_eq!(step(&[0, 0]), 0);
    }

    #[test]
    fn a_wait_is_not_shorter_than_asked() {
        let watch = Stopwatch::new();
        let start = Instant::now();
        watch.busy_wait(2_000_000);
        // The clock is calibrated to better than a percent.
        assert!(start.elapsed() > Duration::from_micros(1980));
    }
}
