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
//! # Whose a slot is
//! The status lies in memory where foreign hands may write, and a task must neither
//! wait for ever for what one has written nor end while a thread is at its buffers.
//! So the status says where there is something to do, and the *stage* in the side
//! says who does it with a task:
//!
//! | from | to | who |
//! |---|---|---|
//! | `OPEN` | `RESERVED` | who has swapped the status from `FREE`, by swap |
//! | `RESERVED` | `WAITING` | the same; the side's lock is held until the request is published |
//! | `RESERVED` | `OPEN` | the same: by hand, or for nobody |
//! | `WAITING` | `BEGUN` | who has taken the request or rejects it, by swap |
//! | `BEGUN` | `OPEN` | the same, or who has found it dead; it has the task then, and frees the slot |
//!
//! Under the side's lock, a slot in `WAITING` is in `REQUEST`, or in `PROCESSING`
//! with a note (`claim.rs`) of who is about to swap the stage. Anything else a foreign
//! hand has written; whoever comes upon it *rejects* the request: its task ends with
//! `EINVAL`. But not as long as there is a note: that thread may have taken the
//! request before the foreign hand came, and would find a stage that is no task's.
//! One in `BEGUN` is answered by who has begun it, whatever the status.
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
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

pub(crate) use ready::Ready;

use crate::lane::Lane;
use crate::pending::Task;
use crate::primitive::{AtomicU32, AtomicUsize, Mutex, MutexGuard, fence, lock};
use crate::request::Request;

/// The stages of a slot. No task's: free, or of a request by hand.
const OPEN: u32 = 0;
const RESERVED: u32 = 1;
const WAITING: u32 = 2;
const BEGUN: u32 = 3;

/// What somebody has taken to execute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A task gets the result.
    Task,
    /// The result stays in the slot.
    ByHand,
}

/// What a foreign hand has spoilt.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// The request of a task, which is the caller's to end. Its slot is free: so
    /// many tasks have come into slots by that.
    Task(Arc<dyn Task>, usize),
    /// Something else; the error is in the slot.
    ByHand,
}

/// What belongs to a slot in this process alone.
#[derive(Debug)]
struct Side {
    /// Who gets the result. Without one it stays in the slot, to be collected.
    task: Mutex<Option<Arc<dyn Task>>>,
    /// How far it has come: see above.
    stage: AtomicU32,
    /// Counts the requests that have been in the slot.
    generation: AtomicU32,
}

