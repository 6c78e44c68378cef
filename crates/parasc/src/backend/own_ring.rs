//! A requesting thread's ring: made anew when the thread has changed, given up when it
//! breaks or cannot be had.

use super::ring::Ring;
use super::{Backend, Lack};
use crate::error::Result;
use crate::execute::plain;
use crate::request::Request;

/// The ring of one requesting thread.
#[derive(Debug)]
pub(crate) struct OwnRing {
    /// None: not wanted, not to be had, or broken.
    ring: Option<Box<Ring>>,
    slots: usize,
}

impl OwnRing {
    /// With [`Backend::IoUring`] there must be one.
    ///
    /// # Errors
    /// [`Error::Backend`](crate::Error::Backend) with the reason if there is none to be had then.
    pub(crate) fn new(backend: Backend, slots: usize) -> Result<Self> {
        let wanted = (backend == Backend::IoUring).then(|| Ring::new(slots));
        let ring = wanted.transpose().map_err(|lack| lack.error(backend))?;
        Ok(OwnRing { ring: ring.map(Box::new), slots })
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
        self.ring.is_some() && self.has(requests)
    }

    /// Makes sure that it is of this thread. Whether it has these calls.
    #[cold]
    fn has(&mut self, requests: &[Request]) -> bool {
        if !self.ring.as_deref().is_some_and(Ring::is_of_this_thread) {
            self.ring = Ring::new(self.slots).ok().map(Box::new);
        }
        let has = |ring: &Ring| requests.iter().all(|request| ring.has(request.sysnum));
        self.ring.as_deref().is_some_and(has)
    }

    /// Makes the calls, through the ring if there is one.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`](crate::Requester::run_raw).
    pub(crate) unsafe fn run(&mut self, requests: &[Request], results: &mut [i64]) {
        let Some(ring) = &mut self.ring else {
            // SAFETY: the caller vouches for all requests.
            return unsafe { plain(requests, results) };
        };
        // SAFETY: as above.
        if !unsafe { ring.run(requests, results) } {
            self.ring = None;
        }
    }
}
