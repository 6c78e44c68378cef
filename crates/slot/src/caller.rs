//! A requester's end of a desk: calls that wait for their answers, and requests whose
//! answers are taken later or awaited.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use kumiki_sys::pause::pause;
use kumiki_wait::{Bell, TimedOut, Waiter, barrier};

use crate::desk::{Desk, LINES, Serving};
use crate::error::{Error, Panic};
use crate::job;
use crate::lane::Lane;
use crate::line::Request;

/// Looks at the line before a call waits in earnest: some microseconds, several times
/// what a request needs to the farthest cpu.
const LOOKS: u32 = 4096;
/// Between two looks whether the server still lives.
const STEP: Duration = Duration::from_millis(20);

/// Between two looks of a thread that may not sleep at its caller's bell.
const PAUSE: Duration = Duration::from_micros(50);

/// Drops what a request has left: its result, or what it panicked with.
type Discard = unsafe fn(*mut Request, bool);
/// Drops the captures of a request that was not run.
type Cancel = unsafe fn(*mut Request);

/// Of a request whose answer nobody may take.
#[derive(Debug)]
struct Drops {
    cancel: Cancel,
    discard: Discard,
}

/// Those of an `F` that returns an `R`.
struct Of<F, R>(PhantomData<(F, R)>);

impl<F, R> Of<F, R> {
    const DROPS: Drops = Drops { cancel: job::cancel::<F>, discard: job::discard::<R> };
}

/// On lines of its own: beside nothing that the server reads.
#[derive(Debug)]
#[repr(align(128))]
struct Own<T>(T);

/// What one caller and the server share.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) lane: Lane<LINES>,
    pub(crate) desk: Arc<Desk>,
    /// The caller sleeps here: its own bell, or, of a thread that is a server too, the one
    /// of its desk.
    bell: Arc<Bell>,
    /// Some answer of this seat has been awaited: the server looks for wakers.
    awaited: AtomicBool,
    /// Those who await answers are woken whatever happens, as long as the desk is not
    /// unwatched; otherwise they ask again and again.
    told: AtomicBool,
    wakers: [AtomicWaker; LINES],
    /// The last request, once the caller is gone; before, greater than any.
    last: AtomicU64,
    /// Lines with an answer that somebody will take. The caller sets it, whoever takes the
    /// answer clears it.
    busy: Own<[AtomicBool; LINES]>,
    /// Of a line whose answer nobody wants any more, its [`Drops`].
    abandoned: [AtomicPtr<Drops>; LINES],
}

/// Runs code of users' that is none of the calling thread's business: a panic of it has been
/// reported by the hook, and goes no further.
fn apart(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // Its drop is users' code, too.
        mem::forget(payload);
    }
}

/// While a request that borrows is under way, nothing may unwind past what it borrows.
struct NoUnwinding;

impl Drop for NoUnwinding {
    fn drop(&mut self) {
        process::abort();
    }
}

/// Which line request `n` is in.
#[inline(always)]
fn place(n: u64) -> usize {
    Lane::<LINES>::place(n)
}

/// How a wait has ended.
enum End {
    /// It has run; without a panic?
    Done(bool),
    /// It was got back from a server that is gone, and has not run.
    Back,
    /// The server died at it.
    Died,
}

impl Seat {
    pub(crate) fn new(desk: Arc<Desk>, bell: Arc<Bell>) -> Self {
        Seat {
            lane: Lane::new(),
            desk,
            bell,
            awaited: AtomicBool::new(false),
            told: AtomicBool::new(false),
            wakers: [const { AtomicWaker::new() }; LINES],
            last: AtomicU64::new(u64::MAX),
            busy: Own([const { AtomicBool::new(false) }; LINES]),
            abandoned: [const { AtomicPtr::new(ptr::null_mut()) }; LINES],
        }
    }

