//! The bell: how a thread that wants to sleep and those that would wake it come
//! to an agreement without a system call in the ordinary case.
//!
//! # States
//! One word, three states: `AWAKE` (0), `ASLEEP` (1) and `RUNG` (2). `ASLEEP` says
//! "whoever makes true what I wait for must wake me", `RUNG` "somebody is about to".
//! `ASLEEP` is set before the sleep, and each may outlast it; that costs a wasted
//! wake, never a lost one.
//!
//! | transition | who | when |
//! |---|---|---|
//! | `AWAKE`, `RUNG` → `ASLEEP` | the sleeper only | S1, before it looks a last time |
//! | `ASLEEP` → `RUNG` | a waker, by exchange | W4; whoever succeeds owes the wake |
//! | `ASLEEP`, `RUNG` → `AWAKE` | the sleeper only | S5, it leaves |
//!
//! # Steps
//! ```text
//!   sleeper                                waker
//!   S1 bell = ASLEEP                       W1 make `ready` true (store Release)
//!   S2 heavy fence                         W2 light fence
//!      or, at first, look for a while
//!   S3 ready? S5                           W3 bell == ASLEEP (or, shared, RUNG)?
//!   S4 futex: sleep while bell == ASLEEP      else done
//!      (at first for 10 ms)
//!      ready? S5                           W4 exchange(bell, ASLEEP, RUNG) succeeds
//!      bell still ASLEEP? S3, else S1         (or, shared, finds RUNG)? else done
//!      (10 ms over? S1)
//!   S5 bell = AWAKE, done                  W5 futex: wake one
//! ```
//!
//! # Why no wake is lost
//! The sleeper stores the bell and then reads what it waits for; the waker
//! stores that and then reads the bell. Without fences each could read the
//! other's old value (x86 lets a load overtake an earlier store of the same
//! thread to another place), and the sleeper would sleep on a thing that has
//! happened. The fences S2 and W2 exclude it: either W3 sees this `ASLEEP` or what
//! came after it, or S3 sees what W1 has stored.
//!
//! - If S3 sees it, the sleeper does not sleep.
//! - If W3 sees `ASLEEP`, some waker exchanges it. Should that happen before S4,
//!   the kernel's comparison fails and there is no sleep; should it happen
//!   later, the sleeper is in the kernel's queue and W5 finds it there (the
//!   comparison and the queueing are one step for W5: the kernel's lock).
//! - If another waker has exchanged first, that one owes the wake and its W5 comes
//!   (or it has died: see below); the sleeper finds `RUNG` and starts over at S1,
//!   with a new fence and a new look. The one that found `RUNG`, or lost the
//!   exchange, had stored before its own W2, and what it read comes before the new
//!   S1 in the order of the bell's values; so the new S3 sees its store.
//! - A waker may be delayed between W3 and W5 for any time, while the sleeper
//!   goes through further waits. Its late exchange makes the sleeper start over,
//!   its late wake is a spurious one: each makes S3 look once more and does no
//!   harm.
//! - A spurious return of S4 with the bell still `ASLEEP` needs no new S1 and
//!   S2: since that S1 nobody has taken the bell, so each waker either has not
//!   come to W3 or stored before S2 was over.
//!
//! S1, S3, S5 and W3 are Relaxed: the fences order them. W4 releases and the load
//! after S4 acquires, so a sleeper that finds `RUNG` sees what that waker did.
//!
//! # The first 10 ms
//! The heavy fence interrupts every cpu on which the process runs, in some virtual
//! machines for tens of microseconds, and most sleeps are short. So it comes when
//! the sleep has lasted for 10 ms. Until then the argument above lacks S2, and what it
//! excludes is a store W1 that still lingers in the waker's store buffer when S3
//! reads, while the load W3 has read a value from before S1. A store buffer drains in
//! less than a microsecond, in several if it is full of stores to lines that are far
//! away, and at once if its cpu is interrupted or halts. The sleeper therefore goes on
//! looking for some microseconds between S1 and S4. If a store should linger for
//! longer all the same, that wake comes late, by 10 ms at most, and is not lost: then
//! S1 to S4 are done again with the fence.
//!
//! # A waker that dies
//! Threads of one process are killed together: there the wake is left to who owes
//! it. Of processes that share memory one may be killed at any step. Before W4 it
//! has not touched the bell, and the next ring does what it would have done.
//! Between W4 and W5 it leaves `RUNG` and a sleeper that nobody has woken; so a
//! ring that finds `RUNG` on a shared bell makes the wake once more. It cannot tell
//! a dead waker from a slow one: rings between W4 and S5 cost a system call each.
//! So does every ring at a sleeper that has itself been killed.
//!
//! What remains: if nobody rings again, a sleeper without a deadline sleeps on.
//!
//! # Who pays
//! The light fence is free and the heavy one a system call (see
//! [`barrier`](crate::barrier)): ringing at somebody who is awake costs a load
//! of the mode and a load of the bell's line, which stays shared in the waker's
//! cache as long as nobody falls asleep.
//!
//! If the heavy fence fails (a seccomp filter that came late), the order of W1
//! and W3 is the processor's own affair, and the sleeper may miss a store that
//! still lingers in the waker's store buffer. It then sleeps in steps and looks
//! again after each: the wake is late, not lost. Store buffers drain within
//! microseconds, so the first step after the 10 ms is short and later ones are twice
//! as long as the one before, up to a limit.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use crate::barrier;
use crate::error::TimedOut;
use crate::primitive::{Scope, Word, fence, now, spin_loop};
use crate::ticks::tsc;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const RUNG: u32 = 2;

