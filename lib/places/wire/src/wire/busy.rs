//! The share of its time for which a place answers requests.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::wire::beat::BEAT;

/// Time over which a share is taken, at least.
const WINDOW: Duration = BEAT;

/// Time spent on requests, since a while.
#[derive(Debug)]
pub struct Busy {
    window: Mutex<Window>,
    /// Clients with a connection of their own.
    direct: AtomicU64,
}

/// A client with a connection of its own, as long as it is there.
#[derive(Debug)]
pub struct Connected<'a>(&'a AtomicU64);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Counts of what a place has done since it was served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The place's name, for all.
    pub place: String,
    /// Messages of callers that were answered, or begun and left to a thread of their own.
    pub messages: u64,
    /// Time that this took its thread.
    pub busy: Duration,
    /// Clients that have a connection of their own now, beside the NATS server.
    pub direct: u64,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    busy: Duration,
    /// Number of times that something was added, and their sum, since it began.
    all: (u64, Duration),
    /// Share of the window before, thousandths; none before the first has ended.
    last: Option<u16>,
}

impl Busy {
    pub fn new(now: Instant) -> Busy {
        let all = (0, Duration::ZERO);
        let window = Window { since: now, busy: Duration::ZERO, all, last: None };
        Busy { window: Mutex::new(window), direct: AtomicU64::new(0) }
    }

    /// A client has a connection of its own.
    pub fn connected(&self) -> Connected<'_> {
        self.direct.fetch_add(1, Relaxed);
        Connected(&self.direct)
    }

    fn window(&self, now: Instant) -> MutexGuard<'_, Window> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = now.saturating_duration_since(window.since);
        if whole >= WINDOW {
            let last = Some(share(window.busy, whole));
            *window = Window { since: now, busy: Duration::ZERO, all: window.all, last };
        }
        window
    }

    /// A request was answered that was begun at `begin`.
    pub fn add(&self, begin: Instant, now: Instant) {
        let span = now.saturating_duration_since(begin);
        let mut window = self.window(begin);
        window.busy += span;
        window.all = (window.all.0 + 1, window.all.1 + span);
    }

    /// All of it, of the place of this name.
    pub fn figures(&self, place: &str) -> Figures {
        let (messages, busy) = self.window.lock().unwrap_or_else(PoisonError::into_inner).all;
        let direct = self.direct.load(Relaxed);
        Figures { place: place.to_owned(), messages, busy, direct }
    }

    /// The share, in thousandths: of the last window, which ends no later than when this is asked and has
    /// two seconds or more, as long as nothing was asked or told.
    pub fn permille(&self, now: Instant) -> u16 {
        let window = self.window(now);
        let begun = share(window.busy, now.saturating_duration_since(window.since));
        window.last.unwrap_or(begun)
    }
}

/// A share of a time, in thousandths.
fn share(part: Duration, whole: Duration) -> u16 {
    let permille = part.as_nanos() * 1000 / whole.as_nanos().max(1);
    u16::try_from(permille.min(1000)).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_a_whole() {
        let share_of =
            |part, whole| share(Duration::from_millis(part), Duration::from_millis(whole));
        assert_eq!((share_of(1, 2000), share_of(500, 2000)), (0, 250));
        assert_eq!((share_of(5, 0), share_of(3000, 2000)), (1000, 1000));
    }

    #[test]
    fn the_last_window_is_told_and_idleness_ends_it() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let busy = Busy::new(begin);
        busy.add(at(0), at(500));
        assert_eq!(busy.permille(at(1000)), 500);
        // A request of the next window ends this one: a quarter of it was busy.
        busy.add(at(2000), at(3000));
        assert_eq!(busy.permille(at(3000)), 250);
        assert_eq!(busy.permille(at(4000)), 500);
        let all = busy.figures("a");
        assert_eq!((all.messages, all.busy), (2, Duration::from_millis(1500)), "{all:?}");
        // Nobody has asked for anything since.
        assert_eq!(busy.permille(at(14_000)), 0);
    }
}
