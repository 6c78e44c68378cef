//! A requester's end of a desk: calls that wait for their answers, and requests whose
//! answers are taken later or awaited.

use std::fmt;
use std::mem;
use std::process;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use kumiki_sys::pause::pause;
use kumiki_wait::{Deadline, TimedOut, Waiter};

use super::answer::{Answer, LOOKS};
use super::error::Error;
use super::first_look::FirstLook;
use super::seat::{DropFnsOf, Seat, WaitEnd};
use super::server::Serving;
use kumiki_slot::job;

/// Interval between two looks whether the server still lives.
const STEP: Duration = Duration::from_millis(20);

/// Pause between two looks of a thread that may not sleep at its caller's bell.
const PAUSE: Duration = Duration::from_micros(50);

/// The panic's text for a wait without a deadline that ended without an answer.
const ENDS: &str = "without a deadline there is an answer";

/// Guard of a request that borrows: while it is under way, nothing may unwind past what it borrows.
struct NoUnwinding;

impl Drop for NoUnwinding {
    fn drop(&mut self) {
        process::abort();
    }
}

/// True if the caller is a server itself, and there is something for it to serve.
#[inline(always)]
fn has_work(server: &Option<&mut Serving>) -> bool {
    server.as_ref().is_some_and(|server| server.has_work())
}

/// One requester of a desk: a thread's own. Its requests are served in their order.
pub struct Caller {
    seat: Arc<Seat>,
    /// The only thread that may sleep at the seat's bell, of one that is a server's.
    home: Option<ThreadId>,
    waiter: Waiter,
    first_look: FirstLook,
    /// Number of the last request; 0 before the first.
    last: u64,
    /// Shares in the seat that its answers have left when they were joined: to count a
    /// further one waits until all that this thread has stored is visible, which takes as
    /// long as the way of a line.
    shares: Vec<Arc<Seat>>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Caller {
    pub(crate) fn new(seat: Arc<Seat>, home: Option<ThreadId>, waiter: Waiter) -> Self {
        let first_look = FirstLook::default();
        Caller { seat, home, waiter, first_look, last: 0, shares: Vec::new() }
    }

    /// Runs `f` on the server and returns its result. `f` may borrow: it has ended, or
    /// was dropped unrun, when this returns.
    ///
    /// # Errors
    /// [`Error::Panicked`], [`Error::Gone`], [`Error::Died`]; [`Error::Full`] if the
    /// next line holds an answer that nobody has taken.
    #[inline]
    pub fn call<F, R>(&mut self, f: F) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        self.call_serving(f, None)
    }

