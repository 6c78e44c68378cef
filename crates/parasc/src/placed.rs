//! Requests placed by hand, and their results until they are collected (`parasc_wait`).
//!
//! Each has a slot of a table, and a generation, which its ticket names: of two that collect
//! one result one has it, and none takes the next one's.
//!
//! A thread that ends such a request looks whether somebody waits; a waiting thread says so,
//! looks how many results there are, and sleeps until more have come. With a full fence in
//! between on both sides, one of them sees the other.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use kumiki_wait::EventCount;

use crate::primitive::{AtomicIsize, AtomicU32, AtomicUsize, Mutex, MutexGuard, fence, lock};
use crate::task::{Base, End};
use kumiki_calls::Request;

/// What there is for who has placed a request by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Result(i64),
    Outstanding,
    /// The slot holds nothing, or something else.
    Unknown,
}

/// Which request a slot has, or had last, and that request until it is collected.
type Slot = (u32, Option<Arc<Base>>);

/// The requests placed by hand.
#[derive(Debug)]
pub(crate) struct Placed {
    slots: Box<[Mutex<Slot>]>,
    /// Where the next search for a free slot begins.
    hint: AtomicUsize,
    results: Arc<Results>,
}

/// How many results there are, and who waits for more.
#[derive(Debug, Default)]
struct Results {
    events: EventCount,
    waiting: AtomicU32,
    /// Those not collected. Below 0 for the moment in which one was collected before it is
    /// counted.
    count: AtomicIsize,
}

impl Wake for Results {
    /// A request has ended.
    fn wake(self: Arc<Self>) {
        // Release: partner is `wait`; the end is to be seen.
        self.count.fetch_add(1, Release);
        // Partner: the fence in `wait`.
        fence(SeqCst);
        if self.waiting.load(Relaxed) > 0 {
            self.events.notify(u32::MAX);
        }
    }
}

/// Where another thread of the parent may have had it at fork(2), it is that thread's.
fn hold(slot: &Mutex<Slot>, is_child: bool) -> Option<MutexGuard<'_, Slot>> {
    if is_child { slot.try_lock().ok() } else { Some(lock(slot)) }
}

impl Placed {
    /// A table whose slots' first requests come after this generation.
    pub(crate) fn new(slots: usize, generation: u32) -> Self {
        Placed {
            slots: (0..slots).map(|_| Mutex::new((generation, None))).collect(),
            hint: AtomicUsize::new(0),
            results: Arc::default(),
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// A task for the request, which the caller has made, and its slot and generation; `None`
    /// if all slots are taken.
    pub(crate) fn place(&self, request: Request) -> Option<(Arc<Base>, usize, u32)> {
        let start = self.hint.fetch_add(1, Relaxed);
        let mut places = (0..self.slots()).map(|step| (start + step) % self.slots());
        // One that is held is not free, or just about to be.
        let free = |at: usize| {
            let slot = self.slots[at].try_lock().ok().filter(|slot| slot.1.is_none());
            slot.map(|slot| (at, slot))
        };
        let (at, mut slot) = places.find_map(free)?;
        let task = Arc::new(Base::of(request));
        task.waker.register(&Waker::from(Arc::clone(&self.results)));
        *slot = (slot.0.wrapping_add(1), Some(Arc::clone(&task)));
        Some((task, at, slot.0))
    }

    /// Gives the result of this request away, if it is there, and frees the slot.
    pub(crate) fn collect(&self, at: usize, generation: u32, is_child: bool) -> Look {
        let Some(slot) = self.slots.get(at) else { return Look::Unknown };
        let Some(mut slot) = hold(slot, is_child) else { return Look::Outstanding };
        let Some(task) = slot.1.as_ref().filter(|_| slot.0 == generation) else {
            return Look::Unknown;
        };
        let Some(end) = task.ended() else { return Look::Outstanding };
        slot.1 = None;
        self.results.count.fetch_sub(1, Relaxed);
        Look::Result(match end {
            End::Returned(ret_val) => ret_val,
            End::Cancelled => -i64::from(libc::ECANCELED),
        })
    }

    /// How many results there are if there will be no more: no request is under way here. Of
    /// those that the parent of a child has nobody knows.
    fn all(&self, is_child: bool) -> Option<usize> {
        let (mut results, mut left) = (0, 0);
        for slot in self.slots.iter().filter_map(|slot| hold(slot, is_child)) {
            let Some(task) = &slot.1 else { continue };
            *(if task.ended().is_some() { &mut results } else { &mut left }) += 1;
        }
        (is_child || left == 0).then_some(results)
    }

    /// Waits until so many results are there, at most until `deadline`, or until there will be
    /// no more if the engine `ends`; says how many there are. Every `step` without a result
    /// `overdue` is called. Waits for nothing in a child of fork(2).
    pub(crate) fn wait(
        &self,
        least: usize,
        (deadline, step): (Option<Instant>, Duration),
        is_child: bool,
        ends: impl Fn() -> bool,
        overdue: impl Fn(),
    ) -> usize {
        let Results { events, waiting, count } = &*self.results;
        waiting.fetch_add(1, Relaxed);
        // Partner: the fence in `wake`.
        fence(SeqCst);
        let there = loop {
            let seen = events.look();
            let now = Instant::now();
            if (is_child || ends())
                && let Some(all) = self.all(is_child)
            {
                break all;
            }
            // Acquire: partner is `wake`.
            let there = count.load(Acquire).max(0) as usize;
            if there >= least || deadline.is_some_and(|end| end <= now) {
                break there;
            }
            let next = now + step;
            let late = events.sleep(seen, Some(deadline.map_or(next, |end| end.min(next))));
            if late && Instant::now() >= next {
                overdue();
            }
        };
        waiting.fetch_sub(1, Relaxed);
        there
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold(&self, at: usize) -> impl Drop {
        lock(&self.slots[at])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_results_or_with_the_time() {
        const REQUESTS: usize = 100;
        let placed = Placed::new(REQUESTS, 0);
        let (step, left) = (Duration::from_millis(1), AtomicU32::new(0));
        let soon = Some(Instant::now() + step * 3);
        let count_left = || _ = left.fetch_add(1, Relaxed);
        assert_eq!(placed.wait(1, (soon, step), false, || false, count_left), 0);
        assert!(left.load(Relaxed) > 0);
        let tasks: Vec<_> =
            (0..REQUESTS).map(|_| placed.place(Request::default()).unwrap()).collect();
        assert!(placed.place(Request::default()).is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| tasks.iter().for_each(|(task, ..)| task.end(End::Returned(7))));
            let long = Duration::from_secs(60);
            assert_eq!(placed.wait(REQUESTS, (None, long), false, || false, || ()), REQUESTS);
        });
        for (_, at, generation) in tasks {
            assert_eq!(placed.collect(at, generation, false), Look::Result(7));
            assert_eq!(placed.collect(at, generation, false), Look::Unknown);
        }
        assert_eq!(placed.results.waiting.load(SeqCst), 0);
        assert_eq!(placed.wait(0, (None, step), false, || false, || ()), 0);
    }
}
