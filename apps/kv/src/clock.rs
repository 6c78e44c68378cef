//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; a clock that stands before is at their beginning.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // From one on: nought is never.
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX / 4).clamp(1, u64::MAX / 4)
}
