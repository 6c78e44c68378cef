//! Requests that any thread has placed wait in a queue, until a thread comes for them: in
//! one for calls that are soon over, or one for those that sleep.
//!
//! ```text
//!   submit, place ─► task: WAITING ── push ──► queue ── pop, claim ──► CLAIMED ─► its end
//! ```
//!
//! A request is made by whoever claims it, by a swap of the task's state: a thread that has
//! taken it from the queue, one that takes it back, or one that cancels it. What was claimed
//! before it is taken from the queue is passed over.
//!
//! A child of fork(2) does not touch the queue, which another thread may have locked when the
//! process forked: it makes each call as it is placed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::primitive::{AtomicUsize, Mutex, lock};
use crate::task::Task;

/// Number of queues.
pub(crate) const QUEUES: usize = 2;
/// The one for calls that are soon over.
pub(crate) const QUICK: usize = 0;
/// The one for calls that sleep, which only the pool's threads serve.
pub(crate) const SLEEPING: usize = 1;

/// Requests of any threads.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    tasks: Mutex<VecDeque<Arc<dyn Task>>>,
    queued: AtomicUsize,
}

impl Queue {
    pub(crate) fn push(&self, task: Arc<dyn Task>) {
        let mut tasks = lock(&self.tasks);
        tasks.push_back(task);
        // Release: partner is `any`.
        self.queued.store(tasks.len(), Release);
    }

    /// The request that has waited longest; the caller [claims](crate::task::Base::claim) it.
    pub(crate) fn pop(&self) -> Option<Arc<dyn Task>> {
        if !self.any() {
            return None;
        }
        let mut tasks = lock(&self.tasks);
        let task = tasks.pop_front();
        self.queued.store(tasks.len(), Release);
        task
    }

    /// All that wait, claimed one after the other.
    pub(crate) fn claimed(&self) -> impl Iterator<Item = Arc<dyn Task>> {
        std::iter::from_fn(|| self.pop()).filter(|task| task.base().claim())
    }

    /// True if a request may wait.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.queued.load(Acquire) != 0
    }

    /// Takes a task out that the caller has claimed: mostly the last to come. Left there it would
    /// stay for as long as all threads are in calls that do not return.
    pub(crate) fn forget(&self, task: &Arc<dyn Task>) {
        let mut tasks = lock(&self.tasks);
        let is_it =
            |other: &Arc<dyn Task>| std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(task));
        // Looks from the end on.
        let at = tasks.iter().rposition(is_it);
        let task = at.and_then(|at| tasks.remove(at));
        self.queued.store(tasks.len(), Release);
        drop(tasks);
        drop(task);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Queue {
        pub(crate) fn hold(&self) -> impl Drop {
            lock(&self.tasks)
        }
    }
}
