//! Time limits of calls.

use std::time::{Duration, Instant};

/// When a limit is over.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// `None`: past the end of the clock.
    at: Option<Instant>,
    timeout: Duration,
}

impl Deadline {
    /// No limit.
    pub const NEVER: Deadline = Deadline { at: None, timeout: Duration::MAX };

    /// So much from now; a time beyond what the clock can say is no limit.
    pub fn after(timeout: Duration) -> Self {
        Deadline { at: Instant::now().checked_add(timeout), timeout }
    }

    /// The moment; `None` without a limit.
    pub fn at(self) -> Option<Instant> {
        self.at
    }

    /// The limit that was given.
    pub fn timeout(self) -> Duration {
        self.timeout
    }

    /// Whether it is over.
    #[inline]
    pub fn passed(self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }
}
