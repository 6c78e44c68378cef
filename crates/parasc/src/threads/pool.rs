//! Processing threads for calls that sleep: many, none of them spinning.
//!
//! Who has requests for the pool publishes them, then *summons* threads: idle
//! ones are woken, others started. Each one summoned is told how many more to
//! summon itself, so waking many takes the time of waking a few.
//!
//! A thread without work says that it is idle, then looks once more; who
//! publishes looks for idle ones afterwards. Both under the pool's lock, which
//! orders the two: either the thread sees the request or it is summoned.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Instant;

use kumiki_wait::{Bell, Policy, Threshold, Waiter};

use super::processor::{bits, serve_lane};
use super::{after, start};
use crate::claim::Claim;
use crate::core::{Core, QUICK_LANE, SLEEPING_LANE};
use crate::open::serve::{self as open, Hand};
use crate::primitive::{AtomicU32, AtomicU64, Mutex, lock};

/// Ticks that an idle thread spins: none, there are more of them than cpus.
const POLICY: Threshold = Threshold::Ticks(0);

/// A thread's place in the pool.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place {
    bell: Bell,
    /// 1 + how many more to summon; 0: nobody has called.
    call: AtomicU32,
    claim: Claim,
}

#[derive(Debug, Default)]
struct Members {
    /// Started, and waiting to be summoned.
    idle: Vec<usize>,
    /// Not started.
    vacant: Vec<usize>,
}

/// The pool of one engine.
#[derive(Debug)]
pub(crate) struct Pool {
    places: Vec<Place>,
    members: Mutex<Members>,
    /// Lanes whose requests are for the pool, a bit each.
    lanes: AtomicU64,
    /// Whether requests for calls that are soon over are too.
    rescue: AtomicBool,
}

impl Pool {
    pub(crate) fn new(threads: usize) -> Self {
        let members = Members { idle: Vec::with_capacity(threads), vacant: (0..threads).collect() };
        Pool {
            places: (0..threads).map(|_| Place::default()).collect(),
            members: Mutex::new(members),
            lanes: AtomicU64::new(0),
            rescue: AtomicBool::new(false),
        }
    }

    /// How many threads there can be.
    pub(crate) fn threads(&self) -> usize {
        self.places.len()
    }

    /// Lanes whose requests are for the pool.
    #[inline(always)]
    pub(crate) fn lanes(&self) -> u64 {
        self.lanes.load(Acquire)
    }

    /// Says that a lane's requests are for the pool from now on.
    pub(crate) fn take_lane(&self, lane: usize) {
        self.lanes.fetch_or(1 << lane, AcqRel);
    }

    /// Says that they are not any more.
    pub(crate) fn leave_lane(&self, lane: usize) {
        self.lanes.fetch_and(!(1 << lane), AcqRel);
    }

    /// Says whether requests for calls that are soon over are for the pool too.
    pub(crate) fn rescue(&self, rescue: bool) {
        if self.rescue.load(Acquire) != rescue {
            self.rescue.store(rescue, Release);
        }
    }

    fn rescues(&self) -> bool {
        self.rescue.load(Acquire)
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.places.iter().map(|place| &place.claim)
    }

    /// Wakes or starts up to `threads` threads to look through the pool's
    /// lanes. `false` if not even one could be had and none is at work.
    pub(crate) fn summon(core: &Arc<Core>, threads: usize) -> bool {
        // Two, each of which summons half of the rest.
        let mut parts = [threads.div_ceil(2), threads / 2].into_iter().filter(|part| *part > 0);
        let first = parts.next().is_some_and(|part| summon_one(core, part - 1));
        if first {
            let _ = parts.all(|part| summon_one(core, part - 1));
        }
        first || lock(&core.pool.members).at_work(core.pool.threads()) > 0
    }

    /// Wakes all, to see the termination flag.
    pub(crate) fn wake_all(&self) {
        let idle = std::mem::take(&mut lock(&self.members).idle);
        idle.into_iter().for_each(|at| self.call(at, 0));
    }

