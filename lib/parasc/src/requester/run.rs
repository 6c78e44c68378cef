//! Running a batch, the ways there are.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use kumiki_wait::Waiter;

use super::meanwhile::{Forked, Meanwhile};
use super::watched::{LONG, Watched};
use super::{NO_CALL, Requester};
use crate::awaited::{self, WaitStep};
use crate::core::{Core, RARE, STEP};
use crate::cost::{Around, CostKey, PART, Prior, Sample, Way, survey};
use crate::differences::Differences;
use crate::error::{Error, Result};
use crate::execute::{self, call};
use crate::line::{Calls, MOST, Takers};
use crate::primitive::lock;
use crate::threads::{summon_pool, wake_seat};
use kumiki_calls::Request;

/// Batches for which a way was chosen, between two looks at which cpu this thread runs on: a
/// look takes as long as one of ten cheap calls.
pub(super) const SETTLE: u32 = 8;
/// Looks before a wait in earnest, which begins with a look at the clock.
pub(super) const LOOKS: usize = 64;

/// Threads that take part in a batch, beside its requesting thread.
#[derive(Clone, Copy, Debug)]
enum By {
    /// Number of threads, this one among them, the others processing threads of the nearest seats that
    /// spin; those that sleep are woken, too.
    Seats { wake: bool, threads: usize },
    /// A number of threads, this one among them, the others of the pool.
    Pool(usize),
    /// A processing thread alone, whoever is there.
    Others,
}

/// Terms on which a batch is offered.
#[derive(Clone, Copy, Debug)]
struct Terms {
    by: By,
    /// Number of calls, the last ones, that are the requesting thread's own.
    kept: usize,
    /// Most calls that are claimed at once.
    most: usize,
}

/// Part that others took in a batch.
#[derive(Clone, Copy, Debug)]
struct Help {
    /// Calls that they have made.
    calls: usize,
    /// Ticks for which this thread waited for them in earnest.
    waited: u64,
    /// True if the calls turned out to sleep.
    slept: bool,
}

