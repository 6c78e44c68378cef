//! An open lane: any thread places requests there, and the lane's queue has them until a
//! thread comes for them.
//!
//! ```text
//!   submit ──────────────► task: WAITING ──────────┐ push      pop, claim
//!                                                  ├──► queue ───────────► CLAIMED, PROCESSING
//!   place ─ reserve a slot, publish ─► REQUEST ────┘                          │
//!                                                                             ▼
//!                   task: its result          by hand: SUCCESS, ERROR in the slot
//! ```
//!
//! A request is made by whoever claims it, by a swap of the task's state or of the slot's
//! status: a thread that has taken it from the queue, one that takes it back, or one that
//! cancels it. What was claimed before it is taken from the queue is passed over.
//!
//! Each request of a slot has a generation, which its ticket names. Who collects swaps the
//! status, and then looks at the generation: of two that collect one result one has it, and
//! none takes the next one's.
//!
//! A child of fork(2) does not touch the queue, which another thread may have locked when the
//! process forked: it makes each call as it is placed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::lane::Lane;
use crate::primitive::{AtomicU32, AtomicUsize, Mutex, lock};
use crate::request::Request;
use crate::task::Task;

/// A request in the queue.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A task gets the result.
    Task(Arc<dyn Task>),
    /// The result stays in this slot until it is collected.
    Slot(usize),
}

impl Item {
    /// Claims the request, to make the call, to take it back or to cancel it. `true` for one
    /// caller only.
    pub(crate) fn claim(&self, lane: Lane<'_>) -> bool {
        match self {
            Item::Task(task) => task.base().claim(),
            Item::Slot(at) => lane.slots[*at].take(),
        }
    }

    /// What is asked for.
    pub(crate) fn request(&self, lane: Lane<'_>) -> Request {
        match self {
            Item::Task(task) => task.base().request,
            Item::Slot(at) => lane.slots[*at].taken(),
        }
    }
}

/// What there is for who has placed a request by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Result(i64),
    Outstanding,
    /// The slot holds nothing, or something else.
    Unknown,
}

/// What belongs to an open lane besides its slots.
#[derive(Debug)]
pub(crate) struct Open {
    queue: Mutex<VecDeque<Item>>,
    queued: AtomicUsize,
    /// Of each slot's last request. Written by who has reserved the slot.
    generations: Box<[AtomicU32]>,
    /// Where the next search for a free slot begins.
    hint: AtomicUsize,
}

impl Open {
    /// A lane whose slots' first requests come after this generation.
    pub(crate) fn new(slots: usize, generation: u32) -> Self {
        Open {
            queue: Mutex::new(VecDeque::new()),
            queued: AtomicUsize::new(0),
            generations: (0..slots).map(|_| AtomicU32::new(generation)).collect(),
            hint: AtomicUsize::new(0),
        }
    }

    pub(crate) fn push(&self, item: Item) {
        let mut queue = lock(&self.queue);
        queue.push_back(item);
        // Release: partner is `any`.
        self.queued.store(queue.len(), Release);
    }

    /// The request that has waited longest; the caller [claims](Item::claim) it.
    pub(crate) fn pop(&self) -> Option<Item> {
        if !self.any() {
            return None;
        }
        let mut queue = lock(&self.queue);
        let item = queue.pop_front();
        self.queued.store(queue.len(), Release);
        item
    }

    /// Whether a request may wait.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.queued.load(Acquire) != 0
    }

    /// Takes a task out that the caller has claimed, if it was the last to come.
    pub(crate) fn forget(&self, task: &Arc<dyn Task>) {
        let mut queue = lock(&self.queue);
        let is_it = |item: &Item| match item {
            Item::Task(other) => std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(task)),
            Item::Slot(_) => false,
        };
        let item = if queue.back().is_some_and(is_it) { queue.pop_back() } else { None };
        self.queued.store(queue.len(), Release);
        drop(queue);
        drop(item);
    }

    /// Writes a request into a free slot, where the result is to stay; `None` if all are
    /// taken. The caller [pushes](Self::push) it.
    pub(crate) fn place(&self, lane: Lane<'_>, request: &Request) -> Option<(usize, u32)> {
        let slots = lane.slots.len();
        let start = self.hint.fetch_add(1, Relaxed);
        let mut places = (0..slots).map(|step| (start + step) % slots);
        let at = places.find(|at| lane.slots[*at].reserve())?;
        let generation = self.generation(at).wrapping_add(1);
        // To be seen with the request.
        self.generations[at].store(generation, Relaxed);
        lane.slots[at].publish(request);
        Some((at, generation))
    }

    /// Which request a slot has, or had last.
    fn generation(&self, at: usize) -> u32 {
        self.generations[at].load(Relaxed)
    }

    /// How many results wait to be collected.
    pub(crate) fn answered(&self, lane: Lane<'_>) -> usize {
        lane.slots.iter().filter(|slot| slot.is_complete()).count()
    }

    /// Whether no request by hand waits or is under way.
    pub(crate) fn is_over(&self, lane: Lane<'_>) -> bool {
        lane.slots.iter().all(|slot| slot.is_free() || slot.is_complete())
    }

    /// Gives the result of this request away, if it is there, and frees the slot.
    pub(crate) fn collect(&self, lane: Lane<'_>, at: usize, generation: u32) -> Look {
        let slot = &lane.slots[at];
        let is_it = || self.generation(at) == generation;
        if !is_it() || slot.is_free() {
            return Look::Unknown;
        }
        let Some(ret_val) = slot.result() else { return Look::Outstanding };
        if !slot.collect() {
            // Somebody else has it.
            return Look::Unknown;
        }
        if is_it() {
            slot.release();
            return Look::Result(ret_val);
        }
        // The next one's, which has come and been answered meanwhile.
        slot.finish(slot.ret_val());
        Look::Unknown
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_queue(&self) -> impl Drop {
        lock(&self.queue)
    }
}
