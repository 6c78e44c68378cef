//! How requests go from one thread, the requester, to another, the server, and
//! the answers back.
//!
//! # Lines
//!
//! A line (`line.rs`) is one cache line: status, function, captures or result. The
//! requester writes captures and then the status; the server reads both with one
//! transfer of the line, and answers in the same line. A second line would cost
//! 1.4 times as much where the cpus are near and 2.3 times where they are far.
//!
//! A [`Lane`] has as many lines as requests may be under way. A request's number grows from
//! one to the next and says which line it is in: the number is a step, of which each goes on
//! to the next line, and a turn, of which all are in the same line. A requester that has
//! taken the last answer takes the next turn, until there are [`TURNS`](Lane::TURNS);
//! otherwise it steps on. A line that goes to and fro is 1.4 times as quick as lines in
//! turn, which both cpus have in their caches when the requester writes.
//!
//! The server knows the last number that it has found, and looks at that one's line for a
//! later turn, then at the next line for the next step. A step is submitted after all turns
//! of the one before: a server that finds it looks for a turn once more, which it may have
//! missed, as its first look came before. So it takes requests in the order of their
//! numbers.
//!
//! ```text
//!        submit                    server done           submit, the line's next
//! FREE ──────────▶ REQUEST(n) ────────────────▶ SUCCESS(n) ──────────▶ REQUEST(m), m > n
//!                   │   │                       ERROR(n) (panicked)
//!      contested:   │   └── server ──▶ PROCESSING(n) ─▶ SUCCESS(n), ERROR(n)
//!                   └── requester ──▶ TAKEN(n): the requester's again, not begun
//! ```
//!
//! - Requester: FREE, SUCCESS, ERROR, TAKEN → REQUEST, by a plain store with
//!   Release, partner of the server's Acquire load: captures are visible.
//! - Server: REQUEST or PROCESSING → SUCCESS or ERROR, by a plain store with
//!   Release, partner of the requester's Acquire load: the result is visible.
//! - Nobody else writes. Only in a contest for one request, see below, do both
//!   use compare-and-swap.
//!
//! Whoever stores a status rings the other side's bell afterwards, if it may sleep
//! ([`kumiki_wait::Bell`]): bells are not the lane's, because a server of many lanes
//! sleeps at one bell.
//!
//! # Taking a request back
//!
//! A server that sleeps or has lost its cpu begins late, and the requester may
//! rather run the request itself, or give it up. It must not run twice. A
//! compare-and-swap by the server before every request would take the line a second
//! time, so the usual path has none; two words on lines of their own decide whether
//! there is a contest at all:
//!
//! ```text
//! server                                 requester, taking back
//! H1 started = n                         M1 revoked = n, or stays if greater
//! H2 light fence                         M2 heavy fence
//! H3 revoked < n: run                    M3 started ≥ n: it has begun, wait
//!    revoked ≥ n: swap REQUEST(n)           started < n: swap REQUEST(n)
//!      → PROCESSING(n), run if won            → TAKEN(n), the requester's if won
//! ```
//!
//! The fences (kumiki_wait::barrier) order the store before the load on both
//! sides, so at least one side sees the other:
//!
//! - Server does not see M1: then M3 sees H1, and the requester waits.
//! - Requester does not see H1: then H3 sees M1, and both swap: one wins.
//! - Both see each other: the requester waits, the server swaps alone and wins.
//! - A server that lost its cpu between seeing REQUEST(n) and H1 may come back
//!   when later requests have been taken back, too: `revoked` is then greater
//!   than n, and its swap fails.
//! - Requests before the one taken back are contested as well, as `revoked` is not
//!   less than their numbers: the server swaps, nobody else does, and it wins.
//!
//! Where the heavy fence fails (a seccomp filter that came late) none of this
//! holds, and nothing is taken back from a server that works. From one that touches the
//! lane no more, M3 alone takes it back: there is no H left to contest it.
//!
//! The heavy side is the rare one. `started` and `revoked` are each written by
//! one side on its own line and read by the other only in H3 (from its cache,
//! as it changes rarely) and M3 (rarely).
//!
//! # After a request was taken back
//!
//! Its line may be used again at once, for request `n + LINES`. A server that waits for
//! `n` finds either TAKEN(n) or that later number there, and goes on to the next line
//! both times: requests between the two may be there already. With one line there is
//! nothing between, and it takes the later one.

use kumiki_wait::barrier;

use crate::line::{Line, LineState, Request, is, number, status};
use crate::primitive::{AtomicU64, Ordering};

/// A word on a line that one side owns.
#[derive(Debug)]
#[repr(align(128))]
struct Own(AtomicU64);

