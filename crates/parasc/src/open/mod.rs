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
//! Whose a slot is, if foreign hands may write to its status, is in [`stage`].
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
mod stage;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

pub(crate) use ready::Ready;
pub(crate) use stage::Seen;

use crate::lane::Lane;
use crate::pending::Task;
use crate::primitive::{AtomicUsize, Mutex, MutexGuard, fence, lock};
use crate::request::Request;
use stage::{ANSWERED, BEGUN, OPEN, PLACED, PLACING, RESERVED, Stage, TAKEN, WAITING};

/// What somebody has taken to execute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A task gets the result.
    Task,
    /// The result stays in the slot until it is collected.
    ByHand,
    /// The result stays in the slot, for the foreign hand that has requested it.
    Foreign,
}

/// What there is for who has placed a request by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Result(i64),
    Outstanding,
    /// The slot holds nothing, or something else.
    Unknown,
}

/// What a foreign hand has spoilt.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// The request of a task, which is the caller's to end. Its slot is free: so
    /// many tasks have come into slots by that.
    Task(Arc<dyn Task>, usize),
    /// Another one; the error is in the slot.
    InSlot,
}

/// What belongs to a slot in this process alone.
#[derive(Debug)]
struct Side {
    /// Who gets the result. Without one it stays in the slot, to be collected.
    task: Mutex<Option<Arc<dyn Task>>>,
    stage: Stage,
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
    /// A lane whose slots' first requests come after this generation.
    pub(crate) fn new(slots: usize, generation: u32) -> Self {
        let side = |_| Side { task: Mutex::new(None), stage: Stage::new(generation) };
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
        let stage = &self.sides[at].stage;
        let generation = stage.begin(PLACING);
        lane.slots[at].publish(request);
        // Not if somebody has taken it by now.
        stage.swap(Seen { generation, stage: PLACING }, PLACED);
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
            let seen = stage.get();
            if seen.stage == OPEN && stage.swap(seen, RESERVED) {
                return true;
            }
            // Somebody's: a foreign hand has written `FREE`.
            lane.slots[at].unreserve();
            // Partner: the fence in `free`. Who has freed the slot just now may have
            // found it reserved.
            fence(SeqCst);
            if !stage.is(OPEN) {
                break;
            }
        }
        false
    }

    fn fill(&self, lane: Lane<'_>, at: usize, task: Arc<dyn Task>) {
        let side = &self.sides[at];
        let request = task.base().request;
        let mut holder = lock(&side.task);
        task.base().set_slot(at, side.stage.begin(WAITING));
        *holder = Some(task);
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
                    self.sides[at].stage.set(OPEN);
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
        // Not if it was rejected just now, or a foreign hand has written `REQUEST`.
        self.inherit(at).or_else(|| self.sides[at].stage.is(OPEN).then_some(Taken::Foreign))
    }

    /// Has the request in a slot begun by the caller, if nobody else has.
    pub(crate) fn inherit(&self, at: usize) -> Option<Taken> {
        loop {
            let seen = self.seen(at);
            let (to, taken) = seen.waiting()?;
            // It may have been placed meanwhile.
            if self.sides[at].stage.swap(seen, to) {
                return Some(taken);
            }
        }
    }

    /// As [`inherit`](Self::inherit), of what was `seen` of a dead thread's request,
    /// which it may have begun or not.
    pub(crate) fn inherit_seen(&self, at: usize, seen: Seen) -> Option<Taken> {
        if seen.stage == OPEN {
            return Some(Taken::Foreign);
        }
        seen.begun().or_else(|| {
            let (to, taken) = seen.waiting()?;
            self.sides[at].stage.swap(seen, to).then_some(taken)
        })
    }

    /// How far the request in a slot has come.
    pub(crate) fn seen(&self, at: usize) -> Seen {
        self.sides[at].stage.get()
    }

    /// What somebody has begun in a slot; then the note of that thread (`claim.rs`) is
    /// to be seen.
    pub(crate) fn begun(&self, at: usize) -> Option<Taken> {
        self.seen(at).begun()
    }

    /// Leaves the result in the slot of what the caller has taken, no task's.
    pub(crate) fn answer(&self, lane: Lane<'_>, at: usize, taken: Taken, ret_val: i64) {
        lane.slots[at].finish(ret_val);
        if taken == Taken::ByHand {
            self.sides[at].stage.set(ANSWERED);
        }
    }

    /// How many slots have a result in them.
    pub(crate) fn answered(&self, lane: Lane<'_>) -> usize {
        (0..lane.slots.len()).filter(|at| self.is_answered(lane, *at)).count()
    }

    fn is_answered(&self, lane: Lane<'_>, at: usize) -> bool {
        match self.sides[at].stage.get().stage {
            ANSWERED => true,
            OPEN => lane.slots[at].is_complete(),
            _ => false,
        }
    }

    /// Whether every request has a result, so that no more will come.
    pub(crate) fn is_over(&self, lane: Lane<'_>) -> bool {
        let is_free = |at: usize| self.sides[at].stage.is(OPEN) && lane.slots[at].is_free();
        (0..lane.slots.len()).all(|at| is_free(at) || self.is_answered(lane, at))
    }

    /// What there is for generation `generation` of a slot. One caller only gets the
    /// result, and is to free the slot.
    pub(crate) fn collect(&self, lane: Lane<'_>, at: usize, generation: u32) -> Look {
        let stage = &self.sides[at].stage;
        let seen = stage.get();
        match seen.stage {
            _ if seen.generation != generation => Look::Unknown,
            PLACING | PLACED | TAKEN => Look::Outstanding,
            ANSWERED => {
                // A foreign hand may have taken the status away since.
                let ret_val = lane.slots[at].result().unwrap_or(-i64::from(libc::EINVAL));
                if stage.swap(seen, OPEN) { Look::Result(ret_val) } else { Look::Unknown }
            }
            _ => Look::Unknown,
        }
    }

    /// Whether the task that is this generation of a slot waits there for somebody to
    /// begin it. Takes no lock: in a child of fork(2) it may be held for good.
    pub(crate) fn is_waiting(&self, at: usize, generation: u32) -> bool {
        self.sides[at].stage.get() == Seen { generation, stage: WAITING }
    }

    /// The task in a slot that the caller has begun, if there is one.
    pub(crate) fn take_task(&self, at: usize) -> Option<Arc<dyn Task>> {
        if self.begun(at) != Some(Taken::Task) {
            return None;
        }
        self.open(at, lock(&self.sides[at].task))
    }

    /// No task's any more.
    fn open(&self, at: usize, mut holder: Holder<'_>) -> Option<Arc<dyn Task>> {
        let task = holder.take();
        self.sides[at].stage.set(OPEN);
        task
    }

    /// Whether a slot whose request cannot be taken may hold garbage: a hint for
    /// those who would [reject](Self::reject) it.
    pub(crate) fn is_suspect(&self, lane: Lane<'_>, at: usize) -> bool {
        match self.sides[at].stage.get().stage {
            OPEN => lane.slots[at].is_garbage(),
            stage => matches!(stage, WAITING | PLACED),
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
        let Side { task, stage } = &self.sides[at];
        let holder = stage.is(WAITING).then(|| lock(task));
        let seen = stage.get();
        match seen.stage {
            OPEN => return slot.reject_garbage().then_some(Rejected::InSlot),
            WAITING if holder.is_some() => (),
            PLACED => (),
            _ => return None,
        }
        if slot.is_good() || decision.contains(&at) || noted() {
            // To be looked at again, since who failed to take it had its bit: good now,
            // or the next one, or a thread is about to begin it, or still about to
            // take the last one's note away.
            self.ready.mark(at);
            return None;
        }
        if seen.stage == PLACED {
            let rejects = stage.swap(seen, TAKEN);
            return rejects.then(|| {
                self.answer(lane, at, Taken::ByHand, -i64::from(libc::EINVAL));
                Rejected::InSlot
            });
        }
        if !stage.swap(seen, BEGUN) {
            return None;
        }
        let task = self.open(at, holder?)?;
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
}

#[cfg(all(test, not(loom)))]
mod tests;

fn same(a: &Arc<dyn Task>, b: &Arc<dyn Task>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
