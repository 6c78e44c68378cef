//! Running a batch, the ways there are.

use std::mem::MaybeUninit;
use std::time::Instant;

use super::hand_over::LOOKS;
use super::meanwhile::{Forked, Meanwhile};
use super::{NO_CALL, Requester};
use crate::core::{RARE, STEP};
use crate::cost::{End, Key, PART, Prior, Sample, Way, survey};
use crate::differences::Differences;
use crate::error::{Error, Result};
use crate::execute::{call, plain};
use crate::offer::Calls;
use crate::primitive::lock;
use crate::request::Request;
use crate::threads::{summon_pool, wake_seat};

/// Batches for which a way was chosen, between two looks at which cpu this thread runs on: a
/// look takes as long as one of ten cheap calls.
pub(super) const SETTLE: u32 = 8;

/// On which a batch is shared.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// So many calls, the last ones, are the requesting thread's own.
    kept: usize,
    /// So many are claimed at once, at most.
    most: usize,
    /// Processing threads that sleep are woken.
    wake: bool,
}

/// How others took part in a batch.
#[derive(Clone, Copy, Debug)]
struct Help {
    /// Calls that they have made.
    calls: usize,
    /// Ticks for which this thread waited for them in earnest.
    waited: u64,
}

/// What was run of a batch.
#[derive(Clone, Copy, Debug)]
struct Ran {
    calls: usize,
    /// So many batches like it need not ask.
    pass: u32,
}