    pub(crate) fn call(&self, at: usize, more: usize) {
        // Release: partner is the load in `idle`.
        self.places[at].call.store(1 + more as u32, Release);
        self.places[at].bell.ring();
    }

    /// Takes an idle thread, to be called, or a place where none has been
    /// started, to start one.
    pub(crate) fn find(&self) -> Option<Found> {
        let mut members = lock(&self.members);
        let idle = members.idle.pop().map(Found::Idle);
        idle.or_else(|| members.vacant.pop().map(Found::Vacant))
    }

    /// Waits to be summoned; returns how many more to summon, `None` to end.
    pub(crate) fn idle(
        &self,
        at: usize,
        waiter: &mut Waiter,
        retire: Instant,
        ends: impl Fn() -> bool,
        has_work: impl Fn() -> bool,
    ) -> Option<usize> {
        let place = &self.places[at];
        lock(&self.members).idle.push(at);
        if (has_work() || ends()) && self.leave(at, false) {
            return (!ends()).then_some(0);
        }
        let called = || (place.call.load(Acquire) != 0).then(|| place.call.swap(0, AcqRel));
        let call = match waiter.wait_until(&place.bell, &place.call, retire, called) {
            Ok(call) => call,
            Err(_) if self.leave(at, true) => return None,
            // Somebody has just taken it off the list: the call is on its way.
            Err(_) => waiter.wait(&place.bell, &place.call, called),
        };
        (!ends()).then_some(call as usize - 1)
    }

    /// Takes a thread off the list of idle ones, to work or to retire: by the
    /// thread. `false` if somebody else has, who calls it.
    fn leave(&self, at: usize, retire: bool) -> bool {
        let mut members = lock(&self.members);
        let Some(place) = members.idle.iter().position(|other| *other == at) else { return false };
        members.idle.swap_remove(place);
        if retire {
            members.vacant.push(at);
        }
        true
    }
}

/// Who can be had for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Idle(usize),
    Vacant(usize),
}

impl Members {
    fn at_work(&self, threads: usize) -> usize {
        threads - self.idle.len() - self.vacant.len()
    }
}

/// Wakes or starts one thread that is to summon `more`.
fn summon_one(core: &Arc<Core>, more: usize) -> bool {
    match core.pool.find() {
        Some(Found::Idle(at)) => {
            core.pool.call(at, more);
            true
        }
        Some(Found::Vacant(at)) => {
            let run = move |core: &Arc<Core>| serve(core, at, more);
            let started = start(core, format!("parasc-pool-{at}"), &core.cpus, run);
            if started.is_err() {
                lock(&core.pool.members).vacant.push(at);
            }
            started.is_ok()
        }
        None => false,
    }
}

/// A thread of the pool.
fn serve(core: &Arc<Core>, at: usize, more: usize) {
    let policy = Policy { threshold: POLICY, ..core.policy };
    // Refused only if a way to sleep was chosen that is not there: then the engine
    // has not been made, or KUMIKI_WAIT has changed since.
    let Ok(mut waiter) = Waiter::new(&policy) else {
        return lock(&core.pool.members).vacant.push(at);
    };
    let mut more = more;
    let mut hand = Hand::new(&core.pool.places[at].claim, false);
    loop {
        if more > 0 {
            Pool::summon(core, more);
        }
        while has_work(core) && !core.area.header().is_terminated() {
            bits(core.pool.lanes()).for_each(|lane| serve_lane(core, lane, 1, hand.claim));
            open::serve(core, SLEEPING_LANE, &mut hand);
            if core.pool.rescues() {
                open::serve(core, QUICK_LANE, &mut hand);
            }
        }
        let retire = after(core.retire);
        let ends = || core.area.header().is_terminated();
        match core.pool.idle(at, &mut waiter, retire, ends, || has_work(core)) {
            Some(called) => more = called,
            None => return,
        }
    }
}

fn has_work(core: &Core) -> bool {
    bits(core.pool.lanes()).any(|lane| core.area.lane(lane).has_work())
        || core.open[SLEEPING_LANE].ready.any()
        || core.pool.rescues() && core.open[QUICK_LANE].ready.any()
}