    /// Server: request `n` is complete.
    #[inline(always)]
    pub(crate) fn tell(&self, n: u64) {
        self.bell.ring();
        // Relaxed: the ring's light fence is between the answer and this load; partner is
        // the heavy fence in `Answer::poll`.
        if self.awaited.load(Ordering::Relaxed) {
            self.wake(n);
        }
    }

    /// Out of line: the path without awaited answers is to stay short.
    #[inline(never)]
    fn wake(&self, n: u64) {
        apart(|| self.wakers[place(n)].wake());
    }

    /// Server: whether nothing will come after the request before `next`.
    pub(crate) fn is_left(&self, next: u64) -> bool {
        // Acquire: partner is the caller's drop.
        next > self.last.load(Ordering::Acquire)
    }

    /// The server is gone.
    pub(crate) fn wake_all(&self) {
        self.bell.ring();
        self.wakers.iter().for_each(|waker| apart(|| waker.wake()));
    }

    /// The answer of `n` was taken.
    fn free(&self, n: u64) {
        // Release: partner is the load in `is_busy`.
        self.busy.0[place(n)].store(false, Ordering::Release);
    }

    /// Whether an answer of the line of `n` is to be taken.
    #[inline(always)]
    fn is_busy(&self, n: u64) -> bool {
        self.busy.0[place(n)].load(Ordering::Acquire)
    }

    /// Caller: the number of the request after `last`, if its line may be used, if need be
    /// after dropping an answer that nobody wants.
    #[inline(always)]
    fn next(&self, last: u64) -> Option<u64> {
        let again = !self.is_busy(last);
        let n = Lane::<LINES>::after(last, again);
        if again && place(n) != place(last) {
            // The turns are over. Calls that are waited for come to no line where an answer
            // lies that nobody wants.
            self.sweep_all();
        }
        (!self.is_busy(n) || self.sweep(place(n))).then_some(n)
    }

