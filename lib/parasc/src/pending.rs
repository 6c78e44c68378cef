//! A submitted request: a future, or waited for by a thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use kumiki_sys::pause::pause;
use kumiki_wait::{Policy, Waiter};

use crate::awaited::{self, WaitStep};
use crate::core::{Core, STEP};
use crate::error::Error;
use crate::job::Job;
use crate::task::{Body, Task, TaskEnd, contain};
use crate::threads::send;

/// An operation whose call has been made.
#[derive(Debug)]
pub struct Completed<O: Job> {
    /// Output of the call.
    pub output: O::Output,
    /// The operation, with its buffer and what has arrived there.
    pub operation: O,
}

/// An operation whose call has not been made.
pub struct Failed<O> {
    /// The error.
    pub error: Error,
    /// The operation, as it was. With [`Error::Forked`] it is so unless the call may
    /// have begun when the process forked: then it is complete, and a
    /// [`Close`](crate::op::Close) has given its descriptor up.
    pub operation: O,
}

/// Outcome of a submitted operation.
pub type Outcome<O> = Result<Completed<O>, Failed<O>>;

/// A submitted operation.
///
/// A [`Future`] for any executor, or for a thread that [waits](Self::wait).
///
/// Dropped, it takes the request back if nobody has begun it. Otherwise the call
/// goes on, and operation and buffer stay until it is over; then the operation
/// is completed and its output dropped, which closes a descriptor that the call
/// has opened.
///
/// In a child of fork(2) the request is its parent's: what was not over ends with
/// [`Error::Forked`], and dropping it drops the child's copy of the operation.
#[must_use = "dropped, it takes the request back if nobody has begun it"]
pub struct Pending<O: Job + Send + 'static> {
    core: Arc<Core>,
    /// `None` once its end has been given away.
    body: Option<Arc<Body<O>>>,
    /// Reason for which it was not even placed.
    refused: Option<Error>,
}

