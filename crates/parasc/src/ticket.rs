//! Requests placed by hand: the paper's way, and the C interface's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::area::{MAX_LANE_SLOTS, OPEN_LANES};
use crate::core::{Core, STEP};
use crate::error::{Error, Result};
use crate::execute::call;
use crate::open::{Item, Look};
use crate::request::Request;
use crate::task::End;
use crate::threads::{end, serve_stranded, stop_if_terminated, summon};

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

impl Ticket {
    /// The ticket as a number, never 0, for those who cannot keep a Rust value;
    /// to be handed to
    /// [`Engine::collect_by_number`](crate::Engine::collect_by_number).
    pub fn into_number(self) -> u64 {
        let Ticket { lane, at, generation } = self;
        const { assert!(MAX_LANE_SLOTS <= 1 << 16 && OPEN_LANES < 1 << 15) };
        u64::from(generation) << 32 | (lane as u64 + 1) << 16 | at as u64
    }

    /// The ticket of a number, unless the area has no such slot.
    fn from_number(core: &Core, number: u64) -> Option<Self> {
        let lane = (number >> 16 & 0xffff).checked_sub(1)? as usize;
        let at = (number & 0xffff) as usize;
        let exists = lane < OPEN_LANES && at < core.area.lane_slots();
        exists.then_some(Ticket { lane, at, generation: (number >> 32) as u32 })
    }
}

/// # Safety
/// As for [`Engine::place`](crate::Engine::place).
pub(crate) unsafe fn place(core: &Arc<Core>, request: Request) -> Result<Ticket> {
    core.rules.check(&request).map_err(|denied| Error::denied(denied, 0, &request))?;
    if core.area.header().is_terminated() {
        return Err(Error::ShutDown);
    }
    let lane = core.lane_for(&request);
    let place = core.open[lane].place(core.area.lane(lane), &request);
    let full = Error::Full { slots: core.area.lane_slots(), most: MAX_LANE_SLOTS };
    let (at, generation) = place.ok_or(full)?;
    let ticket = Ticket { lane, at, generation };
    let item = Item::Slot(at);
    if !core.process.is_current() {
        // In a child of fork(2) locks may be those of threads it does not have.
        if item.claim(core.area.lane(lane)) {
            // SAFETY: the caller vouches for the call.
            let ret_val = unsafe { call(&request) };
            end(core, lane, &item, End::Returned(ret_val));
        }
        return Ok(ticket);
    }
    core.open[lane].push(item);
    stop_if_terminated(core);
    // Who has no threads but the program's waits for these.
    let own = core.seats.len() + core.pool.threads() > 0;
    if !summon(core, lane) && own {
        serve_stranded(core, lane);
    }
    Ok(ticket)
}

pub(crate) fn collect(core: &Arc<Core>, ticket: Ticket) -> Result<i64, Ticket> {
    match look(core, &ticket) {
        Look::Result(ret_val) => Ok(ret_val),
        Look::Outstanding => Err(ticket),
        Look::Unknown => panic!("{ticket:?} is of another engine"),
    }
}

pub(crate) fn collect_by_number(core: &Arc<Core>, number: u64) -> Result<Option<i64>> {
    let ticket = Ticket::from_number(core, number);
    match ticket.map_or(Look::Unknown, |ticket| look(core, &ticket)) {
        Look::Result(ret_val) => Ok(Some(ret_val)),
        Look::Outstanding => Ok(None),
        Look::Unknown => Err(Error::UnknownTicket { number }),
    }
}

/// A number may come twice, even at the same time: one gets the result, and the slot is
/// free then.
fn look(core: &Arc<Core>, ticket: &Ticket) -> Look {
    let Ticket { lane: index, at, generation } = *ticket;
    let Some(open) = core.open.get(index) else { return Look::Unknown };
    let lane = core.area.lane(index);
    if at >= lane.slots.len() {
        return Look::Unknown;
    }
    open.collect(lane, at, generation)
}