    /// Drops the answer in a line if it was given up and has come, or its captures if that
    /// will never be.
    #[cold]
    fn sweep(&self, place: usize) -> bool {
        let abandoned = &self.abandoned[place];
        // Acquire: partner is the store in `abandon`.
        let drops = abandoned.load(Ordering::Acquire);
        // SAFETY: null, or from `abandon`.
        let Some(drops) = (unsafe { drops.as_ref::<'static>() }) else { return false };
        let n = self.lane.last_in(place);
        let request = self.lane.request(n);
        if let Some(success) = self.lane.done(n) {
            abandoned.store(ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: the request is done, its answer was given up, and the function is that
            // of its result.
            apart(|| unsafe { (drops.discard)(request, success) });
        } else if self.desk.fate.is_over() && self.lane.reclaim(n) {
            abandoned.store(ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: got back, so it was not run; the function is that of its captures.
            apart(|| unsafe { (drops.cancel)(request) });
        } else {
            return false;
        }
        self.free(n);
        true
    }

    /// Nobody will take the answer of `n`.
    fn abandon(&self, n: u64, drops: &'static Drops) {
        // Release: partner is the load in `sweep`.
        self.abandoned[place(n)].store(ptr::from_ref(drops).cast_mut(), Ordering::Release);
    }

    /// Of the requests that nobody waits for.
    #[cold]
    fn sweep_all(&self) {
        (0..LINES).for_each(|place| _ = self.sweep(place));
    }

    /// What has become of `n`, of a server that is gone; `None` while it still works.
    fn settle(&self, n: u64) -> Option<End> {
        // Asked before the line is looked at: a server that is over answers no more.
        let over = self.desk.fate.is_over();
        if if over { self.lane.reclaim(n) } else { self.lane.take_back(n) } {
            return Some(End::Back);
        }
        match self.lane.done(n) {
            Some(success) => Some(End::Done(success)),
            None => (over || self.is_left_behind(n)).then_some(End::Died),
        }
    }

    /// In a child of fork(2): whether nothing of `n` is heard of any more, which had begun.
    /// The parent's thread may have been at it. Or it is at it here, being the one that has
    /// forked: then what borrows is waited for.
    fn is_left_behind(&self, n: u64) -> bool {
        self.is_busy(n) && self.desk.is_elsewhere()
    }

    /// Caller: waits for request `n`; a server serves meanwhile. `None` at the deadline.
    /// The bell is that of `home`, or the calling thread's.
    #[cold]
    #[inline(never)]
    fn wait(
        &self,
        n: u64,
        home: Option<ThreadId>,
        waiter: &mut Waiter,
        mut server: Option<&mut Serving>,
        deadline: Option<Instant>,
    ) -> Option<End> {
        let fate = &self.desk.fate;
        if self.desk.is_elsewhere()
            && let Some(end) = self.settle(n)
        {
            return Some(end);
        }
        let may_sleep = home.is_none_or(|home| home == thread::current().id());
        // Also of one that serves others without a rest.
        let mut look = Instant::now() + STEP;
        loop {
            if fate.is_gone()
                && let Some(end) = self.settle(n)
            {
                return Some(end);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return None;
            }
            if now >= look {
                look = now + STEP;
                if self.desk.is_gone()
                    && let Some(end) = self.settle(n)
                {
                    return Some(end);
                }
            }
            let until = deadline.map_or(look, |deadline| deadline.min(look));
            let has_work = || server.as_ref().is_some_and(|server| server.has_work());
            let ready = || match self.lane.done(n) {
                Some(success) => Some(Some(success)),
                None => (fate.is_over() || has_work()).then_some(None),
            };
            let outcome = if may_sleep {
                waiter.wait_until(&self.bell, self.lane.word(n), until, ready)
            } else {
                pause(PAUSE);
                ready().ok_or(TimedOut)
            };
            match outcome {
                Ok(Some(success)) => return Some(End::Done(success)),
                Ok(None) => _ = server.as_mut().map(|server| server.round()),
                Err(TimedOut) => {}
            }
        }
    }

    /// The result of request `n`, which has ended so.
    ///
    /// # Safety
    /// Its result is an `R`, which is taken once; `cancel` drops its captures.
    #[inline(always)]
    unsafe fn take<R>(&self, n: u64, end: End, cancel: Cancel) -> Result<R, Error> {
        match end {
            // SAFETY: it is done, and the caller promises the rest.
            End::Done(success) => unsafe { job::unpack(self.lane.request(n), success) }
                .map_err(|payload| Error::Panicked(Panic::new(payload))),
            End::Back => {
                // SAFETY: got back, so it was not run, and it is this thread's.
                unsafe { cancel(self.lane.request(n)) };
                Err(Error::Gone)
            }
            End::Died => Err(Error::Died),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.sweep_all();
    }
}

/// One requester of a desk: a thread's own. Its requests are served in their order.
pub struct Caller {
    seat: Arc<Seat>,
    /// The only thread that may sleep at the seat's bell, of one that is a server's.
    home: Option<ThreadId>,
    waiter: Waiter,
    /// Number of the last request; 0 before the first.
    last: u64,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Caller {
    pub(crate) fn new(seat: Arc<Seat>, home: Option<ThreadId>, waiter: Waiter) -> Self {
        Caller { seat, home, waiter, last: 0 }
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
        self.call_and_serve(f, None)
    }

    /// The same from a thread that is a server itself, which serves while it waits: two
    /// servers may call each other. The caller is one of [`Door::caller_of`](crate::Door::caller_of).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    #[inline]
    pub fn call_serving<F, R>(&mut self, f: F, server: &mut Serving) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        self.call_and_serve(f, Some(server))
    }

    #[inline(always)]
    fn call_and_serve<F, R>(&mut self, f: F, server: Option<&mut Serving>) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        let n = self.hand_over(f)?;
        // `wait` runs other callers' requests and drops what nobody wants: both are kept
        // from unwinding where they run; this makes sure.
        let unwinding = NoUnwinding;
        let end = self.finish(n, server);
        mem::forget(unwinding);
        // SAFETY: `f` returns an `R`, and this is the only taker.
        unsafe { self.seat.take(n, end, job::cancel::<F>) }
    }

    /// Runs `f` on the server, and waits until `deadline` at most. `f` owns what it uses,
    /// because it may go on longer than this call.
    ///
    /// # Errors
    /// As [`call`](Self::call); [`Error::TimedOut`]: of a request that had not begun its
    /// captures are dropped, and it never runs; one that runs has its effect, and its
    /// result is dropped.
    pub fn call_until<F, R>(&mut self, deadline: Instant, f: F) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.call_and_serve_until(deadline, f, None)
    }

    /// The same from a thread that is a server itself, as
    /// [`call_serving`](Self::call_serving).
    ///
    /// # Errors
    /// As [`call_until`](Self::call_until).
    pub fn call_until_serving<F, R>(
        &mut self,
        deadline: Instant,
        f: F,
        server: &mut Serving,
    ) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.call_and_serve_until(deadline, f, Some(server))
    }

    fn call_and_serve_until<F, R>(
        &mut self,
        deadline: Instant,
        f: F,
        server: Option<&mut Serving>,
    ) -> Result<R, Error>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let answer = self.submit(f)?;
        match self.finish_until(answer.n, server, Some(deadline)) {
            Some(end) => { answer }.take(end),
            None => answer.expire(),
        }
    }

    /// Whether another request may be submitted before an answer is taken.
    pub fn has_room(&self) -> bool {
        self.seat.next(self.last).is_some()
    }

    /// The same, without dropping an answer that nobody wants.
    #[inline]
    pub fn has_free_line(&self) -> bool {
        let last = self.last;
        !self.seat.is_busy(last) || !self.seat.is_busy(Lane::<LINES>::after(last, false))
    }

    /// Requests that are under way, and answers that nobody has taken yet.
    pub fn under_way(&self) -> usize {
        self.seat.sweep_all();
        self.seat.busy.0.iter().filter(|busy| busy.load(Ordering::Acquire)).count()
    }

    /// Whether it sleeps at the bell of `server`, as [`Door::caller_of`](crate::Door::caller_of)
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
        // Relaxed: `free` is by whoever takes the answer, which does not exist yet.
        self.seat.busy.0[place(n)].store(true, Ordering::Relaxed);
        let seat = Arc::clone(&self.seat);
        let drops = const { &Of::<F, R>::DROPS };
        Ok(Answer { seat, n, drops, taken: false, result: PhantomData })
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
        self.join_and_serve(answer, None)
    }

