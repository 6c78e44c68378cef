//! The answer of a request that may still be under way.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use kumiki_wait::Deadline;

use super::error::Error;
use super::seat::{DropFns, Seat, WaitEnd};

/// Looks at the line before somebody waits in earnest: some microseconds, several times
/// what a request needs to the farthest cpu.
pub(crate) const LOOKS: u32 = 4096;

/// The answer of a request that may still be under way: a future, which any thread may
/// await.
///
/// Dropped, it cancels the request: one that has not begun never runs, and its captures are
/// dropped; one that has begun goes on, and its result is dropped. To leave a request to
/// itself there is [`detach`](Self::detach).
pub struct Answer<R> {
    seat: Arc<Seat>,
    n: u64,
    drops: &'static DropFns,
    taken: bool,
    result: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Answer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("n", &self.n).finish_non_exhaustive()
    }
}

impl<R> Answer<R> {
    /// The answer of request `n`, whose line is this answer's from now on.
    #[inline(always)]
    pub(crate) fn new(seat: Arc<Seat>, n: u64, drops: &'static DropFns) -> Self {
        seat.occupy(n);
        Answer { seat, n, drops, taken: false, result: PhantomData }
    }

    /// Number of the request.
    #[inline(always)]
    pub(crate) fn number(&self) -> u64 {
        self.n
    }

    #[inline(always)]
    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    /// Its result, and the share in the seat for the next one.
    #[inline(always)]
    pub(crate) fn take_all(mut self, end: WaitEnd) -> (Result<R, Error>, Arc<Seat>) {
        let result = self.take(end);
        let answer = ManuallyDrop::new(self);
        // SAFETY: moved out once, as the answer is not dropped; it was taken, so its drop
        // would do nothing else.
        (result, unsafe { ptr::read(&answer.seat) })
    }

    /// True if it is there.
    pub fn is_done(&self) -> bool {
        self.seat.lane.done(self.n).is_some()
    }

    /// True if it is there, or never will be: to wait for it takes no time.
    pub fn is_settled(&self) -> bool {
        self.is_done() || self.seat.desk.is_over()
    }

    /// Takes the request back, if nobody has begun it: then it has not run and never
    /// will, and its captures are dropped.
    ///
    /// # Errors
    /// This very answer: the request runs or has run.
    pub fn cancel(mut self) -> Result<(), Self> {
        if self.take_back() { Ok(()) } else { Err(self) }
    }

    /// Leaves the request to run, and its result to be dropped.
    pub fn detach(mut self) {
        self.give_up();
    }

    fn take_back(&mut self) -> bool {
        let back = !self.is_done() && self.seat.lane.take_back(self.n);
        if back {
            drop(self.take(WaitEnd::Back));
        }
        back
    }

    /// Gives the answer up: it is not taken any more.
    fn give_up(&mut self) {
        match self.end() {
            Some(end) => drop(self.take(end)),
            None => {
                self.taken = true;
                self.seat.abandon(self.n, self.drops);
            }
        }
    }

    /// Its time is over.
    pub(crate) fn expire(mut self) -> Result<R, Error> {
        if self.take_back() {
            return Err(Error::TimedOut { begun: false });
        }
        // It may have come just now.
        if let Some(end) = self.end() {
            return self.take(end);
        }
        self.give_up();
        Err(Error::TimedOut { begun: true })
    }

    /// Waits for it, in whatever thread. Its own caller's [`join`](super::Caller::join) is
    /// quicker.
    ///
    /// # Errors
    /// As [`Caller::call`](super::Caller::call).
    pub fn wait(self) -> Result<R, Error> {
        self.wait_until(None).unwrap_or_else(|_| unreachable!("no deadline was given"))
    }

    /// Waits as [`wait`](Self::wait), for `timeout` at most.
    ///
    /// # Errors
    /// The answer itself, if it has not come by then: the request goes on.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<R, Error>, Self> {
        self.wait_until(Deadline::after(timeout).at())
    }

    pub(crate) fn wait_until(
        mut self,
        deadline: Option<Instant>,
    ) -> Result<Result<R, Error>, Self> {
        // Most are there sooner than a thread falls asleep.
        for _ in 0..LOOKS {
            if self.is_done() {
                break;
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(result) = Pin::new(&mut self).poll(&mut cx) {
                return Ok(result);
            }
            match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return Err(self),
                Some(left) => thread::park_timeout(left),
            }
        }
    }

    fn end(&self) -> Option<WaitEnd> {
        match self.seat.lane.done(self.n) {
            Some(success) => Some(WaitEnd::Done(success)),
            None => self.seat.desk.is_gone().then(|| self.seat.settle(self.n)).flatten(),
        }
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, end: WaitEnd) -> Result<R, Error> {
        assert!(!self.taken, "an answer is taken once");
        self.taken = true;
        // What a dead server was at is in the line for ever. Freed even if dropping the
        // captures panics: they were moved out before.
        let _free = (!matches!(end, WaitEnd::Died)).then(|| Free { seat: &self.seat, n: self.n });
        // SAFETY: `submit` packed a request that returns an `R` with this `cancel`, and
        // `taken` was false.
        unsafe { self.seat.take(self.n, end, self.drops.cancel) }
    }
}

/// The line of a request that was taken.
struct Free<'a> {
    seat: &'a Seat,
    n: u64,
}

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.seat.free(self.n);
    }
}

/// Wakes a thread that waits for an answer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<R> Future for Answer<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_done() {
            self.seat.register(self.n, cx.waker());
        }
        match self.end() {
            Some(end) => Poll::Ready(self.take(end)),
            None => Poll::Pending,
        }
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        if !self.taken && !self.take_back() {
            self.give_up();
        }
    }
}
