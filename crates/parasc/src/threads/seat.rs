//! A cpu's place for a processing thread that spins.
//!
//! # States
//! | from | to | who |
//! |---|---|---|
//! | `EMPTY` | `RUNNING` | whoever wants the thread and starts it |
//! | `RUNNING` | `EMPTY` | the thread: no work for a while, or it could not start |
//! | `EMPTY` | `RUNNING` | the thread, which has found work after all |
//! | any | `CLOSED` | the thread, which may not run on this cpu |
//!
//! A requesting thread that leaves its batch to the thread of a seat waits for
//! the results, or for the seat to be anything but `RUNNING`: then it makes the
//! calls itself. Who ends `RUNNING` for want of a thread rings for it.
//!
//! Between its last look and `EMPTY` a thread may miss a request. So it looks
//! again after `EMPTY`, with a heavy fence in between; who publishes a request
//! looks at the state after a light one. One of the two sees the other.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use kumiki_slot::Life;
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::{Bell, Policy, Threshold, Waiter, barrier};

use super::{Unwinding, processor, serve_what_waits, start};
use crate::claim::Claim;
use crate::core::Core;
use crate::open::serve::Hand;
use crate::primitive::AtomicU32;

const EMPTY: u32 = 0;
const RUNNING: u32 = 1;
const CLOSED: u32 = 2;

/// Whether a thread is in a seat.
#[derive(Debug)]
pub(crate) struct State(AtomicU32);

/// What somebody finds who wants a thread in a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nobody: the seat is the finder's, to start a thread in it.
    Vacant,
    /// A thread, perhaps asleep.
    Taken,
    Closed,
}

impl State {
    pub(crate) fn new() -> Self {
        State(AtomicU32::new(EMPTY))
    }

    #[inline]
    fn is(&self, state: u32) -> bool {
        // Acquire: partner is `leave`.
        self.0.load(Acquire) == state
    }

    /// Looks who is here, after a request has been published.
    pub(crate) fn enter(&self) -> Entry {
        // Partner: the heavy fence in `retire`.
        barrier::light();
        let found = match self.0.load(Relaxed) {
            EMPTY => self.0.compare_exchange(EMPTY, RUNNING, AcqRel, Relaxed).err(),
            other => Some(other),
        };
        match found {
            None => Entry::Vacant,
            Some(RUNNING) => Entry::Taken,
            Some(_) => Entry::Closed,
        }
    }

    fn leave(&self, state: u32) {
        // Release: partner is `is`.
        self.0.store(state, Release);
    }

    /// The thread that is here goes. `true` if it must stay after all: somebody
    /// has published a request for which no other thread has been started.
    pub(crate) fn retire(
        &self,
        ends: impl FnOnce() -> bool,
        has_work: impl FnOnce() -> bool,
    ) -> bool {
        self.leave(EMPTY);
        // Partner: the light fence in `enter`. One that does not reach all keeps
        // the thread from retiring, not from ending with the engine.
        let certain = barrier::heavy();
        !ends()
            && (!certain || has_work())
            && self.0.compare_exchange(EMPTY, RUNNING, Acquire, Relaxed).is_ok()
    }
}

/// One cpu's place.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Seat {
    /// Where its thread sleeps.
    pub(crate) bell: Bell,
    pub(crate) cpu: usize,
    state: State,
    /// Not 0: called, and has not looked since. From the call until the thread
    /// runs it takes a while, and a batch offered to it until then would be the
    /// caller's alone, and counted as a bad one.
    called: AtomicU32,
    pub(super) life: Arc<Life>,
    /// On a line of its own: written with every request.
    pub(crate) claim: Claim,
}

impl Seat {
    pub(crate) fn new(cpu: usize) -> Self {
        Seat {
            bell: Bell::new(),
            cpu,
            state: State::new(),
            called: AtomicU32::new(0),
            life: Arc::default(),
            claim: Claim::default(),
        }
    }

    /// Whether a thread is awake here, and sees a request soon.
    #[inline]
    pub(crate) fn is_hot(&self) -> bool {
        self.state.is(RUNNING) && self.called.load(Relaxed) == 0 && !self.bell.is_asleep()
    }

    /// Says that this seat's thread looks: by the thread itself. `true` if it has
    /// been called since it last did.
    #[inline(always)]
    pub(crate) fn looks(&self) -> bool {
        // A hint: it orders nothing.
        let called = self.called.load(Relaxed) != 0;
        if called {
            self.called.store(0, Relaxed);
        }
        called
    }

