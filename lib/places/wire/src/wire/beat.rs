//! A place's signs of life, by which it is seen that it is there and how busy it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Prefix of a place's name in the subject of its beats.
pub const BEATS: &str = "kumiki.beat.";
/// Interval between two beats of a place.
pub const BEAT: Duration = Duration::from_secs(2);

/// A sign of life of a place.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Beat {
    pub life: u64,
    /// Time that it has served, ms: no two machines' clocks are compared.
    pub age_ms: u64,
    /// Number of the last message with changes of names.
    #[serde(default)]
    pub changes: u64,
    /// Share of the time since the beat before, or nearly, for which it answered requests.
    #[serde(default)]
    pub busy_permille: u16,
}
