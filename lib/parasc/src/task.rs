//! A request that belongs to itself: the operation, where it waits, how it ended.
//!
//! Whoever has to do with it holds it by an `Arc`: the [`Pending`](crate::Pending)
//! for which it was made, from submission on the queue, and then the thread that
//! makes its call. So operation and buffer stay until the call is over, whoever has lost
//! interest before.
//!
//! `kumiki_slot`'s answers are not for this: theirs is a line between one caller and one
//! server, with which captures move. Here any of many threads may make the call, and the
//! operation stays where the kernel writes to it.

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use atomic_waker::AtomicWaker;
use kumiki_wait::Bell;

use crate::execute::{Rules, call};
use crate::job::Job;
use crate::primitive::{AtomicI64, AtomicU32};
use kumiki_calls::Request;

/// End of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskEnd {
    /// Return value of the kernel, or in its place `-EOWNERDEAD`.
    Returned(i64),
    /// Nobody has executed it, and nobody will.
    Cancelled,
}

/// State of a new task.
const WAITING: u32 = 0;
/// Somebody makes the call, takes the request back or cancels it.
const CLAIMED: u32 = 1;
const RETURNED: u32 = 2;
const CANCELLED: u32 = 3;
/// The end has been read, and the operation is gone or taken back.
const TAKEN: u32 = 4;

/// Part that all tasks have, whatever their operation.
#[derive(Debug, Default)]
pub(crate) struct Base {
    pub(crate) request: Request,
    pub(crate) state: AtomicU32,
    ret_val: AtomicI64,
    pub(crate) waker: AtomicWaker,
    pub(crate) bell: Bell,
    /// True if it is known to be for a thread that sleeps, whatever is known of other such calls.
    pub(crate) sleeps: bool,
}

impl Base {
    pub(crate) fn of(request: Request) -> Self {
        Base { request, ..Base::default() }
    }

    /// Claims the request. `true` for one caller only.
    pub(crate) fn claim(&self) -> bool {
        // Acquire: partner is who has pushed it, by the queue's lock too.
        self.state.compare_exchange(WAITING, CLAIMED, AcqRel, Relaxed).is_ok()
    }

    /// True if nobody has claimed it yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.load(Relaxed) == WAITING
    }

    /// Ends the request. Once: by whoever has claimed it.
    pub(crate) fn end(&self, end: TaskEnd) {
        let state = match end {
            TaskEnd::Returned(ret_val) => {
                self.ret_val.store(ret_val, Relaxed);
                RETURNED
            }
            TaskEnd::Cancelled => CANCELLED,
        };
        // Release: partner is `ended`. The result, and what the call wrote.
        self.state.store(state, Release);
        self.bell.ring();
        contain(|| self.waker.wake());
    }

    /// Ends this process's copy of a request that threads of its parent are at, as if
    /// they had died. By a child of fork(2), where nobody else waits for it.
    pub(crate) fn leave_to_parent(&self) {
        self.ret_val.store(-i64::from(libc::EOWNERDEAD), Relaxed);
        self.state.store(RETURNED, Release);
    }

    /// Its end, if it has ended.
    #[inline]
    pub(crate) fn ended(&self) -> Option<TaskEnd> {
        // Acquire: partner is `end`.
        match self.state.load(Acquire) {
            RETURNED => Some(TaskEnd::Returned(self.ret_val.load(Relaxed))),
            CANCELLED => Some(TaskEnd::Cancelled),
            _ => None,
        }
    }
}

/// Runs the program's code (a waker, an operation and its buffers), whose panic is
/// not for the thread to die of that happens to come by: a processing thread
/// mostly.
pub(crate) fn contain(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        // Leaked: what it has panicked with may panic in turn when dropped.
        std::mem::forget(panic);
    }
}

/// A task whose operation is of whatever type.
pub(crate) trait Task: Send + Sync + fmt::Debug {
    fn base(&self) -> &Base;

    /// The call that comes after the last one, which has returned this; `None` if that was the
    /// last.
    ///
    /// # Safety
    /// The caller has claimed the task, and the kernel has returned this for its last request.
    unsafe fn next(&self, ret_val: i64) -> Option<Request> {
        let _ = ret_val;
        None
    }