    /// Calls from a thread that is a `server` itself, which serves while it waits: two
    /// servers may call each other. The caller is one of [`Door::caller_of`](super::Door::caller_of).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    #[inline(always)]
    pub fn call_serving<F, R>(&mut self, f: F, server: Option<&mut Serving>) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        let n = self.hand_over(f)?;
        // `wait` runs other callers' requests and drops what nobody wants: both are kept
        // from unwinding where they run; this makes sure.
        let unwinding = NoUnwinding;
        self.first_look.wait(|| has_work(&server));
        let end = match self.look(n, &server) {
            Some((look, success)) => {
                self.first_look.found(look);
                WaitEnd::Done(success)
            }
            None => self.wait(n, server, None).expect(ENDS),
        };
        mem::forget(unwinding);
        // SAFETY: `f` returns an `R`, and this is the only taker.
        unsafe { self.seat.take(n, end, job::cancel::<F>) }
    }

    /// Runs `f` on the server, and waits for `timeout` at most. `f` owns what it uses,
    /// because it may go on longer than this call.
    ///
    /// # Errors
    /// As [`call`](Self::call); [`Error::TimedOut`]: of a request that had not begun its
    /// captures are dropped, and it never runs; one that runs has its effect, and its
    /// result is dropped.
    pub fn call_timeout<F, R>(&mut self, timeout: Duration, f: F) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.call_timeout_serving(timeout, f, None)
    }

    /// Calls with a time limit from a thread that is a server itself, as
    /// [`call_serving`](Self::call_serving).
    ///
    /// # Errors
    /// As [`call_timeout`](Self::call_timeout).
    pub fn call_timeout_serving<F, R>(
        &mut self,
        timeout: Duration,
        f: F,
        server: Option<&mut Serving>,
    ) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let deadline = Deadline::after(timeout).at();
        let answer = self.submit(f)?;
        match self.finish(answer.number(), server, deadline) {
            Some(end) => { answer }.take(end),
            None => answer.expire(),
        }
    }

    /// True if another request may be submitted before an answer is taken.
    pub fn has_room(&self) -> bool {
        self.seat.next(self.last).is_some()
    }

    /// True if a line is free without dropping an answer that nobody wants.
    #[inline]
    pub fn has_free_line(&self) -> bool {
        let last = self.last;
        self.seat.has_free_line(last)
    }

    /// Requests that are under way, and answers that nobody has taken yet.
    pub fn under_way(&self) -> usize {
        self.seat.under_way()
    }

    /// True if it sleeps at the bell of `server`, as [`Door::caller_of`](super::Door::caller_of)
    /// makes them: requests for that server wake it, too.
    pub fn rings(&self, server: &Serving) -> bool {
        Arc::ptr_eq(&self.seat.bell, server.bell())
    }

    /// Hands `f` over and returns at once. The answer is taken by [`join`](Self::join),
    /// or awaited.
    ///
    /// # Errors
    /// [`Error::Full`]; whatever becomes of `f` the answer tells.
    #[inline]
    pub fn submit<F, R>(&mut self, f: F) -> Result<Answer<R>, Error>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let n = self.hand_over(f)?;
        let share = self.shares.pop();
        let share = share.unwrap_or_else(|| Arc::clone(&self.seat));
        Ok(Answer::new(share, n, const { &DropFnsOf::<F, R>::DROPS }))
    }

    /// Waits for an answer of this caller's.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    ///
    /// # Panics
    /// If another caller has submitted it.
    #[inline]
    pub fn join<R: Send>(&mut self, answer: Answer<R>) -> Result<R, Error> {
        self.join_serving(answer, None)
    }

    /// Waits for an answer of this caller's for `timeout` at most.
    ///
    /// # Errors
    /// The answer itself, if it has not come by then: the request goes on.
    ///
    /// # Panics
    /// As [`join`](Self::join).
    pub fn join_timeout<R: Send>(
        &mut self,
        answer: Answer<R>,
        timeout: Duration,
    ) -> Result<Result<R, Error>, Answer<R>> {
        self.join_until_serving(answer, Deadline::after(timeout).at(), None)
    }

    /// Joins from a thread that is a server itself, which serves while it waits.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    ///
    /// # Panics
    /// As [`join`](Self::join).
    #[inline(always)]
    pub fn join_serving<R: Send>(
        &mut self,
        answer: Answer<R>,
        server: Option<&mut Serving>,
    ) -> Result<R, Error> {
        let joined = self.join_until_serving(answer, None, server);
        joined.unwrap_or_else(|_| unreachable!("{ENDS}"))
    }

    /// Joins as [`join_serving`](Self::join_serving), until `deadline`, if there is one.
    ///
    /// # Errors
    /// The answer itself, if it has not come by then.
    ///
    /// # Panics
    /// As [`join`](Self::join).
    #[inline(always)]
    pub(crate) fn join_until_serving<R: Send>(
        &mut self,
        answer: Answer<R>,
        deadline: Option<Instant>,
        server: Option<&mut Serving>,
    ) -> Result<Result<R, Error>, Answer<R>> {
        assert!(self.has_submitted(&answer), "an answer is joined by its own caller");
        let Some(end) = self.finish(answer.number(), server, deadline) else {
            return Err(answer);
        };
        let (result, share) = answer.take_all(end);
        self.shares.push(share);
        Ok(result)
    }

    /// True if the answer is of a request of this caller's.
    pub fn has_submitted<R>(&self, answer: &Answer<R>) -> bool {
        Arc::ptr_eq(&self.seat, answer.seat())
    }

    /// Looks for the answer of `n` for a while, or until there is something to serve: at which
    /// look it was there, and whether without a panic.
    #[inline(always)]
    fn look(&self, n: u64, server: &Option<&mut Serving>) -> Option<(u32, bool)> {
        let look = |look| match self.seat.lane.done(n) {
            Some(success) => Some(Some((look, success))),
            None => has_work(server).then_some(None),
        };
        (1..=LOOKS).find_map(look)?
    }

    /// Looks for the answer of `n` for a while, then waits.
    #[inline(always)]
    fn finish(
        &mut self,
        n: u64,
        server: Option<&mut Serving>,
        deadline: Option<Instant>,
    ) -> Option<WaitEnd> {
        match self.look(n, &server) {
            Some((_, success)) => Some(WaitEnd::Done(success)),
            None => self.wait(n, server, deadline),
        }
    }

    /// Waits for request `n`; a server serves meanwhile. `None` at the deadline.
    #[cold]
    #[inline(never)]
    fn wait(
        &mut self,
        n: u64,
        mut server: Option<&mut Serving>,
        deadline: Option<Instant>,
    ) -> Option<WaitEnd> {
        let Caller { seat, waiter, .. } = self;
        let fate = &seat.desk.fate;
        if seat.desk.is_elsewhere() {
            if let Some(end) = seat.settle(n) {
                return Some(end);
            }
        }
        let may_sleep = self.home.is_none_or(|home| home == thread::current().id());
        // Also of one that serves others without a rest.
        let mut look = Instant::now() + STEP;
        loop {
            if fate.is_gone() {
                if let Some(end) = seat.settle(n) {
                    return Some(end);
                }
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return None;
            }
            if now >= look {
                look = now + STEP;
                if seat.desk.is_gone() {
                    if let Some(end) = seat.settle(n) {
                        return Some(end);
                    }
                }
            }
            let until = deadline.map_or(look, |deadline| deadline.min(look));
            let ready = || match seat.lane.done(n) {
                Some(success) => Some(Some(success)),
                None => (fate.is_over() || has_work(&server)).then_some(None),
            };
            let outcome = if may_sleep {
                waiter.wait_deadline(&seat.bell, seat.lane.word(n), until, ready)
            } else {
                pause(PAUSE);
                ready().ok_or(TimedOut)
            };
            match outcome {
                Ok(Some(success)) => return Some(WaitEnd::Done(success)),
                Ok(None) => _ = server.as_mut().map(|server| server.round()),
                Err(TimedOut) => {}
            }
        }
    }

    /// True if the server has ended or died.
    pub fn is_gone(&self) -> bool {
        self.seat.desk.is_gone()
    }

    #[inline(always)]
    fn hand_over<F, R>(&mut self, f: F) -> Result<u64, Error>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        let n = self.seat.next(self.last).ok_or(Error::Full)?;
        // SAFETY: the line's request before was answered and its answer taken, so it is
        // this thread's.
        unsafe { job::pack(self.seat.lane.request(n), f) };
        self.last = n;
        self.seat.lane.submit(n);
        self.seat.desk.bell.ring();
        Ok(n)
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.seat.leave(self.last);
    }
}
