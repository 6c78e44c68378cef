//! Reaping dead processing threads, and repairing the requests that they were at.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use super::open::{stop_if_terminated, take_out};
use super::{alert, pool, seat, serve_next};
use crate::area::OPEN_LANES;
use crate::claim::{Claim, Left, OWNER_DIED, Spot};
use crate::core::{Caller, Core};
use crate::open::Taken;
use crate::task::End;

impl Core {
    /// Whether the request at `spot`, which `is_taken` and not the caller's, was
    /// taken by a thread that has died. The caller keeps others from putting a new
    /// request there.
    fn is_lost(&self, spot: Spot, is_taken: impl Fn() -> bool) -> bool {
        let callers = self.callers.all();
        let (dead, alive): (Vec<_>, Vec<_>) = callers.iter().partition(|other| other.is_dead());
        let at_spot = |claim: &Claim| claim.spot() == Some(spot);
        is_taken()
            && dead.iter().any(|caller| at_spot(&caller.claim))
            && !alive.iter().any(|caller| at_spot(&caller.claim))
            && !self.claims().any(at_spot)
            // Not by one that has finished since.
            && is_taken()
    }

    /// The answer to a request in a leased lane whose processing thread has died. For the
    /// lane's requesting thread.
    pub(crate) fn lost_in_lane(&self, lane: usize, at: usize) -> Option<i64> {
        let slot = &self.area.lane(lane).slots[at];
        let lost = self.callers.any() && self.is_lost(Spot { lane, at }, || slot.is_processing());
        lost.then_some(OWNER_DIED)
    }

    /// Whether a thread of the engine's own is at a request, and may die of that.
    pub(crate) fn may_be_killed(&self) -> bool {
        self.filtered.load(Acquire) && self.claims().any(Claim::is_set)
    }

    /// Whether a thread that may die is at a request of an open lane, or has died at one.
    pub(crate) fn may_lose_one(&self) -> bool {
        let is_at_one = |claim: &Claim| claim.spot().is_some_and(|spot| spot.lane < OPEN_LANES);
        self.callers.all().iter().any(|caller| is_at_one(&caller.claim))
            || self.filtered.load(Acquire) && self.claims().any(is_at_one)
    }

    /// Reaps threads of the engine's own that have died, and adopts their claims.
    fn reap(self: &Arc<Self>) {
        for seat in self.seats.iter().filter(|seat| seat.berth.life.has_died()) {
            self.adopt(&seat.berth.claim);
            seat::clear(self, seat);
        }
        for (at, berth) in self.pool.berths.iter().enumerate() {
            if berth.life.has_died() {
                self.adopt(&berth.claim);
                pool::clear(self, at);
            }
        }
        if self.watch.berth.life.has_died() {
            self.adopt(&self.watch.berth.claim);
            self.watch.clear();
            alert(self);
        }
    }

    /// Counts a thread as gone, and adopts its claim until the request there is repaired.
    fn adopt(self: &Arc<Self>, claim: &Claim) {
        self.crew.lost();
        if claim.is_set() {
            self.callers.adopt(claim);
            // The supervising thread looks until it is forgotten: perhaps no other does.
            alert(self);
        }
    }

    /// A chunk of what `lane`'s requesting thread offers whose claimer has died; each is
    /// returned once. For that requesting thread, which repairs it.
    pub(crate) fn left_of_offer(&self, lane: usize) -> Option<Left> {
        let of_lane = |caller: &Arc<Caller>| {
            let is_its = |left: &Left| left.lane == lane && caller.is_dead();
            let left = caller.claim.left().filter(is_its);
            left.map(|left| (Arc::clone(caller), left))
        };
        let (caller, left) = self.callers.all().iter().find_map(of_lane)?;
        self.callers.forget(&caller);
        Some(left)
    }

    /// Reaps dead threads, and repairs the requests of open lanes that they were at.
    pub(crate) fn repair(self: &Arc<Self>) {
        if !self.process.is_current() {
            return;
        }
        self.reap();
        let callers = self.callers.all();
        let dead: Vec<_> = callers.into_iter().filter(|caller| caller.is_dead()).collect();
        if dead.is_empty() {
            return;
        }
        for caller in &dead {
            let over = match caller.claim.spot() {
                // The lane's requesting thread repairs its offer.
                None => caller.claim.left().is_none(),
                Some(spot) if spot.lane < OPEN_LANES => self.repair_open(spot),
                // The lane's requesting thread repairs its slot.
                Some(spot) => !self.area.lane(spot.lane).slots[spot.at].is_processing(),
            };
            if over {
                self.callers.forget(caller);
            }
        }
        // One may have died between a request's mark and the request.
        for (index, open) in self.open.iter().enumerate() {
            open.scan(self.area.lane(index));
            serve_next(self, index, usize::from(open.ready.any()));
        }
    }

    /// Answers the request of an open lane that a dead thread was at, if that thread had
    /// begun it. `false` if that is not certain yet.
    fn repair_open(self: &Arc<Self>, spot: Spot) -> bool {
        let open = &self.open[spot.lane];
        let slot = &self.area.lane(spot.lane).slots[spot.at];
        // Keeps other threads from taking requests back meanwhile: they write no note.
        let decision = open.decide();
        let is_taken = || slot.is_processing();
        if !is_taken() {
            return true;
        }
        let generation = open.generation(spot.at);
        let unnoted = decision.contains(&spot.at);
        let lost =
            !unnoted && self.is_lost(spot, is_taken) && open.generation(spot.at) == generation;
        let died = End::Returned(OWNER_DIED);
        let take = || take_out(self, spot.lane, spot.at, Taken::of(generation), died);
        let task = lost.then(take).flatten();
        drop(decision);
        // Not before: a waker may drop requests, which are taken back then.
        if let Some((task, others)) = task {
            task.base().end(died);
            serve_next(self, spot.lane, others);
        }
        stop_if_terminated(self);
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::Config;
    use crate::request::Request;

    /// As long as a dead thread is listed, requesting threads wait in short steps.
    #[test]
    fn a_dead_thread_is_forgotten_once_its_request_is_answered() {
        let core = Arc::new(Core::new(&Config::default()).unwrap());
        let (lane, at) = (OPEN_LANES, 3);
        let slot = &core.area.lane(lane).slots[at];
        slot.publish(&Request::default());
        assert!(slot.take());
        let claim = Claim::default();
        claim.set(Spot { lane, at });
        let die = || {
            // SAFETY: ends the thread alone.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        };
        core.crew.start("parasc-test".to_owned(), &core.cpus, &Arc::default(), die).unwrap();
        core.adopt(&claim);
        assert_eq!(core.lost_in_lane(lane, at), Some(OWNER_DIED));
        core.repair();
        assert!(core.callers.any(), "its requester has not found it");
        slot.finish(OWNER_DIED);
        let begin = Instant::now();
        while core.callers.any() {
            assert!(begin.elapsed() < Duration::from_secs(60), "never");
            std::thread::sleep(Duration::from_millis(1));
        }
        core.area.header().terminate();
        core.wake_all();
    }
}
