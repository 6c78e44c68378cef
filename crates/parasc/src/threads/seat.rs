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

    /// Whether a thread may run here.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Relaxed) != CLOSED
    }

    /// Makes sure that a thread sees what has been published before: wakes the
    /// one that sleeps here or starts one. `false` if there is none to be had.
    pub(crate) fn wake(core: &Arc<Core>, index: usize) -> bool {
        let seat = &core.seats[index];
        // Partner: the heavy fence in `serve`.
        barrier::light();
        match seat.state.compare_exchange(EMPTY, RUNNING, AcqRel, Relaxed) {
            Ok(_) => {
                let started = start(core, format!("parasc-{}", seat.cpu), move |core| {
                    serve(core, &core.seats[index]);
                });
                if started.is_err() {
                    // The next one who wants it tries again.
                    seat.state.store(EMPTY, Release);
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
}

/// The thread of a seat.
fn serve(core: &Core, seat: &Seat) {
    let Ok(_bound) = affinity::bind(seat.cpu) else {
        seat.state.store(CLOSED, Release);
        return;
    };
    let Ok(mut waiter) = Waiter::new(&core.policy) else {
        seat.state.store(CLOSED, Release);
        return;
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
