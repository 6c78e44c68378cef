//! Requests placed by hand: the paper's way, and the C interface's.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::area::PLACED;
use crate::config::MAX_SLOTS;
use crate::core::STEP;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::placed::{Handed, Look, Place};
use crate::primitive::fence_after_swap;
use crate::queue::{QUEUES, QUICK};
use crate::threads::{announce, help, send, summon, wake_seat};
use kumiki_calls::Request;

/// A slot that holds a request of the caller's, or its result.
///
/// Not collected, the slot stays taken as long as the engine lives.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the slot stays taken until the result is collected"]
pub struct Ticket {
    at: usize,
    generation: u32,
}

impl Ticket {
    /// The ticket as a number, never 0, for those who cannot keep a Rust value;
    /// to be handed to
    /// [`Engine::collect_by_number`].
    pub fn into_number(self) -> u64 {
        u64::from(self.generation) << 32 | (self.at as u64 + 1)
    }

    /// The ticket of a number.
    fn from_number(number: u64) -> Option<Self> {
        let at = (number as u32).checked_sub(1)? as usize;
        Some(Ticket { at, generation: (number >> 32) as u32 })
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
    /// not be made, [`Error::Full`](crate::Error::Full) if no slot is free (see
    /// [`open_slots`](Self::open_slots)),
    /// [`Error::ShutDown`](crate::Error::ShutDown) after that.
    ///
    /// In a child of fork(2), slots that the parent had filled stay so: where those
    /// were all, they are full for good. An engine of the child's own has its slots.
    ///
    /// # Aborts
    /// As [`submit`](Self::submit): the request is allocated.
    ///
    /// # Safety
    /// As for [`submit_raw`](Self::submit_raw), until it has been collected.
    pub unsafe fn place(&self, request: Request) -> Result<Ticket> {
        let core = &self.core;
        core.admit(&request)?;
        let full = Error::Full { slots: self.open_slots(), most: MAX_SLOTS };
        let line = core.line_for(&request);
        let Place { at, generation, by } = core.placed.place(line, request).ok_or(full)?;
        // Who has no threads but the program's waits for these.
        let serves = core.seats.len() + core.pool.threads() > 0;
        match by {
            Handed::Task(task) => send(core, task, serves),
            Handed::Line { waits } => {
                // Partner: the fence in `Engine::shut_down_timeout`.
                fence_after_swap();
                // Who was called for those before sees this one too.
                announce(core, QUICK, !waits, serves);
            }
        }
        Ok(Ticket { at, generation })
    }

    /// A descriptor for event loops, the same one each time: an eventfd(2) that is readable when
    /// requests placed by hand have ended since it was last read. It does not wait, and closes
    /// with the engine. Those that had ended before it was first asked for it does not tell of;
    /// requests that a child of fork(2) places it tells the parent of, too, which finds none
    /// ended.
    ///
    /// For futures there is [`Completions`](crate::Completions).
    ///
    /// # Errors
    /// [`Error::Sys`](crate::Error::Sys) if the kernel gives no descriptor.
    pub fn completion_descriptor(&self) -> Result<BorrowedFd<'_>> {
        let descriptor = self.core.placed.descriptor();
        Ok(descriptor.map_err(|errno| kumiki_sys::Error::os("eventfd2", errno))?)
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

    /// Collects as [`collect`](Self::collect), by the number of a ticket ([`Ticket::into_number`]);
    /// `None` if there is no result yet.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`](crate::Error::UnknownTicket) for a number that was
    /// collected before, or never given.
    pub fn collect_by_number(&self, number: u64) -> Result<Option<i64>> {
        let ticket = Ticket::from_number(number);
        match ticket.map_or(Look::Unknown, |ticket| self.look(&ticket)) {
            Look::Result(ret_val) => Ok(Some(ret_val)),
            Look::Outstanding => Ok(None),
            Look::Unknown => Err(Error::UnknownTicket { number }),
        }
    }

    /// A number may come twice, even at the same time: one gets the result, and the slot
    /// is free then.
    fn look(&self, ticket: &Ticket) -> Look {
        self.core.placed.collect(ticket.at, ticket.generation, !self.core.process.is_current())
    }

    /// Number of requests placed by hand, and results not collected, that there can be at the same
    /// time ([`Config::slots`](crate::Config::slots)).
    pub fn open_slots(&self) -> usize {
        self.core.placed.slots()
    }

    /// Waits until `min_complete` results of requests placed by hand are there to
    /// be collected. Returns how many there are. More than [`open_slots`](Self::open_slots) are taken for as many. The
    /// paper's `parasc_wait`.
    ///
    /// Who waits so for all that are placed makes calls that nobody has begun itself,
    /// as with a batch; one thread at a time. A signal's handler that ends this thread just as it
    /// takes one may leave that one without a result.
    ///
    /// After the engine has been shut down it waits for those requests only that
    /// are being executed; in a child of fork(2) it does not wait.
    pub fn wait(&self, min_complete: usize) -> usize {
        self.wait_long(min_complete, None)
    }

    /// Waits as [`wait`](Self::wait) does, for at most `timeout`; makes no calls itself.
    pub fn wait_timeout(&self, min_complete: usize, timeout: Duration) -> usize {
        self.wait_long(min_complete, Some(timeout))
    }

    fn wait_long(&self, min_complete: usize, timeout: Option<Duration>) -> usize {
        let core = &self.core;
        // A time that the clock cannot tell is never.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let is_child = !core.process.is_current();
        // There cannot be more at a time, and nothing is placed after the end.
        let least = min_complete.min(self.open_slots());
        let ends = || core.area.is_terminated();
        let helps = || {
            if core.help && timeout.is_none() {
                help(core);
            }
        };
        let line = core.area.line(PLACED);
        core.placed.wait(line, least, (deadline, STEP), is_child, ends, (helps, || core.repair()))
    }

    /// Wakes a processing thread for each kind of calls of which a request waits, and for those
    /// placed by hand that are soon over one on each other cpu, as many as there are. The paper's
    /// `parasc_wake_up`, with which its programs announce what they have written to the area.
    /// Here [`submit`](Self::submit) and [`place`](Self::place) wake one thread by themselves: no
    /// program needs it, and it does no harm.
    pub fn wake_up(&self) {
        // What waits in a child of fork(2) is the parent's, who makes the calls.
        if self.core.process.is_current() {
            let core = &self.core;
            (0..QUEUES).filter(|at| core.waits(*at)).for_each(|at| _ = summon(core, at));
            let waiting = core.area.line(PLACED).look().waiting();
            if waiting > 1 {
                let near = core.near(rustix::thread::sched_getcpu());
                near.iter().take(waiting).for_each(|at| _ = wake_seat(core, *at));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use kumiki_sys::cpuset::CpuSet;

    use super::*;
    use crate::Config;
    use crate::queue::{QUICK, SLEEPING};
    use crate::task::{Base, TaskEnd};

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
        let ticket = Ticket::from_number(number).unwrap();
        let collect = std::panic::AssertUnwindSafe(|| other.collect(ticket));
        assert!(std::panic::catch_unwind(collect).is_err());
        let own = Ticket::from_number(foreign).unwrap();
        assert!(!matches!(other.look(&own), Look::Unknown));
    }

    #[test]
    fn a_child_takes_none_of_the_locks_that_it_may_inherit() {
        let engine = engine(0);
        let core = &engine.core;
        // SAFETY: takes no argument.
        let place = || unsafe { engine.place(getpid()) }.unwrap();
        let (first, second) = (place(), place());
        let queue = &core.queues[QUICK];
        let task = queue.pop().unwrap();
        assert!(task.base().claim());
        task.base().end(TaskEnd::Returned(7));
        queue.push(Arc::new(Base::of(getpid())));
        // As another thread has it that the child has not.
        let locks = (queue.hold(), core.placed.hold(second.at));
        in_a_child(|| {
            assert_eq!(engine.wait(2), 1);
            assert_eq!(engine.collect(first), Ok(7));
            let own = place();
            engine.wake_up();
            assert_eq!(engine.collect(own), Ok(i64::from(std::process::id())));
            engine.collect(second).is_err()
        });
        drop(locks);
    }

    #[test]
    fn a_child_starts_no_thread_for_what_it_inherits() {
        let engine = engine(1);
        let core = &engine.core;
        for queue in [QUICK, SLEEPING] {
            let Handed::Task(task) = core.placed.place(None, getpid()).unwrap().by else {
                panic!()
            };
            core.queues[queue].push(task);
        }
        in_a_child(|| {
            engine.wake_up();
            core.crew.alive() == 0
        });
        engine.wake_up();
        assert_eq!(engine.wait_timeout(2, Duration::from_secs(60)), 2);
    }
}
