//! Fork without a scope, for jobs that borrow nothing and callers that cannot use a
//! scope: another language, or a main thread that keeps its shadow in a struct.

use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::shadow::Shadow;
use kumiki_slot::job;
use kumiki_wait::Deadline;

impl Shadow {
    /// Hands `job` to the helper and returns at once; [`Shadow::join`] waits for its end.
    /// Otherwise as [`Scope::fork`](crate::Scope::fork).
    ///
    /// The next [`Scope::fork`](crate::Scope::fork), [`Shadow::both`], or copy by a
    /// method other than `Auto` waits for an outstanding job and resumes its panic.
    /// Dropping the shadow waits for it too, but discards its panic: join it, or end the
    /// shadow with [`Shadow::destroy_timeout`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use kumiki_shadow::Shadow;
    ///
    /// let mut shadow = Shadow::create_or_inline()?;
    /// let sum = Arc::new(AtomicU64::new(0));
    /// let theirs = Arc::clone(&sum);
    /// shadow.fork(move || theirs.store((1..=100).sum(), Ordering::Relaxed))?;
    /// // … something else here …
    /// shadow.join()?.expect("the job does not panic");
    /// assert_eq!(sum.load(Ordering::Relaxed), 5050);
    /// # Ok::<(), kumiki_shadow::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Busy`] if the previous job was not joined.
    #[inline]
    pub fn fork<F: FnOnce() + Send + 'static>(&mut self, job: F) -> Result<()> {
        if self.is_busy() {
            return Err(Error::Busy);
        }
        self.submit(job);
        self.unscoped = Some(job::cancel::<F>);
        Ok(())
    }

    /// Waits for the end of the job that [`Shadow::fork`] handed over; the inner `Err` is
    /// the payload of its panic. A job that the helper has not begun after some
    /// microseconds is taken back and runs here.
    ///
    /// # Errors
    /// [`Error::NotForked`] if there is none, [`Error::Orphaned`] in a child of fork(2)
    /// if the parent had handed it over and it had not ended at the fork.
    #[inline]
    pub fn join(&mut self) -> Result<thread::Result<()>> {
        self.joinable()?;
        self.unscoped = None;
        // SAFETY: an unscoped job is outstanding, and such a job returns nothing.
        Ok(unsafe { self.finish() })
    }

    /// Waits for `timeout` at most; `None` if the job has not ended by then, and it may
    /// be joined again. The helper keeps it, whether begun or not; without a helper it
    /// runs here, however long it takes.
    ///
    /// # Errors
    /// As [`Shadow::join`].
    pub fn join_timeout(&mut self, timeout: Duration) -> Result<Option<thread::Result<()>>> {
        self.joinable()?;
        if self.wait_long(Deadline::after(timeout).at()).is_err() {
            return Ok(None);
        }
        self.join().map(Some)
    }

    /// Takes the job of [`Shadow::fork`] back, if the helper has not begun it: then it has not run
    /// and never will, and what it captured is dropped. `false`: it runs or has run, and is still to
    /// be joined.
    ///
    /// # Errors
    /// As [`Shadow::join`].
    pub fn cancel(&mut self) -> Result<bool> {
        self.joinable()?;
        let Some(drop_job) = self.unscoped.take() else { return Err(Error::NotForked) };
        // SAFETY: an unscoped job is outstanding, and this was noted with it.
        let is_back = unsafe { self.cancel_outstanding(drop_job) };
        if !is_back {
            self.unscoped = Some(drop_job);
        }
        Ok(is_back)
    }

    /// True if the job of [`Shadow::fork`] has ended and a join would not wait; `false` without
    /// one. Without a helper, or in a child of fork(2), a job ends only in its join.
    pub fn is_done(&self) -> bool {
        self.has_ended()
    }

    #[inline(always)]
    fn joinable(&mut self) -> Result<()> {
        if self.unscoped.is_none() {
            return Err(Error::NotForked);
        }
        if self.is_orphaned() {
            drop(self.settle());
            return Err(Error::Orphaned);
        }
        Ok(())
    }
}
