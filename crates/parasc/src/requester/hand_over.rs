//! One call, made by a processing thread while the caller waits.
//!
//! Request and result travel in one cache line, and each change of its owner
//! costs a line's way. A caller that looks at the slot while the call is being
//! made takes the line away from the processing thread, which then must fetch
//! it back to give the result: a third way. So the caller first stays away from
//! it for as long as such calls have taken of late.

use std::sync::Arc;
use std::time::Instant;

use kumiki_sys::cache::prefetch_to_write;
use kumiki_wait::Waiter;

use super::Requester;
use crate::backend::LOOK;
use crate::core::{Core, RARE, STEP};
use crate::execute::call;
use crate::request::Request;
use crate::threads::wake_seat;

/// Ticks beyond which a look too many costs nothing that matters.
const LONGEST_QUIET: u64 = 4_000;
/// Looks before a wait in earnest, which begins with a look at the clock.
pub(super) const LOOKS: usize = 64;

impl Requester {
    /// Whether others can make calls for this thread.
    #[inline(always)]
    pub(super) fn has_help(&self) -> bool {
        !self.core.area.header().is_terminated() && self.core.process.is_current()
    }

    /// Has `request` made by a processing thread, or makes it if there is none.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    pub(super) unsafe fn hand_over(&mut self, request: &Request) -> i64 {
        let slot = &self.core.area.lane(self.lane).slots[0];
        // A processing thread looks at it: its line is on the way while this thread does.
        prefetch_to_write((&raw const *slot).addr());
        if !self.has_help() {
            // SAFETY: the caller vouches for the call.
            return unsafe { call(request) };
        }
        slot.publish(request);
        let start = self.ticks.now();
        let seat = self.near.first().copied().filter(|at| wake_seat(&self.core, *at));
        if seat.is_none() {
            self.core.callers.call();
        }
        while self.ticks.now().wrapping_sub(start) < self.quiet {}
        if let Some(result) = slot.result() {
            // Too late, if by little: one look too early costs more.
            self.quiet -= self.quiet.min(8);
            return result;
        }
        let result = match (0..LOOKS).find_map(|_| slot.result()) {
            Some(result) => result,
            // SAFETY: published above, the caller vouches for it.
            None => unsafe { wait(&mut self.waiter, &self.core, self.lane, seat) },
        };
        if self.ticks.now().wrapping_sub(start) > LONGEST_QUIET {
            // Perhaps the two are on one cpu by now.
            self.settle();
        }
        let longer = self.quiet + 32;
        self.quiet = if longer < LONGEST_QUIET { longer } else { 0 };
        result
    }
}

/// Waits for the result of the lane's slot, which is left to the thread of `seat` and
/// to those of the program. Makes the call if they have gone.
///
/// # Safety
/// The caller has published the request there, as [`Requester::run_raw`] does.
unsafe fn wait(waiter: &mut Waiter, core: &Arc<Core>, lane: usize, seat: Option<usize>) -> i64 {
    let (side, slot) = (&core.sides[lane], &core.area.lane(lane).slots[0]);
    side.expect(0);
    let gone = || {
        let served = seat.is_some_and(|at| core.seats[at].post.is_taken()) || core.callers.any();
        slot.is_requested() && (!served || core.area.header().is_terminated())
    };
    let answered = || slot.result().map(Some).or_else(|| gone().then_some(None));
    loop {
        let watched = core.callers.any();
        let begun = !slot.is_requested();
        // Who has not even begun by then is held up.
        let patience = if begun && !watched { RARE } else { STEP };
        // A thread of the program may come, and die: it rings first.
        let come = || (!watched && core.callers.any()).then_some(None);
        let ready = || answered().or_else(come);
        let end = Instant::now() + patience;
        let mut answer = None;
        while answer.is_none() && Instant::now() < end {
            // A module does not ring.
            let step = if core.kernel.is_some() { LOOK } else { patience };
            let until = end.min(Instant::now() + step);
            answer = waiter.wait_until(&side.bell, slot.status(), until, ready).ok();
        }
        if let Some(result) = answer.flatten() {
            return result;
        }
        core.repair();
        if slot.take() {
            // SAFETY: the caller vouches for the request.
            slot.finish(unsafe { call(&slot.taken()) });
        }
    }
}
