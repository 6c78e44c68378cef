//! How long calls take that are not of a batch, by their number: whether they
//! are for the pool.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::WEIGHT;
use kumiki_calls::NUMBERS;
use kumiki_calls::Request;

/// Mean time of each call, ticks as the bits of an `f32`, 0 if unknown. Written without care
/// by many threads: a lost sample does no harm.
#[derive(Debug)]
pub(crate) struct Durations {
    means: Box<[AtomicU32]>,
    /// Duration from which on a call is worth a thread that sleeps, ticks.
    long: f32,
}

impl Durations {
    /// `long`: ticks from which on a call is worth a thread that sleeps.
    pub(crate) fn new(long: u64) -> Self {
        let means = (0..NUMBERS).map(|_| AtomicU32::new(0)).collect();
        Durations { means, long: long as f32 }
    }

    fn mean(&self, sysnum: u16) -> Option<f32> {
        Some(f32::from_bits(self.means.get(usize::from(sysnum))?.load(Relaxed)))
    }

    fn set(&self, sysnum: u16, mean: f32) {
        self.means[usize::from(sysnum)].store(mean.to_bits(), Relaxed);
    }

    pub(crate) fn is_known(&self, sysnum: u16) -> bool {
        self.mean(sysnum).is_none_or(|mean| mean != 0.0)
    }

    /// Notes that a call has taken `ticks`.
    pub(crate) fn record(&self, sysnum: u16, ticks: u64) {
        let Some(mean) = self.mean(sysnum) else { return };
        let sample = ticks.max(1) as f32;
        let weight = if mean == 0.0 { 1.0 } else { WEIGHT };
        self.set(sysnum, mean + (sample - mean) * weight);
    }

    /// Notes that such a call was found to sleep.
    pub(crate) fn record_sleep(&self, sysnum: u16) {
        if let Some(mean) = self.mean(sysnum) {
            self.set(sysnum, mean.max(2.0 * self.long));
        }
    }

    /// True if calls of this number have taken long.
    pub(crate) fn are_long(&self, sysnum: u16) -> bool {
        self.mean(sysnum).is_some_and(|mean| mean > self.long)
    }

    /// True if this request is for the pool.
    pub(crate) fn is_long(&self, request: &Request) -> bool {
        kumiki_calls::may_sleep(request) || self.are_long(request.sysnum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_calls_are_found_and_forgotten_again() {
        let durations = Durations::new(100_000);
        assert!(!durations.is_known(0) && !durations.are_long(0));
        durations.record(0, 500);
        assert!(durations.is_known(0) && !durations.are_long(0));
        // One that was preempted says little.
        durations.record(0, 700_000);
        assert!(!durations.are_long(0));
        durations.record_sleep(0);
        assert!(durations.are_long(0) && !durations.are_long(1));
        (0..20).for_each(|_| durations.record(0, 500));
        assert!(!durations.are_long(0));
        (0..100).for_each(|_| durations.record(0, u64::MAX));
        assert!(durations.are_long(0));
        // Numbers that no table holds are never known to be long.
        durations.record(u16::MAX, u64::MAX);
        assert!(durations.is_known(u16::MAX) && !durations.are_long(u16::MAX));
    }

    #[test]
    fn what_is_known_to_sleep_is_for_the_pool_from_the_first() {
        let durations = Durations::new(100_000);
        assert!(durations.is_long(&Request::new(libc::SYS_nanosleep, [0, 0])));
        assert!(!durations.is_long(&Request::new(libc::SYS_getppid, [])));
    }
}
