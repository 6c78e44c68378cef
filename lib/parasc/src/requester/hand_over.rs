//! One call, made by a processing thread while the caller waits.
//!
//! Request and result travel in one cache line, and each change of its owner
//! costs a line's way. A caller that looks at the line while the call is being
//! made takes the line away from the processing thread, which then must fetch
//! it back to give the result: a third way. So the caller first stays away from
//! it for as long as such calls have taken of late.

use kumiki_sys::cache::prefetch_to_write;

use super::Requester;
use super::run::{LOOKS, LeftTo, wait_for_offer};
use crate::execute::call;
use crate::line::BATCH;
use crate::threads::wake_seat;
use kumiki_calls::Request;

/// Ticks beyond which a look too many costs nothing that matters.
const LONGEST_QUIET: u64 = 4_000;

impl Requester {
    /// True if others can make calls for this thread.
    #[inline(always)]
    pub(super) fn has_help(&self) -> bool {
        !self.core.area.is_terminated() && self.core.process.is_current()
    }

    /// Has `request` made by a processing thread, or makes it if there is none.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    pub(super) unsafe fn hand_over(&mut self, request: &Request) -> i64 {
        let (core, lane) = (&self.core, self.lane);
        let line = core.area.line(lane);
        // A processing thread looks at it: the line is on the way while this thread does.
        prefetch_to_write((&raw const *line).addr());
        // No kernel has a call of the number that says that calls stand elsewhere.
        if !self.has_help() || request.sysnum == BATCH {
            // SAFETY: the caller vouches for the call.
            return unsafe { call(request) };
        }
        line.open_one(request);
        let start = self.ticks.now();
        let seat = self.near.first().copied().filter(|at| wake_seat(core, *at));
        if seat.is_none() {
            core.callers.call(1);
        }
        while self.ticks.now().wrapping_sub(start) < self.quiet {}
        if let Some(result) = line.result() {
            // Too late, if by little: one look too early costs more.
            self.quiet -= self.quiet.min(8);
            return result;
        }
        let result = (0..LOOKS).find_map(|_| line.result()).unwrap_or_else(|| {
            // SAFETY: the caller vouches for the call.
            unsafe { wait_for_offer(&mut self.waiter, core, lane, Some(LeftTo { seat })) };
            line.result().expect("waited for")
        });
        if self.ticks.now().wrapping_sub(start) > LONGEST_QUIET {
            // Perhaps the two are on one cpu by now.
            self.settle();
        }
        let longer = self.quiet + 32;
        self.quiet = if longer < LONGEST_QUIET { longer } else { 0 };
        result
    }
}
