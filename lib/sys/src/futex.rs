//! Sleeping on a word of memory until somebody changes it and wakes
//! (futex(2)).
//!
//! The kernel compares the word with the expected value under its own lock
//! before it puts the thread to sleep, so a change followed by a [`wake`] is
//! never missed:
//!
//! ```text
//!   waiter                          waker
//!   reads word == expected
//!   wait(word, expected)            stores a new value
//!     kernel: still expected?       wake(word, n)
//!       no  -> Changed                kernel: wakes up to n sleepers
//!       yes -> sleeps ... Woken
//! ```

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::error::{Error, Result};

/// Threads that may sleep on the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only: cheaper, the kernel need not look for the
    /// page behind the address.
    Private,
    /// Processes that share the memory, each at its own address.
    Shared,
}

impl Scope {
    fn flags(self) -> Flags {
        match self {
            Scope::Private => Flags::PRIVATE,
            Scope::Shared => Flags::empty(),
        }
    }
}

/// Reason for which [`wait`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// A thread called [`wake`], perhaps for an earlier use of the same memory, so read
    /// the word again.
    Woken,
    /// The word did not have the expected value: no sleep.
    Changed,
    /// The deadline has passed.
    TimedOut,
    /// A signal was handled meanwhile.
    Interrupted,
}

/// A moment of `CLOCK_MONOTONIC`. Being absolute, it stays valid when a wait is resumed
/// after [`Outcome::Interrupted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Timespec);

impl Deadline {
    /// The moment `span` from now; beyond the kernel's range it is never.
    pub fn after(span: Duration) -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let sum = now.tv_nsec + i64::from(span.subsec_nanos());
        let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        Deadline(Timespec {
            tv_sec: now.tv_sec.saturating_add(seconds).saturating_add(sum / 1_000_000_000),
            tv_nsec: sum % 1_000_000_000,
        })
    }
}

/// Sleeps while `word` is `expected`, until woken or until `deadline`.
///
/// This is no memory barrier: read `word` with Acquire afterwards.
///
/// ```
/// use std::sync::atomic::AtomicU32;
/// use std::time::Duration;
/// use kumiki_sys::futex::{Deadline, Outcome, Scope, wait};
///
/// let word = AtomicU32::new(1);
/// assert_eq!(wait(&word, 0, Scope::Private, None)?, Outcome::Changed);
/// let soon = Deadline::after(Duration::from_millis(1));
/// assert_eq!(wait(&word, 1, Scope::Private, Some(soon))?, Outcome::TimedOut);
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
///
/// # Errors
/// [`Error::Os`] for what should not happen: the kernel has no futex, a seccomp filter
/// refuses it, or shared memory is gone.
pub fn wait(
    word: &AtomicU32,
    expected: u32,
    scope: Scope,
    deadline: Option<Deadline>,
) -> Result<Outcome> {
    // Of all forms of waiting this one takes its timeout as an absolute
    // CLOCK_MONOTONIC time (futex(2), FUTEX_WAIT_BITSET).
    let everybody = NonZeroU32::MAX;
    let deadline = deadline.as_ref().map(|moment| &moment.0);
    match futex::wait_bitset(word, scope.flags(), expected, deadline, everybody) {
        Ok(()) => Ok(Outcome::Woken),
        Err(Errno::AGAIN) => Ok(Outcome::Changed),
        Err(Errno::TIMEDOUT) => Ok(Outcome::TimedOut),
        Err(Errno::INTR) => Ok(Outcome::Interrupted),
        Err(errno) => Err(Error::os("sleeping on a futex", errno)),
    }
}

/// Wakes up to `count` threads that sleep on `word`, and returns how many it woke. Store
/// the new value (Release) first.
///
/// # Errors
/// As [`wait`].
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> Result<usize> {
    // The kernel takes the count as signed and wakes one thread for a count
    // of 0 or less (futex_wake, kernel/futex/waitwake.c).
    if count == 0 {
        return Ok(0);
    }
    futex::wake(word, scope.flags(), count.min(i32::MAX as u32))
        .map_err(|errno| Error::os("waking a futex", errno))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::{Acquire, Release};
    use std::thread;

    use super::*;

    const BOTH: [Scope; 2] = [Scope::Private, Scope::Shared];

    #[test]
    fn a_changed_word_is_not_slept_on() {
        let word = AtomicU32::new(7);
        for scope in BOTH {
            assert_eq!(wait(&word, 6, scope, None).unwrap(), Outcome::Changed);
        }
    }

    #[test]
    fn deadlines_end_the_wait_also_when_past() {
        let word = AtomicU32::new(0);
        for scope in BOTH {
            for span in [Duration::ZERO, Duration::from_millis(2)] {
                let outcome = wait(&word, 0, scope, Some(Deadline::after(span)));
                assert_eq!(outcome.unwrap(), Outcome::TimedOut);
            }
        }
        assert_eq!(Deadline::after(Duration::MAX).0.tv_sec, i64::MAX);
    }

    #[test]
    fn ping_pong_loses_no_wake() {
        for scope in BOTH {
            let word = AtomicU32::new(0);
            let player = |mine: u32| {
                for turn in 0..1000 {
                    let turn = turn * 2 + mine;
                    loop {
                        match word.load(Acquire) {
                            seen if seen == turn => break,
                            seen => drop(wait(&word, seen, scope, None).unwrap()),
                        }
                    }
                    word.store(turn + 1, Release);
                    wake(&word, 1, scope).unwrap();
                }
            };
            thread::scope(|threads| {
                threads.spawn(|| player(0));
                threads.spawn(|| player(1));
            });
            assert_eq!(word.into_inner(), 2000);
        }
    }

    #[test]
    fn counts_are_taken_as_said() {
        let word = AtomicU32::new(0);
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    assert_eq!(wait(&word, 0, Scope::Private, None).unwrap(), Outcome::Woken)
                });
            }
            assert_eq!(wake(&word, 0, Scope::Private).unwrap(), 0);
            // All three, in as many calls as it takes them to fall asleep.
            let mut woken = 0;
            while woken < 3 {
                woken += wake(&word, u32::MAX, Scope::Private).unwrap();
                thread::yield_now();
            }
            assert_eq!(woken, 3);
        });
    }
}
