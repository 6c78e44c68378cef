//! The event count: where many threads sleep, and some are woken by one system
//! call.
//!
//! ```text
//!   sleeper                               waker
//!   1 seen = count                        1 make what is waited for true
//!   2 is it true? done                    2 count += 1
//!   3 futex: sleep while count == seen    3 futex: wake so many
//! ```
//! A waker that comes before the sleeper's 1 has made true what it sees in 2
//! (the count is added to with Release and read with Acquire). One that comes
//! later has changed the count before 3, or finds the sleeper asleep: the kernel
//! compares and puts to sleep in one step.
//!
//! Unlike with a [`Bell`](crate::Bell) no fence is needed and any number may
//! sleep; each notification is a system call, whether anybody sleeps or not. So
//! the waker should know that somebody does.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;

use crate::primitive::{Scope, Word};

/// An event for which threads of one process sleep until it happens.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use kumiki_wait::EventCount;
///
/// static OPEN: AtomicBool = AtomicBool::new(false);
/// static EVENTS: EventCount = EventCount::new();
///
/// let enter = || loop {
///     let seen = EVENTS.look();
///     if OPEN.load(Ordering::Relaxed) {
///         break;
///     }
///     EVENTS.sleep(seen, None);
/// };
/// std::thread::scope(|threads| {
///     (0..3).for_each(|_| drop(threads.spawn(enter)));
///     OPEN.store(true, Ordering::Relaxed);
///     EVENTS.notify(u32::MAX);
/// });
/// ```
#[derive(Debug)]
pub struct EventCount(Word);

impl EventCount {
    /// Nothing has happened.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        EventCount(Word::new(0))
    }

    /// Nothing has happened.
    #[cfg(loom)]
    pub fn new() -> Self {
        EventCount(Word::new(0))
    }

    /// The number of events so far, modulo 2³². Check the condition after this, and
    /// [sleep](Self::sleep) if it does not hold.
    #[inline]
    pub fn look(&self) -> u32 {
        // Partner: `notify`.
        self.0.load(Acquire)
    }

    /// Sleeps unless an event has happened since `seen`; returns whether `until` has
    /// passed. May wake spuriously.
    ///
    /// A sleeper that is held up for exactly 2³² events misses them.
    pub fn sleep(&self, seen: u32, until: Option<Instant>) -> bool {
        self.0.wait(seen, Scope::Private, until)
    }

    /// Counts an event, and wakes up to `count` sleepers, the longest asleep first.
    pub fn notify(&self, count: u32) {
        // Partner: `look`.
        self.0.fetch_add(1, Release);
        // The kernel takes a signed number.
        self.0.wake(count.min(i32::MAX as u32), Scope::Private);
    }
}

impl Default for EventCount {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_who_has_looked_before_does_not_sleep() {
        let events = EventCount::new();
        let seen = events.look();
        events.notify(1);
        assert!(!events.sleep(seen, None), "it has happened");
        let soon = Instant::now() + Duration::from_millis(2);
        while !events.sleep(events.look(), Some(soon)) {}
        assert!(Instant::now() >= soon);
    }

    #[test]
    fn all_who_sleep_are_woken_at_once() {
        let events = EventCount::new();
        std::thread::scope(|threads| {
            let events = &events;
            let seen = events.look();
            let sleep = move || {
                while events.look() == seen {
                    events.sleep(seen, None);
                }
            };
            let sleepers: Vec<_> = (0..8).map(|_| threads.spawn(sleep)).collect();
            std::thread::sleep(Duration::from_millis(5));
            events.notify(u32::MAX);
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
    }
}
