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
//! lane's protocol says who has it. E3 is what is there at that moment and nothing later,
//! or callers that never rest would keep the server for ever.
//!
//! After E3 comes E4, fate = ENDED, with Release, and everybody's bell. From then on the
//! server touches no line, so there is nothing to contest: what it has not begun is the
//! requester's without a fence. That is what a heavy fence that fails (a seccomp filter
//! that came late) leaves: nothing is taken back from a server that is GONE, and
//! everything from one that has ENDED.
//!
//! # Dying
//!
//! A thread that is killed unwinds nothing. Whoever waits for it looks at its
//! [`Life`](kumiki_sys::life::Life) between two steps, and stores DEAD in its place, which is like
//! ENDED. What it had begun may or may not have been done: the lane knows which request
//! that was.
//!
//! A fate only grows: one that died while it ended is dead.

use kumiki_wait::barrier;

use super::primitive::{AtomicU64, Ordering};

/// State of one server: it serves, has ended, or has died.
#[derive(Debug)]
pub(crate) struct Fate(AtomicU64);

const OPEN: u64 = 0;
/// The server ends when it has served the requests that are there.
const CLOSING: u64 = 1;
/// The server looks for the last time.
const GONE: u64 = 2;
/// The server has looked for the last time.
const ENDED: u64 = 3;
/// The server has died, and does not look.
const DEAD: u64 = 4;

impl Fate {
    pub(crate) fn new() -> Self {
        Fate(AtomicU64::new(OPEN))
    }

    /// Anybody: asks the server to end.
    pub(crate) fn close(&self) {
        self.0.fetch_max(CLOSING, Ordering::Relaxed);
    }

    /// Server: whether it was asked to end.
    #[inline(always)]
    pub(crate) fn is_closing(&self) -> bool {
        self.0.load(Ordering::Relaxed) != OPEN
    }

    /// Server: E1 and E2, before it looks for the last time.
    pub(crate) fn end(&self) {
        // Release: partner is `is_gone`.
        self.0.fetch_max(GONE, Ordering::Release);
        barrier::heavy();
    }

    /// Server: E4. The bells are to be rung then.
    pub(crate) fn has_ended(&self) {
        // Release: partner is `is_over`; what the server has begun and answered comes before.
        self.0.fetch_max(ENDED, Ordering::Release);
    }

    /// Notes its death, by the one who has found it dead.
    pub(crate) fn has_died(&self) {
        // Release: partner is `is_over`; what the dead thread did before comes before.
        self.0.fetch_max(DEAD, Ordering::Release);
    }

    /// Requester: R3, after the ring.
    #[inline(always)]
    pub(crate) fn is_gone(&self) -> bool {
        self.0.load(Ordering::Acquire) >= GONE
    }

    /// Requester: whether the server touches no line any more.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) >= ENDED
    }

    /// True if it has died.
    pub(crate) fn is_dead(&self) -> bool {
        self.0.load(Ordering::Acquire) == DEAD
    }
}

#[cfg(all(test, loom))]
mod loom;