    /// The same from a thread that is a server itself, which serves while it waits.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    ///
    /// # Panics
    /// As [`join`](Self::join).
    #[inline]
    pub fn join_serving<R: Send>(
        &mut self,
        answer: Answer<R>,
        server: &mut Serving,
    ) -> Result<R, Error> {
        self.join_and_serve(answer, Some(server))
    }

    #[inline(always)]
    fn join_and_serve<R: Send>(
        &mut self,
        mut answer: Answer<R>,
        server: Option<&mut Serving>,
    ) -> Result<R, Error> {
        assert!(self.has_submitted(&answer), "an answer is joined by its own caller");
        let end = self.finish(answer.n, server);
        answer.take(end)
    }

    /// Whether the answer is of a request of this caller's.
    pub fn has_submitted<R>(&self, answer: &Answer<R>) -> bool {
        Arc::ptr_eq(&self.seat, &answer.seat)
    }

    /// Waits for the answer of `n`.
    #[inline(always)]
    fn finish(&mut self, n: u64, server: Option<&mut Serving>) -> End {
        self.finish_until(n, server, None).expect("without a deadline there is an answer")
    }

    /// Looks for the answer of `n` for a while, then waits.
    #[inline(always)]
    fn finish_until(
        &mut self,
        n: u64,
        server: Option<&mut Serving>,
        deadline: Option<Instant>,
    ) -> Option<End> {
        let seat = &*self.seat;
        let mut looks = 0;
        loop {
            if let Some(success) = seat.lane.done(n) {
                return Some(End::Done(success));
            }
            looks += 1;
            if looks == LOOKS {
                return seat.wait(n, self.home, &mut self.waiter, server, deadline);
            }
        }
    }