impl<O: Job + Send + 'static> Pending<O> {
    /// Places the operation's request, and sees to it that a thread serves it. It may be known
    /// that it `sleeps`.
    pub(crate) fn submit(core: &Arc<Core>, operation: O, sleeps: bool) -> Self {
        let body = Body::new(operation, sleeps);
        let refused = core.admit(&body.base().request).err();
        if refused.is_none() {
            send(core, Arc::clone(&body) as _, true);
        }
        Pending { core: Arc::clone(core), body: Some(body), refused }
    }

    fn task(&self) -> Option<Arc<dyn Task>> {
        self.body.as_ref().map(|body| Arc::clone(body) as Arc<dyn Task>)
    }

    /// Takes the request back, if nobody has begun it.
    fn take_back(&self) -> bool {
        let Some(task) = self.task() else { return false };
        let may = self.refused.is_none() && self.core.process.is_current();
        let taken = may && task.base().claim();
        if taken {
            self.core.queues[self.core.queue_of(task.base())].forget(&task);
        }
        taken
    }

    /// Kernel's return value, if the call is over and was made.
    pub(crate) fn returned(&self) -> Option<i64> {
        match self.body.as_ref()?.base().ended() {
            Some(TaskEnd::Returned(ret_val)) => Some(ret_val),
            _ => None,
        }
    }

    /// True if the request has ended, so that nothing is left to wait for.
    pub fn is_done(&self) -> bool {
        self.refused.is_some()
            || self.body.as_ref().is_none_or(|body| body.base().ended().is_some())
    }

    /// Waits for the end. A request that nobody has begun is made by the calling
    /// thread itself.
    ///
    /// # Errors
    /// [`Failed`] if the call was not made; what the kernel answered is in the
    /// output. A call that was made, or perhaps made, by a thread that has died
    /// is answered `EOWNERDEAD` (see [`Engine::process`](crate::Engine::process)).
    ///
    /// # Panics
    /// If its end has been given away already, by a poll.
    pub fn wait(mut self) -> Outcome<O> {
        self.await_end();
        self.end()
    }

    /// Waits for the end, and leaves it there.
    pub(crate) fn await_end(&mut self) {
        match &self.body {
            _ if self.is_done() => (),
            Some(body) if self.core.help && self.take_back() => body.make(&self.core.rules),
            _ => self.wait_deadline(None),
        }
    }

    /// Waits as [`wait`](Self::wait), for at most `timeout`; leaves the call to processing threads,
    /// since it may take any time.
    ///
    /// # Errors
    /// This very `Pending`, if the time is over: the request goes on.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Outcome<O>, Self> {
        if self.await_end_within(timeout) { Ok(self.end()) } else { Err(self) }
    }

    /// Waits for the end for at most `timeout`, and leaves it there; `true` if it has come.
    pub(crate) fn await_end_within(&mut self, timeout: Duration) -> bool {
        // A time that the clock cannot tell is never.
        match Instant::now().checked_add(timeout) {
            _ if self.is_done() => {}
            deadline => self.wait_deadline(deadline),
        }
        self.is_done()
    }

    /// Takes the operation back, if nobody has begun its call.
    ///
    /// # Errors
    /// This very `Pending`: the call is being made or has been made, or could
    /// not be made; the request goes on.
    pub fn cancel(mut self) -> Result<O, Self> {
        if !self.take_back() {
            return Err(self);
        }
        let body = self.body.take();
        // SAFETY: taken back, so nobody executes it.
        let taken = body.and_then(|body| unsafe { body.take(None) });
        Ok(taken.expect("who has taken the request back has its operation").0)
    }

    /// Waits in steps, since a thread that has the request may have died.
    fn wait_deadline(&mut self, deadline: Option<Instant>) {
        let Some(body) = self.body.clone() else { return };
        if !self.core.process.is_current() {
            return self.forked();
        }
        let base = body.base();
        let mut waiter = Waiter::new(&Policy::default()).ok();
        let over = || deadline.is_some_and(|end| Instant::now() >= end);
        let once = || {
            let step = Instant::now() + STEP;
            let until = deadline.map_or(step, |deadline| deadline.min(step));
            match &mut waiter {
                Some(waiter) => {
                    let ended = || base.ended().map(drop);
                    let _ = waiter.wait_deadline(&base.bell, &base.state, until, ended);
                }
                None => pause(Duration::from_millis(1)),
            }
            if base.ended().is_some() || over() { WaitStep::Ended(()) } else { WaitStep::Late }
        };
        let mend = || (deadline.is_none() && self.take_back()).then(|| body.make(&self.core.rules));
        awaited::wait(once, || self.core.repair(), mend);
    }

    /// Leaves the request to the parent of this process, whose threads have it.
    ///
    /// Descriptors are copied before the memory (`copy_process`, kernel/fork.c), and
    /// that page by page while the parent's threads go on: what nobody has begun as
    /// far as one page tells has closed no descriptor of the child. What somebody
    /// may have begun is complete, as a dead thread's.
    fn forked(&mut self) {
        let Some(body) = self.body.as_ref().filter(|_| !self.is_done()) else { return };
        self.refused = Some(Error::Forked);
        if !body.base().is_waiting() {
            body.base().leave_to_parent();
        }
    }

    /// Gives the end away.
    fn end(&mut self) -> Outcome<O> {
        let ret_val = self.returned();
        let body = self.body.take().expect("the end of a request is given away once");
        // SAFETY: it has ended, with this result, or has not been placed; in a
        // child of fork(2) the parent's threads work on the parent's copy.
        let taken = unsafe { body.take(ret_val) };
        let (operation, output) = taken.expect("only the request's end takes its operation");
        match (self.refused.take(), output) {
            (None, Some(output)) => Ok(Completed { output, operation }),
            (refused, _) => Err(Failed { error: refused.unwrap_or(Error::ShutDown), operation }),
        }
    }
}

impl<O: Job + Send + 'static> Future for Pending<O> {
    type Output = Outcome<O>;

    /// # Panics
    /// If its end has been given away already.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<O>> {
        let this = self.get_mut();
        if !this.is_done() {
            if let Some(body) = &this.body {
                body.base().waker.register(context.waker());
                if !this.core.process.is_current() {
                    this.forked();
                }
            }
        }
        if this.is_done() { Poll::Ready(this.end()) } else { Poll::Pending }
    }
}

impl<O: Job + Send + 'static> Drop for Pending<O> {
    fn drop(&mut self) {
        if self.is_done() {
            return;
        }
        if !self.core.process.is_current() {
            self.forked();
        } else if !self.take_back() {
            return;
        }
        // The queue may have the task, too.
        contain(|| drop(self.end()));
    }
}

impl<O: Job + Send + 'static> fmt::Debug for Pending<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

impl<O> fmt::Debug for Failed<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<O> fmt::Display for Failed<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<O> std::error::Error for Failed<O> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}