    /// Whether no thread may run here.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.is(CLOSED)
    }

    /// Whether a thread is here or on its way.
    pub(crate) fn is_running(&self) -> bool {
        self.state.is(RUNNING)
    }

    /// Makes sure that a thread sees what has been published before: wakes the
    /// one that sleeps here or starts one. `false` if there is none to be had.
    pub(crate) fn wake(core: &Arc<Core>, index: usize) -> bool {
        let seat = &core.seats[index];
        match seat.state.enter() {
            Entry::Vacant => {
                seat.called.store(1, Relaxed);
                let name = format!("parasc-{}", seat.cpu);
                let run = move |core: &Arc<Core>| serve(core, &core.seats[index]);
                let started = start(core, name, &CpuSet::from_iter([seat.cpu]), &seat.life, run);
                if started.is_err() {
                    // The next one who wants it tries again.
                    seat.leave(core, EMPTY);
                }
                started.is_ok()
            }
            Entry::Taken => seat.call(),
            Entry::Closed => false,
        }
    }

    /// Its thread has died: another one may come.
    pub(super) fn clear(&self, core: &Arc<Core>) {
        self.claim.clear();
        self.abandon(core, EMPTY);
    }

    /// Wakes the thread that is here, if it sleeps.
    pub(super) fn call(&self) -> bool {
        if self.bell.is_asleep() {
            self.called.store(1, Relaxed);
        }
        self.bell.ring();
        true
    }

    /// By the thread, which cannot stay here: others have counted on it.
    fn abandon(&self, core: &Arc<Core>, state: u32) {
        self.leave(core, state);
        // Partner: the light fence in `enter`.
        barrier::heavy();
        serve_what_waits(core);
    }

    /// There is no thread here after all.
    fn leave(&self, core: &Core, state: u32) {
        self.state.leave(state);
        core.alert_requesters();
    }
}

/// How a seat's thread waits. What it would learn from its own waits is wrong:
/// a requesting thread wakes it rarely, and goes on until it has come. Such long
/// waits would teach it to sleep at once, so that it is asleep again when the
/// next batch comes, and is woken rarely. That is stable, and all batches are
/// slow in it. So it always spins for as long as a waiter spins at most.
fn policy(chosen: Policy) -> Policy {
    match chosen.threshold {
        Threshold::Adaptive => {
            let bound = kumiki_wait::sleep_cost_ticks().saturating_mul(2);
            Policy { threshold: Threshold::Ticks(bound), ..chosen }
        }
        _ => chosen,
    }
}

/// The thread of a seat.
fn serve(core: &Arc<Core>, seat: &Seat) {
    let _left = Unwinding(|| seat.clear(core));
    let Ok(_bound) = affinity::bind(seat.cpu) else {
        return seat.abandon(core, CLOSED);
    };
    let Ok(mut waiter) = Waiter::new(&policy(core.policy)) else {
        return seat.abandon(core, CLOSED);
    };
    let mut hand = Hand::new(&seat.claim, false);
    loop {
        processor::serve(core, seat, &mut waiter, &mut hand);
        let ends = || core.area.header().is_terminated();
        if !seat.state.retire(ends, || processor::has_work(core)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_hot_once_it_looks() {
        let core = Arc::new(Core::new(&crate::Config::default()).unwrap());
        let seat = &core.seats[0];
        assert!(!seat.is_hot());
        // As if a thread had been started, and had not run yet.
        assert_eq!(seat.state.enter(), Entry::Vacant);
        seat.called.store(1, Relaxed);
        assert!(!seat.is_hot());
        assert!(seat.looks() && !seat.looks());
        assert!(seat.is_hot());
        // Awake: nothing to wait for.
        assert!(Seat::wake(&core, 0));
        assert!(seat.is_hot());
    }

    #[test]
    fn a_threshold_that_adapts_is_fixed_for_a_seat() {
        let bound = Threshold::Ticks(2 * kumiki_wait::sleep_cost_ticks());
        assert_eq!(policy(Policy::default()).threshold, bound);
        for threshold in [Threshold::Ticks(7), Threshold::Infinite] {
            let chosen = Policy { threshold, ..Policy::default() };
            assert_eq!(policy(chosen), chosen);
        }
    }
}
