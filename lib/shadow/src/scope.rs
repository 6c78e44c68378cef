//! Fork and join within a scope.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use crate::shadow::{DropJob, Shadow};
use kumiki_slot::job;
use kumiki_wait::Deadline;

/// A scope whose jobs may borrow whatever lives for `'env`, which outlives the scope;
/// made by [`Shadow::scope`].
pub struct Scope<'shadow, 'env> {
    shadow: &'shadow mut Shadow,
    /// Invariant: `'env` must not shrink to something inside the scope.
    _env: PhantomData<fn(&'env ()) -> &'env ()>,
}

impl Shadow {
    /// Opens a scope whose jobs may borrow from outside of it. All of them have ended
    /// when this returns, even if `body` panics. An outstanding job of [`Shadow::fork`]
    /// does not belong to the scope: it is left alone until the next [`Scope::fork`].
    #[inline]
    pub fn scope<'env, T>(&mut self, body: impl FnOnce(&mut Scope<'_, 'env>) -> T) -> T {
        let mut scope = Scope::open(self);
        body(&mut scope)
    }

    /// Runs `theirs` on the helper while `ours` runs here; returns both results. A panic
    /// on either side is resumed here, after both have ended. With a time limit:
    /// [`Shadow::both_timeout`].
    ///
    /// An outstanding job of [`Shadow::fork`] is waited for first, as in [`Scope::fork`];
    /// if it panicked, neither side runs.
    #[inline]
    pub fn both<A, B: Send>(
        &mut self,
        ours: impl FnOnce() -> A,
        theirs: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        self.scope(|scope| {
            let job = scope.fork(theirs);
            let a = ours();
            match job.join() {
                Ok(b) => (a, b),
                Err(panic) => resume_unwind(panic),
            }
        })
    }
}

impl<'shadow, 'env> Scope<'shadow, 'env> {
    #[inline(always)]
    pub(crate) fn open(shadow: &'shadow mut Shadow) -> Self {
        Scope { shadow, _env: PhantomData }
    }

    /// Hands `job` to the helper (the paper's `shadow_fork`) and returns at once. There
    /// can be one job at a time, since its handle borrows the scope.
    ///
    /// What this thread wrote before is visible to the job; what the job wrote is visible
    /// after its join. A sleeping helper is woken by a system call; a spinning one costs
    /// none. In a child of fork(2), where there is no helper, the job runs when it is
    /// joined.
    ///
    /// A job that is still outstanding (its handle was forgotten, or it is one of
    /// [`Shadow::fork`] that was not joined) is waited for first, however long it takes;
    /// it can no longer be joined then.
    ///
    /// # Panics
    /// Resumes the panic of such a job of [`Shadow::fork`]; `job` is dropped.
    #[inline(always)]
    pub fn fork<F, R>(&mut self, job: F) -> Job<'_, R>
    where
        F: FnOnce() -> R + Send + 'env,
        R: Send + 'env,
    {
        self.shadow.submit(job);
        Job { shadow: self.shadow, drop_job: job::cancel::<F>, _result: PhantomData }
    }
}

impl Drop for Scope<'_, '_> {
    /// A job whose handle was forgotten still borrows, so its end is waited for. A job
    /// that was forked without a scope borrows nothing.
    #[inline(always)]
    fn drop(&mut self) {
        if self.shadow.is_busy() && self.shadow.unscoped.is_none() {
            drop(self.shadow.settle());
        }
    }
}

/// A forked job. Dropping it waits for its end and drops the result; in a child of
/// fork(2), a job that cannot be joined is leaked.
#[must_use = "dropping a job waits for it; `join` returns its result"]
pub struct Job<'scope, R> {
    shadow: &'scope mut Shadow,
    drop_job: DropJob,
    _result: PhantomData<R>,
}

impl<'scope, R> Job<'scope, R> {
    /// Waits for the job's end (the paper's `shadow_join`) and returns its result, or the
    /// payload of its panic. A job that the helper has not begun after some microseconds
    /// is taken back and runs here.
    ///
    /// # Panics
    /// In a child of fork(2), if the parent had handed the job over and it had not ended
    /// at the fork: the helper stayed in the parent.
    #[inline(always)]
    pub fn join(self) -> thread::Result<R> {
        let mut job = ManuallyDrop::new(self);
        // SAFETY: a job is made with its request outstanding, and with the type
        // of its result; it ends here.
        unsafe { job.shadow.finish() }
    }

    /// Waits as [`join`](Self::join), by the name that this has on all answers of Kumiki.
    ///
    /// # Panics
    /// As [`Job::join`].
    #[inline(always)]
    pub fn wait(self) -> thread::Result<R> {
        self.join()
    }

    /// Waits for `timeout` at most, and returns the job itself if it has not ended by
    /// then. The helper keeps the job, whether begun or not; without a helper it runs
    /// here, however long it takes. A `timeout` beyond the clock's range is no limit, as
    /// in [`Job::join`].
    ///
    /// # Panics
    /// As [`Job::join`].
    pub fn wait_timeout(self, timeout: Duration) -> Result<thread::Result<R>, Self> {
        match self.shadow.wait_long(Deadline::after(timeout).at()) {
            Ok(_) => Ok(self.join()),
            Err(_) => Err(self),
        }
    }

    /// Waits as [`wait_timeout`](Self::wait_timeout).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As [`Job::join`].
    pub fn join_timeout(self, timeout: Duration) -> Result<thread::Result<R>, Self> {
        self.wait_timeout(timeout)
    }

    /// Takes the job back, if the helper has not begun it: then it has not run and never will,
    /// and what it captured is dropped.
    ///
    /// ```
    /// use kumiki_shadow::Shadow;
    ///
    /// let mut shadow = Shadow::inline();
    /// let mut has_run = false;
    /// // Without a helper a job runs when it is joined.
    /// shadow.scope(|scope| scope.fork(|| has_run = true).cancel().is_ok());
    /// assert!(!has_run);
    /// ```
    ///
    /// # Errors
    /// This very job: it runs or has run.
    pub fn cancel(self) -> Result<(), Self> {
        let mut job = ManuallyDrop::new(self);
        let drop_job = job.drop_job;
        // SAFETY: a job is made with its request outstanding, and with what drops its captures.
        if unsafe { job.shadow.cancel_outstanding(drop_job) } {
            return Ok(());
        }
        Err(ManuallyDrop::into_inner(job))
    }

    /// True if it has ended: a join would not wait.
    pub fn is_done(&self) -> bool {
        self.shadow.has_ended()
    }
}

impl<R> Drop for Job<'_, R> {
    fn drop(&mut self) {
        // SAFETY: as in `join`, which does not drop the job.
        unsafe { self.shadow.discard::<R>() };
    }
}
