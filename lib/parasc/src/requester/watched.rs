//! Whether calls sleep: plain ones that are watched, and long batches whose calls turn out to.
//!
//! How many threads share a batch is settled as it begins, by what such calls have taken so far. Of
//! calls that were soon over and sleep by now a long batch would be made by two threads to its end.
//! So its requesting thread looks at the clock after each chunk. One that took far too long is
//! followed by a single call that is watched; if that sleeps, the pool makes the rest, too.

use std::mem::MaybeUninit;
use std::time::Instant;

use super::Requester;
use crate::cost::SLEEPS;
use crate::execute;
use crate::threads::summon_pool;
use kumiki_calls::Request;

/// Calls of a batch that is looked at while it is made. What is plain or kept by the requesting
/// thread is no more than that without another look, either.
pub(super) const LONG: usize = 512;

impl Requester {
    /// Makes these calls, then those that are offered from the last downward, as
    /// [`Line::make_last`](crate::line::Line::make_last). True if they turned out to sleep: then the
    /// lane is the pool's.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`], for these and those that are offered.
    pub(super) unsafe fn make_last_watched(
        &self,
        (kept, own): (&[Request], &mut [i64]),
        share: usize,
        most: usize,
    ) -> bool {
        let line = self.core.area.line(self.lane);
        let long = (SLEEPS * self.means.sleep) as u64;
        let (mut begun, mut watched) = (self.ticks.now(), None::<Watched>);
        // SAFETY: the caller vouches for the calls.
        unsafe { execute::plain(kept, own) };
        while let Some(chunk) = line.last(share) {
            // SAFETY: as above; claimed just now.
            unsafe { line.calls().make(chunk, |_| ()) };
            let now = self.ticks.now();
            let took = now.wrapping_sub(begun);
            begun = now;
            if let Some(watched) = watched.take() {
                if watched.slept() {
                    self.hand_to_pool();
                    // SAFETY: as above.
                    unsafe { line.make_last(share) };
                    return true;
                }
                line.claim_at_most(most);
            } else if took > long {
                line.claim_at_most(1);
                watched = Some(Watched::begin());
                begun = self.ticks.now();
            }
        }
        false
    }

    /// Has threads of the pool make what is left of the batch that is offered, one by one.
    #[cold]
    fn hand_to_pool(&self) {
        let core = &self.core;
        core.pool.take_lane(self.lane);
        let left = core.area.line(self.lane).look().waiting();
        let wanted = left.min(core.pool.threads() + core.callers.count());
        summon_pool(core, wanted - core.callers.call(wanted));
    }
}

/// Clocks and switches of this thread when its calls began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    start: Instant,
    cpu_ns: u64,
    switches: i64,
}

impl Watched {
    pub(super) fn begin() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let cpu_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes to the whole of it, or to nothing.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: all of its fields are numbers, which may be zero.
        let switches = unsafe { usage.assume_init() }.ru_nvcsw;
        Watched { start: Instant::now(), cpu_ns, switches }
    }

    /// True if it was off the cpu for half of the time, of its own will: a thread that lost the cpu
    /// to another has not slept.
    pub(super) fn slept(self) -> bool {
        let now = Watched::begin();
        let elapsed_ns = (now.start - self.start).as_nanos() as u64;
        now.switches > self.switches && 2 * (now.cpu_ns - self.cpu_ns) < elapsed_ns
    }
}