/// Time that a sleep does without the heavy fence.
const UNFENCED: Duration = Duration::from_millis(10);
/// Ticks of the time stamp counter that it looks on before: 4 µs or more.
const LOOK_TICKS: u64 = 20_000;
/// Looks in that time at most, should the counter stand still.
const MOST_LOOKS: u32 = if cfg!(loom) { 1 } else { 4096 };
/// First and longest step of a sleep for which the heavy fence has failed.
const STEPS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(64)];

/// A word at which one thread sleeps and any number of others wake it. It has a cache line of its
/// own, so that a ring touches no data of others.
///
/// At most one thread at a time may [wait](crate::Waiter::wait) with a bell:
/// of two, a wake may reach the wrong one, and the other sleeps on. A bell is
/// valid when all its bytes are zero (as by [`new`](Self::new)).
///
/// # Lifetime
/// The sleeper may return as soon as what it waits for is true, even before the waker has
/// rung. The bell (and everything else that the waker touches) must outlive the waker's
/// call of [`ring`](Self::ring), not only the wait: keep it in an `Arc` that the waker
/// holds, in a static, or in a place that is freed only after the waker has been joined.
#[derive(Debug)]
#[cfg_attr(target_arch = "x86_64", repr(C, align(64)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(128)))]
pub struct Bell {
    state: Word,
    /// 0: threads of one process; 1: processes that share the memory.
    shared: AtomicU32,
    /// Time stamp counter of who has rung last or is about to: what the sleeper learns
    /// from, and nothing depends on.
    rung_at: AtomicU64,
}

/// End of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepEnd {
    /// Ended before it began.
    Awake,
    /// Nobody knows by what.
    Asleep,
    /// Ended by a ring.
    Rung {
        /// The waker's time stamp counter before the ring.
        at: u64,
    },
}

#[cfg(not(loom))]
const _: () = {
    use kumiki_sys::cache::LINE;
    assert!(size_of::<Bell>() == LINE && align_of::<Bell>() == LINE);
};