impl Requester {
    /// Runs a batch once every request has been found to be allowed, and does
    /// what there is to do meanwhile, unless that is for afterwards.
    ///
    /// All that most batches go through which stay plain: a few calls and returns,
    /// each of them some nanoseconds, beside which five short calls are not long.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    #[inline(always)]
    pub(super) unsafe fn run_checked(
        &mut self,
        requests: &[Request],
        results: &mut [i64],
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<()> {
        if requests.len() != results.len() {
            return Err(Error::Lengths { requests: requests.len(), results: results.len() });
        }
        if let ([request], [result]) = (requests, &mut *results) {
            self.check(0, request)?;
            // SAFETY: the caller vouches for the call.
            *result = unsafe { self.one(request) };
            return Ok(());
        }
        let Some(first) = requests.first() else { return Ok(()) };
        let differ = Differences::of(requests);
        if differ.in_head() || !self.rules.is_free(first) {
            self.check_each(requests)?;
        }
        if !meanwhile.is_left() && self.passes.take(requests) {
            // SAFETY: as above, for all of them.
            unsafe { plain(requests, results) };
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.run_parts(requests, differ, results, meanwhile) }
    }

    /// Whether every request is allowed, where a look at the first does not tell.
    #[inline(never)]
    fn check_each(&self, requests: &[Request]) -> Result<()> {
        // What the last one was, which passed whatever its arguments.
        let mut known = NO_CALL;
        for (index, request) in requests.iter().enumerate() {
            if request.head() != known {
                self.check(index, request)?;
                known = if self.rules.is_free(request) { request.head() } else { NO_CALL };
            }
        }
        Ok(())
    }

    /// Runs a batch of allowed requests in parts that fit the lane.
    ///
    /// # Errors
    /// [`Error::Forked`].
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    #[inline(never)]
    unsafe fn run_parts(
        &mut self,
        requests: &[Request],
        differ: Differences,
        results: &mut [i64],
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<()> {
        let most = self.core.area.lane_slots();
        let parts = requests.chunks(most).zip(results.chunks_mut(most));
        let is_whole = requests.len() <= most;
        for (part, (requests, results)) in parts.enumerate() {
            let differ = if is_whole { differ } else { Differences::of(requests) };
            // SAFETY: the caller vouches for all requests.
            if let Err(forked) = unsafe { self.run_part(requests, differ, results, meanwhile) } {
                meanwhile.forked = Some(forked.after(part * most));
                return Err(Error::Forked);
            }
        }
        Ok(())
    }

    /// Makes one call.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn one(&mut self, request: &Request) -> i64 {
        if self.help {
            // SAFETY: the caller vouches for the call.
            unsafe { call(request) }
        } else {
            // SAFETY: as above.
            unsafe { self.hand_over(request) }
        }
    }

    /// Chooses how to run requests that fit the lane, and learns from how it
    /// went.
    ///
    /// # Errors
    /// [`Forked`] in a child of fork(2) that was made meanwhile.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn run_part(
        &mut self,
        requests: &[Request],
        differ: Differences,
        results: &mut [i64],
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<(), Forked> {
        if !self.has_help() {
            // SAFETY: the caller vouches for all requests.
            unsafe { plain(requests, results) };
            return Ok(());
        }
        self.batches = self.batches.wrapping_add(1);
        if self.batches.is_multiple_of(SETTLE) {
            self.settle();
        }
        if !self.core.help {
            // SAFETY: as above.
            unsafe { self.unhelped(requests, results) };
            return Ok(());
        }
        let beside = meanwhile.is_left();
        // Of a batch longer than the lane each part may be plain without a question.
        if !beside && self.passes.take(requests) {
            // SAFETY: as above.
            unsafe { plain(requests, results) };
            return Ok(());
        }
        let (key, prior) = survey(requests, differ, beside);
        let (mut at, mut pass) = (0, 0);
        while at < requests.len() {
            let (requests, results) = (&requests[at..], &mut results[at..]);
            // SAFETY: as above.
            let ran = unsafe { self.run_some((key, prior), requests, results, meanwhile) };
            let ran = ran.map_err(|forked| forked.after(at))?;
            (at, pass) = (at + ran.calls, ran.pass);
        }
        if !beside {
            if pass > 0 {
                // Of the whole length, whatever the last part's was.
                self.costs.pass(key, pass, requests.len());
            }
            self.passes.give(requests, pass);
        }
        Ok(())
    }

    /// Runs the first of `requests`, all of them if the way to do so is no
    /// question.
    ///
    /// # Errors
    /// As for [`run_part`](Self::run_part).
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn run_some(
        &mut self,
        (key, prior): (Key, Prior),
        requests: &[Request],
        results: &mut [i64],
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<Ran, Forked> {
        if self.ring.makes(requests) {
            // SAFETY: the caller vouches for all requests.
            unsafe { self.ring.run(requests, results) };
            return Ok(Ran { calls: requests.len(), pass: 0 });
        }
        self.means.hot = self.near.first().is_some_and(|at| self.core.seats[*at].is_hot());
        let (means, ticks) = (self.means, self.ticks);
        let now = || ticks.now();
        let choice = self.costs.choose((key, prior), requests.len(), means, now);
        let (requests, results) = (&requests[..choice.calls], &mut results[..choice.calls]);
        let ran = Ran { calls: choice.calls, pass: choice.pass };
        if choice.wake {
            // One on this thread's own cpu would only be in the way: it may have moved.
            self.settle();
        }
        if choice.way == Way::Shared && self.near.is_empty() {
            // SAFETY: as above.
            unsafe { plain(requests, results) };
            return Ok(ran);
        }
        let watched = choice.watch.then(Watched::begin);
        let (mut helped, mut kept) = (0, 0);
        let start = if choice.measure { now() } else { 0 };
        match choice.way {
            // SAFETY: as above.
            Way::Plain => unsafe { plain(requests, results) },
            Way::Shared => {
                let (part, most) = self.costs.terms(key, requests.len(), self.near.len(), means);
                // While this thread is away the others may come to the end.
                kept = if key.is_beside() { 0 } else { part };
                let terms = Terms { kept, most, wake: choice.wake };
                // SAFETY: as above.
                let help = unsafe { self.shared(requests, results, terms, meanwhile) }?;
                helped = help.calls;
                let (calls, waited, woke) = (requests.len(), help.waited, choice.wake);
                self.costs.shared(key, End { calls, helped, waited, woke }, means, now);
            }
            Way::Pool => {
                let threads = self.core.pool.threads();
                self.begin_writeback(key.sysnum(), requests);
                // SAFETY: as above.
                unsafe { self.many(requests, results, threads, meanwhile) }?;
                self.end_writeback(results);
            }
        }
        if choice.measure {
            let ticks = now().wrapping_sub(start).saturating_sub(meanwhile.take_away());
            let (calls, woke) = (requests.len(), choice.wake);
            let slept = watched.map(Watched::slept);
            let sample = Sample { calls, ticks, helped, kept, woke, slept };
            self.costs.record(key, choice.way, sample, means);
        }
        Ok(ran)
    }

    /// Together with the processing threads that spin: they from the first call
    /// upward, this thread the `kept` last ones and then from the last downward.
    /// Returns how many calls others have made, and how long that took at the end.
    ///
    /// # Errors
    /// As for [`run_part`](Self::run_part).
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn shared(
        &mut self,
        requests: &[Request],
        results: &mut [i64],
        Terms { kept, most, wake }: Terms,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<Help, Forked> {
        let (offered, kept) = requests.split_at(requests.len() - kept);
        let (answers, own) = results.split_at_mut(offered.len());
        let calls = Calls { requests: offered.as_ptr(), results: answers.as_mut_ptr() };
        let side = &self.core.sides[self.lane];
        side.offer.open(calls, offered.len(), most);
        if wake {
            self.wake(offered.len());
        }
        // In a child of fork(2) the offer stays as it was.
        let forked = |forked| Forked { handed: side.offer.claimed(), ..forked };
        meanwhile.run(offered.len(), self.ticks, self.core.process).map_err(forked)?;
        // SAFETY: the caller vouches for all requests.
        unsafe { plain(kept, own) };
        while let Some(chunk) = side.offer.last(self.near.len() + 1) {
            // SAFETY: as above; claimed just now.
            unsafe { calls.make(chunk, |_| ()) };
        }
        let over = || side.offer.over();
        if let Some(calls) = (0..LOOKS).find_map(|_| over()) {
            return Ok(Help { calls, waited: 0 });
        }
        let start = self.ticks.now();
        // SAFETY: as above.
        let calls = unsafe { self.finish(calls, None) };
        Ok(Help { calls, waited: self.ticks.now().wrapping_sub(start) })
    }

    /// Sees that the processing threads nearby look for `offered` calls.
    fn wake(&self, offered: usize) {
        let wanted = self.near.len().min(offered);
        for seat in &self.near[..wanted] {
            // None to be had: then this thread makes all calls.
            let _ = wake_seat(&self.core, *seat);
        }
    }

    /// Together with threads of the pool.
    ///
    /// # Errors
    /// As for [`run_part`](Self::run_part).
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    pub(super) unsafe fn many(
        &mut self,
        requests: &[Request],
        results: &mut [i64],
        threads: usize,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<(), Forked> {
        let calls = Calls { requests: requests.as_ptr(), results: results.as_mut_ptr() };
        let side = &self.core.sides[self.lane];
        self.core.pool.take_lane(self.lane);
        side.offer.open(calls, requests.len(), 1);
        summon_pool(&self.core, threads.min(requests.len()) - 1);
        let forked = |forked| Forked { handed: side.offer.claimed(), ..forked };
        meanwhile.run(requests.len(), self.ticks, self.core.process).map_err(forked)?;
        while let Some(chunk) = side.offer.last(1) {
            // SAFETY: the caller vouches for all requests; claimed just now.
            unsafe { calls.make(chunk, |_| ()) };
        }
        // SAFETY: as above.
        unsafe { self.finish(calls, None) };
        self.core.pool.leave_lane(self.lane);
        Ok(())
    }

    /// Left to processing threads altogether, as long as there are any.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn unhelped(&mut self, requests: &[Request], results: &mut [i64]) {
        let calls = Calls { requests: requests.as_ptr(), results: results.as_mut_ptr() };
        self.core.sides[self.lane].offer.open(calls, requests.len(), PART as usize);
        let seat = self.near.first().copied().filter(|at| wake_seat(&self.core, *at));
        self.core.callers.call();
        // SAFETY: the caller vouches for all requests.
        unsafe { self.finish(calls, Some(Left { seat })) };
    }

    /// Waits for what others are at of the offer, whose `calls` these are, and returns how
    /// many they have made. What is `left` to others altogether this thread makes after all if
    /// they are gone, or have not begun with more of it for a while.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn finish(&mut self, calls: Calls, left: Option<Left>) -> usize {
        let (waiter, core) = (&mut self.waiter, &self.core);
        let side = &core.sides[self.lane];
        side.expect_end();
        loop {
            let watched = core.callers.any();
            let gone = || {
                left.is_some_and(|Left { seat }| {
                    let runs = seat.is_some_and(|at| core.seats[at].post.is_taken());
                    let served = runs || core.callers.any();
                    side.offer.has_work() && (!served || core.area.header().is_terminated())
                })
            };
            // A thread of the program may come, and die: it rings first.
            let come = || !watched && core.callers.any();
            let over = || side.offer.over().map(Some);
            let ready = || over().or_else(|| (gone() || come()).then_some(None));
            let claimed = side.offer.claimed();
            let waits = left.is_some() && side.offer.has_work();
            // By the clock in earnest only: a thread of the engine's own hardly dies.
            let patience = if watched || waits { STEP } else { RARE };
            let until = Instant::now() + patience;
            let ended = waiter.wait_until(&side.bell, side.offer.word(), until, ready);
            match ended {
                Ok(Some(made)) => return made,
                Ok(None) if !gone() => continue,
                _ => (),
            }
            core.repair();
            for dead in lock(&side.left).drain(..) {
                // SAFETY: the caller vouches for all requests; their claimer is dead.
                unsafe { calls.repair(&dead) };
                side.offer.count_repaired(dead.chunk.len());
            }
            if gone() || waits && side.offer.claimed() == claimed {
                while let Some(chunk) = side.offer.last(1) {
                    // SAFETY: as above; claimed just now.
                    unsafe { calls.make(chunk, |_| ()) };
                }
            }
        }
    }
}

/// To whom a batch is left that its requesting thread makes nothing of.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// The thread of this seat, besides those of the program.
    seat: Option<usize>,
}

/// What this thread did when its calls began.
#[derive(Clone, Copy, Debug)]
struct Watched {
    start: Instant,
    cpu_ns: u64,
    switches: i64,
}

impl Watched {
    fn begin() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let cpu_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes to the whole of it, or to nothing.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: all of its fields are numbers, which may be zero.
        let switches = unsafe { usage.assume_init() }.ru_nvcsw;
        Watched { start: Instant::now(), cpu_ns, switches }
    }

    /// Whether it was off the cpu for half of the time, of its own will: who has lost the cpu
    /// to somebody else has not slept.
    fn slept(self) -> bool {
        let now = Watched::begin();
        let elapsed_ns = (now.start - self.start).as_nanos() as u64;
        now.switches > self.switches && 2 * (now.cpu_ns - self.cpu_ns) < elapsed_ns
    }
}
