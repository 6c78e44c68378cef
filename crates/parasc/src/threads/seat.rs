//! The thread of a seat: started, called, and how it retires.

use std::sync::Arc;

use kumiki_crew::{Entry, Unwinding};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::{Policy, Threshold, Waiter, barrier};

use super::queue::Hand;
use super::{processor, serve_what_waits, start};
use crate::core::{Core, Seat};

/// Makes sure that the thread of seat `index` sees what has been published before: wakes
/// the one that sleeps there or starts one. `false` if there is none to be had.
pub(crate) fn wake(core: &Arc<Core>, index: usize) -> bool {
    let seat = &core.seats[index];
    match seat.post.enter() {
        Entry::Vacant => {
            seat.note_call();
            let name = format!("parasc-{}", seat.cpu);
            let run = move |core: &Arc<Core>| serve(core, &core.seats[index]);
            let started = start(core, name, &CpuSet::from_iter([seat.cpu]), &seat.berth.life, run);
            if !started {
                // The next one who wants it tries again.
                leave(core, seat, false);
            }
            started
        }
        Entry::Taken => {
            seat.call();
            true
        }
        Entry::Closed => false,
    }
}

/// Its thread has died: another one may come.
pub(super) fn clear(core: &Arc<Core>, seat: &Seat) {
    drop(seat.berth.claim.take());
    abandon(core, seat, false);
}

/// By the thread, which cannot stay here: others have counted on it.
fn abandon(core: &Arc<Core>, seat: &Seat, closes: bool) {
    leave(core, seat, closes);
    // Partner: the light fence in `Post::enter`.
    barrier::heavy();
    serve_what_waits(core);
}

/// There is no thread here after all.
fn leave(core: &Core, seat: &Seat, closes: bool) {
    seat.post.leave(closes);
    core.alert_requesters();
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
    let _left = Unwinding(|| clear(core, seat));
    let Ok(_bound) = affinity::bind(seat.cpu) else {
        return abandon(core, seat, true);
    };
    let Ok(mut waiter) = Waiter::new(&policy(core.policy)) else {
        return abandon(core, seat, true);
    };
    let mut hand = Hand::new(&seat.berth.claim, None);
    loop {
        processor::serve(core, seat, &mut waiter, &mut hand);
        let ends = || core.area.is_terminated();
        if !seat.post.retire(ends, || processor::has_work(core)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
