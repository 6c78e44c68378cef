//! Requests placed by hand: the paper's way, and the C interface's.

use std::time::{Duration, Instant};

use crate::area::{MAX_LANE_SLOTS, OPEN_LANES};
use crate::core::{Core, STEP};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::execute::call;
use crate::open::{Item, Look, Open};
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
    /// [`Engine::collect_by_number`].
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

/// Requests placed by hand.
impl Engine {
    /// Places a request by hand, for any processing thread; the result stays in
    /// the slot until it is [collected](Self::collect). What the caller has written
    /// before, the call finds, and what it has written is there for who collects.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused),
    /// [`Error::NotAllowed`](crate::Error::NotAllowed) or
    /// [`Error::TooManyArguments`](crate::Error::TooManyArguments) if the call may
    /// not be made, [`Error::Full`](crate::Error::Full) if no slot is free in the
    /// lane for such calls (see [`open_slots`](Self::open_slots)),
    /// [`Error::ShutDown`](crate::Error::ShutDown) after that.
    ///
    /// In a child of fork(2), slots that the parent had filled stay so: where those
    /// were all of a lane, it is full for good. An engine of the child's own has
    /// its slots.
    ///
    /// # Safety
    /// As for [`submit_raw`](Self::submit_raw), until it has been collected.
    pub unsafe fn place(&self, request: Request) -> Result<Ticket> {
        let core = &self.core;
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

    /// The result of a request placed by hand, or `-errno`; frees its slot.
    /// `-ECANCELED` if the engine was shut down before it began; `-EOWNERDEAD`
    /// if the thread that had it has died ([`process`](Self::process)).
    ///
    /// # Errors
    /// The ticket, if there is no result yet.
    ///
    /// # Panics
    /// If the ticket is of another engine, as far as can be told: among four billion
    /// requests in one slot there is one of the same number.
    pub fn collect(&self, ticket: Ticket) -> Result<i64, Ticket> {
        match self.look(&ticket) {
            Look::Result(ret_val) => Ok(ret_val),
            Look::Outstanding => Err(ticket),
            Look::Unknown => panic!("{ticket:?} is of another engine"),
        }
    }

    /// As [`collect`](Self::collect), by the number of a ticket
    /// ([`Ticket::into_number`]); `None` if there is no result yet.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`](crate::Error::UnknownTicket) for a number that was
    /// collected before, or never given.
    pub fn collect_by_number(&self, number: u64) -> Result<Option<i64>> {
        let ticket = Ticket::from_number(&self.core, number);
        match ticket.map_or(Look::Unknown, |ticket| self.look(&ticket)) {
            Look::Result(ret_val) => Ok(Some(ret_val)),
            Look::Outstanding => Ok(None),
            Look::Unknown => Err(Error::UnknownTicket { number }),
        }
    }

    /// A number may come twice, even at the same time: one gets the result, and the slot
    /// is free then.
    fn look(&self, ticket: &Ticket) -> Look {
        let Ticket { lane: index, at, generation } = *ticket;
        let Some(open) = self.core.open.get(index) else { return Look::Unknown };
        let lane = self.core.area.lane(index);
        if at >= lane.slots.len() {
            return Look::Unknown;
        }
        open.collect(lane, at, generation)
    }

    /// How many requests placed by hand, and results not collected, there can be
    /// at the same time: in two lanes of as many slots each
    /// ([`Config::slots`](crate::Config::slots)), one for calls that are soon over and one for those
    /// that sleep, so that [`place`](Self::place) may find no slot at half of them, and
    /// always does with calls of one kind. Without threads for those that sleep
    /// ([`Config::threads`](crate::Config::threads) 0) there is one lane for all.
    pub fn open_slots(&self) -> usize {
        let lanes = if self.core.pool.threads() > 0 { OPEN_LANES } else { 1 };
        lanes * self.core.area.lane_slots()
    }

    /// Waits until `min_complete` results of requests placed by hand are there to
    /// be collected, or `timeout` is over; `None` is for ever. Returns how many
    /// there are. More than [`open_slots`](Self::open_slots) are taken for as many. The
    /// paper's `parasc_wait`.
    ///
    /// After the engine has been shut down it waits for those requests only that
    /// are being executed; in a child of fork(2) it does not wait.
    pub fn wait(&self, min_complete: usize, timeout: Option<Duration>) -> usize {
        let core = &self.core;
        let areas = (0..).map(|index| core.area.lane(index));
        let lanes = || core.open.iter().zip(areas.clone());
        // There cannot be more at a time.
        let min_complete = min_complete.min(self.open_slots());
        let complete = || lanes().map(|(open, lane)| open.answered(lane)).sum();
        // Nothing is placed after the end: then there will be no more. Nor in a child
        // of fork(2), which makes each call as it is placed.
        let is_over = || {
            let over = |(open, lane): (&Open, _)| open.is_over(lane);
            !core.process.is_current() || core.area.header().is_terminated() && lanes().all(over)
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

    /// Wakes a processing thread for each lane of [`open_slots`](Self::open_slots) where a
    /// request waits. The paper's `parasc_wake_up`, with which
    /// its programs announce what they have written to the area. Here
    /// [`submit`](Self::submit) and [`place`](Self::place) wake by themselves: no
    /// program needs it, and it does no harm.
    pub fn wake_up(&self) {
        // What waits in a child of fork(2) is the parent's, who makes the calls.
        if self.core.process.is_current() {
            for lane in (0..OPEN_LANES).filter(|lane| self.core.open[*lane].any()) {
                summon(&self.core, lane);
            }
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

    fn engine(threads: usize) -> Engine {
        let cpus = Some(CpuSet::default());
        let config = Config { cpus, threads, slots: 2, ..Config::default() };
        Engine::new(&config).unwrap()
    }

    fn getpid() -> Request {
        Request::new(libc::SYS_getpid, [])
    }

    #[test]
    fn a_ticket_of_another_engine_is_found_out() {
        let (one, other) = (engine(0), engine(0));
        // SAFETY: takes no argument.
        let place = |engine: &Engine| unsafe { engine.place(getpid()) }.unwrap();
        let (number, foreign) = (place(&one).into_number(), place(&other).into_number());
        // The first of both, in the same slot.
        assert_eq!(number as u32, foreign as u32);
        let error = other.collect_by_number(number).unwrap_err();
        assert!(matches!(error, Error::UnknownTicket { number: named } if named == number));
        let ticket = Ticket::from_number(&other.core, number).unwrap();
        let collect = std::panic::AssertUnwindSafe(|| other.collect(ticket));
        assert!(std::panic::catch_unwind(collect).is_err());
        let own = Ticket::from_number(&other.core, foreign).unwrap();
        assert!(!matches!(other.look(&own), Look::Unknown));
    }

    #[test]
    fn a_child_takes_none_of_the_locks_that_it_may_inherit() {
        let engine = engine(0);
        let core = &engine.core;
        // SAFETY: takes no argument.
        let place = || unsafe { engine.place(getpid()) }.unwrap();
        let (first, second) = (place(), place());
        let (open, lane) = (&core.open[QUICK_LANE], core.area.lane(QUICK_LANE));
        assert!(Item::Slot(first.at).claim(lane));
        lane.slots[first.at].finish(7);
        open.push(Item::Task(Bare::new(getpid())));
        // As another thread has it that the child has not.
        let lock = open.hold_queue();
        in_a_child(|| {
            assert_eq!(engine.wait(2, None), 1);
            assert_eq!(engine.collect(first), Ok(7));
            let own = place();
            engine.wake_up();
            assert_eq!(engine.collect(own), Ok(i64::from(std::process::id())));
            engine.collect(second).is_err()
        });
        drop(lock);
    }

    #[test]
    fn a_child_starts_no_thread_for_what_it_inherits() {
        let engine = engine(1);
        let core = &engine.core;
        for (index, open) in core.open.iter().enumerate() {
            let (at, _) = open.place(core.area.lane(index), &getpid()).unwrap();
            open.push(Item::Slot(at));
        }
        in_a_child(|| {
            engine.wake_up();
            core.crew.alive() == 0
        });
        engine.wake_up();
        assert_eq!(engine.wait(2, Some(Duration::from_secs(60))), 2);
    }
}