impl Bell {
    /// A bell for threads of one process. Its owner is awake.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Bell { state: Word::new(AWAKE), shared: AtomicU32::new(0), rung_at: AtomicU64::new(0) }
    }

    /// A bell for threads of one process. Its owner is awake.
    #[cfg(loom)]
    pub fn new() -> Self {
        Bell { state: Word::new(AWAKE), shared: AtomicU32::new(0), rung_at: AtomicU64::new(0) }
    }

    /// A bell for memory that several processes share, where the light fence
    /// would not reach: ringing costs a full fence (some 10–40 ns), and the
    /// kernel looks for the page behind the address.
    ///
    /// A process that dies while it rings may leave the sleeper asleep; the next
    /// ring wakes it.
    #[cfg(not(loom))]
    pub const fn shared() -> Self {
        Bell { state: Word::new(AWAKE), shared: AtomicU32::new(1), rung_at: AtomicU64::new(0) }
    }

    /// A bell for memory that several processes share.
    #[cfg(loom)]
    pub fn shared() -> Self {
        Bell { state: Word::new(AWAKE), shared: AtomicU32::new(1), rung_at: AtomicU64::new(0) }
    }

    /// Wakes the thread that sleeps, if one does; otherwise costs a load or two.
    /// Call it after the store that the sleeper waits for.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// # use kumiki_wait::Bell;
    ///
    /// static BELL: Bell = Bell::new();
    /// static WORD: AtomicU32 = AtomicU32::new(0);
    ///
    /// WORD.store(1, Ordering::Release);
    /// BELL.ring();
    /// ```
    #[inline]
    pub fn ring(&self) {
        // W2, partner: S2; and W3.
        if self.is_shared() {
            fence(SeqCst);
            if self.state.load(Relaxed) != AWAKE {
                self.wake();
            }
        } else {
            barrier::light();
            if self.is_asleep() {
                self.wake();
            }
        }
    }

    /// True if a thread sleeps, or is about to, and nobody has rung yet: a hint that may be out of
    /// date.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.state.load(Relaxed) == ASLEEP
    }

    #[inline]
    fn is_shared(&self) -> bool {
        self.shared.load(Relaxed) != 0
    }

    fn scope(&self) -> Scope {
        if self.is_shared() { Scope::Shared } else { Scope::Private }
    }

    /// W4 and W5.
    #[cold]
    #[inline(never)]
    fn wake(&self) {
        self.rung_at.store(tsc(), Relaxed);
        if self.owes_wake() {
            kumiki_sys::event!(bell = ?std::ptr::from_ref(self), "wake");
            self.state.wake(1, self.scope());
        }
    }

    /// W4: whether the wake is the caller's to make.
    fn owes_wake(&self) -> bool {
        // Release: partner is the load after S4.
        match self.state.compare_exchange(ASLEEP, RUNG, Release, Relaxed) {
            Ok(_) => true,
            // Who has rung may have died since.
            Err(now) => now == RUNG && self.is_shared(),
        }
    }

    /// A ring whose caller dies before W5.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn ring_and_die(&self) {
        fence(SeqCst);
        if self.state.load(Relaxed) != AWAKE {
            self.owes_wake();
        }
    }

    /// S1 to S5, until `ready` or until `deadline`.
    pub(crate) fn sleep<T>(
        &self,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Option<T>,
    ) -> Result<(T, SleepEnd), TimedOut> {
        let [mut step, longest] = STEPS;
        let mut fenced = !barrier::heavy_is_dear() || self.is_shared();
        let mut end = SleepEnd::Awake;
        let _s5 = Leaving(&self.state);
        loop {
            // S1. A store would do, here and in S5. But that a waker's late
            // exchange cannot come between it and the one before follows from a
            // rule that loom does not know (what an exchange reads and what it
            // writes are neighbours in the order of the bell's values), and a swap
            // costs nothing here.
            self.state.swap(ASLEEP, Relaxed);
            // S2; partner: W2. A shared bell's wakers fence fully themselves,
            // and for that the fence within is enough.
            let certain = match self.is_shared() {
                true => {
                    fence(SeqCst);
                    true
                }
                false => fenced && barrier::heavy(),
            };
            let (start, mut looks) = (tsc(), if fenced { 0 } else { MOST_LOOKS });
            while looks > 0 && (cfg!(loom) || tsc().wrapping_sub(start) < LOOK_TICKS) {
                if let Some(value) = ready() {
                    return Ok((value, end));
                }
                spin_loop();
                looks -= 1;
            }
            loop {
                // S3
                if let Some(value) = ready() {
                    return Ok((value, end));
                }
                let span = if fenced { step } else { UNFENCED };
                let look = (!certain).then(|| now() + span);
                let until = earlier(deadline, look);
                // S4
                end = SleepEnd::Asleep;
                kumiki_sys::event!(bell = ?std::ptr::from_ref(self), "sleep");
                let timed_out = self.state.wait(ASLEEP, self.scope(), until);
                if timed_out && until == deadline {
                    return ready().ok_or(TimedOut).map(|value| (value, end));
                }
                if timed_out && !fenced {
                    fenced = true;
                    break;
                }
                if timed_out {
                    step = longest.min(step * 2);
                }
                // Acquire: partner is W4.
                if self.state.load(Acquire) != ASLEEP {
                    end = SleepEnd::Rung { at: self.rung_at.load(Relaxed) };
                    match ready() {
                        Some(value) => return Ok((value, end)),
                        // Who is rung without end does not come to the timer.
                        None if deadline.is_some_and(passed) => return Err(TimedOut),
                        None => break,
                    }
                }
            }
        }
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

/// S5, also where `ready` panics.
struct Leaving<'a>(&'a Word);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.swap(AWAKE, Relaxed);
    }
}

