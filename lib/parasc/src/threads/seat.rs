//! A seat's thread is started and called, and gives its seat back.

use std::sync::Arc;

use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::barrier;

use super::{serve_what_waits, start};
use crate::core::{Core, CpuSeat, PostState};
use crate::queue::QUICK;

/// Makes sure that the thread of seat `index` sees what has been published before: wakes
/// the one that sleeps there or starts `thread`. `false` if there is none to be had.
pub(super) fn wake(core: &Arc<Core>, index: usize, thread: fn(&Arc<Core>, &CpuSeat)) -> bool {
    let seat = &core.seats[index];
    match seat.post.enter() {
        PostState::Vacant => {
            seat.bell.note_call();
            let name = format!("parasc-{}", seat.cpu);
            let run = move |core: &Arc<Core>| thread(core, &core.seats[index]);
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
pub(super) fn abandon(core: &Arc<Core>, seat: &CpuSeat, closes: bool) {
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
