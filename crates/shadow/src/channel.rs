//! How a request goes from a main thread to its helper and the answer back.
//!
//! # One line
//!
//! A [`Line`] is one cache line: status, function, captures or result. The main
//! thread writes captures and then the status; the helper reads both with one
//! transfer of the line, and answers in the same line. A second line would cost
//! 1.4 times as much where the cpus are near and 2.3 times where they are far.
//!
//! ```text
//!          fork                    helper done              next fork
//! FREE ──────────▶ REQUEST(n) ────────────────▶ SUCCESS(n) ──────────▶ REQUEST(n+1)
//!                   │   │                       ERROR(n) (panicked)
//!      contested:   │   └── helper ─▶ PROCESSING(n) ─▶ SUCCESS(n), ERROR(n)
//!                   └── main thread ─▶ TAKEN(n): runs it itself
//! ```
//!
//! The status carries the number `n` of the request, 61 bits: never reused.
//!
//! - Main thread: FREE, SUCCESS, ERROR, TAKEN → REQUEST, by a plain store with
//!   Release, partner of the helper's Acquire load: captures are visible.
//! - Helper: REQUEST or PROCESSING → SUCCESS or ERROR, by a plain store with
//!   Release, partner of the main thread's Acquire load: the result is visible.
//! - Nobody else writes. Only in a contest for one request, see below, do both
//!   use compare-and-swap.
//!
//! # Taking a request back
//!
//! A helper that sleeps or has lost its cpu begins late, and the main thread may
//! rather run the request itself. It must run once. A compare-and-swap by the
//! helper before every request would take the line a second time, so the usual
//! path has none; two words on lines of their own decide whether there is a
//! contest at all:
//!
//! ```text
//! helper                                 main thread, taking back
//! H1 started = n                         M1 revoked = n
//! H2 light fence                         M2 heavy fence
//! H3 revoked < n: run                    M3 started == n: it has begun, wait
//!    revoked ≥ n: swap REQUEST(n)           started < n: swap REQUEST(n)
//!      → PROCESSING(n), run if won            → TAKEN(n), run it here if won
//! ```
//!
//! The fences (kumiki_wait::barrier) order the store before the load on both
//! sides, so at least one side sees the other:
//!
//! - Helper does not see M1: then M3 sees H1, and the main thread waits.
//! - Main thread does not see H1: then H3 sees M1, and both swap: one wins.
//! - Both see each other: the main thread waits, the helper swaps alone and wins.
//! - A helper that lost its cpu between seeing REQUEST(n) and H1 may come back
//!   when later requests have been taken back, too: `revoked` is then greater
//!   than n, and its swap fails.
//!
//! Where the heavy fence fails (a seccomp filter that came late) none of this
//! holds, and nothing is taken back.
//!
//! The heavy side is the rare one. `started` and `revoked` are each written by
//! one side on its own line and read by the other only in H3 (from its cache,
//! as it changes rarely) and M3 (rarely).

use std::mem::MaybeUninit;

use kumiki_wait::{Bell, barrier};

use crate::primitive::{AtomicU64, Ordering, UnsafeCell};

/// Words of a line for captures or result.
pub(crate) const WORDS: usize = 6;

const STATE_BITS: u32 = 3;
const STATE: u64 = (1 << STATE_BITS) - 1;

/// Who may do what with the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    Free = 0,
    Request = 1,
    Processing = 2,
    Success = 3,
    Error = 4,
    Taken = 5,
    /// The helper shall end.
    Close = 6,
}

fn status(n: u64, state: State) -> u64 {
    n << STATE_BITS | state as u64
}

fn is(status: u64, state: State) -> bool {
    status & STATE == state as u64
}

/// Runs what a line holds and leaves the result there; `true` if it did not
/// panic.
pub(crate) type Run = unsafe fn(*mut Words) -> bool;

/// Captures, then result.
pub(crate) type Words = [MaybeUninit<u64>; WORDS];

/// What a request says beside its status.
pub(crate) struct Request {
    pub(crate) run: Option<Run>,
    pub(crate) words: Words,
}

/// The line that changes hands. Aligned to two lines, because processors fetch
/// lines in pairs.
#[repr(C, align(128))]
pub(crate) struct Line {
    status: AtomicU64,
    request: UnsafeCell<Request>,
}

#[cfg(not(loom))]
const _: () = {
    assert!(std::mem::offset_of!(Line, status) == 0);
    assert!(std::mem::offset_of!(Line, request) == 8);
    assert!(size_of::<Request>() == 56, "status and request fill one cache line");
};

/// A word on a line that one side owns.
#[repr(align(128))]
struct Own(AtomicU64);

