//! A requesting thread's ring: made when a batch first wants it, made anew when
//! the thread has changed, given up when it cannot be had.

use super::ring::Ring;
use super::{Backend, Lack};
use crate::error::Result;
use crate::execute::plain;
use crate::request::Request;

/// Rings that may break before no other is made.
const MOST_BROKEN: u32 = 3;

#[derive(Debug)]
enum State {
    /// None yet.
    Wanted,
    Ready(Box<Ring>),
    /// Not to be had, or not to be used.
    Never,
}

/// The ring of one requesting thread.
#[derive(Debug)]
pub(crate) struct OwnRing {
    state: State,
    slots: usize,
    broken: u32,
}

impl OwnRing {
    /// None at first; with [`Backend::IoUring`] there must be one.
    ///
    /// # Errors
    /// [`Error::Backend`](crate::Error::Backend) with the reason if there is none to be had then.
    pub(crate) fn new(backend: Backend, slots: usize) -> Result<Self> {
        let state = match backend {
            Backend::IoUring => {
                State::Ready(Box::new(Ring::new(slots).map_err(|lack| lack.error(backend))?))
            }
            _ => State::Never,
        };
        Ok(OwnRing { state, slots, broken: 0 })
    }

    /// Whether the engine's configuration can be had.
    ///
    /// # Errors
    /// [`Error::Backend`](crate::Error::Backend) with the reason.
    pub(crate) fn check(backend: Backend, slots: usize, help: bool) -> Result<()> {
        if backend == Backend::IoUring && !help {
            let lack = Lack::new(
                "Config::help = false leaves all calls to processing threads, and io_uring makes \
                 most of them on the caller's",
                "choose one of the two",
            );
            return Err(lack.error(backend));
        }
        OwnRing::new(backend, slots).map(drop)
    }

    /// Whether it makes the calls of a batch: one that was chosen makes what it can.
    #[inline]
    pub(crate) fn makes(&mut self, requests: &[Request]) -> bool {
        !matches!(self.state, State::Never) && self.prepare(requests)
    }

    /// Makes sure that there is a ring of this thread that has these calls.
    #[cold]
    fn prepare(&mut self, requests: &[Request]) -> bool {
        let ready = matches!(&self.state, State::Ready(ring) if ring.is_of_this_thread());
        if !ready && !matches!(self.state, State::Never) {
            self.make();
        }
        match &self.state {
            State::Ready(ring) => requests.iter().all(|request| ring.has(request.sysnum)),
            _ => false,
        }
    }

    #[cold]
    fn make(&mut self) {
        let ring = Ring::new(self.slots);
        self.state = ring.map_or(State::Never, |ring| State::Ready(Box::new(ring)));
    }

    /// Makes the calls, through the ring if there is one.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`](crate::Requester::run_raw).
    pub(crate) unsafe fn run(&mut self, requests: &[Request], results: &mut [i64]) {
        let State::Ready(ring) = &mut self.state else {
            // SAFETY: the caller vouches for all requests.
            return unsafe { plain(requests, results) };
        };
        // SAFETY: as above.
        if !unsafe { ring.run(requests, results) } {
            self.broken += 1;
            self.state = if self.broken < MOST_BROKEN { State::Wanted } else { State::Never };
        }
    }
}
