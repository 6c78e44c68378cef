//! A thread's ring: made anew when the thread has changed, given up when it breaks or
//! cannot be had.

use kumiki_calls::{Request, call};

use crate::lack::Lack;
use crate::ring::Ring;

/// A ring of whoever uses it.
#[derive(Debug)]
pub struct OwnRing {
    /// None: not to be had any more, or broken.
    ring: Option<Box<Ring>>,
    slots: usize,
}

impl OwnRing {
    /// A ring for batches of up to `slots` requests; a longer one goes in parts.
    ///
    /// # Errors
    /// Why there is none to be had.
    pub fn new(slots: usize) -> Result<Self, Lack> {
        Ok(OwnRing { ring: Some(Box::new(Ring::new(slots)?)), slots })
    }

    /// True if this kernel's io_uring has all of these calls, and the calling thread a ring.
    #[cold]
    pub fn makes(&mut self, requests: &[Request]) -> bool {
        if self.ring.as_deref().is_some_and(|ring| !ring.is_of_this_thread()) {
            self.ring = Ring::new(self.slots).ok().map(Box::new);
        }
        let has = |ring: &Ring| requests.iter().all(|request| ring.has(request.sysnum));
        self.ring.as_deref().is_some_and(has)
    }

    /// Makes the calls, through the ring if there is one; each result is what the plain
    /// call would have returned, or `-errno`.
    ///
    /// # Safety
    /// As for [`call`](kumiki_calls::call), for each request; they may be made at the same
    /// time and in any order, and what they point to stays until this returns.
    pub unsafe fn run(&mut self, requests: &[Request], results: &mut [i64]) {
        let parts = requests.chunks(self.slots).zip(results.chunks_mut(self.slots));
        for (requests, results) in parts {
            if let Some(ring) = &mut self.ring {
                // SAFETY: the caller vouches for all requests.
                if !unsafe { ring.run(requests, results) } {
                    self.ring = None;
                }
                continue;
            }
            for (request, result) in requests.iter().zip(results) {
                // SAFETY: as above.
                *result = unsafe { call(request) };
            }
        }
    }
}
