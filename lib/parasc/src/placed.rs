//! Requests placed by hand, and their results until they are collected (`parasc_wait`).
//!
//! ```text
//!   place ─┬─▶ the engine's line: one offer, to which each is appended ─▶ claimed one by one ─▶ result
//!          └─▶ a task in a queue, for calls that sleep ────────────────▶ claimed ─────────────▶ end
//! ```
//!
//! Each has a slot of a table, and a generation, which its ticket names: of two that collect
//! one result one has it, and none takes the next one's. A slot's number is that of its call
//! in the offer, too, which stands in two lists as long as the table.
//!
//! # Appended
//! Who holds the slot that the offer ends with, writes the request there and lets `last` grow
//! by one, which is a swap, as all changes of an open offer are. It fails where the offer ends
//! elsewhere by then; and where that slot is taken, or there is none, an offer that is over
//! goes on at another one, and in the table's second half at the first one, if that is free: the
//! table's end would part what comes next. What cannot be appended is a task.
//!
//! # Waiting
//! Results there = slots taken − tasks under way − (`last` − `made`). A slot is counted as
//! taken after its request, so that a thread that counts the slots first never counts too many.
//!
//! A thread that ends such a request looks whether somebody waits; a waiting thread says so,
//! looks how many results there are, and sleeps until more have come. With a full fence in
//! between on both sides, one of them sees the other.

use std::cell::UnsafeCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use kumiki_wait::EventCount;

use crate::awaited::{self, WaitStep};
use crate::line::{Calls, Line};
use crate::primitive::{AtomicUsize, Mutex, MutexGuard, fence, fence_after_swap, lock};
use crate::task::{Base, TaskEnd};
use kumiki_calls::Request;

/// Value in place of a result. No call returns it: what is not an error is a number from 0, an
/// address, or at the least a small negative one.
const OUTSTANDING: i64 = i64::MIN;
/// The answer to a request that nobody has begun when the engine was shut down.
const CANCELLED: i64 = -(libc::ECANCELED as i64);

/// Looks for results before a waiting thread sleeps: some 10 µs, a few calls.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 512 };

/// State of a request placed by hand, to who collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Result(i64),
    Outstanding,
    /// The slot holds nothing, or something else.
    Unknown,
}

/// Request that a slot has, or had last, and its owner until it is collected.
type Slot = (u32, Option<Handed>);

/// Way by which somebody comes to make the call of a request.
#[derive(Clone, Debug)]
pub(crate) enum Handed {
    /// Claimed in the line; whether others waited there before.
    Line { waits: bool },
    /// Claimed as a task.
    Task(Arc<Base>),
}

/// A request that was placed.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) at: usize,
    pub(crate) generation: u32,
    pub(crate) by: Handed,
}

/// The requests placed by hand.
#[derive(Debug)]
pub(crate) struct Placed {
    slots: Box<[Mutex<Slot>]>,
    /// Slot at which the next search for a free one begins.
    hint: AtomicUsize,
    taken: AtomicUsize,
    /// Requests of the line, each written by the thread that holds its free slot.
    requests: Box<[UnsafeCell<Request>]>,
    /// Their results, each written by who has claimed the call.
    results: Box<[std::sync::atomic::AtomicI64]>,
    waits: Arc<Waits>,
}

// SAFETY: a request is written before its call is in the line, by one thread, and not again
// before its result has been collected, when nobody reads it any more. The rest is made for it.
unsafe impl Send for Placed {}
// SAFETY: as above.
unsafe impl Sync for Placed {}

/// Waiting threads, and how many requests are tasks under way.
#[derive(Debug, Default)]
struct Waits {
    events: EventCount,
    waiting: AtomicUsize,
    tasks: AtomicUsize,
    /// An event counter for who waits by epoll or poll, once it was asked for.
    descriptor: OnceLock<OwnedFd>,
}

impl Waits {
    /// Some request has ended, by who has said so in a swap just before.
    fn tell(&self) {
        // Partner: the fence in `wait`.
        fence_after_swap();
        if self.waiting.load(Relaxed) > 0 {
            self.events.notify(u32::MAX);
        }
        if let Some(descriptor) = self.descriptor.get() {
            // One that is full is readable anyway.
            let _ = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
        }
    }
}

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        // Release: partner is `count`; the end is to be seen.
        self.tasks.fetch_sub(1, Release);
        self.tell();
    }
}

/// Locks a slot; where another thread of the parent may have had it at fork(2), it is that
/// thread's.
fn hold(slot: &Mutex<Slot>, is_child: bool) -> Option<MutexGuard<'_, Slot>> {
    if is_child { slot.try_lock().ok() } else { Some(lock(slot)) }
}