/// A helper's end and a main thread's end of one line.
pub(crate) struct Channel {
    line: Line,
    /// The last request that the helper began.
    started: Own,
    /// The last request that the main thread wanted back.
    revoked: Own,
    /// The helper sleeps here.
    pub(crate) helper: Bell,
    /// The main thread sleeps here.
    pub(crate) main: Bell,
}

// SAFETY: `request` is written and read by whoever the status says, as the
// module explains; everything else is atomic.
unsafe impl Sync for Channel {}
// SAFETY: what a request holds is `Send`: `job` builds requests from `Send`
// closures only.
unsafe impl Send for Channel {}

impl Channel {
    pub(crate) fn new() -> Self {
        Channel {
            line: Line {
                status: AtomicU64::new(status(0, State::Free)),
                request: UnsafeCell::new(Request {
                    run: None,
                    words: [MaybeUninit::uninit(); WORDS],
                }),
            },
            started: Own(AtomicU64::new(0)),
            revoked: Own(AtomicU64::new(0)),
            helper: Bell::new(),
            main: Bell::new(),
        }
    }

    /// The word that changes hands, for whoever watches it.
    #[inline(always)]
    pub(crate) fn status(&self) -> &AtomicU64 {
        &self.line.status
    }

    /// The request's place. Whoever the status names may use it.
    #[inline(always)]
    pub(crate) fn request(&self) -> *mut Request {
        self.line.request.get()
    }

    /// Main thread: hands request `n` over. `n` grows with each one.
    #[inline(always)]
    pub(crate) fn submit(&self, n: u64) {
        self.line.status.store(status(n, State::Request), Ordering::Release);
        self.helper.ring();
    }

    /// Main thread: tells the helper to end.
    pub(crate) fn close(&self, n: u64) {
        self.line.status.store(status(n, State::Close), Ordering::Release);
        self.helper.ring();
    }

    /// Helper: what has come since request `seen`, if anything.
    ///
    /// That a request was taken back is an event, too: the helper was woken for
    /// it and the next one is likely near, so it spins again. If it were
    /// nothing, a woken helper would go back to sleep at once, and each fork
    /// after that would wake it in vain.
    #[inline(always)]
    pub(crate) fn pending(&self, seen: u64) -> Option<Event> {
        let now = self.line.status.load(Ordering::Acquire);
        let n = now >> STATE_BITS;
        if is(now, State::Request) {
            return Some(Event::Request(n));
        }
        if is(now, State::Taken) && n > seen {
            return Some(Event::Taken(n));
        }
        is(now, State::Close).then_some(Event::Close)
    }

    /// Helper: begins request `n`; `false` if the main thread has taken it back.
    #[inline(always)]
    pub(crate) fn begin(&self, n: u64) -> bool {
        self.started.0.store(n, Ordering::Relaxed);
        barrier::light();
        self.revoked.0.load(Ordering::Relaxed) < n || self.begin_contested(n)
    }

    #[cold]
    #[inline(never)]
    fn begin_contested(&self, n: u64) -> bool {
        // Acquire on failure is not needed: a lost request is not touched.
        self.line
            .status
            .compare_exchange(
                status(n, State::Request),
                status(n, State::Processing),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Helper: request `n` is done; its result, or what it panicked with, is in
    /// the line.
    #[inline(always)]
    pub(crate) fn complete(&self, n: u64, success: bool) {
        let state = if success { State::Success } else { State::Error };
        self.line.status.store(status(n, state), Ordering::Release);
        self.main.ring();
    }

    /// Main thread: whether request `n` is done, and without a panic.
    #[inline(always)]
    pub(crate) fn done(&self, n: u64) -> Option<bool> {
        let now = self.line.status.load(Ordering::Acquire);
        if now == status(n, State::Success) {
            return Some(true);
        }
        (now == status(n, State::Error)).then_some(false)
    }

    /// Main thread: takes request `n` back; `true` if it is now this thread's
    /// to run, `false` if the helper has begun or will.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_back(&self, n: u64) -> bool {
        // An early look, without any fence: most often it has begun.
        if self.started.0.load(Ordering::Relaxed) == n {
            return false;
        }
        self.revoked.0.store(n, Ordering::Relaxed);
        // A fence that has not reached the helper proves nothing: then it may have
        // begun unseen, and the request is left to it.
        barrier::heavy()
            && self.started.0.load(Ordering::Relaxed) != n
            && self
                .line
                .status
                .compare_exchange(
                    status(n, State::Request),
                    status(n, State::Taken),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
    }
}

/// What a helper is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request to begin.
    Request(u64),
    /// A request that the main thread has taken back.
    Taken(u64),
    /// The end.
    Close,
}

#[cfg(all(test, loom))]
mod loom;
