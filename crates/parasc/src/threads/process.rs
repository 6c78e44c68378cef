//! A thread of the program that processes requests.

use std::sync::Arc;
use std::time::Instant;

use kumiki_sys::cancellation::Held;
use kumiki_sys::signals::Blocked;
use kumiki_wait::{Policy, Waiter};

use super::processor::{bits, serve_lane};
use super::queue::{Hand, serve};
use super::{alert, serve_what_waits};
use crate::core::{Caller, Core, STEP};
use crate::queue::{QUEUES, Queue};

/// Serves all requests of the engine until its termination flag is set.
pub(crate) fn process(core: &Arc<Core>) {
    if core.area.is_terminated() || !core.process.is_current() {
        return;
    }
    let cancel = Held::new();
    let serving = Serving::enter(core);
    let caller = &serving.caller;
    // They wait otherwise where a thread may die.
    core.alert_requesters();
    // What it leaves behind if it dies is to be found, whoever waits for it.
    alert(core);
    let mut hand = Hand::new(&caller.claim, Some(&serving.signals));
    let Ok(mut waiter) = Waiter::new(&core.policy).or(Waiter::new(&Policy::default())) else {
        return;
    };
    let area = &core.area;
    let word = core.area.slot(0).status();
    while !area.is_terminated() {
        bits(core.area.open_lanes()).for_each(|lane| serve_lane(core, lane, &hand));
        (0..QUEUES).for_each(|queue| serve(core, queue, &mut hand));
        let ready = || (area.is_terminated() || has_work(core)).then_some(());
        serving.signals.lifted(|| {
            cancel.point();
            // In steps, to see a cancellation.
            let _ = waiter.wait_until(&caller.bell, word, Instant::now() + STEP, ready);
        });
    }
}

fn has_work(core: &Core) -> bool {
    core.queues.iter().any(Queue::any)
        || bits(core.area.open_lanes())
            .any(|lane| core.area.slot(lane).is_requested() || core.sides[lane].offer.has_work())
}

/// Held by a thread while it serves, so that it leaves on every way out. Its signals are
/// blocked but at a call and while it waits: it leaves nothing half done.
#[derive(Debug)]
struct Serving<'a> {
    caller: Arc<Caller>,
    core: &'a Arc<Core>,
    /// Lifted last of all.
    signals: Blocked,
}

impl<'a> Serving<'a> {
    fn enter(core: &'a Arc<Core>) -> Self {
        core.note_filter();
        let signals = Blocked::new();
        Serving { caller: core.callers.enter(), core, signals }
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.core.callers.leave(&self.caller);
        // It may have been called for some after its last look.
        serve_what_waits(self.core);
    }
}
