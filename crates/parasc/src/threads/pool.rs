//! Processing threads for calls that sleep: many, none of them spinning.
//!
//! Who has requests for the pool publishes them, then *summons* threads: idle
//! ones are woken, all by one system call, and others started.
//!
//! A thread without work says that it is idle, then looks once more; who
//! publishes looks for idle ones afterwards. Both under the pool's lock, which
//! orders the two: either the thread sees the request or it is called. Which one
//! comes does not matter, so calls are only counted: whoever is awake takes one.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use std::time::Instant;

use kumiki_slot::Life;
use kumiki_wait::EventCount;

use super::processor::{bits, serve_lane};
use super::{Unwinding, after, serve_what_waits, start};
use crate::claim::Claim;
use crate::core::{Core, QUICK_LANE, SLEEPING_LANE};
use crate::open::serve::{self as open, Hand};
use crate::primitive::{AtomicBool, AtomicU64, Mutex, fence, lock};

#[derive(Debug, Default)]
struct Members {
    /// Threads that wait to be called.
    idle: usize,
    /// Threads that have been called, and have not come yet.
    called: usize,
    /// Places without a thread.
    vacant: Vec<usize>,
}

/// The pool of one engine.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Of each place for a thread.
    claims: Vec<Claim>,
    lives: Vec<Arc<Life>>,
    members: Mutex<Members>,
    /// Where the idle ones sleep.
    calls: EventCount,
    /// Lanes whose requests are for the pool, a bit each.
    lanes: AtomicU64,
    /// Whether requests for calls that are soon over are too.
    rescue: AtomicBool,
}

impl Pool {
    pub(crate) fn new(threads: usize) -> Self {
        let members = Members { vacant: (0..threads).collect(), ..Members::default() };
        Pool {
            claims: (0..threads).map(|_| Claim::default()).collect(),
            lives: (0..threads).map(|_| Arc::default()).collect(),
            members: Mutex::new(members),
            calls: EventCount::new(),
            lanes: AtomicU64::new(0),
            rescue: AtomicBool::new(false),
        }
    }

    /// How many threads there can be.
    pub(crate) fn threads(&self) -> usize {
        self.claims.len()
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

    /// Says that requests for calls that are soon over, one of which has been
    /// placed, are for the pool too.
    pub(crate) fn rescue(&self) {
        // Partner: the fence in `end_rescue`.
        fence(SeqCst);
        if !self.rescues() {
            self.rescue.store(true, Release);
        }
    }

    /// Says that they are not any more, unless one `waits`: `false` then.
    pub(crate) fn end_rescue(&self, waits: impl Fn() -> bool) -> bool {
        if waits() {
            return false;
        }
        if !self.rescues() {
            return true;
        }
        self.rescue.store(false, Release);
        // Partner: the fence in `rescue`. For one that was placed just now they may
        // have been taken to be.
        fence(SeqCst);
        !waits()
    }

    pub(crate) fn rescues(&self) -> bool {
        self.rescue.load(Acquire)
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter()
    }

    pub(super) fn lives(&self) -> &[Arc<Life>] {
        &self.lives
    }

    /// The thread of place `at` has died: another one may come.
    pub(super) fn clear(core: &Arc<Core>, at: usize) {
        core.pool.claims[at].clear();
        lock(&core.pool.members).vacant.push(at);
        serve_what_waits(core);
    }

    /// Wakes or starts up to `threads` threads to look through the pool's
    /// lanes. `false` if not even one could be had and there is none: one at work
    /// looks once more before it sleeps, even if it has come to be idle meanwhile.
    pub(crate) fn summon(core: &Arc<Core>, threads: usize) -> bool {
        let called = core.pool.call(threads);
        start_some(core, threads - called)
            || called > 0
            || lock(&core.pool.members).vacant.len() < core.pool.threads()
    }

    /// Calls up to `threads` idle ones, and says how many.
    pub(crate) fn call(&self, threads: usize) -> usize {
        let called = lock(&self.members).call(threads);
        if called > 0 {
            self.calls.notify(called as u32);
        }
        called
    }

    /// Wakes all, to see the termination flag.
    pub(crate) fn wake_all(&self) {
        self.calls.notify(u32::MAX);
    }

    /// Takes a place in which no thread is, to start one.
    pub(crate) fn take_place(&self) -> Option<usize> {
        lock(&self.members).vacant.pop()
    }

    /// The thread of place `at` waits to be called: `true`. `false` if it is to
    /// end: nobody has called until `retire`, or all of them `end`.
    pub(crate) fn idle(
        &self,
        at: usize,
        retire: Option<Instant>,
        ends: impl Fn() -> bool,
        has_work: impl Fn() -> bool,
    ) -> bool {
        // Before each look at the calls: one that comes later ends the sleep.
        let mut seen = self.calls.look();
        lock(&self.members).idle += 1;
        loop {
            if ends() || has_work() {
                lock(&self.members).leave();
                return !ends();
            }
            let late = self.calls.sleep(seen, retire);
            seen = self.calls.look();
            let mut members = lock(&self.members);
            if members.come() {
                return !ends();
            }
            if late {
                members.leave();
                members.vacant.push(at);
                return false;
            }
        }
    }
}

impl Members {
    fn call(&mut self, threads: usize) -> usize {
        let called = threads.min(self.idle);
        self.idle -= called;
        self.called += called;
        called
    }

    /// Takes a call, if there is one.
    fn come(&mut self) -> bool {
        let called = self.called > 0;
        self.called -= usize::from(called);
        called
    }

    /// One that was idle is not any more. If all have been called it takes one of
    /// the calls: whoever wakes for that finds none, and is idle again.
    fn leave(&mut self) {
        if !self.come() {
            self.idle -= 1;
        }
    }
}

/// Starts so many threads: two, each of which starts half of the rest. `false` if
/// none could be.
fn start_some(core: &Arc<Core>, threads: usize) -> bool {
    let parts = [threads.div_ceil(2), threads / 2].into_iter().filter(|part| *part > 0);
    // The second one is not tried if there is no first.
    parts.map_while(|part| start_one(core, part - 1).then_some(())).count() > 0
}

/// Starts one thread that is to start `more`.
fn start_one(core: &Arc<Core>, more: usize) -> bool {
    let Some(at) = core.pool.take_place() else { return false };
    let run = move |core: &Arc<Core>| serve(core, at, more);
    let started = start(core, format!("parasc-pool-{at}"), &core.cpus, &core.pool.lives[at], run);
    if started.is_err() {
        lock(&core.pool.members).vacant.push(at);
    }
    started.is_ok()
}

/// A thread of the pool.
fn serve(core: &Arc<Core>, at: usize, more: usize) {
    let _left = Unwinding(|| Pool::clear(core, at));
    start_some(core, more);
    let mut hand = Hand::new(&core.pool.claims[at], false);
    let ends = || core.area.header().is_terminated();
    loop {
        while has_work(core) && !ends() {
            bits(core.pool.lanes()).for_each(|lane| serve_lane(core, lane, hand.claim, false));
            open::serve(core, SLEEPING_LANE, &mut hand);
            if core.pool.rescues() {
                open::serve(core, QUICK_LANE, &mut hand);
            }
        }
        if !core.pool.idle(at, Some(after(core.retire)), ends, || has_work(core)) {
            return;
        }
    }
}

fn has_work(core: &Core) -> bool {
    bits(core.pool.lanes()).any(|lane| core.sides[lane].offer.has_work())
        || core.open[SLEEPING_LANE].ready.any()
        || core.pool.rescues() && core.open[QUICK_LANE].ready.any()
}
