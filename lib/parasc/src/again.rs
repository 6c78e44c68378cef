//! When to ask again what has refused: after a second, then after twice as long each time, up
//! to a minute.

use std::time::{Duration, Instant};

/// Pause until it is asked again for the first time; twice that each time, …
pub(crate) const FIRST: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(64);

/// The time at which something that has refused is asked again.
#[derive(Debug)]
pub(crate) struct Again {
    at: Instant,
    pause: Duration,
}

impl Again {
    /// Makes the pause after a refusal just now.
    pub(crate) fn after(now: Instant) -> Self {
        Again { at: now + FIRST, pause: FIRST }
    }

    /// True if it is time.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.at
    }

    /// Takes the time, if it has come: the next one is further off.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.is_over(now);
        if is_due {
            self.pause = (self.pause * 2).min(LONGEST);
            self.at = now + self.pause;
        }
        is_due
    }
}
