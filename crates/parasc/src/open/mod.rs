//! An open lane: any thread places requests in it, one slot at a time.
//!
//! ```text
//!   submit ──► FREE? ─ reserve ─► REQUESTING ─ publish ─► REQUEST, ready bit
//!                │ none                                      │ claim, take
//!                ▼                                           ▼
//!              queue ◄─ the next goes into the freed slot ─ PROCESSING
//!                                                            │
//!         by hand: SUCCESS, ERROR, until collected ◄─────────┴─► the task: its
//!                                                       result, and FREE again
//! ```
//!
//! # Who may touch what
//! - A slot's side is written by who has reserved the slot, before it publishes
//!   the request, and emptied by who has taken the request out of the slot
//!   (executed, taken back, drained), before it frees the slot. As long as the
//!   side holds a task, the slot is that task's.
//! - A task is in the queue, or in one side, or has ended. It moves from the
//!   queue to a side under the queue's lock.
//! - Each request of a slot has a generation, which its ticket names: odd for those placed
//!   by hand, even for tasks. Who collects swaps the status, and then looks at the
//!   generation: of two that collect one result one has it, and none takes the next one's.
//!
//! # Why no task stays in the queue
//! Who finds no free slot puts its task in the queue, and then looks for a free
//! slot once more; who frees a slot does so and then looks at the queue. With a
//! full fence in between on both sides, one of them sees the other.
//!
//! # Who serves it then
//! The thread that was called for a task may have found it still in the queue, and
//! sleep again. So who moves tasks into slots sees to it that they are served: a
//! processing thread by itself, if it is one, and others called by everybody else.

mod ready;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

pub(crate) use ready::Ready;

use crate::lane::Lane;
use crate::primitive::{AtomicU32, AtomicUsize, Mutex, MutexGuard, fence, lock};
use crate::request::Request;
use crate::task::Task;

/// What somebody has taken to execute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A task gets the result.
    Task,
    /// The result stays in the slot until it is collected.
    ByHand,
}

impl Taken {
    /// What a slot's request of this generation is.
    pub(crate) fn of(generation: u32) -> Self {
        if generation & 1 == 1 { Taken::ByHand } else { Taken::Task }
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

/// What a slot has besides.
#[derive(Debug)]
struct Side {
    /// Who gets the result. Without one it stays in the slot, to be collected.
    task: Mutex<Option<Arc<dyn Task>>>,
    /// Of the slot's last request. Written by who has reserved the slot.
    generation: AtomicU32,
}

type Holder<'a> = MutexGuard<'a, Option<Arc<dyn Task>>>;

impl Side {
    /// Counts on, to the next generation of this parity.
    fn begin(&self, taken: Taken) -> u32 {
        let mut next = self.generation.load(Relaxed).wrapping_add(1);
        if Taken::of(next) != taken {
            next = next.wrapping_add(1);
        }
        // To be seen with the request, which is published next.
        self.generation.store(next, Relaxed);
        next
    }
}

/// What belongs to an open lane besides its slots.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) ready: Ready,
    sides: Box<[Side]>,
    /// Where the next search for a free slot begins.
    hint: AtomicUsize,
    queue: Mutex<VecDeque<Arc<dyn Task>>>,
    queued: AtomicUsize,
    /// Held by who decides about a slot in `PROCESSING` of which it is not sure
    /// who is at it, and by who takes a request back. The slots that threads
    /// without a note are at.
    decision: Mutex<Vec<usize>>,
}

impl Open {
    /// A lane whose slots' first requests come after this generation.
    pub(crate) fn new(slots: usize, generation: u32) -> Self {
        let side = |_| Side { task: Mutex::new(None), generation: AtomicU32::new(generation) };
        Open {
            ready: Ready::new(slots),
            sides: (0..slots).map(side).collect(),
            hint: AtomicUsize::new(0),
            queue: Mutex::new(VecDeque::new()),
            queued: AtomicUsize::new(0),
            decision: Mutex::new(Vec::new()),
        }
    }

    /// Places a task's request, or lets it wait for a slot. Returns how many
    /// tasks have come into slots.
    pub(crate) fn put(&self, lane: Lane<'_>, task: Arc<dyn Task>) -> usize {
        if self.queued.load(Relaxed) == 0
            && let Some(at) = self.reserve(lane)
        {
            self.fill(lane, at, task);
            return 1;
        }
        let mut queue = lock(&self.queue);
        queue.push_back(task);
        self.queued.store(queue.len(), Relaxed);
        drop(queue);
        // Partner: the fence in `free`.
        fence(SeqCst);
        self.advance(lane)
    }

    /// Places a request whose result stays in the slot; `None` if all are taken.
    pub(crate) fn place(&self, lane: Lane<'_>, request: &Request) -> Option<(usize, u32)> {
        let at = self.reserve(lane)?;
        let generation = self.sides[at].begin(Taken::ByHand);
        lane.slots[at].publish(request);
        self.ready.mark(at);
        Some((at, generation))
    }

    fn reserve(&self, lane: Lane<'_>) -> Option<usize> {
        let slots = lane.slots.len();
        let start = self.hint.fetch_add(1, Relaxed);
        (0..slots).map(|step| (start + step) % slots).find(|at| lane.slots[*at].reserve())
    }

    fn fill(&self, lane: Lane<'_>, at: usize, task: Arc<dyn Task>) {
        let side = &self.sides[at];
        let request = task.base().request;
        let mut holder = lock(&side.task);
        task.base().set_slot(at, side.begin(Taken::Task));
        *holder = Some(task);
        lane.slots[at].publish(&request);
        drop(holder);
        self.ready.mark(at);
    }

