//! Waiting for results that stay in their slots (`parasc_wait`).
//!
//! A processing thread counts each one and wakes those who say that they wait;
//! a waiting thread says so, looks at the slots, and sleeps as long as the count
//! is what it was before the look. One of the two sees the other: both sides are
//! sequentially consistent. No lock: a processing thread may die here.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use kumiki_sys::futex::{self, Deadline, Scope};
use kumiki_sys::pause::pause;

/// How many results have been left in slots so far, and who waits for more.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Finished {
    count: AtomicU32,
    waiting: AtomicU32,
}

impl Finished {
    /// Counts a result.
    pub(crate) fn count(&self) {
        self.count.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        // It fails under a filter that forbids the call; then nobody sleeps.
        let _ = futex::wake(&self.count, i32::MAX as u32, Scope::Private);
    }

    /// Waits until `enough` returns something, at most for `timeout`; then asks
    /// it once more. Every `step` without a result `overdue` is called.
    pub(crate) fn wait<T>(
        &self,
        timeout: Option<Duration>,
        step: Duration,
        mut enough: impl FnMut() -> Option<T>,
        mut overdue: impl FnMut(),
    ) -> Option<T> {
        // A time that the clock cannot tell is never.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.waiting.fetch_add(1, SeqCst);
        let found = loop {
            let count = self.count.load(SeqCst);
            if let Some(found) = enough() {
                break Some(found);
            }
            let now = Instant::now();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            if left == Some(Duration::ZERO) {
                break None;
            }
            let span = left.map_or(step, |left| left.min(step));
            if futex::wait(&self.count, count, Scope::Private, Some(Deadline::after(span))).is_err()
            {
                // As above: poor, but no busy loop.
                pause(span.min(Duration::from_millis(1)));
            }
            if span == step && now.elapsed() >= step {
                overdue();
            }
        };
        self.waiting.fetch_sub(1, SeqCst);
        found
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn it_ends_with_the_result_or_with_the_time() {
        let finished = Finished::default();
        let step = Duration::from_millis(1);
        let left = AtomicU32::new(0);
        let none = finished.wait(
            Some(step * 3),
            step,
            || None::<()>,
            || {
                left.fetch_add(1, Relaxed);
            },
        );
        assert!(none.is_none() && left.load(Relaxed) > 0);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|_| finished.count()));
            let enough = || (finished.count.load(SeqCst) == 100).then_some(100);
            let long = Duration::from_secs(60);
            assert_eq!(finished.wait(None, long, enough, || ()), Some(100));
        });
        assert_eq!(finished.waiting.load(SeqCst), 0);
    }
}
