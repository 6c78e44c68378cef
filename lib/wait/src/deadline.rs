//! Time limits of calls.

use std::time::{Duration, Instant};

use crate::primitive::now;

/// The moment at which a time limit ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// `None`: past the end of the clock.
    at: Option<Instant>,
    timeout: Duration,
}

impl Deadline {
    /// No limit.
    pub const NEVER: Deadline = Deadline { at: None, timeout: Duration::MAX };

    /// `timeout` from now; a time beyond the clock's range is no limit.
    pub fn after(timeout: Duration) -> Self {
        Deadline { at: now().checked_add(timeout), timeout }
    }

    /// The moment; `None` without a limit.
    pub fn at(self) -> Option<Instant> {
        self.at
    }

    /// The limit that was given.
    pub fn timeout(self) -> Duration {
        self.timeout
    }

    /// True if the moment has passed.
    #[inline]
    pub fn passed(self) -> bool {
        self.at.is_some_and(|at| now() >= at)
    }
}