    /// Moves tasks from the queue into free slots, and returns how many.
    fn advance(&self, lane: Lane<'_>) -> usize {
        let mut moved = 0;
        while self.queued.load(Relaxed) > 0 {
            let Some(at) = self.reserve(lane) else { break };
            let mut queue = lock(&self.queue);
            match queue.pop_front() {
                Some(task) => {
                    self.queued.store(queue.len(), Relaxed);
                    self.fill(lane, at, task);
                    moved += 1;
                }
                None => {
                    drop(queue);
                    // Somebody may have queued a task while this slot was not
                    // free: look again.
                    lane.slots[at].release();
                    fence(SeqCst);
                }
            }
        }
        moved
    }

    /// Takes the request of slot `at`, to execute it or to take it back.
    pub(crate) fn take(&self, lane: Lane<'_>, at: usize) -> Option<Taken> {
        lane.slots[at].take().then(|| Taken::of(self.generation(at)))
    }

    /// Which request a slot has, or had last.
    pub(crate) fn generation(&self, at: usize) -> u32 {
        self.sides[at].generation.load(Relaxed)
    }

    /// How many results wait to be collected.
    pub(crate) fn answered(&self, lane: Lane<'_>) -> usize {
        lane.slots.iter().filter(|slot| slot.is_complete()).count()
    }

    /// Whether nothing waits or is under way.
    pub(crate) fn is_over(&self, lane: Lane<'_>) -> bool {
        lane.slots.iter().all(|slot| slot.is_free() || slot.is_complete())
    }

    /// Gives the result of this request away, if it is there; the slot is the caller's to
    /// [free](Self::free) then.
    pub(crate) fn collect(&self, lane: Lane<'_>, at: usize, generation: u32) -> Look {
        let slot = &lane.slots[at];
        let is_it = || self.generation(at) == generation;
        if Taken::of(generation) != Taken::ByHand || !is_it() || slot.is_free() {
            return Look::Unknown;
        }
        let Some(ret_val) = slot.result() else { return Look::Outstanding };
        if !slot.collect() {
            // Somebody else has it.
            return Look::Unknown;
        }
        if is_it() {
            return Look::Result(ret_val);
        }
        // The next one's, which has come and been answered meanwhile.
        slot.finish(slot.ret_val());
        Look::Unknown
    }

    /// Whether the request is there and nobody has begun it.
    pub(crate) fn is_waiting(&self, lane: Lane<'_>, at: usize, generation: u32) -> bool {
        lane.slots[at].is_requested() && self.generation(at) == generation
    }

    /// The task whose request the caller has taken out of slot `at`. It frees the
    /// slot then.
    pub(crate) fn take_task(&self, at: usize) -> Option<Arc<dyn Task>> {
        lock(&self.sides[at].task).take()
    }

    /// Frees a slot that the caller has emptied; returns how many tasks have come into
    /// slots by that.
    #[must_use = "somebody must serve them"]
    pub(crate) fn free(&self, lane: Lane<'_>, at: usize) -> usize {
        lane.slots[at].release();
        // Partner: the fence in `put`.
        fence(SeqCst);
        if self.queued.load(Relaxed) == 0 {
            return 0;
        }
        self.hint.store(at, Relaxed);
        self.advance(lane)
    }

    /// Takes a task back, if nobody has begun its request: so many others have come into
    /// slots by that.
    pub(crate) fn take_back(&self, lane: Lane<'_>, task: &Arc<dyn Task>) -> Option<usize> {
        let _decision = lock(&self.decision);
        // As long as it is held no task is on its way into a slot.
        let mut queue = lock(&self.queue);
        let Some(at) = task.base().slot() else {
            let place = queue.iter().position(|other| same(other, task))?;
            queue.remove(place);
            self.queued.store(queue.len(), Relaxed);
            return Some(0);
        };
        drop(queue);
        let mut holder: Holder<'_> = lock(&self.sides[at].task);
        // As long as the side holds the task, the slot is the task's.
        if !holder.as_ref().is_some_and(|held| same(held, task)) || !lane.slots[at].take() {
            return None;
        }
        holder.take();
        drop(holder);
        Some(self.free(lane, at))
    }

    /// All tasks that wait for a slot.
    pub(crate) fn drain(&self) -> VecDeque<Arc<dyn Task>> {
        let mut queue = lock(&self.queue);
        self.queued.store(0, Relaxed);
        std::mem::take(&mut *queue)
    }

    /// Marks what waits in slots: who was about to may be dead.
    pub(crate) fn scan(&self, lane: Lane<'_>) {
        let waiting = lane.slots.iter().enumerate().filter(|(_, slot)| slot.is_requested());
        waiting.for_each(|(at, _)| self.ready.mark(at));
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_queue(&self) -> impl Drop {
        lock(&self.queue)
    }

    /// While it is held nobody takes a request back, nor takes one without a note. The slots
    /// that threads without one are at.
    pub(crate) fn decide(&self) -> MutexGuard<'_, Vec<usize>> {
        lock(&self.decision)
    }

    /// As [`take`](Self::take), by a thread without a note, until
    /// [`leave_unnoted`](Self::leave_unnoted).
    pub(crate) fn take_unnoted(&self, lane: Lane<'_>, at: usize) -> Option<Taken> {
        let mut unnoted = self.decide();
        let taken = self.take(lane, at)?;
        unnoted.push(at);
        Some(taken)
    }

    pub(crate) fn leave_unnoted(&self, at: usize) {
        self.decide().retain(|other| *other != at);
    }
}

fn same(a: &Arc<dyn Task>, b: &Arc<dyn Task>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
