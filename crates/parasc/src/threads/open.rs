//! What a processing thread does with the requests of an open lane.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use kumiki_wait::{Ticks, barrier};

use super::{alert, serve_next, unkillable};
use crate::area::QUICK_LANE;
use crate::claim::{Claim, Spot};
use crate::core::Core;
use crate::execute::call;
use crate::open::Taken;
use crate::primitive::fence;
use crate::task::{End, Task};

/// Requests between two whose time is taken.
const SAMPLE: u32 = 32;
/// Requests of an open lane before the other lanes are looked at again.
const TURN: usize = 64;

/// A processing thread's own things.
#[derive(Debug)]
pub(crate) struct Hand<'a> {
    pub(crate) claim: &'a Claim,
    /// It is the program's, which may end it at any moment.
    pub(crate) mortal: bool,
    cursor: usize,
    made: u32,
    ticks: Ticks,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(claim: &'a Claim, mortal: bool) -> Self {
        Hand { claim, mortal, cursor: 0, made: 0, ticks: Ticks::new() }
    }
}

/// Executes requests of open lane `index`, as long as there are some and the
/// other lanes can wait.
pub(crate) fn serve(core: &Arc<Core>, index: usize, hand: &mut Hand<'_>) {
    let open = &core.open[index];
    for _ in 0..TURN {
        if core.area.header().is_terminated() {
            // It may wait for this thread.
            core.watch.bell.ring();
            return;
        }
        let Some(at) = open.ready.claim(&mut hand.cursor) else { return };
        if index == QUICK_LANE {
            hand.claim.count_quick();
        }
        hand.claim.set(Spot { lane: index, at });
        execute(core, index, at, hand);
        hand.claim.clear();
    }
}

fn execute(core: &Arc<Core>, index: usize, at: usize, hand: &mut Hand<'_>) {
    let (open, lane) = (&core.open[index], core.area.lane(index));
    // It may have been taken back.
    let Some(taken) = open.take(lane, at) else { return };
    // Should this call block, somebody must see to the others: those that are
    // there, and who places one later sees the note (`summon_seat`).
    fence(SeqCst);
    // And should this thread die, by a filter or, if it is the program's, whenever it
    // likes, somebody must find out, also after the end.
    let dies = core.filtered.load(Relaxed) || hand.mortal && core.area.header().is_terminated();
    let left = index == QUICK_LANE && open.ready.any() || dies;
    if left && !core.watch.is_alerted() {
        unkillable(hand.mortal, || alert(core));
    }
    let request = lane.slots[at].taken();
    hand.made = hand.made.wrapping_add(1);
    let measure = hand.made.is_multiple_of(SAMPLE) || !core.durations.is_known(request.sysnum);
    let start = if measure { hand.ticks.now() } else { 0 };
    // SAFETY: a request is published only by who vouches for the call
    // (`Engine::submit_raw`, `Engine::place`, or an operation), after a look at the rules.
    let ret_val = unsafe { call(&request) };
    if measure {
        core.durations.record(request.sysnum, hand.ticks.now().wrapping_sub(start));
    }
    give(core, index, at, taken, ret_val, hand.mortal);
}

/// Gives the result of a request that the caller has taken and executed.
pub(crate) fn give(
    core: &Arc<Core>,
    index: usize,
    at: usize,
    taken: Taken,
    ret_val: i64,
    mortal: bool,
) {
    if taken == Taken::Task {
        return unkillable(mortal, || {
            end(core, index, at, ret_val);
            // The next of the queue may have come into the slot.
            stop_if_terminated(core);
        });
    }
    leave_in_slot(core, index, at, ret_val);
}

/// Ends the task whose request the caller has taken.
fn end(core: &Arc<Core>, index: usize, at: usize, ret_val: i64) {
    let (open, lane) = (&core.open[index], core.area.lane(index));
    let Some(task) = open.take_task(at) else { return };
    task.base().end(End::Returned(ret_val));
    // The caller looks for one of them itself.
    let others = open.free(lane, at).saturating_sub(1);
    serve_next(core, index, others);
}

/// Makes the calls of requests of open lane `index` that others have left to a
/// thread which the caller was about to start, and which has not come about: they
/// took its place for that of one at work.
#[cold]
pub(crate) fn serve_stranded(core: &Arc<Core>, index: usize) {
    // Partner: the light fence in `Post::enter`, by which the other has taken the
    // seat for one with a thread. For the pool it is the lock of that.
    barrier::heavy();
    let (open, lane) = (&core.open[index], core.area.lane(index));
    let mut cursor = 0;
    while let Some(at) = open.ready.claim(&mut cursor) {
        let Some(taken) = open.take_unnoted(lane, at) else { continue };
        let request = lane.slots[at].taken();
        // SAFETY: as in `execute`; a task holds the operation.
        let ret_val = unsafe { call(&request) };
        give(core, index, at, taken, ret_val, false);
        open.leave_unnoted(at);
    }
}

/// Answers what was placed while the engine was being shut down.
pub(crate) fn stop_if_terminated(core: &Arc<Core>) {
    // Partner: the fence in `Engine::shut_down`.
    fence(SeqCst);
    if core.area.header().is_terminated() {
        cancel_all(core);
    }
}

/// Answers every request of the open lanes that has not begun: not executed.
pub(crate) fn cancel_all(core: &Arc<Core>) {
    for (index, open) in core.open.iter().enumerate() {
        let lane = core.area.lane(index);
        let decision = open.decide();
        let mut tasks = open.drain();
        for at in 0..lane.slots.len() {
            // What has come into the slot by that is answered by who has queued
            // it after the flag was set, and looks at the flag afterwards.
            if let Some(taken) = open.take(lane, at) {
                let task = take_out(core, index, at, taken, End::Cancelled);
                tasks.extend(task.map(|(task, _)| task));
            }
        }
        // Before the wakers: they are the program's code, which may drop requests,
        // and with it take them back.
        drop(decision);
        tasks.iter().for_each(|task| task.base().end(End::Cancelled));
    }
}

/// Frees the slot of a request that the caller has taken. The task is the caller's
/// to end; with it comes how many others have come into slots by that. Without a
/// task the end is left in the slot.
pub(crate) fn take_out(
    core: &Core,
    index: usize,
    at: usize,
    taken: Taken,
    end: End,
) -> Option<(Arc<dyn Task>, usize)> {
    let (open, lane) = (&core.open[index], core.area.lane(index));
    if taken != Taken::Task {
        let ret_val = match end {
            End::Returned(ret_val) => ret_val,
            End::Cancelled => -i64::from(libc::ECANCELED),
        };
        leave_in_slot(core, index, at, ret_val);
        return None;
    }
    let task = open.take_task(at)?;
    Some((task, open.free(lane, at)))
}

fn leave_in_slot(core: &Core, index: usize, at: usize, ret_val: i64) {
    core.area.lane(index).slots[at].finish(ret_val);
    core.finished.tell();
}