/// The lines between one requester and one server.
///
/// The number of the first request is [`FIRST`](Self::FIRST), of each further one
/// [`after`](Self::after) the one before. At most `LINES` are under way: one is submitted
/// when the answer of the last one in its line was taken, or that request taken back.
///
/// Which thread is which end the owner of the lane decides: of the methods, those named
/// as the server's are called by one thread, and the requester's of one request by one
/// thread at a time.
/// Nothing here touches a request itself; whoever does ([`job`](crate::job)) promises
/// that.
#[derive(Debug)]
pub struct Lane<const LINES: usize = 1> {
    lines: [Line; LINES],
    /// The last request that the server began.
    started: Own,
    /// The greatest number of a request that the requester wanted back.
    revoked: Own,
}

// SAFETY: a request is written and read by whoever the status says, as the module
// explains; everything else is atomic.
unsafe impl<const LINES: usize> Sync for Lane<LINES> {}
// SAFETY: what a request holds is `Send`: `job` builds requests from `Send` closures
// only.
unsafe impl<const LINES: usize> Send for Lane<LINES> {}

/// A server's finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request to begin.
    Request(u64),
    /// A request that the requester has taken back.
    Taken(u64),
    /// The end.
    Close,
}

impl<const LINES: usize> Default for Lane<LINES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const LINES: usize> Lane<LINES> {
    /// The number of the first request.
    pub const FIRST: u64 = 1;
    /// Bits of a number that count the turns. With one line each request is a step.
    const TURN_BITS: u32 = if LINES > 1 { 5 } else { 0 };
    /// Requests of a step at most.
    pub const TURNS: u64 = 1 << Self::TURN_BITS;

    /// A lane on which nothing has been requested.
    pub fn new() -> Self {
        Lane {
            lines: std::array::from_fn(|_| Line::new()),
            started: Own(AtomicU64::new(0)),
            revoked: Own(AtomicU64::new(0)),
        }
    }

    /// The number of the request after `n`: in its line if that is free `again`, and has
    /// not been used too often; else in the next.
    #[inline(always)]
    pub fn after(n: u64, again: bool) -> u64 {
        let next_step = (n | (Self::TURNS - 1)) + 1;
        if again && n + 1 != next_step { n + 1 } else { next_step }
    }

    /// True if request `n` is the first of its line's turns.
    #[inline(always)]
    pub fn is_step(n: u64) -> bool {
        n % Self::TURNS == 0
    }

    /// Line of request `n`.
    #[inline(always)]
    pub fn place(n: u64) -> usize {
        (n >> Self::TURN_BITS) as usize % LINES
    }

    #[inline(always)]
    fn line(&self, n: u64) -> &Line {
        &self.lines[Self::place(n)]
    }

    /// Requester: the last request in a line, 0 if there was none.
    pub fn last_in(&self, place: usize) -> u64 {
        number(self.lines[place].status.load(Ordering::Relaxed))
    }

    /// The word of request `n` that changes hands, for whoever watches it.
    #[inline(always)]
    pub fn word(&self, n: u64) -> &(impl Sync + use<LINES>) {
        &self.line(n).status
    }

    /// The place of request `n`. Whoever the status names may use it.
    #[inline(always)]
    pub fn request(&self, n: u64) -> *mut Request {
        self.line(n).request.get()
    }

    /// State for an observer: how many requests there have been by the line of request `n`, and
    /// what the server is doing.
    pub fn glance(&self, n: u64) -> (u64, &'static str) {
        let now = self.line(n).status.load(Ordering::Relaxed);
        let begun = self.started.0.load(Ordering::Relaxed) >= number(now);
        let doing = match now {
            now if is(now, LineState::Close) => "ended",
            now if is(now, LineState::Processing) || is(now, LineState::Request) && begun => {
                "running"
            }
            now if is(now, LineState::Request) => "called",
            _ => "idle",
        };
        (number(now), doing)
    }

    /// Requester: hands request `n` over. The server's bell is to be rung then.
    #[inline(always)]
    pub fn submit(&self, n: u64) {
        self.line(n).status.store(status(n, LineState::Request), Ordering::Release);
    }

    /// Requester: tells the server to end instead of request `n`. The server's bell is to
    /// be rung then.
    pub fn close(&self, n: u64) {
        self.line(n).status.store(status(n, LineState::Close), Ordering::Release);
    }

