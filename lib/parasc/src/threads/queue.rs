//! What a processing thread does with the requests of a queue.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use kumiki_wait::barrier;

use super::hand::{Hand, mortally};
use super::placed::help;
use super::{alert, summon};
use crate::area::PLACED;
use crate::core::Core;
use crate::cost::PART;
use crate::execute::call;
use crate::primitive::fence;
use crate::queue::{QUICK, Queue};
use crate::task::{Task, TaskEnd};
use kumiki_calls::Request;

/// Requests of a queue before the lanes are looked at again.
const TURN: usize = 64;

/// Executes requests of queue `index`, as long as there are some and the lanes can wait.
pub(crate) fn serve(core: &Arc<Core>, index: usize, hand: &mut Hand<'_>) {
    for _ in 0..TURN {
        if core.area.is_terminated() {
            // It may wait for this thread.
            core.watch.bell.ring();
            return;
        }
        let Some(task) = core.queues[index].pop() else { return };
        if index == QUICK {
            hand.claim.count_quick();
        }
        // It may have been taken back.
        if task.base().claim() {
            let (request, its) = (task.base().request, Arc::as_ptr(&task));
            // The note alone has it: what is on the stack of a thread that dies is never
            // dropped.
            hand.claim.set_task(task);
            kumiki_sys::event!(queue = index, "claim a request");
            execute(core, index, request, its, hand);
        }
    }
}

/// Makes the calls of the task that the hand's note has, the first of which is `request`.
fn execute(
    core: &Arc<Core>,
    index: usize,
    mut request: Request,
    task: *const dyn Task,
    hand: &mut Hand<'_>,
) {
    // Should this call block, somebody must see to the others: those that are
    // there, and who places one later sees the note (`summon_seat`).
    fence(SeqCst);
    let left = index == QUICK && core.waits(index) || hand.may_die(core);
    if left && !core.watch.is_alerted() {
        alert(core);
    }
    let ret_val = loop {
        hand.made = hand.made.wrapping_add(1);
        let measure = hand.made % PART == 0 || !core.durations.is_known(request.sysnum);
        let start = if measure { hand.ticks.now() } else { 0 };
        // SAFETY: a request is pushed only by who vouches for the call
        // (`Engine::submit_raw`, `Engine::place`, or an operation), after a look at the rules.
        let ret_val = mortally(hand.signals, || unsafe { call(&request) });
        if measure {
            core.durations.record(request.sysnum, hand.ticks.now().wrapping_sub(start));
        }
        // SAFETY: the note has it until it is cleared below: somebody else takes it from there
        // only when this thread is dead.
        let task = unsafe { &*task };
        // SAFETY: this thread has claimed it, and its last call has returned just now.
        match unsafe { task.next(ret_val) } {
            None => break ret_val,
            Some(next) => request = next,
        }
        if let Err(denied) = core.rules.check(&request) {
            break denied.ret_val();
        }
    };
    if let Some(task) = hand.claim.clear_task() {
        task.base().end(TaskEnd::Returned(ret_val));
    }
}

/// Has the call of a task made by whichever thread comes for it, or by the calling one if
/// there is none to be had and it `serves` then.
pub(crate) fn send(core: &Arc<Core>, task: Arc<dyn Task>, serves: bool) {
    if !core.process.is_current() {
        // A child of fork(2) has none of the threads.
        return task.make(&core.rules);
    }
    let queue = core.queue_of(task.base());
    core.queues[queue].push(task);
    // Partner: the fence in `Engine::shut_down_timeout`.
    fence(SeqCst);
    announce(core, queue, true, serves);
}

/// Sees to it that a request which waits for a thread of this queue gets one, if it `calls`: or
/// else somebody was called just before. There is a full fence before.
pub(crate) fn announce(core: &Arc<Core>, queue: usize, calls: bool, serves: bool) {
    if core.area.is_terminated() {
        cancel_all(core);
    }
    if calls && !summon(core, queue) && serves {
        serve_stranded(core, queue);
    }
}

/// Makes the calls of requests of a queue, for which the kernel gives no thread: the
/// caller's, and those that others have left to a thread which the caller was about to
/// start, as they took its place for that of one at work.
#[cold]
fn serve_stranded(core: &Arc<Core>, queue: usize) {
    // Partner: the light fence in `Post::enter`, by which the other has taken the
    // seat for one with a thread. For the pool it is the lock of that.
    barrier::heavy();
    core.queues[queue].claimed().for_each(|task| task.make(&core.rules));
    if queue == QUICK {
        help(core);
    }
}

/// Answers every request of the queues that nobody has claimed: not executed.
pub(crate) fn cancel_all(core: &Core) {
    for task in core.queues.iter().flat_map(Queue::claimed) {
        task.base().end(TaskEnd::Cancelled);
    }
    let (line, mut made) = (core.area.line(PLACED), 0);
    while let Some(claimed) = line.next(made, 1) {
        made = claimed.len();
        claimed.for_each(|at| core.placed.cancel(at));
    }
    core.placed.tell();
}
