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
pub(crate) mod serve;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

pub(crate) use ready::Ready;

use crate::lane::Lane;
use crate::pending::Task;
use crate::primitive::{AtomicU32, AtomicUsize, Mutex, fence, lock};
use crate::request::Request;

/// What belongs to a slot in this process alone.
#[derive(Debug)]
struct Side {
    /// Who gets the result. Without one it stays in the slot, to be collected.
    task: Mutex<Option<Arc<dyn Task>>>,
    /// Whether there is one; readable without the lock by who has the slot.
    tasked: AtomicU32,
    /// Counts the requests that have been in the slot.
    generation: AtomicU32,
}

/// One open lane's memory in this process.
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
    pub(crate) fn new(slots: usize) -> Self {
        let side = |_| Side {
            task: Mutex::new(None),
            tasked: AtomicU32::new(0),
            generation: AtomicU32::new(0),
        };
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
        let generation = self.begin(at);
        lane.slots[at].publish(request);
        self.ready.mark(at);
        Some((at, generation))
    }

    fn reserve(&self, lane: Lane<'_>) -> Option<usize> {
        let slots = lane.slots.len();
        let start = self.hint.fetch_add(1, Relaxed);
        (0..slots).map(|step| (start + step) % slots).find(|at| lane.slots[*at].reserve())
    }

    /// A new request in a slot that the caller has reserved.
    fn begin(&self, at: usize) -> u32 {
        let generation = self.sides[at].generation.load(Relaxed).wrapping_add(1);
        self.sides[at].generation.store(generation, Relaxed);
        generation
    }

    fn fill(&self, lane: Lane<'_>, at: usize, task: Arc<dyn Task>) {
        let side = &self.sides[at];
        self.begin(at);
        let request = task.base().request;
        task.base().set_slot(at);
        *lock(&side.task) = Some(task);
        side.tasked.store(1, Relaxed);
        lane.slots[at].publish(&request);
        self.ready.mark(at);
    }

    /// Moves tasks from the queue to free slots, the first first, and returns how
    /// many.
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

    /// The task of a slot whose request the caller has taken, if it has one.
    pub(crate) fn take_task(&self, at: usize) -> Option<Arc<dyn Task>> {
        let side = &self.sides[at];
        if side.tasked.load(Relaxed) == 0 {
            return None;
        }
        side.tasked.store(0, Relaxed);
        lock(&side.task).take()
    }

    /// Whether the result of the request in the slot goes to a task. By who has
    /// taken the request.
    pub(crate) fn is_tasked(&self, at: usize) -> bool {
        self.sides[at].tasked.load(Relaxed) != 0
    }

    /// Gives a slot back to all, and to the next in the queue. Returns how many
    /// tasks have come into slots by that.
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

    /// Takes a task's request back, if nobody has begun it: then it is the
    /// caller's to execute or to drop. Returns how many tasks have come into slots
    /// by that.
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
        self.take_from(lane, at, task)
    }

    fn take_from(&self, lane: Lane<'_>, at: usize, task: &Arc<dyn Task>) -> Option<usize> {
        let side = &self.sides[at];
        let mut holder = lock(&side.task);
        // As long as the side holds the task, the slot is the task's.
        if !holder.as_ref().is_some_and(|held| same(held, task)) || !lane.slots[at].take() {
            return None;
        }
        holder.take();
        side.tasked.store(0, Relaxed);
        drop(holder);
        Some(self.free(lane, at))
    }

    /// Takes everything that has not begun: tasks of the queue, and slots whose
    /// requests are the caller's to answer.
    pub(crate) fn drain(&self, lane: Lane<'_>) -> (VecDeque<Arc<dyn Task>>, Vec<usize>) {
        let mut queue = lock(&self.queue);
        let tasks = std::mem::take(&mut *queue);
        self.queued.store(0, Relaxed);
        drop(queue);
        let taken = (0..lane.slots.len()).filter(|at| lane.slots[*at].take());
        (tasks, taken.collect())
    }

    /// Looks at every slot for what a foreign hand has left there.
    pub(crate) fn scan(&self, lane: Lane<'_>) {
        for (at, slot) in lane.slots.iter().enumerate() {
            if slot.is_requested() || slot.is_garbage() {
                self.ready.mark(at);
            }
        }
    }

    /// Keeps others from the queue.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn hold_queue(&self) -> impl Drop {
        lock(&self.queue)
    }

    /// Keeps others from taking requests back or deciding about dead threads.
    pub(crate) fn decide(&self) -> crate::primitive::MutexGuard<'_, Vec<usize>> {
        lock(&self.decision)
    }

    /// Takes a request for a thread that has no note to tell of it, as one that is
    /// no processing thread: it is not taken for a dead thread's until
    /// [`leave_unnoted`](Self::leave_unnoted).
    pub(crate) fn take_unnoted(&self, lane: Lane<'_>, at: usize) -> bool {
        let mut unnoted = self.decide();
        let taken = lane.slots[at].take();
        if taken {
            unnoted.push(at);
        }
        taken
    }

    /// After the result.
    pub(crate) fn leave_unnoted(&self, at: usize) {
        self.decide().retain(|other| *other != at);
    }

    /// Whether `generation` is the slot's last one, and not collected.
    pub(crate) fn holds(&self, at: usize, generation: u32) -> bool {
        self.generation(at) == generation
    }

    pub(crate) fn generation(&self, at: usize) -> u32 {
        self.sides[at].generation.load(Relaxed)
    }

    /// Ends a generation whose result has been read: `true` for one caller only,
    /// who is to free the slot.
    pub(crate) fn retire(&self, at: usize, generation: u32) -> bool {
        let next = generation.wrapping_add(1);
        // Release: the result was read before. Acquire: partner is the same of
        // another caller.
        self.sides[at].generation.compare_exchange(generation, next, AcqRel, Relaxed).is_ok()
    }
}

fn same(a: &Arc<dyn Task>, b: &Arc<dyn Task>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
