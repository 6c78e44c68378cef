//! Times operations one by one.

use std::time::{Duration, Instant};

use kumiki_sys::clock::Clock;

/// Samples of an empty operation, from which the clock's own cost is known.
const EMPTY: usize = 1001;

/// How many samples a turn takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    /// Operations before the first sample.
    pub(crate) warm: usize,
    /// At least so many samples, however long they take.
    pub(crate) least: usize,
    /// At most so many.
    pub(crate) most: usize,
    /// No further sample is begun after this.
    pub(crate) span: Duration,
}

/// A clock that knows what reading it costs.
#[derive(Clone, Debug)]
pub(crate) struct Stopwatch {
    clock: Clock,
    /// Median of an empty interval, ticks.
    cost: u64,
}

impl Stopwatch {
    /// A stopwatch on the best clock of this machine.
    pub(crate) fn new() -> Self {
        let clock = Clock::new();
        let mut empty: Vec<u64> = (0..EMPTY).map(|_| clock.start().abs_diff(clock.end())).collect();
        empty.sort_unstable();
        Stopwatch { cost: empty[EMPTY / 2], clock }
    }

    /// The clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Nanoseconds of an interval that this clock's `start` and `end` enclose,
    /// without what reading it cost.
    #[inline]
    pub(crate) fn ns(&self, ticks: u64) -> f64 {
        self.clock.ns(ticks.saturating_sub(self.cost))
    }

    /// Times `operation`, nanoseconds each.
    #[inline]
    pub(crate) fn each(&self, amount: Amount, mut operation: impl FnMut()) -> Vec<f64> {
        self.samples(amount, |watch| {
            let start = watch.clock.start();
            operation();
            let end = watch.clock.end();
            watch.ns(end.wrapping_sub(start))
        })
    }

    /// Takes samples that `sample` times itself.
    #[inline]
    pub(crate) fn samples(&self, amount: Amount, mut sample: impl FnMut(&Self) -> f64) -> Vec<f64> {
        for _ in 0..amount.warm {
            sample(self);
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
    pub(crate) fn busy_wait(&self, ns: u64) {
        let start = self.clock.start();
        let ticks = self.clock.ticks(ns as f64);
        while self.clock.end().wrapping_sub(start) < ticks {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Amount = Amount { warm: 3, least: 5, most: 100, span: Duration::ZERO };

    #[test]
    fn the_least_is_taken_and_the_warm_up_left_out() {
        let mut calls = 0;
        let samples = Stopwatch::new().each(NO_TIME, || calls += 1);
        assert_eq!((samples.len(), calls), (5, 8));
    }

    #[test]
    fn never_more_than_the_most() {
        let amount = Amount { span: Duration::from_secs(60), ..NO_TIME };
        assert_eq!(Stopwatch::new().each(amount, || ()).len(), 100);
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
