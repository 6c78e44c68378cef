//! How long a client's commands run before others have their turn.
//!
//! Most commands take less than a microsecond, and what comes whole is run whole. But one that makes
//! room may move entries first, and a client that sends many of those in one go would have its worker
//! for minutes, and each worker that waits for an answer of that one.

use std::time::{Duration, Instant};

/// Time after which others have their turn.
const LONGEST: Duration = Duration::from_millis(2);
/// Commands between two looks at the clock.
const BETWEEN: u32 = 8;

/// Time that commands run in one go.
#[derive(Debug)]
pub(crate) struct Spell {
    end: Instant,
    /// Commands up to the next look.
    left: u32,
}

impl Spell {
    pub(crate) fn begin() -> Spell {
        Spell { end: Instant::now() + LONGEST, left: BETWEEN }
    }

    /// True if others have their turn, by a look at the clock.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// True if others have their turn, now that one more command has been run.
    #[inline]
    pub(crate) fn is_over_after(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = BETWEEN;
        self.is_over()
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn it_is_over_at_the_first_look_after_its_time() {
        let mut spell = Spell::begin();
        sleep(2 * LONGEST);
        assert!(spell.is_over());
        let ran = (1..=2 * BETWEEN).filter(|_| spell.is_over_after()).count();
        assert_eq!(ran, 2);
    }
}
