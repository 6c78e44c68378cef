//! What one caller and the server share: the caller's lane, who holds which line, and who
//! is to be told of an answer.

use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::task::Waker;

use atomic_waker::AtomicWaker;
use kumiki_wait::{Bell, barrier};

use super::Desk;
use super::LINES;
use super::error::{Error, Panic};
use kumiki_slot::Lane;
use kumiki_slot::Request;
use kumiki_slot::job;

/// DropFns what a request has left: its result, or what it panicked with.
type Discard = unsafe fn(*mut Request, bool);
/// DropFns the captures of a request that was not run.
type Cancel = unsafe fn(*mut Request);

/// Functions that drop a request, or a result, that nobody takes.
#[derive(Debug)]
pub(crate) struct DropFns {
    pub(crate) cancel: Cancel,
    discard: Discard,
}

/// Drop functions of an `F` that returns an `R`.
pub(crate) struct DropFnsOf<F, R>(PhantomData<(F, R)>);

impl<F, R> DropFnsOf<F, R> {
    pub(crate) const DROPS: DropFns =
        DropFns { cancel: job::cancel::<F>, discard: job::discard::<R> };
}

/// A value on lines of its own: beside nothing that the server reads.
#[derive(Debug)]
#[repr(align(128))]
struct Own<T>(T);

/// Lines and words that one caller and the server share.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) lane: Lane<LINES>,
    pub(crate) desk: Arc<Desk>,
    /// The caller sleeps here: its own bell, or, of a thread that is a server too, the one
    /// of its desk.
    pub(crate) bell: Arc<Bell>,
    /// Some answer of this seat has been awaited: the server looks for wakers.
    awaited: AtomicBool,
    /// True while tasks that await answers are woken whatever happens, as long as the desk is not
    /// unwatched; otherwise they ask again and again.
    told: AtomicBool,
    wakers: [AtomicWaker; LINES],
    /// The last request, once the caller is gone; before, greater than any.
    last: AtomicU64,
    /// Lines with an answer that somebody will take. The caller sets it, whoever takes the
    /// answer clears it.
    busy: Own<[AtomicBool; LINES]>,
    /// [`DropFns`] of each line whose answer nobody wants any more.
    abandoned: [AtomicPtr<DropFns>; LINES],
}

/// Runs code of users' that is none of the calling thread's business: a panic of it has been
/// reported by the hook, and goes no further.
fn apart(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // Its drop is users' code, too.
        mem::forget(payload);
    }
}

/// Line of request `n`.
#[inline(always)]
pub(crate) fn place(n: u64) -> usize {
    Lane::<LINES>::place(n)
}