    /// Server: what has come since the request before `next`, which is the last one that
    /// was found.
    ///
    /// That a request was taken back is an event, too: the server was woken for
    /// it and the next one is likely near, so it spins again. If it were
    /// nothing, a woken server would go back to sleep at once, and each request
    /// after that would wake it in vain.
    #[inline(always)]
    pub fn pending(&self, next: u64) -> Option<Event> {
        if LINES == 1 {
            return self.event(self.line(next).status.load(Ordering::Acquire), next, u64::MAX);
        }
        let last = next - 1;
        let end = Self::after(last, false);
        let turn = || self.event(self.line(last).status.load(Ordering::Acquire), next, end);
        if let Some(event) = turn() {
            return Some(event);
        }
        let line = self.line(end);
        let now = line.status.load(Ordering::Acquire);
        if number(now) < end {
            return None;
        }
        let end_of_step = Self::after(end, false);
        turn().or_else(|| {
            // A later step in its line: this one was taken back.
            let event = self.event(now, end, end_of_step);
            event.or((number(now) >= end_of_step).then_some(Event::Taken(end_of_step - 1)))
        })
    }

    /// Reads a status for a request from `from` to before `end`.
    #[inline(always)]
    fn event(&self, now: u64, from: u64, end: u64) -> Option<Event> {
        let n = number(now);
        // With one line any request is news, and a server never finds an older one.
        if LINES > 1 && !(from..end).contains(&n) {
            return None;
        }
        if is(now, LineState::Request) {
            return Some(Event::Request(n));
        }
        if is(now, LineState::Taken) && n >= from {
            return Some(Event::Taken(n));
        }
        is(now, LineState::Close).then_some(Event::Close)
    }

    /// Server: begins request `n`; `false` if the requester has taken it back.
    #[inline(always)]
    pub fn begin(&self, n: u64) -> bool {
        self.started.0.store(n, Ordering::Relaxed);
        barrier::light();
        self.revoked.0.load(Ordering::Relaxed) < n || self.begin_contested(n)
    }

    #[cold]
    #[inline(never)]
    fn begin_contested(&self, n: u64) -> bool {
        // Acquire on failure is not needed: a lost request is not touched.
        self.line(n)
            .status
            .compare_exchange(
                status(n, LineState::Request),
                status(n, LineState::Processing),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Server: request `n` is done; its result, or what it panicked with, is in
    /// the line. The requester's bell is to be rung then.
    #[inline(always)]
    pub fn complete(&self, n: u64, success: bool) {
        let state = if success { LineState::Success } else { LineState::Error };
        self.line(n).status.store(status(n, state), Ordering::Release);
    }

    /// Requester: whether request `n` is done, and without a panic.
    #[inline(always)]
    pub fn done(&self, n: u64) -> Option<bool> {
        let now = self.line(n).status.load(Ordering::Acquire);
        if now == status(n, LineState::Success) {
            return Some(true);
        }
        (now == status(n, LineState::Error)).then_some(false)
    }

    /// Requester: takes request `n` back; `true` if it is now this thread's, and was
    /// not begun; `false` if the server has begun it or will.
    #[cold]
    #[inline(never)]
    pub fn take_back(&self, n: u64) -> bool {
        // An early look, without any fence: most often it has begun.
        if self.started.0.load(Ordering::Relaxed) >= n {
            return false;
        }
        self.revoked.0.fetch_max(n, Ordering::Relaxed);
        // A fence that has not reached the server proves nothing: then it may have
        // begun unseen, and the request is left to it.
        barrier::heavy() && self.reclaim(n)
    }

    /// Requester: M3, without the fence, of a server that is known to touch the lane no
    /// more: `true` if request `n` is now this thread's, and was not begun.
    pub fn reclaim(&self, n: u64) -> bool {
        self.started.0.load(Ordering::Relaxed) < n
            && self
                .line(n)
                .status
                .compare_exchange(
                    status(n, LineState::Request),
                    status(n, LineState::Taken),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
    }

    /// Server: the number of the last request that has been submitted so far.
    pub fn newest(&self) -> u64 {
        // Acquire: those before it are visible, too.
        let numbers = self.lines.iter().map(|line| number(line.status.load(Ordering::Acquire)));
        numbers.max().unwrap_or(0)
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_used_again_until_its_turns_are_over() {
        type Two = Lane<2>;
        let turns = std::iter::successors(Some(Two::FIRST), |n| Some(Two::after(*n, true)));
        let turns: Vec<u64> = turns.take(2 * Two::TURNS as usize).collect();
        assert!(turns.is_sorted_by(|a, b| a < b));
        let in_first = turns.iter().take_while(|n| Two::place(**n) == 0).count() as u64;
        assert_eq!((in_first, Two::place(turns[40])), (Two::TURNS - 1, 1));
        assert_eq!(Two::place(Two::after(Two::FIRST, false)), 1);
        assert_eq!(Lane::<1>::after(7, true), 8);
    }
}
