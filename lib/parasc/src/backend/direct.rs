//! The paper's three calls as kernel calls: `parasc_proc`, `parasc_wake_up` and `parasc_wait`, by
//! the module alone. Both sides may sleep inside, and neither leaves for the other.
//!
//! No engine is around it: nothing is chosen, no thread is started, a call that nobody comes for
//! is waited for. For measurements, and for who wants the mechanism itself.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, fence};
use std::time::Duration;

use super::inside::{Inside, Stay};
use super::{Backend, Lack, Return};
use crate::area::Area;
use crate::error::{Error, Result};
use crate::line::{Calls, MOST};
use kumiki_calls::Request;

/// The one line that is used.
const LANE: usize = 0;
/// Calls that are claimed at once at most, as an engine has it.
const PART: usize = 16;
/// Half of one part in so many of what is left is claimed at once.
const SHARE: usize = 2;
const EVERYBODY: u32 = i32::MAX as u32;

/// Way in which a requesting thread waits for its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Await {
    /// The thread looks.
    Looking,
    /// The thread sleeps inside the kernel, where the maker of the last call wakes it.
    Asleep,
}

/// A page of one requesting thread, and any number of processing threads inside the kernel.
#[derive(Debug)]
pub struct Direct {
    inside: Inside,
    area: Box<Area>,
    /// A processing thread was not let in, or no more.
    refused: AtomicBool,
}

impl Direct {
    /// Opens the module.
    ///
    /// # Errors
    /// [`Error::Backend`] with the reason where it is not there.
    pub fn open() -> Result<Self> {
        let inside = Inside::open().map_err(|lack| Backend::Kernel.lacks(lack))?;
        let area = Box::<Area>::default();
        area.open_lane(LANE);
        Ok(Direct { inside, area, refused: AtomicBool::new(false) })
    }

    /// Serves inside the kernel until [`end`](Self::end), looking for so long before each sleep.
    /// It also makes gettid(2), and answers with its own id.
    pub fn process(&self, spin: Duration) {
        while !self.area.is_terminated() {
            let stay = Stay {
                share: SHARE,
                recalls: self.area.recalls(),
                spin,
                idle: Duration::MAX,
                any_thread: true,
                ..Stay::default()
            };
            // SAFETY: who offers calls vouches for them (`run`).
            match unsafe { self.inside.serve(&self.area, &stay) } {
                Return::Calls { first, last, made, .. } => self.make(first..last, made),
                Return::Refused => return self.refused.store(true, Relaxed),
                Return::Idle { .. } | Return::Called | Return::Over(_) => (),
            }
        }
    }

    /// Makes claimed calls that were handed back, `made` of the same claim being made.
    fn make(&self, chunk: std::ops::Range<usize>, made: usize) {
        let line = self.area.line(LANE);
        let (mut made, mut chunk) = (made, Some(chunk));
        while let Some(own) = chunk {
            made += own.len();
            // SAFETY: claimed for this thread, and vouched for by `run`'s caller.
            unsafe { line.calls().make(own, |_| ()) };
            chunk = line.next(made, SHARE);
            made = 0;
        }
        // The swap in `next` is a full barrier; partner is the module's count of who sleeps.
        fence(SeqCst);
        if self.area.waiters() > 0 {
            self.inside.wake_up(0);
        }
    }

    /// Has the calls made by processing threads, whoever they are, and waits for all of them.
    /// By one thread at a time.
    ///
    /// # Errors
    /// [`Error::Backend`] if the module has refused a processing thread, or all of them were told to [`end`](Self::end).
    ///
    /// # Safety
    /// As for [`Requester::run_raw`](crate::Requester::run_raw); nobody else is in it. After an
    /// error both slices stay in place as long as this.
    ///
    /// # Panics
    /// If there are more than 65,535 calls, or not a result for each.
    pub unsafe fn run(&self, requests: &[Request], results: &mut [i64], how: Await) -> Result<()> {
        assert!(requests.len() == results.len() && requests.len() <= MOST, "{}", requests.len());
        if requests.is_empty() {
            return Ok(());
        }
        let line = self.area.line(LANE);
        let calls = Calls { requests: requests.as_ptr(), results: results.as_mut_ptr() };
        line.open(calls, requests.len(), PART);
        // Partner is the barrier after which a thread in the module that sleeps looks.
        fence(SeqCst);
        if self.area.sleepers() > 0 {
            // All of them: of two pages in one process those of the other one may sleep first.
            self.inside.wake_up(EVERYBODY);
        }
        while line.over().is_none() {
            if self.refused.load(Relaxed) {
                self.end();
            }
            if self.area.is_terminated() {
                return Err(refused());
            }
            match how {
                Await::Looking => std::hint::spin_loop(),
                Await::Asleep => self.inside.wait(&self.area, LANE),
            }
        }
        Ok(())
    }

    /// Makes the calls by the calling thread, by one entry into the kernel.
    ///
    /// # Errors
    /// [`Error::Backend`] if the module refuses.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`](crate::Requester::run_raw).
    pub unsafe fn by_one_entry(&self, requests: &[Request], results: &mut [i64]) -> Result<()> {
        assert!(requests.len() == results.len(), "{}", requests.len());
        // SAFETY: the caller's promise.
        unsafe { self.inside.make(requests, results) };
        if self.inside.is_refused() { Err(refused()) } else { Ok(()) }
    }

    /// Has all processing threads return.
    pub fn end(&self) {
        self.area.terminate();
        fence(SeqCst);
        self.inside.wake_up(EVERYBODY);
    }
}

fn refused() -> Error {
    Backend::Kernel.lacks(Lack::new(
        "module kumiki-parasc refuses a thread of this page by now, or all were told to end",
        "end what looks at their calls, and open another page",
    ))
}