/// End of a wait.
pub(crate) enum WaitEnd {
    /// The request has run; true without a panic.
    Done(bool),
    /// The request was got back from a server that is gone, and has not run.
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
        // Acquire: partner is `leave`.
        next > self.last.load(Ordering::Acquire)
    }

    /// The server is gone.
    pub(crate) fn wake_all(&self) {
        self.bell.ring();
        self.wakers.iter().for_each(|waker| apart(|| waker.wake()));
    }

    /// `waker` is to be told of the answer of `n`.
    pub(crate) fn register(&self, n: u64, waker: &Waker) {
        // Once a seat: from then on the server looks for wakers. Relaxed: the heavy fence is
        // between this store and the next look at the line; partner is the light one in
        // `tell`.
        if !self.awaited.swap(true, Ordering::Relaxed) {
            let told = barrier::heavy() & self.desk.watch();
            // Else it may not be told of this answer, or of a death: it asks again.
            // Release: partner is the load below, for those whose fence was this one.
            self.told.store(told, Ordering::Release);
        }
        self.wakers[place(n)].register(waker);
        if !self.told.load(Ordering::Acquire) || self.desk.is_unwatched() {
            waker.wake_by_ref();
        }
    }

    /// An answer of `n` is to be taken from now on.
    #[inline(always)]
    pub(crate) fn occupy(&self, n: u64) {
        // Relaxed: `free` is by whoever takes the answer, which does not exist yet.
        self.busy.0[place(n)].store(true, Ordering::Relaxed);
    }

    /// Caller: requests under way, and answers that nobody has taken yet.
    pub(crate) fn under_way(&self) -> usize {
        self.sweep_all();
        self.busy.0.iter().filter(|busy| busy.load(Ordering::Acquire)).count()
    }

    /// Caller: nothing comes after request `last`.
    pub(crate) fn leave(&self, last: u64) {
        // Release: partner is `is_left`. The server goes on until it has served `last`.
        self.last.store(last, Ordering::Release);
        if self.desk.fate.is_over() {
            // A thread that was killed keeps the seat for ever.
            self.sweep_all();
        }
        self.desk.changed();
    }

    /// The answer of `n` was taken.
    pub(crate) fn free(&self, n: u64) {
        // Release: partner is the load in `is_busy`.
        self.busy.0[place(n)].store(false, Ordering::Release);
    }

    /// True if an answer of the line of `n` is to be taken.
    #[inline(always)]
    fn is_busy(&self, n: u64) -> bool {
        self.busy.0[place(n)].load(Ordering::Acquire)
    }

    /// Caller: whether a line for the request after `last` is free.
    #[inline(always)]
    pub(crate) fn has_free_line(&self, last: u64) -> bool {
        !self.is_busy(last) || !self.is_busy(Lane::<LINES>::after(last, false))
    }

    /// Caller: the number of the request after `last`, if its line may be used, if need be
    /// after dropping an answer that nobody wants.
    #[inline(always)]
    pub(crate) fn next(&self, last: u64) -> Option<u64> {
        let again = !self.is_busy(last);
        let n = Lane::<LINES>::after(last, again);
        if again && place(n) != place(last) {
            // The turns are over. Calls that are waited for come to no line where an answer
            // lies that nobody wants.
            self.sweep_all();
        }
        (!self.is_busy(n) || self.sweep(place(n))).then_some(n)
    }

    /// DropFns the answer in a line if it was given up and has come, or its captures if that
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

    /// Abandons the answer of `n`: nobody will take it.
    pub(crate) fn abandon(&self, n: u64, drops: &'static DropFns) {
        // Release: partner is the load in `sweep`.
        self.abandoned[place(n)].store(ptr::from_ref(drops).cast_mut(), Ordering::Release);
    }

    /// Drops the results of requests that nobody waits for.
    #[cold]
    pub(crate) fn sweep_all(&self) {
        (0..LINES).for_each(|place| _ = self.sweep(place));
    }

    /// End of request `n`, whose server is gone; `None` while that still works.
    pub(crate) fn settle(&self, n: u64) -> Option<WaitEnd> {
        // Asked before the line is looked at: a server that is over answers no more.
        let over = self.desk.fate.is_over();
        if if over { self.lane.reclaim(n) } else { self.lane.take_back(n) } {
            return Some(WaitEnd::Back);
        }
        match self.lane.done(n) {
            Some(success) => Some(WaitEnd::Done(success)),
            None => (over || self.is_left_behind(n)).then_some(WaitEnd::Died),
        }
    }

    /// True in a child of fork(2) if nothing of `n` is heard of any more, which had begun. The
    /// parent's thread may have been at it. Or it is at it here, being the one that has forked:
    /// then what borrows is waited for.
    fn is_left_behind(&self, n: u64) -> bool {
        self.is_busy(n) && self.desk.is_elsewhere()
    }

    /// The result of request `n`, which has ended so.
    ///
    /// # Safety
    /// Its result is an `R`, which is taken once; `cancel` drops its captures.
    #[inline(always)]
    pub(crate) unsafe fn take<R>(&self, n: u64, end: WaitEnd, cancel: Cancel) -> Result<R, Error> {
        match end {
            // SAFETY: it is done, and the caller promises the rest.
            WaitEnd::Done(success) => unsafe { job::unpack(self.lane.request(n), success) }
                .map_err(|payload| Error::Panicked(Panic::new(payload))),
            WaitEnd::Back => {
                // SAFETY: got back, so it was not run, and it is this thread's.
                unsafe { cancel(self.lane.request(n)) };
                Err(Error::Gone)
            }
            WaitEnd::Died => Err(Error::Died),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.sweep_all();
    }
}