/// True if `deadline` has passed. For loom no time passes: there a deadline comes in the futex.
#[cold]
pub(crate) fn passed(deadline: Instant) -> bool {
    !cfg!(loom) && now() >= deadline
}

/// The earlier of two moments, of which none is never.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn zeroed_memory_is_a_bell() {
        // SAFETY: a bell is two atomic integers and padding.
        let bell: Bell = unsafe { std::mem::zeroed() };
        assert!(!bell.is_asleep());
        assert_eq!(bell.scope(), Scope::Private);
        assert_eq!(Bell::shared().scope(), Scope::Shared);
    }

    #[test]
    fn a_sleeper_that_panics_is_awake_again() {
        let bell = Bell::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            bell.sleep(None, &mut || -> Option<()> {
                assert!(!bell.is_asleep(), "as a caller's closure may");
                None
            })
        }));
        assert!(panicked.is_err());
        assert!(!bell.is_asleep());
    }

    #[test]
    fn a_ring_is_noted_until_the_sleeper_leaves() {
        for bell in [Bell::new(), Bell::shared()] {
            let seen = bell.sleep(None, &mut || {
                assert!(bell.is_asleep());
                bell.ring();
                bell.ring();
                Some(bell.state.load(Relaxed))
            });
            assert_eq!((seen, bell.state.load(Relaxed)), (Ok((RUNG, SleepEnd::Awake)), AWAKE));
            bell.ring();
            assert_eq!(bell.state.load(Relaxed), AWAKE);
        }
    }

    #[test]
    fn the_last_look_is_made_after_the_bell_is_set() {
        let bell = Bell::new();
        let seen = bell.sleep(None, &mut || Some(bell.is_asleep()));
        assert_eq!(seen, Ok((true, SleepEnd::Awake)));
        assert!(!bell.is_asleep());
    }

    #[test]
    fn of_two_moments_the_earlier_counts() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        assert_eq!(earlier(Some(now), Some(later)), Some(now));
        assert_eq!(earlier(None, Some(later)), Some(later));
        assert_eq!(earlier(Some(now), None), Some(now));
        assert_eq!(earlier(None, None), None);
    }
}
