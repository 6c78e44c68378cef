//! A thread of the program that processes requests.

use std::sync::Arc;
use std::time::Instant;

use kumiki_crew::with_signals_blocked;
use kumiki_wait::{Policy, Waiter};

use super::caller::Serving;
use super::processor::{bits, serve_lane};
use crate::core::{Core, OPEN_LANES, STEP};
use crate::open::serve::{Hand, serve};

unsafe extern "C-unwind" {
    /// The C library's, declared as what it is: it may unwind the thread.
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: libc::c_int, former: *mut libc::c_int) -> libc::c_int;
}

const CANCEL_DISABLE: libc::c_int = 1;

/// Serves all requests of the engine until its termination flag is set.
pub(crate) fn process(core: &Arc<Core>) {
    if core.area.header().is_terminated() || !core.process.is_current() {
        return;
    }
    let cancel = Cancellation::hold();
    let serving = Serving::enter(core);
    let caller = &serving.caller;
    // They wait otherwise where a thread may die.
    core.alert_requesters();
    // What it leaves behind if it dies is to be found, whoever waits for it.
    unkillable(true, || core.watch.alert(core));
    let mut hand = Hand::new(&caller.claim, true);
    let policy = core.policy;
    let waiter = unkillable(true, || Waiter::new(&policy).or(Waiter::new(&Policy::default())));
    let Ok(mut waiter) = waiter else { return };
    let header = core.area.header();
    let word = core.area.lane(0).slots[0].status();
    while !header.is_terminated() {
        bits(core.area.header().open_lanes())
            .for_each(|lane| serve_lane(core, lane, &caller.claim, true));
        (0..OPEN_LANES).for_each(|lane| serve(core, lane, &mut hand));
        cancel.point();
        let ready = || (header.is_terminated() || has_work(core)).then_some(());
        // In steps, to see a cancellation.
        let _ = waiter.wait_until(&caller.bell, word, Instant::now() + STEP, ready);
    }
}

fn has_work(core: &Core) -> bool {
    core.open.iter().any(|open| open.ready.any())
        || bits(core.area.header().open_lanes()).any(|lane| {
            core.area.lane(lane).slots[0].is_requested() || core.sides[lane].offer.has_work()
        })
}

/// Runs `work` such that the thread does not die in it, if it is one that can: no
/// lock is left locked. A thread of the engine's own cannot be reached.
pub(crate) fn unkillable<T>(mortal: bool, work: impl FnOnce() -> T) -> T {
    if mortal { with_signals_blocked(work) } else { work() }
}

/// Keeps pthread_cancel(3) from taking effect but where nothing is left undone.
struct Cancellation {
    former: libc::c_int,
}

impl Cancellation {
    fn hold() -> Self {
        let mut former = 0;
        // SAFETY: writes the former state, and fails only for a wrong state.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut former) };
        Cancellation { former }
    }

    /// Where it may take effect.
    fn point(&self) {
        set(self.former);
        // SAFETY: if it unwinds the thread, what is dropped on the way is in
        // order: no request is at hand.
        unsafe { pthread_testcancel() };
        set(CANCEL_DISABLE);
    }
}

impl Drop for Cancellation {
    fn drop(&mut self) {
        set(self.former);
    }
}

fn set(state: libc::c_int) {
    let mut former = 0;
    // SAFETY: a state that the C library has given, or `CANCEL_DISABLE`.
    unsafe { pthread_setcancelstate(state, &raw mut former) };
}
