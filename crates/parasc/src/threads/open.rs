//! What a processing thread does with the requests of an open lane.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use kumiki_sys::signals::Blocked;
use kumiki_wait::{Ticks, barrier};

use super::alert;
use crate::area::QUICK_LANE;
use crate::claim::Claim;
use crate::core::Core;
use crate::cost::PART;
use crate::execute::call;
use crate::open::Item;
use crate::primitive::fence;
use crate::request::Request;
use crate::task::End;

/// Requests of an open lane before the other lanes are looked at again.
const TURN: usize = 64;

/// A processing thread's own things.
#[derive(Debug)]
pub(crate) struct Hand<'a> {
    pub(crate) claim: &'a Claim,
    /// Of one of the program's threads, which may end it at any moment: its signals, blocked
    /// but at a call and while it waits.
    pub(crate) signals: Option<&'a Blocked>,
    made: u32,
    ticks: Ticks,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(claim: &'a Claim, signals: Option<&'a Blocked>) -> Self {
        Hand { claim, signals, made: 0, ticks: Ticks::new() }
    }
}

/// Runs `calls` where a thread may die of what a signal's handler does.
#[inline(always)]
pub(super) fn mortally<T>(signals: Option<&Blocked>, calls: impl FnOnce() -> T) -> T {
    match signals {
        None => calls(),
        Some(blocked) => blocked.lifted(calls),
    }
}

/// Executes requests of open lane `index`, as long as there are some and the
/// other lanes can wait.
pub(crate) fn serve(core: &Arc<Core>, index: usize, hand: &mut Hand<'_>) {
    for _ in 0..TURN {
        if core.area.header().is_terminated() {
            // It may wait for this thread.
            core.watch.bell.ring();
            return;
        }
        let Some(item) = core.open[index].pop() else { return };
        if index == QUICK_LANE {
            hand.claim.count_quick();
        }
        let lane = core.area.lane(index);
        // It may have been taken back.
        if item.claim(lane) {
            let request = item.request(lane);
            // The note alone has it: what is on the stack of a thread that dies is never
            // dropped.
            hand.claim.set_item(index, item);
            execute(core, index, request, hand);
        }
    }
}

fn execute(core: &Arc<Core>, index: usize, request: Request, hand: &mut Hand<'_>) {
    // Should this call block, somebody must see to the others: those that are
    // there, and who places one later sees the note (`summon_seat`).
    fence(SeqCst);
    // And should this thread die, by a filter or, if it is the program's, whenever it
    // likes, somebody must find out, also after the end.
    let mortal = hand.signals.is_some();
    let dies = core.filtered.load(Relaxed) || mortal && core.area.header().is_terminated();
    let left = index == QUICK_LANE && core.open[index].any() || dies;
    if left && !core.watch.is_alerted() {
        alert(core);
    }
    hand.made = hand.made.wrapping_add(1);
    let measure = hand.made.is_multiple_of(PART) || !core.durations.is_known(request.sysnum);
    let start = if measure { hand.ticks.now() } else { 0 };
    // SAFETY: a request is pushed only by who vouches for the call
    // (`Engine::submit_raw`, `Engine::place`, or an operation), after a look at the rules.
    let ret_val = mortally(hand.signals, || unsafe { call(&request) });
    if measure {
        core.durations.record(request.sysnum, hand.ticks.now().wrapping_sub(start));
    }
    if let Some(item) = hand.claim.clear_item() {
        end(core, index, &item, End::Returned(ret_val));
    }
}

/// Answers a request of open lane `index` that the caller has claimed.
pub(crate) fn end(core: &Core, index: usize, item: &Item, end: End) {
    match item {
        Item::Task(task) => task.base().end(end),
        Item::Slot(at) => {
            let ret_val = match end {
                End::Returned(ret_val) => ret_val,
                End::Cancelled => -i64::from(libc::ECANCELED),
            };
            core.area.lane(index).slots[*at].finish(ret_val);
            core.finished.tell();
        }
    }
}

/// Makes the calls of requests of open lane `index`, for which the kernel gives no thread:
/// the caller's, and those that others have left to a thread which the caller was about to
/// start, as they took its place for that of one at work.
#[cold]
pub(crate) fn serve_stranded(core: &Arc<Core>, index: usize) {
    // Partner: the light fence in `Post::enter`, by which the other has taken the
    // seat for one with a thread. For the pool it is the lock of that.
    barrier::heavy();
    let lane = core.area.lane(index);
    while let Some(item) = core.open[index].pop() {
        if item.claim(lane) {
            // SAFETY: as in `execute`; the item holds the operation.
            let ret_val = unsafe { call(&item.request(lane)) };
            end(core, index, &item, End::Returned(ret_val));
        }
    }
}

/// Answers what was placed while the engine was being shut down.
pub(crate) fn stop_if_terminated(core: &Core) {
    // Partner: the fence in `Engine::shut_down`.
    fence(SeqCst);
    if core.area.header().is_terminated() {
        cancel_all(core);
    }
}

/// Answers every request of the open lanes that nobody has claimed: not executed.
pub(crate) fn cancel_all(core: &Core) {
    for (index, open) in core.open.iter().enumerate() {
        while let Some(item) = open.pop() {
            if item.claim(core.area.lane(index)) {
                end(core, index, &item, End::Cancelled);
            }
        }
    }
}
