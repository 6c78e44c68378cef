//! Pauses before a node is started again.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Time after which a node that was up counts as not having crashed at once.
const STEADY: Duration = Duration::from_secs(60);

/// Pause before the next start, by the course so far.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Starts that did not last, one after the other.
    in_a_row: u32,
    up_since: Option<Instant>,
}

impl Backoff {
    /// Notes that it answers from `now` on.
    pub(super) fn up(&mut self, now: Instant) {
        self.up_since = Some(now);
    }

    /// Notes that it is not up any more, or could not be started: the pause before the next start.
    pub(super) fn down(&mut self, now: Instant) -> Duration {
        if self.up_since.take().is_some_and(|since| now.duration_since(since) >= STEADY) {
            self.in_a_row = 0;
        }
        let pause = FIRST.saturating_mul(1_u32.checked_shl(self.in_a_row).unwrap_or(u32::MAX));
        self.in_a_row = self.in_a_row.saturating_add(1).min(31);
        pause.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_begin_anew_after_a_steady_one() {
        let (mut backoff, begin) = (Backoff::default(), Instant::now());
        let pauses: Vec<_> = (0..40).map(|_| backoff.down(begin).as_secs()).collect();
        assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(pauses[8..].iter().all(|&pause| pause == 60));
        backoff.up(begin);
        assert_eq!(backoff.down(begin + Duration::from_secs(59)).as_secs(), 60);
        backoff.up(begin);
        assert_eq!(backoff.down(begin + STEADY).as_secs(), 1);
        assert_eq!(backoff.down(begin + STEADY).as_secs(), 2);
    }
}
