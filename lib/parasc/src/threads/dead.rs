//! Reaping dead processing threads, and repairing what they were at.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use super::{alert, pool, seat, serve_what_waits};
use crate::area::PLACED;
use crate::claim::{At, Claim, OWNER_DIED};
use crate::core::Core;
use crate::primitive::lock;
use crate::task::TaskEnd;

impl Core {
    /// True if a thread of the engine's own is at a request, and may die of that.
    pub(crate) fn may_be_killed(&self) -> bool {
        self.filtered.load(Acquire) && self.claims().any(Claim::is_set)
    }

    /// True if a thread that may die is at a request that any thread may await.
    pub(crate) fn may_lose_one(&self) -> bool {
        let is_at_one = |claim: &Claim| claim.holds(PLACED) || claim.task().is_some();
        self.callers.all().iter().any(|caller| is_at_one(&caller.claim))
            || self.filtered.load(Acquire) && self.claims().any(is_at_one)
    }

    /// Reaps threads that have died, and repairs what they were at. Each is found dead by one
    /// caller only, which does so for all.
    pub(crate) fn repair(self: &Arc<Self>) {
        if !self.process.is_current() {
            return;
        }
        for seat in self.seats.iter().filter(|seat| seat.thread.life.has_died()) {
            self.crew.lost();
            self.answer(&seat.thread.claim);
            seat::clear(self, seat);
        }
        for (at, thread) in self.pool.thread_infos.iter().enumerate() {
            if thread.life.has_died() {
                self.crew.lost();
                self.answer(&thread.claim);
                pool::clear(self, at);
            }
        }
        if self.watch.thread.life.has_died() {
            self.crew.lost();
            self.answer(&self.watch.thread.claim);
            self.watch.clear();
            alert(self);
        }
        if self.helper.life.has_died() {
            self.answer(&self.helper.claim);
        }
        for caller in self.callers.all().iter().filter(|caller| caller.life.has_died()) {
            self.answer(&caller.claim);
            self.callers.forget(caller);
            // It may have been called for some.
            serve_what_waits(self);
        }
    }

    /// Answers what a dead thread was at: perhaps executed, and not executed again.
    pub(super) fn answer(&self, claim: &Claim) {
        match claim.take() {
            None => (),
            Some(At::Task(task)) => task.base().end(TaskEnd::Returned(OWNER_DIED)),
            Some(At::Offer(PLACED, left)) => {
                // SAFETY: one call, whose claimer is dead; the line's calls stay.
                unsafe { self.area.line(PLACED).repair(&left) };
                self.placed.tell();
            }
            // For the lane's requesting thread, which makes the other calls of the chunk.
            Some(At::Offer(lane, left)) => lock(&self.sides[lane].left).push(left),
        }
    }
}
