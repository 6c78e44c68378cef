//! A thread of the program that processes requests.

use std::sync::Arc;
use std::time::Instant;

use kumiki_sys::cancellation::Held;
use kumiki_sys::signals::Blocked;
use kumiki_wait::{Policy, Threshold, Waiter};

use super::hand::Hand;
use super::processor::{bits, serve_lane};
use super::queue::serve;
use super::{alert, inside, serve_what_waits, spinning};
use crate::core::{Core, ProgramThread, STEP};
use crate::cost::sleep_ticks;
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
    // Before the waiters, which would have it measured on this thread's cpus.
    sleep_ticks(&core.cpus);
    let mut hand = Hand::new(&caller.claim, Some(&serving.signals));
    let waiter = |policy: Policy| Waiter::new(&policy).or(Waiter::new(&Policy::default()));
    let asleep = Policy { threshold: Threshold::Ticks(0), ..core.policy };
    let (Ok(mut spinner), Ok(mut sleeper)) = (waiter(spinning(core.policy)), waiter(asleep)) else {
        return;
    };
    // Spins once after it has had something to do, or has been called for it.
    let mut rests = false;
    let area = &core.area;
    let word = core.area.line(0).word();
    while !area.is_terminated() {
        bits(core.area.open_lanes()).for_each(|lane| serve_lane(core, lane, &hand));
        (0..QUEUES).for_each(|queue| serve(core, queue, &mut hand));
        let ready = || {
            let called = caller.bell.looks();
            (called || area.is_terminated() || has_work(core)).then_some(())
        };
        if let Some(device) = &core.inside {
            let all = 0..=QUEUES - 1;
            serving.signals.lifted(|| cancel.point());
            inside::serve(core, device, all, &hand);
        }
        let spins = core.policy.threshold == Threshold::Infinite
            || !rests && core.callers.may_spin(core.spare_cpus());
        let waiter = if spins { &mut spinner } else { &mut sleeper };
        rests = serving.signals.lifted(|| {
            cancel.point();
            // In steps, to see a cancellation.
            waiter.wait_deadline(&caller.bell, word, Instant::now() + STEP, ready).is_err()
        });
    }
}

fn has_work(core: &Core) -> bool {
    core.queues.iter().any(Queue::any)
        || bits(core.area.open_lanes()).any(|lane| core.area.line(lane).look().has_work())
}

/// Held by a thread while it serves, so that it leaves on every way out. Its signals are
/// blocked but at a call and while it waits: it leaves nothing half done.
#[derive(Debug)]
struct Serving<'a> {
    caller: Arc<ProgramThread>,
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
