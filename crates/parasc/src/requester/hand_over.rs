//! One call, made by a processing thread while the caller waits.
//!
//! Request and result travel in one cache line, and each change of its owner
//! costs a line's way. A caller that looks at the slot while the call is being
//! made takes the line away from the processing thread, which then must fetch
//! it back to give the result: a third way. So the caller first stays away from
//! it for as long as such calls have taken of late.

use kumiki_sys::cache::prefetch_to_write;

use super::Requester;
use super::run::wait;
use crate::execute::call;
use crate::request::Request;
use crate::threads::Seat;

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
        let seat = self.near.first().copied().filter(|at| Seat::wake(&self.core, *at));
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
