//! Whether the module lets this process in: a filter stays, a tracer goes again.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::again::Again;

/// Answer of the module to the last request, and when to ask again.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    is: AtomicBool,
    again: Mutex<Option<Again>>,
}

impl Refusal {
    /// True if it is not worth while to ask: it has refused, and is not to be asked again yet.
    #[inline(always)]
    pub(super) fn holds(&self) -> bool {
        self.is.load(Relaxed) && self.holds_at(Instant::now())
    }

    #[cold]
    fn holds_at(&self, now: Instant) -> bool {
        // Another thread may have had it at fork(2): a child is never let in.
        let Ok(again) = self.again.try_lock() else { return true };
        !again.as_ref().is_some_and(|again| again.is_over(now))
    }

    /// Notes what the module has answered.
    #[inline(always)]
    pub(super) fn note(&self, refused: bool) {
        if refused || self.is.load(Relaxed) {
            self.note_at(refused, Instant::now());
        }
    }

    #[cold]
    fn note_at(&self, refused: bool, now: Instant) {
        let Ok(mut again) = self.again.try_lock() else { return };
        match &mut *again {
            // Of several that have asked at once, the first.
            Some(again) if refused => _ = again.is_due(now),
            again => *again = refused.then(|| Again::after(now)),
        }
        self.is.store(refused, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::again::FIRST;

    #[test]
    fn who_has_refused_is_asked_again_ever_more_rarely_until_it_answers() {
        let (refusal, start) = (Refusal::default(), Instant::now());
        assert!(!refusal.holds());
        refusal.note_at(true, start);
        assert!(refusal.holds() && refusal.holds_at(start + FIRST / 2));
        let mut now = start + FIRST;
        for pause in [2, 4, 8, 16, 32, 64, 64] {
            assert!(!refusal.holds_at(now) && !refusal.holds_at(now));
            refusal.note_at(true, now);
            refusal.note_at(true, now);
            assert!(refusal.holds_at(now));
            now += Duration::from_secs(pause);
        }
        assert!(!refusal.holds_at(now));
        refusal.note(false);
        assert!(!refusal.holds());
        // The next time begins anew.
        refusal.note_at(true, now);
        assert!(!refusal.holds_at(now + FIRST));
    }
}
