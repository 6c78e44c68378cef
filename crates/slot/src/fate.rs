//! Whether a server will still serve.
//!
//! # Ending
//!
//! A server that ends must not leave a request behind that was submitted while it
//! looked for the last time:
//!
//! ```text
//! server                            requester
//! E1 fate = GONE                    R1 submit(n)
//! E2 heavy fence                    R2 light fence (in the bell's ring)
//! E3 serves what is there, ends     R3 fate OPEN? it will be served, wait
//!                                      else take_back(n), wait if that fails
//! ```
//!
//! The fences order the store before the load on both sides, so at least one sees the
//! other: either E3 finds the request, or R3 finds the server gone. Where both do, the
//! lane's protocol says who has it. A heavy fence that fails (a seccomp filter that came
//! late) proves nothing: then the requester finds out by asking again as it waits, since
//! it waits in steps.
//!
//! # Dying
//!
//! A thread that is killed unwinds nothing. Whoever waits for it looks at its
//! [`Life`](crate::Life) between two steps, and stores DEAD in its place. What it had
//! begun may or may not have been done: the lane knows which request that was.

use kumiki_wait::barrier;

use crate::primitive::{AtomicU64, Ordering};

/// Of one server.
#[derive(Debug)]
pub(crate) struct Fate(AtomicU64);

const OPEN: u64 = 0;
/// It ends when it has served what is there.
const CLOSING: u64 = 1;
/// It looks for the last time, or has done so.
const GONE: u64 = 2;
/// It has died, and does not look.
const DEAD: u64 = 3;

impl Fate {
    pub(crate) fn new() -> Self {
        Fate(AtomicU64::new(OPEN))
    }

    /// Anybody: asks the server to end.
    pub(crate) fn close(&self) {
        // A server that is gone stays gone.
        let _ = self.0.compare_exchange(OPEN, CLOSING, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Server: whether it was asked to end.
    #[inline(always)]
    pub(crate) fn is_closing(&self) -> bool {
        self.0.load(Ordering::Relaxed) != OPEN
    }

    /// Server: E1 and E2, before it looks for the last time.
    pub(crate) fn end(&self) {
        // Release: partner is `is_gone`.
        self.0.store(GONE, Ordering::Release);
        barrier::heavy();
    }

    /// By the one who has found it dead.
    pub(crate) fn has_died(&self) {
        // Release: partner is `is_dead`; what the dead thread did before comes before.
        self.0.store(DEAD, Ordering::Release);
    }

    /// Requester: R3, after the ring.
    #[inline(always)]
    pub(crate) fn is_gone(&self) -> bool {
        self.0.load(Ordering::Acquire) >= GONE
    }

    /// Requester: whether what it has begun and not answered it never will.
    pub(crate) fn is_dead(&self) -> bool {
        self.0.load(Ordering::Acquire) == DEAD
    }
}

#[cfg(all(test, loom))]
mod loom;
