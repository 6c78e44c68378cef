//! The supervising thread: sees that requests for seats don't wait behind a call
//! that blocks, and that nothing waits for a thread that has died.
//!
//! It is *alerted* by whoever leaves a request behind another one. While
//! requests wait in the queue for calls that are soon over it looks every
//! millisecond; if between two looks nobody has taken any, threads of the pool
//! are summoned for them, twice as many each time. If no other thread can be had, it
//! adopts the requests and makes the calls itself. When nothing has waited for a while it
//! sleeps until the next alert, and retires if none comes. It ends with the engine, but not
//! while a thread that may die is at a request that was in a queue; a thread that begins such a
//! request later alerts it again.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::core::Unwinding;
use kumiki_sys::pause::pause;
use kumiki_wait::{Policy, Threshold, Waiter};

use super::hand::Hand;
use super::processor::serve_lane;
use super::queue;
use super::{pool, wake_seat};
use crate::area::PLACED;
use crate::awaited::{self, WaitStep};
use crate::claim::Claim;
use crate::core::{Core, STEP};
use crate::primitive::after;
use crate::queue::{QUEUES, QUICK};

/// Interval between two looks while requests wait.
const LOOK: Duration = Duration::from_millis(1);
/// Looks in vain before they become rarer: it sleeps, or no thread is left to summon.
const VAIN: u32 = (STEP.as_millis() / LOOK.as_millis()) as u32;

/// Findings of the last look.
#[derive(Debug, Default)]
struct Seen {
    progress: u32,
    stalled: u32,
    quiet: u32,
    claims: Vec<u64>,
}

/// The supervising thread.
pub(super) fn serve(core: &Arc<Core>) {
    let watch = &core.watch;
    let area = &core.area;
    let policy = Policy { threshold: Threshold::Ticks(0), ..core.policy };
    let mut waiter = Waiter::new(&policy).ok();
    let mut seen = Seen::default();
    let _left = Unwinding(|| watch.clear());
    watch.await_start();
    loop {
        let step = look(core, &mut seen);
        if area.is_terminated() {
            break;
        }
        let Some(waiter) = &mut waiter else {
            pause(step.unwrap_or(STEP));
            continue;
        };
        let ended = || area.is_terminated().then_some(());
        if let Some(step) = step {
            let _ = waiter.wait_deadline(&watch.bell, watch.word(), Instant::now() + step, ended);
            continue;
        }
        watch.calm();
        if look(core, &mut seen).is_some() {
            watch.note_alert();
            continue;
        }
        let alerted = || watch.word().load(SeqCst) != 0;
        let called = || (area.is_terminated() || alerted()).then_some(());
        let retire = after(core.retire);
        let late = waiter.wait_deadline(&watch.bell, watch.word(), retire, called).is_err();
        if late && watch.leave(alerted) {
            return;
        }
        seen.quiet = 0;
    }
    drain(core, waiter);
}

/// Waits until no request is left at a thread that may die: the task that awaits such a
/// request is woken by its end only, and does not look for dead threads itself.
fn drain(core: &Arc<Core>, mut waiter: Option<Waiter>) {
    let watch = &core.watch;
    let left = || {
        let stays = || {
            watch.calm();
            let stays = core.may_lose_one();
            if stays {
                watch.note_alert();
            }
            stays
        };
        watch.leave(stays)
    };
    let once = || {
        let over = || (!core.may_lose_one()).then_some(());
        match &mut waiter {
            // A thread that ends a request rings.
            Some(waiter) => {
                let until = Instant::now() + STEP;
                let _ = waiter.wait_deadline(&watch.bell, watch.word(), until, over);
            }
            None => pause(STEP),
        }
        WaitStep::Late
    };
    core.repair();
    if !left() {
        awaited::wait(once, || core.repair(), || left().then_some(()));
    }
}

/// One look at everything supervised; returns when to look again, `None` when alerted.
fn look(core: &Arc<Core>, seen: &mut Seen) -> Option<Duration> {
    core.repair();
    if core.watch.take_adopted() {
        let mut hand = Hand::new(&core.watch.thread.claim, None);
        for at in 0..QUEUES {
            while core.waits(at) && !core.area.is_terminated() {
                queue::serve(core, at, &mut hand);
                serve_lane(core, PLACED, &hand);
            }
        }
    }
    learn(core, seen);
    let own = core.claims().map(Claim::quick).fold(0, u32::wrapping_add);
    let progress = own.wrapping_add(core.callers.quick());
    let moved = progress != seen.progress;
    seen.progress = progress;
    if core.pool.end_rescue(|| core.waits(QUICK)) {
        (seen.stalled, seen.quiet) = (0, seen.quiet.saturating_add(1));
        return match seen.quiet {
            0..VAIN => Some(LOOK),
            // A thread may die at a request whose waiter does not look for dead threads.
            _ if core.callers.any() || core.may_be_killed() => Some(STEP),
            _ => None,
        };
    }
    seen.quiet = 0;
    seen.stalled = if moved { 0 } else { seen.stalled + 1 };
    if seen.stalled > 0 {
        rescue(core, 1 << (seen.stalled - 1).min(6));
    }
    Some(if seen.stalled < VAIN { LOOK } else { STEP })
}

/// Gets more threads for calls that should soon have been over.
fn rescue(core: &Arc<Core>, threads: usize) {
    core.pool.rescue();
    if !pool::summon(core, threads) {
        for at in 0..core.seats.len() {
            if !core.seats[at].thread.claim.is_set() {
                wake_seat(core, at);
            }
        }
    }
}

/// Notes which calls have lasted from the last look to this one.
fn learn(core: &Core, seen: &mut Seen) {
    let now = core.seats.iter().map(|seat| &seat.thread.claim);
    let words: Vec<u64> = now.clone().map(Claim::word).collect();
    for (at, claim) in now.enumerate() {
        if seen.claims.get(at) == Some(&claim.word()) {
            let single = || core.area.line(claim.lane()?).single();
            let sysnum = claim.task().map(|task| task.base().request.sysnum).or_else(single);
            sysnum.into_iter().for_each(|sysnum| core.durations.record_sleep(sysnum));
        }
    }
    seen.claims = words;
}
