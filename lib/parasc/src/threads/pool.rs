//! The pool's threads: called all at once, or started, each starting half of the rest.

use std::sync::Arc;

use crate::core::Unwinding;

use super::hand::Hand;
use super::processor::{bits, serve_lane};
use super::queue;
use super::{serve_what_waits, start};
use crate::area::PLACED;
use crate::core::Core;
use crate::primitive::after;
use crate::queue::{QUICK, SLEEPING};

/// Wakes or starts up to `threads` threads to look through the pool's lanes. `false` if
/// not even one could be had and there is none: one at work looks once more before it
/// sleeps, even if it has come to be idle meanwhile.
pub(crate) fn summon(core: &Arc<Core>, threads: usize) -> bool {
    let called = core.pool.reserve.call(threads);
    start_some(core, threads - called) || called > 0 || !core.pool.reserve.is_vacant()
}

/// The thread of post `at` has died: another one may come.
pub(super) fn clear(core: &Arc<Core>, at: usize) {
    kumiki_sys::event!(post = at, "a thread of the pool has left: another one may come");
    drop(core.pool.thread_infos[at].claim.take());
    core.pool.reserve.give_place(at);
    serve_what_waits(core);
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
    let pool = &core.pool;
    let Some(at) = pool.reserve.take_place() else { return false };
    let run = move |core: &Arc<Core>| serve(core, at, more);
    let name = format!("parasc-pool-{at}");
    let started = start(core, name, &core.cpus, &pool.thread_infos[at].life, run);
    if !started {
        pool.reserve.give_place(at);
    }
    started
}

/// A thread of the pool.
fn serve(core: &Arc<Core>, at: usize, more: usize) {
    let _left = Unwinding(|| clear(core, at));
    start_some(core, more);
    let mut hand = Hand::new(&core.pool.thread_infos[at].claim, None);
    let ends = || core.area.is_terminated();
    loop {
        while has_work(core) && !ends() {
            bits(core.pool.lanes()).for_each(|lane| serve_lane(core, lane, &hand));
            queue::serve(core, SLEEPING, &mut hand);
            if core.pool.rescues() {
                queue::serve(core, QUICK, &mut hand);
                serve_lane(core, PLACED, &hand);
            }
        }
        if !core.pool.reserve.idle(at, Some(after(core.retire)), ends, || has_work(core)) {
            return;
        }
    }
}

fn has_work(core: &Core) -> bool {
    bits(core.pool.lanes()).any(|lane| core.area.line(lane).look().has_work())
        || core.queues[SLEEPING].any()
        || core.pool.rescues() && core.waits(QUICK)
}