    /// Whether the server has ended or died.
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
        // Release: partner is `is_left`. The server goes on until it has served `last`.
        self.seat.last.store(self.last, Ordering::Release);
        if self.seat.desk.fate.is_over() {
            // A thread that was killed keeps the seat for ever.
            self.seat.sweep_all();
        }
        self.seat.desk.changed();
    }
}

/// The answer of a request that may still be under way: a future, which any thread may
/// await.
///
/// Dropped, it cancels the request: one that has not begun never runs, and its captures are
/// dropped; one that has begun goes on, and its result is dropped. To leave a request to
/// itself there is [`detach`](Self::detach).
pub struct Answer<R> {
    seat: Arc<Seat>,
    n: u64,
    drops: &'static Drops,
    taken: bool,
    result: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Answer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("n", &self.n).finish_non_exhaustive()
    }
}

impl<R> Answer<R> {
    /// Whether it is there.
    pub fn is_done(&self) -> bool {
        self.seat.lane.done(self.n).is_some()
    }

    /// Whether it is there, or never will be: to wait for it takes no time.
    pub fn is_settled(&self) -> bool {
        self.is_done() || self.seat.desk.is_over()
    }

    /// Takes the request back; whether that was in time: then it has not run and never
    /// will, and its captures are dropped. Else it runs or has run.
    pub fn cancel(mut self) -> bool {
        self.take_back()
    }

    /// Leaves the request to run, and its result to be dropped.
    pub fn detach(mut self) {
        self.give_up();
    }

    fn take_back(&mut self) -> bool {
        let back = !self.is_done() && self.seat.lane.take_back(self.n);
        if back {
            drop(self.take(End::Back));
        }
        back
    }

    /// It is not taken any more.
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
    fn expire(mut self) -> Result<R, Error> {
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

    /// Waits for it, in whatever thread. Its own caller's [`join`](Caller::join) is
    /// quicker.
    ///
    /// # Errors
    /// As [`Caller::call`].
    pub fn wait(mut self) -> Result<R, Error> {
        // Most are there sooner than a thread falls asleep.
        for _ in 0..LOOKS {
            if self.is_done() {
                break;
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut cx) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }

    fn end(&self) -> Option<End> {
        match self.seat.lane.done(self.n) {
            Some(success) => Some(End::Done(success)),
            None => self.seat.desk.is_gone().then(|| self.seat.settle(self.n)).flatten(),
        }
    }

    fn take(&mut self, end: End) -> Result<R, Error> {
        assert!(!self.taken, "an answer is taken once");
        self.taken = true;
        // What a dead server was at is in the line for ever. Freed even if dropping the
        // captures panics: they were moved out before.
        let _free = (!matches!(end, End::Died)).then(|| Free { seat: &self.seat, n: self.n });
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
        let seat = &*self.seat;
        if !self.is_done() {
            // Once a seat: from then on the server looks for wakers. Relaxed: the heavy
            // fence is between this store and the look at the line below; partner is the
            // light one in `tell`.
            if !seat.awaited.swap(true, Ordering::Relaxed) {
                let told = barrier::heavy() & self.seat.desk.watch();
                // Else it may not be told of this answer, or of a death: it asks again.
                // Release: partner is the load below, for those whose fence was this one.
                seat.told.store(told, Ordering::Release);
            }
            seat.wakers[place(self.n)].register(cx.waker());
            if !seat.told.load(Ordering::Acquire) || seat.desk.is_unwatched() {
                cx.waker().wake_by_ref();
            }
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
