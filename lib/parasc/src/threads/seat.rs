//! The thread of a seat: started, called, and how it retires.

use std::sync::Arc;

use crate::core::{PostState, Unwinding};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::{Policy, Threshold, Waiter, barrier};

use super::hand::Hand;
use super::{processor, serve_what_waits, spinning, start};
use crate::core::{Core, CpuSeat};
use crate::queue::QUICK;

/// Makes sure that the thread of seat `index` sees what has been published before: wakes
/// the one that sleeps there or starts one. `false` if there is none to be had.
pub(crate) fn wake(core: &Arc<Core>, index: usize) -> bool {
    let seat = &core.seats[index];
    match seat.post.enter() {
        PostState::Vacant => {
            seat.bell.note_call();
            let name = format!("parasc-{}", seat.cpu);
            let run = move |core: &Arc<Core>| serve(core, &core.seats[index]);
            let started = start(core, name, &CpuSet::from_iter([seat.cpu]), &seat.thread.life, run);
            if !started {
                // The next one who wants it tries again.
                leave(core, seat, false);
            }
            started
        }
        PostState::Taken => {
            seat.bell.call();
            if core.inside.is_some() && core.queues[QUICK].any() {
                core.area.recall();
            }
            true
        }
        PostState::Closed => false,
    }
}

/// Its thread has died: another one may come.
pub(super) fn clear(core: &Arc<Core>, seat: &CpuSeat) {
    drop(seat.thread.claim.take());
    abandon(core, seat, false);
}

/// Abandons the seat, by the thread, which cannot stay here: others have counted on it.
fn abandon(core: &Arc<Core>, seat: &CpuSeat, closes: bool) {
    leave(core, seat, closes);
    // Partner: the light fence in `Post::enter`.
    barrier::heavy();
    serve_what_waits(core);
}

/// Gives the seat back: there is no thread here after all.
fn leave(core: &Core, seat: &CpuSeat, closes: bool) {
    seat.post.leave(closes);
    core.alert_requesters();
}

/// The thread of a seat.
fn serve(core: &Arc<Core>, seat: &CpuSeat) {
    let _left = Unwinding(|| clear(core, seat));
    let Ok(_bound) = affinity::bind(seat.cpu) else {
        return abandon(core, seat, true);
    };
    // Inside the kernel it has looked for as long as it spins.
    let asleep = Policy { threshold: Threshold::Ticks(0), ..core.policy };
    let policy = if core.inside.is_some() { asleep } else { spinning(core.policy) };
    let Ok(mut waiter) = Waiter::new(&policy) else {
        return abandon(core, seat, true);
    };
    let mut hand = Hand::new(&seat.thread.claim, None);
    loop {
        processor::serve(core, seat, &mut waiter, &mut hand);
        let ends = || core.area.is_terminated();
        if !seat.post.retire(ends, || processor::has_work(core, seat)) {
            return;
        }
    }
}
