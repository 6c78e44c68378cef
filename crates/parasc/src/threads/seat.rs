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
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use kumiki_sys::affinity;
use kumiki_wait::{Bell, Waiter, barrier};

use super::{processor, start};
use crate::core::Core;

const EMPTY: u32 = 0;
const RUNNING: u32 = 1;
const CLOSED: u32 = 2;

/// One cpu's place.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Seat {
    /// Where its thread sleeps.
    pub(crate) bell: Bell,
    pub(crate) cpu: usize,
    state: AtomicU32,
}

impl Seat {
    pub(crate) fn new(cpu: usize) -> Self {
        Seat { bell: Bell::new(), cpu, state: AtomicU32::new(EMPTY) }
    }

    /// Whether a thread is awake here, and sees a request soon.
    #[inline]
    pub(crate) fn is_hot(&self) -> bool {
        self.state.load(Relaxed) == RUNNING && !self.bell.is_asleep()
    }

    /// Whether no thread may run here.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Relaxed) == CLOSED
    }

    /// Whether a thread is here or on its way.
    pub(crate) fn is_running(&self) -> bool {
        // Acquire: partner is the store that ended it.
        self.state.load(Acquire) == RUNNING
    }

    /// Makes sure that a thread sees what has been published before: wakes the
    /// one that sleeps here or starts one. `false` if there is none to be had.
    pub(crate) fn wake(core: &Arc<Core>, index: usize) -> bool {
        let seat = &core.seats[index];
        // Partner: the heavy fence in `serve`.
        barrier::light();
        if seat.state.load(Relaxed) == RUNNING {
            seat.bell.ring();
            return true;
        }
        match seat.state.compare_exchange(EMPTY, RUNNING, AcqRel, Relaxed) {
            Ok(_) => {
                let started = start(core, format!("parasc-{}", seat.cpu), move |core| {
                    serve(core, &core.seats[index]);
                });
                if started.is_err() {
                    // The next one who wants it tries again.
                    seat.leave(core, EMPTY);
                }
                started.is_ok()
            }
            Err(RUNNING) => {
                seat.bell.ring();
                true
            }
            Err(_) => false,
        }
    }

    /// There is no thread here after all.
    fn leave(&self, core: &Core, state: u32) {
        // Release: partner is `is_running`.
        self.state.store(state, Release);
        core.alert_requesters();
    }
}

/// The thread of a seat.
fn serve(core: &Core, seat: &Seat) {
    let Ok(_bound) = affinity::bind(seat.cpu) else {
        return seat.leave(core, CLOSED);
    };
    let Ok(mut waiter) = Waiter::new(&core.policy) else {
        return seat.leave(core, CLOSED);
    };
    loop {
        processor::serve(core, &seat.bell, &mut waiter);
        seat.state.store(EMPTY, Release);
        // Partner: the light fence in `wake`. One that does not reach all keeps
        // the thread from retiring, not from ending with the engine.
        let certain = barrier::heavy();
        if core.area.header().is_terminated() {
            return;
        }
        let missed = !certain || processor::has_work(core);
        if !missed || seat.state.compare_exchange(EMPTY, RUNNING, Acquire, Relaxed).is_err() {
            return;
        }
    }
}