impl Placed {
    /// A table whose slots' first requests come after this generation.
    pub(crate) fn new(slots: usize, generation: u32) -> Self {
        Placed {
            slots: (0..slots).map(|_| Mutex::new((generation, None))).collect(),
            hint: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            requests: (0..slots).map(|_| UnsafeCell::default()).collect(),
            results: (0..slots).map(|_| OUTSTANDING.into()).collect(),
            waits: Arc::default(),
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Addresses of the requests of the line.
    pub(crate) fn calls(&self) -> Calls {
        Calls {
            requests: self.requests.as_ptr().cast(),
            results: self.results.as_ptr().cast_mut().cast(),
        }
    }

    /// Appends the request to the offer of `line`, if there is one, or else makes a task for it,
    /// which is to be sent; `None` if all slots are taken.
    pub(crate) fn place(&self, line: Option<&Line>, request: Request) -> Option<Place> {
        let appended = line.and_then(|line| self.append(line, request));
        let place = appended.or_else(|| self.hand(request))?;
        // Release: partner is `count`.
        self.taken.fetch_add(1, Release);
        Some(place)
    }

    /// Takes the lock of a free slot. Whatever another thread holds counts as taken.
    fn free(&self, at: usize) -> Option<MutexGuard<'_, Slot>> {
        self.slots.get(at)?.try_lock().ok().filter(|slot| slot.1.is_none())
    }

    fn first_free(&self, start: usize) -> Option<(usize, MutexGuard<'_, Slot>)> {
        let mut places = (0..self.slots()).map(|step| (start + step) % self.slots());
        places.find_map(|at| Some((at, self.free(at)?)))
    }

    fn append(&self, line: &Line, request: Request) -> Option<Place> {
        let seen = line.look();
        let end = seen.end();
        // The next ones may be many, and fit before the table's end.
        let front = if seen.is_over() && end * 2 >= self.slots() { self.free(0) } else { None };
        let (at, mut slot) = match front.map(|slot| (0, slot)) {
            Some(front) => line.go_on(seen, 0).then_some(front)?,
            None => match self.free(end) {
                Some(slot) => (end, slot),
                None if !seen.is_over() => return None,
                None => {
                    let found = self.first_free(0)?;
                    line.go_on(seen, found.0).then_some(found)?
                }
            },
        };
        // SAFETY: the slot is free and this thread's, so the call is in no offer.
        unsafe { self.requests[at].get().write(request) };
        self.results[at].store(OUTSTANDING, Relaxed);
        let by = Handed::Line { waits: line.append(at)? };
        *slot = (slot.0.wrapping_add(1), Some(by.clone()));
        Some(Place { at, generation: slot.0, by })
    }

    fn hand(&self, request: Request) -> Option<Place> {
        let (at, mut slot) = self.first_free(self.hint.fetch_add(1, Relaxed))?;
        let task = Arc::new(Base::of(request));
        task.waker.register(&Waker::from(Arc::clone(&self.waits)));
        self.waits.tasks.fetch_add(1, Relaxed);
        let by = Handed::Task(task);
        *slot = (slot.0.wrapping_add(1), Some(by.clone()));
        Some(Place { at, generation: slot.0, by })
    }

    /// The descriptor that is readable when some have ended since it was read.
    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, rustix::io::Errno> {
        use rustix::event::{EventfdFlags, eventfd};
        if self.waits.descriptor.get().is_none() {
            let made = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
            // Of two that come at once the first one's counts.
            let _ = self.waits.descriptor.set(made);
        }
        Ok(self.waits.descriptor.get().expect("set just now, or by another").as_fd())
    }

    /// Says that one more call of the line is over, by who has said so there by a swap.
    #[inline(always)]
    pub(crate) fn tell(&self) {
        self.waits.tell();
    }

    /// Answers call `at` of the line, which the caller has claimed: nobody makes it.
    pub(crate) fn cancel(&self, at: usize) {
        self.results[at].store(CANCELLED, Release);
    }

    /// Result of a request that a slot holds, if there is one.
    fn result(&self, at: usize, by: &Handed) -> Option<i64> {
        match by {
            // Acquire: partner is `Calls::make`; what the call has written is to be seen.
            Handed::Line { .. } => {
                Some(self.results[at].load(Acquire)).filter(|result| *result != OUTSTANDING)
            }
            Handed::Task(task) => task.ended().map(|end| match end {
                TaskEnd::Returned(ret_val) => ret_val,
                TaskEnd::Cancelled => CANCELLED,
            }),
        }
    }

    /// Gives the result of this request away, if it is there, and frees the slot.
    pub(crate) fn collect(&self, at: usize, generation: u32, is_child: bool) -> Look {
        let Some(slot) = self.slots.get(at) else { return Look::Unknown };
        let Some(mut slot) = hold(slot, is_child) else { return Look::Outstanding };
        let Some(by) = slot.1.as_ref().filter(|_| slot.0 == generation) else {
            return Look::Unknown;
        };
        let Some(result) = self.result(at, by) else { return Look::Outstanding };
        slot.1 = None;
        self.taken.fetch_sub(1, AcqRel);
        Look::Result(result)
    }

    /// Number of slots that are taken, and number of results.
    fn count(&self, line: &Line) -> (usize, usize) {
        // Acquire: partners are `place` and `wake`. First: see above.
        let taken = self.taken.load(Acquire);
        let tasks = self.waits.tasks.load(Acquire);
        (taken, taken.saturating_sub(tasks + line.under_way()))
    }

    /// Number of results if there will be no more: no request is under way here. Of those that the
    /// parent of a child has nobody knows.
    fn all(&self, is_child: bool) -> Option<usize> {
        let (mut results, mut left) = (0, 0);
        let slots = self.slots.iter().enumerate();
        for (at, slot) in slots.filter_map(|(at, slot)| Some((at, hold(slot, is_child)?))) {
            let Some(by) = &slot.1 else { continue };
            *(if self.result(at, by).is_some() { &mut results } else { &mut left }) += 1;
        }
        (is_child || left == 0).then_some(results)
    }

    /// Waits until so many results are there, at most until `deadline`, or until there will be
    /// no more if the engine `ends`; says how many there are. If it waits for all it `helps`
    /// first. Every `step` without a result `overdue` is called. Waits for nothing in a child of
    /// fork(2).
    pub(crate) fn wait(
        &self,
        line: &Line,
        least: usize,
        (deadline, step): (Option<Instant>, Duration),
        is_child: bool,
        ends: impl Fn() -> bool,
        (helps, overdue): (impl Fn(), impl Fn()),
    ) -> usize {
        let enough = || {
            let (taken, there) = self.count(line);
            let all = if is_child || ends() { self.all(is_child) } else { None };
            all.or_else(|| (there >= least).then_some(there)).ok_or((taken, there))
        };
        match enough() {
            Ok(there) => return there,
            Err((taken, _)) if taken <= least => helps(),
            _ => (),
        }
        for _ in 0..LOOKS {
            if let Ok(there) = enough() {
                return there;
            }
            std::hint::spin_loop();
        }
        let Waits { events, waiting, .. } = &*self.waits;
        waiting.fetch_add(1, Relaxed);
        // Partner: the fence in `tell`.
        fence(SeqCst);
        let once = || {
            let seen = events.look();
            let now = Instant::now();
            match enough() {
                Err(_) if deadline.is_none_or(|end| end > now) => (),
                Ok(there) | Err((_, there)) => return WaitStep::Ended(there),
            }
            let next = now + step;
            // For loom a time is over at once, and a call that is missed is to show.
            let until = (!cfg!(loom)).then(|| deadline.map_or(next, |end| end.min(next)));
            let late = events.sleep(seen, until);
            if late && Instant::now() >= next { WaitStep::Late } else { WaitStep::Changed }
        };
        let there = awaited::wait(once, overdue, || None);
        waiting.fetch_sub(1, Relaxed);
        there
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    impl Placed {
        pub(crate) fn hold(&self, at: usize) -> impl Drop {
            lock(&self.slots[at])
        }
    }

    fn task(place: &Place) -> &Base {
        match &place.by {
            Handed::Task(task) => task,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_wait_ends_with_the_results_or_with_the_time() {
        const REQUESTS: usize = 100;
        let placed = Placed::new(REQUESTS, 0);
        let (step, left) = (Duration::from_millis(1), AtomicU32::new(0));
        let soon = Some(Instant::now() + step * 3);
        let line = Line::default();
        let count_left = || _ = left.fetch_add(1, Relaxed);
        assert_eq!(placed.wait(&line, 1, (soon, step), false, || false, (|| (), count_left)), 0);
        assert!(left.load(Relaxed) > 0);
        let tasks: Vec<_> =
            (0..REQUESTS).map(|_| placed.place(None, Request::default()).unwrap()).collect();
        assert!(placed.place(None, Request::default()).is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| tasks.iter().for_each(|place| task(place).end(TaskEnd::Returned(7))));
            let long = Duration::from_secs(60);
            let results =
                placed.wait(&line, REQUESTS, (None, long), false, || false, (|| (), || ()));
            assert_eq!(results, REQUESTS);
        });
        for Place { at, generation, .. } in tasks {
            assert_eq!(placed.collect(at, generation, false), Look::Result(7));
            assert_eq!(placed.collect(at, generation, false), Look::Unknown);
        }
        assert_eq!(placed.waits.waiting.load(SeqCst), 0);
        assert_eq!(placed.wait(&line, 0, (None, step), false, || false, (|| (), || ())), 0);
    }
}