/// Part of a batch that was run.
#[derive(Clone, Copy, Debug)]
struct Ran {
    calls: usize,
    /// Number of batches like it that need not ask.
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
    pub(super) unsafe fn check_and_execute(
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
            *result = if self.help {
                // SAFETY: the caller vouches for the call.
                unsafe { call(request) }
            } else {
                // SAFETY: as above.
                unsafe { self.hand_over(request) }
            };
            return Ok(());
        }
        let Some(first) = requests.first() else { return Ok(()) };
        let differ = Differences::of(requests);
        if differ.in_head() || !self.rules.is_free(first) {
            self.check_each(requests)?;
        }
        if !meanwhile.is_left() && self.passes.take(requests) {
            // SAFETY: as above, for all of them.
            unsafe { self.call_in_turn(requests, results) };
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.execute_in_parts(requests, differ, results, meanwhile) }
    }

    /// Checks that every request is allowed, where a look at the first does not tell.
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

    /// Runs a batch of allowed requests in parts as long as an offer can be.
    ///
    /// # Errors
    /// [`Error::Forked`].
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    #[inline(never)]
    unsafe fn execute_in_parts(
        &mut self,
        requests: &[Request],
        differ: Differences,
        results: &mut [i64],
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<()> {
        let parts = requests.chunks(MOST).zip(results.chunks_mut(MOST));
        let is_whole = requests.len() <= MOST;
        for (part, (requests, results)) in parts.enumerate() {
            let differ = if is_whole { differ } else { Differences::of(requests) };
            // SAFETY: the caller vouches for all requests.
            let done = unsafe { self.choose_and_execute(requests, differ, results, meanwhile) };
            if let Err(forked) = done {
                meanwhile.forked = Some(forked.after(part * MOST));
                return Err(Error::Forked);
            }
        }
        Ok(())
    }

    /// Chooses how to run requests of one part, and learns from how it
    /// went.
    ///
    /// # Errors
    /// [`Forked`] in a child of fork(2) that was made meanwhile.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn choose_and_execute(
        &mut self,
        requests: &[Request],
        differ: Differences,
        results: &mut [i64],
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<(), Forked> {
        if !self.has_help() {
            // SAFETY: the caller vouches for all requests.
            unsafe { self.call_in_turn(requests, results) };
            return Ok(());
        }
        self.batches = self.batches.wrapping_add(1);
        if self.batches % SETTLE == 0 {
            self.settle();
        }
        if !self.help {
            let terms = Terms { by: By::Others, kept: 0, most: PART as usize };
            // SAFETY: as above.
            return unsafe { self.offer(requests, results, terms, meanwhile) }.map(drop);
        }
        let beside = meanwhile.is_left();
        // Of a batch longer than an offer each part may be plain without a question.
        if !beside && self.passes.take(requests) {
            // SAFETY: as above.
            unsafe { self.call_in_turn(requests, results) };
            return Ok(());
        }
        let around = Around { beside, own: self.look_for_own() };
        let (key, prior) = survey(requests, differ, around);
        let (mut at, mut pass) = (0, 0);
        while at < requests.len() {
            let (requests, results) = (&requests[at..], &mut results[at..]);
            // SAFETY: as above.
            let ran = unsafe { self.execute_next((key, prior), requests, results, meanwhile) };
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
    /// As for [`choose_and_execute`](Self::choose_and_execute).
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn execute_next(
        &mut self,
        (key, prior): (CostKey, Prior),
        requests: &[Request],
        results: &mut [i64],
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<Ran, Forked> {
        self.look_for_others();
        let (means, ticks) = (self.means, self.ticks);
        let now = || ticks.now();
        let mut choice = self.costs.choose((key, prior), requests.len(), means, now);
        if choice.way == Way::Plain && choice.measure {
            choice.calls = choice.calls.min(LONG);
        }
        let (requests, results) = (&requests[..choice.calls], &mut results[..choice.calls]);
        let ran = Ran { calls: choice.calls, pass: choice.pass };
        if choice.wake {
            // One on this thread's own cpu would only be in the way: it may have moved.
            self.settle();
        }
        if choice.way == Way::Shared && self.near.is_empty() && self.own.is_empty() {
            // SAFETY: as above.
            unsafe { self.call_in_turn(requests, results) };
            return Ok(ran);
        }
        let watched = choice.watch.then(Watched::begin);
        let (calls, threads, woke) = (requests.len(), choice.threads, choice.wake);
        let mut sample = Sample { calls, threads, woke, ..Sample::default() };
        let start = if choice.measure { now() } else { 0 };
        match choice.way {
            // SAFETY: as above.
            Way::Plain => unsafe { self.call_in_turn(requests, results) },
            Way::Shared => {
                let (part, most) = self.costs.terms(key, requests.len(), choice.threads, means);
                // While this thread is away the others may come to the end.
                let kept = if key.is_beside() { 0 } else { part };
                // Nobody looks at so many, of which a claim costs nothing.
                sample.kept = if calls > LONG { kept.min(PART as usize) } else { kept };
                let by = By::Seats { wake: choice.wake, threads };
                let terms = Terms { by, kept: sample.kept, most };
                // SAFETY: as above.
                let help = unsafe { self.offer(requests, results, terms, meanwhile) }?;
                if help.slept {
                    self.core.pool.leave_lane(self.lane);
                    self.costs.slept(key);
                    return Ok(ran);
                }
                (sample.helped, sample.waited) = (help.calls, help.waited);
                self.costs.shared(key, sample, means, now);
            }
            Way::Pool => {
                let threads = 1 + self.core.pool.threads() + self.own.len();
                self.begin_writeback(key.sysnum(), requests);
                // SAFETY: as above.
                unsafe { self.share_with_pool(requests, results, threads, meanwhile) }?;
                self.end_writeback(results);
            }
        }
        if choice.measure {
            sample.ticks = now().wrapping_sub(start).saturating_sub(meanwhile.take_away());
            sample.slept = watched.map(Watched::slept);
            self.costs.record(key, choice.way, sample, means);
        }
        Ok(ran)
    }

    /// Makes calls that no other thread is to make: one after the other, or inside the kernel
    /// by one entry.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    #[inline(always)]
    unsafe fn call_in_turn(&mut self, requests: &[Request], results: &mut [i64]) {
        match &self.core.inside {
            // SAFETY: the caller vouches for all requests.
            None => unsafe { execute::plain(requests, results) },
            // SAFETY: as above.
            Some(inside) => unsafe { self.alone.make(inside, self.ticks, requests, results) },
        }
    }

    /// Makes calls together with threads of the pool.
    ///
    /// # Errors
    /// As for [`choose_and_execute`](Self::choose_and_execute).
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    pub(super) unsafe fn share_with_pool(
        &mut self,
        requests: &[Request],
        results: &mut [i64],
        threads: usize,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<(), Forked> {
        let terms = Terms { by: By::Pool(threads), kept: 0, most: 1 };
        self.core.pool.take_lane(self.lane);
        if self.core.inside.is_some() {
            self.core.area.leave_to_others(self.lane, true);
        }
        // SAFETY: the caller vouches for all requests.
        unsafe { self.offer(requests, results, terms, meanwhile) }?;
        if self.core.inside.is_some() {
            self.core.area.leave_to_others(self.lane, false);
        }
        self.core.pool.leave_lane(self.lane);
        Ok(())
    }

    /// Offers a batch: others make it from the first call upward, this thread, if it helps,
    /// the `kept` last ones and then from the last downward. Returns how many calls others
    /// have made, and how long that took at the end.
    ///
    /// # Errors
    /// As for [`choose_and_execute`](Self::choose_and_execute).
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    unsafe fn offer(
        &mut self,
        requests: &[Request],
        results: &mut [i64],
        Terms { by, kept, most }: Terms,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<Help, Forked> {
        let (offered, kept) = requests.split_at(requests.len() - kept);
        let (answers, own) = results.split_at_mut(offered.len());
        let calls = Calls { requests: offered.as_ptr(), results: answers.as_mut_ptr() };
        let (core, lane) = (&self.core, self.lane);
        let line = core.area.line(lane);
        let (takers, share) = match by {
            By::Seats { threads, .. } if self.own.is_empty() => {
                (Takers::of(self.near.iter().copied().take(threads - 1)), threads)
            }
            _ => (Takers::ALL, self.others() + 1),
        };
        line.open_for(takers, calls, offered.len(), most);
        let mut left = None;
        match by {
            By::Seats { wake: false, .. } => (),
            // None to be had: then this thread makes all calls.
            By::Seats { wake: true, threads } => {
                // The last one: that it looks awake does not mean that it comes. Those who make the
                // batch wake the others.
                let called = offered.len().min(threads - 1).min(self.near.len());
                let awake = self.means.hot.min(called.saturating_sub(1));
                // Inside the kernel nobody looks whom to wake.
                let rest = if core.inside.is_some() { awake } else { called.saturating_sub(1) };
                core.sides[lane].call(self.cpu, awake..rest);
                for seat in &self.near[rest..called] {
                    let _ = wake_seat(core, *seat);
                }
                if !self.own.is_empty() {
                    core.callers.call(core.spare_cpus().min(offered.len()));
                }
            }
            By::Pool(threads) => {
                let wanted = threads.min(offered.len()) - 1;
                summon_pool(core, wanted - core.callers.call(wanted));
            }
            By::Others => {
                let seat = self.near.first().copied().filter(|at| wake_seat(core, *at));
                // Others may come while the first one sleeps in its call.
                let sleeps = core.durations.is_long(&offered[0]);
                core.callers.call(if sleeps { offered.len() } else { 1 });
                left = Some(LeftTo { seat });
            }
        }
        // In a child of fork(2) the offer stays as it was.
        let forked = |forked| Forked { handed: line.claimed(), ..forked };
        meanwhile.run(offered.len(), self.ticks, core.process).map_err(forked)?;
        let mut slept = false;
        if left.is_none() {
            let looks = requests.len() > LONG && self.means.pool && !matches!(by, By::Pool(_));
            match &core.inside {
                None if looks => {
                    // SAFETY: the caller vouches for the calls.
                    slept = unsafe { self.make_last_watched((kept, own), share, most) };
                }
                // Calls that sleep are claimed one by one: none waits for an entry of another.
                Some(inside) if !matches!(by, By::Pool(_)) => {
                    // SAFETY: the caller vouches for all requests.
                    unsafe { inside.make_last((kept, own), (&core.area, lane), share) };
                }
                _ => {
                    // SAFETY: as above.
                    unsafe { execute::plain(kept, own) };
                    // SAFETY: as above.
                    unsafe { line.make_last(share) };
                }
            }
        }
        if let Some(calls) = (0..LOOKS).find_map(|_| line.over()) {
            return Ok(Help { calls, waited: 0, slept });
        }
        let start = self.ticks.now();
        // SAFETY: as above.
        let calls = unsafe { wait_for_offer(&mut self.waiter, core, lane, left) };
        Ok(Help { calls, waited: self.ticks.now().wrapping_sub(start), slept })
    }
}

/// Threads to which a batch is left that its requesting thread makes nothing of.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftTo {
    /// The thread of this seat, besides those of the program.
    pub(super) seat: Option<usize>,
}

/// Waits until what the requesting thread of a lane offers is over, and says how many calls
/// others have made. If it is `left` to others altogether, this thread makes it after all if
/// they are gone, or if nobody has begun with more of it for a while.
///
/// # Safety
/// As for [`Requester::run_raw`], for the calls offered; by the lane's requesting thread.
pub(super) unsafe fn wait_for_offer(
    waiter: &mut Waiter,
    core: &Arc<Core>,
    lane: usize,
    left: Option<LeftTo>,
) -> usize {
    let (line, side) = (core.area.line(lane), &core.sides[lane]);
    // How far it was begun, if some of it was not.
    let waits = || line.look().has_work().then(|| line.claimed());
    let gone = || {
        left.is_some_and(|LeftTo { seat }| {
            let runs = seat.is_some_and(|at| core.seats[at].post.is_taken());
            let served = runs || core.callers.any();
            waits().is_some() && (!served || core.area.is_terminated())
        })
    };
    let begun = Cell::new(None);
    let once = || {
        let watched = core.callers.any();
        // A thread of the program may come, and die: it rings first.
        let come = || !watched && core.callers.any();
        let ready = || line.over().map(Some).or_else(|| (gone() || come()).then_some(None));
        begun.set(left.and_then(|_| waits()));
        // A thread of the engine's own hardly dies; who has not even begun is held up.
        let patience = if watched || begun.get().is_some() { STEP } else { RARE };
        if core.inside.is_some() {
            core.area.sleeps(lane, true);
        }
        let ended = waiter.wait_deadline(&side.bell, line.word(), Instant::now() + patience, ready);
        if core.inside.is_some() {
            core.area.sleeps(lane, false);
        }
        match ended {
            Ok(Some(calls)) => WaitStep::Ended(calls),
            Ok(None) if !gone() => WaitStep::Changed,
            _ => WaitStep::Late,
        }
    };
    let mend = || {
        let dead = std::mem::take(&mut *lock(&side.left));
        for dead in dead {
            // SAFETY: this offer is not over, its claimer is dead, and the caller vouches for
            // its calls.
            unsafe { line.repair(&dead) };
        }
        if gone() || begun.get().is_some() && waits() == begun.get() {
            // SAFETY: the caller vouches for the calls.
            unsafe { line.make_last(1) };
        }
        None
    };
    awaited::wait(once, || core.repair(), mend)
}