pub(crate) fn wait(core: &Arc<Core>, min_complete: usize, timeout: Option<Duration>) -> usize {
    let lanes = || core.open.iter().enumerate().map(|(index, open)| (open, core.area.lane(index)));
    // There cannot be more at a time.
    let min_complete = min_complete.min(core.open_slots());
    let complete = || lanes().map(|(open, lane)| open.answered(lane)).sum();
    // Nothing is placed after the end: then there will be no more. Nor in a child
    // of fork(2), which makes each call as it is placed.
    let is_over = || {
        !core.process.is_current()
            || core.area.header().is_terminated() && lanes().all(|(open, lane)| open.is_over(lane))
    };
    let enough = || {
        let over = is_over();
        Some(complete()).filter(|count| over || *count >= min_complete)
    };
    // A time that the clock cannot tell is never.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let found = core.finished.wait(deadline, STEP, enough, || core.repair());
    found.unwrap_or_else(complete)
}

pub(crate) fn wake_up(core: &Arc<Core>) {
    if !core.process.is_current() {
        // What waits in a child of fork(2) is the parent's, who makes the calls.
        return;
    }
    for (index, open) in core.open.iter().enumerate() {
        if open.any() {
            summon(core, index);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use kumiki_sys::cpuset::CpuSet;

    use super::*;
    use crate::Config;
    use crate::area::QUICK_LANE;
    use crate::task::Bare;

    /// Runs `work` in a child of fork(2), where `work` ends with a true answer.
    fn in_a_child(work: impl FnOnce() -> bool) {
        // SAFETY: the child leaves without a return from here.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: ends the child where it hangs; takes no pointer.
                unsafe { libc::alarm(60) };
                let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                // SAFETY: leaves at once.
                unsafe { libc::_exit(i32::from(!good.unwrap_or(false))) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the child made above, and room for its status.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(status, 0);
            }
        }
    }

    fn core(threads: usize) -> Arc<Core> {
        let cpus = Some(CpuSet::default());
        let config = Config { cpus, threads, slots: 2, ..Config::default() };
        Arc::new(Core::new(&config).unwrap())
    }

    fn getpid() -> Request {
        Request::new(libc::SYS_getpid, [])
    }

    #[test]
    fn a_ticket_of_another_engine_is_found_out() {
        let (one, other) = (core(0), core(0));
        // SAFETY: takes no argument.
        let place = |core| unsafe { place(core, getpid()) }.unwrap();
        let (number, foreign) = (place(&one).into_number(), place(&other).into_number());
        // The first of both, in the same slot.
        assert_eq!(number as u32, foreign as u32);
        let error = collect_by_number(&other, number).unwrap_err();
        assert!(matches!(error, Error::UnknownTicket { number: named } if named == number));
        let ticket = Ticket::from_number(&other, number).unwrap();
        let collect = std::panic::AssertUnwindSafe(|| collect(&other, ticket));
        assert!(std::panic::catch_unwind(collect).is_err());
        let own = Ticket::from_number(&other, foreign).unwrap();
        assert!(!matches!(look(&other, &own), Look::Unknown));
    }

    #[test]
    fn a_child_takes_none_of_the_locks_that_it_may_inherit() {
        let core = core(0);
        // SAFETY: takes no argument.
        let place = || unsafe { place(&core, getpid()) }.unwrap();
        let (first, second) = (place(), place());
        let (open, lane) = (&core.open[QUICK_LANE], core.area.lane(QUICK_LANE));
        assert!(Item::Slot(first.at).claim(lane));
        lane.slots[first.at].finish(7);
        open.push(Item::Task(Bare::new(getpid())));
        // As another thread has it that the child has not.
        let lock = open.hold_queue();
        in_a_child(|| {
            assert_eq!(wait(&core, 2, None), 1);
            assert_eq!(collect(&core, first), Ok(7));
            // SAFETY: takes no argument.
            let own = unsafe { super::place(&core, getpid()) }.unwrap();
            wake_up(&core);
            assert_eq!(collect(&core, own), Ok(i64::from(std::process::id())));
            collect(&core, second).is_err()
        });
        drop(lock);
    }

    #[test]
    fn a_child_starts_no_thread_for_what_it_inherits() {
        let core = core(1);
        for (index, open) in core.open.iter().enumerate() {
            let (at, _) = open.place(core.area.lane(index), &getpid()).unwrap();
            open.push(Item::Slot(at));
        }
        in_a_child(|| {
            wake_up(&core);
            core.crew.alive() == 0
        });
        wake_up(&core);
        assert_eq!(wait(&core, 2, Some(Duration::from_secs(60))), 2);
    }
}
