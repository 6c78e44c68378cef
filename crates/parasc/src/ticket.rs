//! Requests placed by hand: the paper's way, and the C interface's.

use std::sync::Arc;
use std::time::Duration;

use crate::area::MAX_LANE_SLOTS;
use crate::core::{Core, OPEN_LANES, STEP};
use crate::error::{Error, Result};
use crate::execute::call;
use crate::open::serve::{give, stop_if_terminated};
use crate::request::Request;
use crate::requester::why;
use crate::threads::summon;

/// A slot that holds a request of the caller's, or its result.
///
/// Not collected, the slot stays taken as long as the engine lives.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the slot stays taken until the result is collected"]
pub struct Ticket {
    lane: usize,
    at: usize,
    generation: u32,
}

/// # Safety
/// As for [`Engine::place`](crate::Engine::place).
pub(crate) unsafe fn place(core: &Arc<Core>, request: Request) -> Result<Ticket> {
    core.rules.check(&request).map_err(|denied| why(denied, 0, &request))?;
    if core.area.header().is_terminated() {
        return Err(Error::ShutDown);
    }
    let lane = core.lane_for(&request);
    let place = core.open[lane].place(core.area.lane(lane), &request);
    let full = Error::Full { slots: core.area.lane_slots(), most: MAX_LANE_SLOTS };
    let (at, generation) = place.ok_or(full)?;
    stop_if_terminated(core);
    let ticket = Ticket { lane, at, generation };
    // Who has no threads but the program's waits for these.
    let own = core.seats.len() + core.pool.threads() > 0;
    let current = core.process.is_current();
    if (!current || !summon(core, lane) && own) && take(core, lane, at) {
        // SAFETY: the caller vouches for the call.
        let ret_val = unsafe { call(&request) };
        give(core, lane, at, ret_val, false);
    }
    Ok(ticket)
}

fn take(core: &Core, lane: usize, at: usize) -> bool {
    // In a child of fork(2) the lock may be that of a thread it does not have.
    let _decision = core.process.is_current().then(|| core.open[lane].decide());
    core.area.lane(lane).slots[at].take()
}

pub(crate) fn collect(core: &Core, ticket: Ticket) -> Result<i64, Ticket> {
    let Ticket { lane, at, generation } = ticket;
    let open = &core.open[lane];
    assert_eq!(open.generation(at), generation, "a ticket of this engine, used once");
    let lane = core.area.lane(lane);
    let slot = &lane.slots[at];
    match slot.result() {
        Some(ret_val) if slot.is_complete() => {
            open.free(lane, at);
            Ok(ret_val)
        }
        _ => Err(ticket),
    }
}

pub(crate) fn wait(core: &Arc<Core>, min_complete: usize, timeout: Option<Duration>) -> usize {
    let complete = || {
        let lanes = (0..OPEN_LANES).map(|lane| core.area.lane(lane).slots);
        lanes.flatten().filter(|slot| slot.is_complete()).count()
    };
    let enough = || Some(complete()).filter(|count| *count >= min_complete);
    let found = core.finished.wait(timeout, STEP, enough, || core.tend());
    found.unwrap_or_else(complete)
}

pub(crate) fn wake_up(core: &Arc<Core>) {
    core.area.header().post();
    for (index, open) in core.open.iter().enumerate() {
        open.scan(core.area.lane(index));
        if open.ready.any() {
            summon(core, index);
        }
    }
}
