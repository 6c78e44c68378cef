//! Time limits for calls whose closures borrow.
//!
//! Such a closure must have ended when the call returns, and nothing can end it from
//! outside. So one rule holds for every call here: **what has not begun at the deadline
//! does not begin; what has begun is waited for.** The call takes at most the limit plus
//! one closure's own run time. Work that may run for ever belongs to [`Shadow::fork`],
//! which borrows nothing, and whose [`Shadow::join_timeout`] returns while it runs.
//!
//! Each closure checks the clock itself when it begins, on its own thread, so the limit
//! needs no protocol between threads.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kumiki_wait::Deadline;

use crate::error::{Error, Result};
use crate::shadow::Shadow;
use crate::team::{Ranges, Team};

fn check(deadline: Deadline, what: &'static str, done: usize, of: usize) -> Result<()> {
    if done == of { Ok(()) } else { Err(Error::late(deadline, what, done, of)) }
}

impl Shadow {
    /// Runs both as [`Shadow::both`], but `theirs` does not begin after `timeout`. `ours` begins at
    /// once, and a closure that has begun is waited for: this takes at most the limit plus the run
    /// time of both. An outstanding job of [`Shadow::fork`] is waited for first, within the same
    /// limit; its panic is resumed here.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kumiki_shadow::{Error, Shadow};
    ///
    /// let mut shadow = Shadow::inline();
    /// let (ours, theirs) = shadow.both_timeout(Duration::ZERO, || 1, || 2);
    /// assert_eq!(ours, 1);
    /// assert!(matches!(theirs, Err(Error::TimedOut { done: 1, of: 2, .. })));
    /// ```
    ///
    /// # Errors
    /// Beside the result of `ours`: [`Error::TimedOut`] if `theirs` was dropped without
    /// having run, also because an outstanding job of [`Shadow::fork`] did not end in
    /// time.
    pub fn both_timeout<A, B: Send>(
        &mut self,
        timeout: Duration,
        ours: impl FnOnce() -> A,
        theirs: impl FnOnce() -> B + Send,
    ) -> (A, Result<B>) {
        let deadline = Deadline::after(timeout);
        // The job of a `fork` that nobody has joined comes before, in the same time.
        let waits = self.is_busy() && !self.is_orphaned();
        if waits && self.wait_long(deadline.at()).is_err() {
            return (ours(), Err(Error::late(deadline, "jobs had begun", 1, 2)));
        }
        let theirs = move || (!deadline.passed()).then(theirs);
        let (a, b) = self.both(ours, theirs);
        (a, b.ok_or_else(|| Error::late(deadline, "jobs had begun", 1, 2)))
    }

    /// Ends the shadow as a drop does (the paper's `shadow_destroy`), but waits for
    /// `timeout` at most: for an outstanding job, and then for the helper's end. A helper
    /// that is kept off its cpu ends by itself later. Without a helper the job runs here,
    /// however long it takes.
    ///
    /// # Errors
    /// The shadow itself, with the job outstanding.
    ///
    /// # Panics
    /// Resumes the job's panic, once the helper has been told to end.
    #[allow(clippy::result_large_err, reason = "it is what the caller gave")]
    pub fn destroy_timeout(mut self, timeout: Duration) -> std::result::Result<(), Shadow> {
        let waits = self.is_busy() && !self.is_orphaned();
        let deadline = Deadline::after(timeout);
        if waits && self.wait_long(deadline.at()).is_err() {
            return Err(self);
        }
        let outcome = self.settle();
        self.end(deadline);
        outcome.map_err(|panic| resume_unwind(panic))
    }
}

impl Team {
    /// Runs as [`Team::broadcast`], but no member begins after `timeout`. Members that have begun
    /// are waited for. At a [`Barrier`](crate::Barrier) they do not wait for those that have not:
    /// they get [`Error::Deserted`], or panic with it.
    ///
    /// # Errors
    /// [`Error::TimedOut`] with the number of members that have run.
    pub fn broadcast_timeout<F: Fn(usize) + Sync>(
        &mut self,
        timeout: Duration,
        f: F,
    ) -> Result<()> {
        let deadline = Deadline::after(timeout);
        let begun = AtomicUsize::new(0);
        let deserted = Arc::clone(&self.deserted);
        self.broadcast(|member| {
            if deadline.passed() {
                // Relaxed: whoever sees it later waits a little longer.
                return deserted.store(true, Ordering::Relaxed);
            }
            // Relaxed: the join orders it before the count is read.
            begun.fetch_add(1, Ordering::Relaxed);
            f(member);
        });
        check(deadline, "members had begun", begun.into_inner(), self.size())
    }

    /// Runs as [`Team::for_each`], but with ranges of `grain` (the last may be shorter), none of
    /// which begins after `timeout`. Those that have begun are waited for: one a member at most.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kumiki_shadow::{Error, Team};
    ///
    /// let mut team = Team::create_up_to(2)?;
    /// let slow = |_| std::thread::sleep(Duration::from_millis(1));
    /// match team.for_each_timeout(1_000_000, 10, Duration::from_millis(5), slow) {
    ///     // Elements 0..done were given to `slow`, no other.
    ///     Err(Error::TimedOut { done, of, .. }) => assert!(done < of),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TimedOut`]; its `done` elements are the first ones, so continue from
    /// there.
    pub fn for_each_timeout<F: Fn(Range<usize>) + Sync>(
        &mut self,
        n: usize,
        grain: usize,
        timeout: Duration,
        f: F,
    ) -> Result<()> {
        let ranges = Ranges::until(Deadline::after(timeout), n, grain.max(1));
        if ranges.are_one() {
            ranges.iter().for_each(f);
        } else {
            self.broadcast(|_| ranges.iter().for_each(&f));
        }
        ranges.ended()
    }

    /// Reduces as [`Team::reduce`], with the ranges and the limit of [`Team::for_each_timeout`].
    /// Results of a part of the ranges are dropped.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    pub fn reduce_timeout<T, M, F>(
        &mut self,
        n: usize,
        grain: usize,
        timeout: Duration,
        map: M,
        fold: F,
    ) -> Result<Option<T>>
    where
        T: Send,
        M: Fn(Range<usize>) -> T + Sync,
        F: Fn(T, T) -> T + Sync,
    {
        let ranges = Ranges::until(Deadline::after(timeout), n, grain.max(1));
        let total = if ranges.are_one() {
            ranges.iter().map(map).reduce(fold)
        } else {
            self.reduce_ranges(&ranges, &map, &fold)
        };
        ranges.ended().map(|()| total)
    }
}

impl Ranges {
    /// Checks that all ranges were handed out.
    fn ended(&self) -> Result<()> {
        check(self.deadline(), "elements were done", self.handed_out(), self.len())
    }
}