    /// Makes the calls of a task that the caller has claimed, or has not placed.
    fn make(&self, rules: &Rules) {
        let mut request = self.base().request;
        let ret_val = loop {
            // SAFETY: who has made the task vouches for its calls, each of which is made once:
            // a job, which stays where it is until its task has ended, `Engine::submit_raw` or
            // `Engine::place`.
            let ret_val = unsafe { call(&request) };
            // SAFETY: claimed by the caller, and returned just now.
            match unsafe { self.next(ret_val) } {
                None => break ret_val,
                Some(next) => request = next,
            }
            if let Err(denied) = rules.check(&request) {
                break denied.ret_val();
            }
        };
        self.base().end(TaskEnd::Returned(ret_val));
    }
}

/// One without an operation, placed by hand.
impl Task for Base {
    fn base(&self) -> &Base {
        self
    }
}

/// A task.
pub(crate) struct Body<O: Job> {
    base: Base,
    /// Touched by the kernel alone while the request is outstanding, and then
    /// by who swaps `TAKEN` in.
    operation: UnsafeCell<Option<O>>,
}

// SAFETY: the operation may be sent to another thread, and no two threads ever
// touch it at once: see the field.
unsafe impl<O: Job + Send> Sync for Body<O> {}

impl<O: Job> fmt::Debug for Body<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("base", &self.base).finish_non_exhaustive()
    }
}

impl<O: Job + Send> Task for Body<O> {
    fn base(&self) -> &Base {
        &self.base
    }

    unsafe fn next(&self, ret_val: i64) -> Option<Request> {
        // SAFETY: whoever has claimed the task has its operation as long as it is at its calls.
        let operation = unsafe { &mut *self.operation.get() }.as_mut()?;
        // SAFETY: the caller's promise.
        let next = || unsafe { operation.goes_on(ret_val) }.then(|| operation.request());
        match catch_unwind(AssertUnwindSafe(next)) {
            Ok(next) => next,
            Err(panic) => {
                // As in `contain`.
                std::mem::forget(panic);
                None
            }
        }
    }
}

impl<O: Job> Body<O> {
    /// The task of `operation`, at the address where it stays. It may be known that it `sleeps`.
    pub(crate) fn new(operation: O, sleeps: bool) -> Arc<Self> {
        let operation = UnsafeCell::new(Some(operation));
        let base = Base { sleeps, ..Base::default() };
        let mut body = Arc::new(Body { base, operation });
        let own = Arc::get_mut(&mut body).expect("nobody else has it yet");
        let operation = own.operation.get_mut().as_mut().expect("put there just now");
        own.base.request = operation.request();
        body
    }

    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    /// Takes the operation out, completed if its call has returned something;
    /// `None` for all but the first.
    ///
    /// # Safety
    /// Nobody executes its request, now or later: it has ended, with this
    /// result, or the caller has taken it back, or it has never been placed.
    pub(crate) unsafe fn take(&self, ret_val: Option<i64>) -> Option<(O, Option<O::Output>)> {
        if self.base.state.swap(TAKEN, AcqRel) == TAKEN {
            return None;
        }
        // SAFETY: only one swap finds another state than `TAKEN`, and the
        // kernel does not touch it (the caller's promise).
        let operation = unsafe { &mut *self.operation.get() };
        // SAFETY: the result of its request, where it was made, for the one who
        // has swapped (the caller's promise).
        let complete =
            |operation: &mut O| ret_val.map(|value| unsafe { operation.complete(value) });
        let output = operation.as_mut().and_then(complete);
        operation.take().map(|operation| (operation, output))
    }
}

impl<O: Job> Drop for Body<O> {
    /// Completes an operation that was executed and never read, so that what
    /// the call has made (a descriptor) goes the way of its output. All that is
    /// the program's is dropped here: the last owner may be a processing thread.
    fn drop(&mut self) {
        let ended = self.base.ended();
        if let (Some(operation), Some(TaskEnd::Returned(ret_val))) =
            (self.operation.get_mut(), ended)
        {
            // SAFETY: the result of its request, where it was made; nobody else
            // has taken it.
            contain(|| drop(unsafe { operation.complete(ret_val) }));
        }
        contain(|| drop(self.operation.get_mut().take()));
        // One that was registered while the request ended.
        contain(|| drop(self.base.waker.take()));
    }
}