type Holder<'a> = MutexGuard<'a, Option<Arc<dyn Task>>>;

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
            stage: AtomicU32::new(OPEN),
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
        self.sides[at].stage.store(OPEN, Release);
        lane.slots[at].publish(request);
        self.ready.mark(at);
        Some((at, generation))
    }

    fn reserve(&self, lane: Lane<'_>) -> Option<usize> {
        let slots = lane.slots.len();
        let start = self.hint.fetch_add(1, Relaxed);
        (0..slots).map(|step| (start + step) % slots).find(|at| self.reserve_one(lane, *at))
    }

    fn reserve_one(&self, lane: Lane<'_>, at: usize) -> bool {
        let stage = &self.sides[at].stage;
        while lane.slots[at].reserve() {
            // Acquire: partner is `open`.
            if stage.compare_exchange(OPEN, RESERVED, Acquire, Relaxed).is_ok() {
                return true;
            }
            // A task's: a foreign hand has written `FREE`.
            lane.slots[at].unreserve();
            // Partner: the fence in `free`. Who has freed the slot just now may have
            // found it reserved.
            fence(SeqCst);
            if stage.load(Relaxed) != OPEN {
                break;
            }
        }
        false
    }

    /// A new request in a slot that the caller has reserved.
    fn begin(&self, at: usize) -> u32 {
        let generation = self.sides[at].generation.load(Relaxed).wrapping_add(1);
        self.sides[at].generation.store(generation, Relaxed);
        generation
    }

    fn fill(&self, lane: Lane<'_>, at: usize, task: Arc<dyn Task>) {
        let side = &self.sides[at];
        let generation = self.begin(at);
        let request = task.base().request;
        task.base().set_slot(at, generation);
        let mut holder = lock(&side.task);
        *holder = Some(task);
        side.stage.store(WAITING, Relaxed);
        lane.slots[at].publish(&request);
        drop(holder);
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
                    self.sides[at].stage.store(OPEN, Release);
                    lane.slots[at].release();
                    fence(SeqCst);
                }
            }
        }
        moved
    }

    /// Takes the request of a slot, to execute it or to end it otherwise.
    pub(crate) fn take(&self, lane: Lane<'_>, at: usize) -> Option<Taken> {
        if !lane.slots[at].take() {
            return None;
        }
        match self.sides[at].stage.load(Relaxed) {
            OPEN => Some(Taken::ByHand),
            // Not if it was rejected just now, or a foreign hand has written `REQUEST`.
            _ => self.inherit(at).then_some(Taken::Task),
        }
    }

    /// Has the task in a slot begun by the caller, if nobody else has.
    pub(crate) fn inherit(&self, at: usize) -> bool {
        // Release: partner is `is_begun`.
        self.sides[at].stage.compare_exchange(WAITING, BEGUN, AcqRel, Relaxed).is_ok()
    }

    /// Whether somebody has begun the task in a slot; then the note of that
    /// thread (`claim.rs`) is to be seen.
    pub(crate) fn is_begun(&self, at: usize) -> bool {
        // Acquire: partner is `inherit`.
        self.sides[at].stage.load(Acquire) == BEGUN
    }

    /// Whether the task that is this generation of a slot waits there for somebody to
    /// begin it. Takes no lock: in a child of fork(2) it may be held for good.
    pub(crate) fn is_waiting(&self, at: usize, generation: u32) -> bool {
        self.sides[at].stage.load(Relaxed) == WAITING && self.holds(at, generation)
    }

    /// The task in a slot that the caller has begun, if there is one.
    pub(crate) fn take_task(&self, at: usize) -> Option<Arc<dyn Task>> {
        if !self.is_begun(at) {
            return None;
        }
        self.open(at, lock(&self.sides[at].task))
    }

    /// No task's any more.
    fn open(&self, at: usize, mut holder: Holder<'_>) -> Option<Arc<dyn Task>> {
        let task = holder.take();
        // Release: partner is `reserve_one`.
        self.sides[at].stage.store(OPEN, Release);
        task
    }

    /// Whether a slot whose request cannot be taken may hold garbage: a hint for
    /// those who would [reject](Self::reject) it.
    pub(crate) fn is_suspect(&self, lane: Lane<'_>, at: usize) -> bool {
        match self.sides[at].stage.load(Relaxed) {
            OPEN => lane.slots[at].is_garbage(),
            stage => stage == WAITING,
        }
    }

    /// Takes what a foreign hand has spoilt out of a slot, if it has: then
    /// nobody executes it. `decision` is locked by the caller; `noted` tells whether
    /// there is a note of a thread at the slot.
    pub(crate) fn reject(
        &self,
        lane: Lane<'_>,
        at: usize,
        decision: &[usize],
        noted: impl FnOnce() -> bool,
    ) -> Option<Rejected> {
        let slot = &lane.slots[at];
        let stage = &self.sides[at].stage;
        if stage.load(Relaxed) == OPEN {
            return slot.reject_garbage().then_some(Rejected::ByHand);
        }
        let holder = lock(&self.sides[at].task);
        if stage.load(Relaxed) != WAITING {
            return None;
        }
        if slot.is_good() || decision.contains(&at) || noted() {
            // To be looked at again, since who failed to take it had its bit: good now,
            // or the next one, or a thread is about to begin it, or still about to
            // take the last one's note away.
            self.ready.mark(at);
            return None;
        }
        if !self.inherit(at) {
            return None;
        }
        let task = self.open(at, holder)?;
        Some(Rejected::Task(task, self.free(lane, at)))
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
        let holder = lock(&self.sides[at].task);
        // As long as the side holds the task, the slot is the task's.
        if !holder.as_ref().is_some_and(|held| same(held, task)) || self.take(lane, at).is_none() {
            return None;
        }
        self.open(at, holder);
        Some(self.free(lane, at))
    }

    /// Takes the tasks of the queue.
    pub(crate) fn drain(&self) -> VecDeque<Arc<dyn Task>> {
        let mut queue = lock(&self.queue);
        self.queued.store(0, Relaxed);
        std::mem::take(&mut *queue)
    }

    /// Looks at every slot for what a foreign hand has left there.
    pub(crate) fn scan(&self, lane: Lane<'_>) {
        for (at, slot) in lane.slots.iter().enumerate() {
            if slot.is_requested() || self.is_suspect(lane, at) {
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
    pub(crate) fn decide(&self) -> MutexGuard<'_, Vec<usize>> {
        lock(&self.decision)
    }

    /// Takes a request for a thread that has no note to tell of it, as one that is
    /// no processing thread: it is not taken for a dead thread's until
    /// [`leave_unnoted`](Self::leave_unnoted).
    pub(crate) fn take_unnoted(&self, lane: Lane<'_>, at: usize) -> Option<Taken> {
        let mut unnoted = self.decide();
        let taken = self.take(lane, at)?;
        unnoted.push(at);
        Some(taken)
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

#[cfg(all(test, not(loom)))]
mod tests;

fn same(a: &Arc<dyn Task>, b: &Arc<dyn Task>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
