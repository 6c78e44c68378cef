//! The lane of one line between a main thread and its helper, with the bells at which
//! the two sleep. The protocol is the lane's ([`kumiki_slot::Lane`]); here each store
//! that the other side may sleep for is followed by its ring.

use kumiki_slot::{Event, Lane, Request};
use kumiki_wait::Bell;

/// A helper's end and a main thread's end of one line.
pub(crate) struct Channel {
    lane: Lane,
    /// The helper sleeps here.
    pub(crate) helper: Bell,
    /// The main thread sleeps here.
    pub(crate) main: Bell,
}

impl Channel {
    /// The number of the first request.
    pub(crate) const FIRST: u64 = Lane::<1>::FIRST;

    pub(crate) fn new() -> Self {
        Channel { lane: Lane::new(), helper: Bell::new(), main: Bell::new() }
    }

    /// The status word, for a monitor instruction to watch.
    #[inline(always)]
    pub(crate) fn word(&self) -> &impl Sync {
        self.lane.word(Self::FIRST)
    }

    /// State for observers: the last request's number, and what the helper is doing.
    pub(crate) fn glance(&self) -> (u64, &'static str) {
        self.lane.glance(Self::FIRST)
    }

    /// The request's line. The side that the status names may use it.
    #[inline(always)]
    pub(crate) fn request(&self) -> *mut Request {
        self.lane.request(Self::FIRST)
    }

    /// Main thread: hands request `n` over. `n` grows with each one.
    #[inline(always)]
    pub(crate) fn submit(&self, n: u64) {
        kumiki_sys::event!(job = n, "hand over");
        self.lane.submit(n);
        self.helper.ring();
    }

    /// Main thread: tells the helper to end.
    pub(crate) fn close(&self, n: u64) {
        self.lane.close(n);
        self.helper.ring();
    }

    /// Main thread: whether request `n` is done, and if so whether it ended without a
    /// panic.
    #[inline(always)]
    pub(crate) fn done(&self, n: u64) -> Option<bool> {
        self.lane.done(n)
    }

    /// Main thread: takes request `n` back; `true` if it is now this thread's
    /// to run, `false` if the helper has begun or will.
    pub(crate) fn take_back(&self, n: u64) -> bool {
        self.lane.take_back(n)
    }

    /// Helper: what has come since the request before `next`, if anything.
    #[inline(always)]
    pub(crate) fn pending(&self, next: u64) -> Option<Event> {
        self.lane.pending(next)
    }

    /// Helper: begins request `n`; `false` if the main thread has taken it back.
    #[inline(always)]
    pub(crate) fn begin(&self, n: u64) -> bool {
        self.lane.begin(n)
    }

    /// Helper: request `n` is done; its result, or what it panicked with, is in
    /// the line.
    #[inline(always)]
    pub(crate) fn complete(&self, n: u64, success: bool) {
        self.lane.complete(n, success);
        self.main.ring();
    }
}
