//! Waiting for results that stay in their slots (`parasc_wait`).
//!
//! A thread that leaves one there looks whether somebody waits; a waiting thread says
//! so, looks at the slots, and sleeps until results have come since. With a full fence
//! in between on both sides, one of them sees the other. No lock: a processing thread
//! may die here.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use kumiki_wait::EventCount;

use crate::primitive::{AtomicU32, fence};

/// Who waits for results.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Finished {
    results: EventCount,
    waiting: AtomicU32,
}

impl Finished {
    /// A result has been left in a slot.
    pub(crate) fn tell(&self) {
        // Partner: the fence in `wait`.
        fence(SeqCst);
        if self.waiting.load(Relaxed) > 0 {
            self.results.notify(u32::MAX);
        }
    }

    /// Waits until `enough` returns something, at most until `deadline`; then asks it once
    /// more. Every `step` without a result `overdue` is called.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        step: Duration,
        mut enough: impl FnMut() -> Option<T>,
        mut overdue: impl FnMut(),
    ) -> Option<T> {
        self.waiting.fetch_add(1, Relaxed);
        // Partner: the fence in `tell`.
        fence(SeqCst);
        let found = loop {
            let seen = self.results.look();
            let now = Instant::now();
            let found = enough();
            if found.is_some() || deadline.is_some_and(|end| end <= now) {
                break found;
            }
            let next = now + step;
            let late = self.results.sleep(seen, Some(deadline.map_or(next, |end| end.min(next))));
            if late && Instant::now() >= next {
                overdue();
            }
        };
        self.waiting.fetch_sub(1, Relaxed);
        found
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_result_or_with_the_time() {
        let finished = Finished::default();
        let step = Duration::from_millis(1);
        let left = AtomicU32::new(0);
        let none = finished.wait(
            Some(Instant::now() + step * 3),
            step,
            || None::<()>,
            || {
                left.fetch_add(1, Relaxed);
            },
        );
        assert!(none.is_none() && left.load(Relaxed) > 0);
        let count = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..100).for_each(|_| {
                    count.fetch_add(1, SeqCst);
                    finished.tell();
                });
            });
            let enough = || (count.load(SeqCst) == 100).then_some(100);
            let long = Duration::from_secs(60);
            assert_eq!(finished.wait(None, long, enough, || ()), Some(100));
        });
        assert_eq!(finished.waiting.load(SeqCst), 0);
    }
}
