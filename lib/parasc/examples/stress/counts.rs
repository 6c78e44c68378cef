//! What has been done, over all threads.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::available_parallelism;

use kumiki_parasc::Error;

use super::kind::KINDS;
use super::round::{BACKENDS, Drawn};

#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Requests whose answers have been checked.
    pub(crate) requests: AtomicU64,
    /// The same by kind.
    pub(crate) kinds: [AtomicU64; KINDS.len()],
    /// Those of batches that have told that another thread has made them.
    pub(crate) others: AtomicU64,
    pub(crate) batches: AtomicU64,
    /// Requests that were submitted one by one and awaited …
    pub(crate) awaited: AtomicU64,
    /// … taken back before anybody had begun them …
    pub(crate) taken_back: AtomicU64,
    /// … or dropped before they had ended.
    pub(crate) dropped: AtomicU64,
    /// Requests that were placed by hand.
    pub(crate) by_hand: AtomicU64,
    /// Requests of both sorts that a shut-down engine has not made.
    pub(crate) not_made: AtomicU64,
    /// Requests whose effect was found to be there, once.
    pub(crate) effects: AtomicU64,
    /// Batches and requests that an allow-list has refused.
    pub(crate) refused: AtomicU64,
    /// Signals that were sent …
    pub(crate) signals: AtomicU64,
    /// … and requests that one has interrupted.
    pub(crate) interrupted: AtomicU64,
    /// Threads of the program that have processed requests …
    pub(crate) processors: AtomicU64,
    /// … and were cancelled in the middle.
    pub(crate) cancelled: AtomicU64,
    /// Lanes that have changed hands.
    pub(crate) lanes: AtomicU64,
    /// Engines that were shut down in the middle.
    pub(crate) engines: AtomicU64,
    /// The most threads that an engine was seen with.
    pub(crate) threads: AtomicU64,
    /// What the engines were drawn to be.
    pub(crate) drawn: Drawn,
}

impl Counts {
    /// What a run has to have some of, but had none of so far. A fast machine makes a million requests before it has
    /// drawn an engine of each sort, so that a run goes on until it has.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut had = vec![
            ("effects", &self.effects),
            ("engines shut down", &self.engines),
            ("awaited", &self.awaited),
            ("taken back", &self.taken_back),
            ("dropped", &self.dropped),
            ("placed by hand", &self.by_hand),
            ("refused", &self.refused),
            ("signals", &self.signals),
            ("processing threads", &self.processors),
            ("cancelled", &self.cancelled),
        ];
        // With one cpu hardly any batch is worth another thread.
        if available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
            had.push(("made by another thread", &self.others));
        }
        let none = |count: &AtomicU64| count.load(Relaxed) == 0;
        let had = had.into_iter().filter(|(_, count)| none(count)).map(|(what, _)| what.to_owned());
        let kinds = KINDS.iter().zip(&self.kinds).filter(|(_, count)| none(count));
        had.chain(kinds.map(|(kind, _)| format!("{kind:?}"))).collect()
    }

    /// Whether what was asked for in vain has ended as it must: its request `at` is
    /// not on the allow-list.
    pub(crate) fn refused<T>(&self, ended: Result<T, Error>, at: usize) -> Result<(), String> {
        match ended {
            Err(Error::NotAllowed { index, .. }) if index == at => {
                self.refused.fetch_add(1, Relaxed);
                Ok(())
            }
            Err(error) => Err(format!("request {at} is not allowed: {error}")),
            Ok(_) => Err(format!("request {at} is not allowed, and nobody says so")),
        }
    }
}

/// A line each.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |count: &AtomicU64, what: &dyn fmt::Display| {
            writeln!(f, "  {:>12} {what}", count.load(Relaxed))
        };
        for (kind, count) in KINDS.iter().zip(&self.kinds) {
            line(count, &format_args!("{kind:?}"))?;
        }
        for (count, what) in [
            (&self.effects, "effects found, once each"),
            (&self.others, "of Gettid made by another thread than the one that asked"),
            (&self.batches, "batches"),
            (&self.awaited, "submitted one by one and awaited"),
            (&self.taken_back, "taken back"),
            (&self.dropped, "dropped"),
            (&self.by_hand, "placed by hand"),
            (&self.not_made, "not made by an engine that was shut down"),
            (&self.refused, "refused by an allow-list, batches and requests"),
            (&self.signals, "signals"),
            (&self.interrupted, "interrupted by one"),
            (&self.processors, "processing threads of the program"),
            (&self.cancelled, "of them cancelled"),
            (&self.lanes, "lanes changed hands"),
            (&self.engines, "engines shut down in the middle"),
            (&self.threads, "threads of an engine, at most"),
        ] {
            line(count, &what)?;
        }
        for (backend, count) in BACKENDS.iter().zip(&self.drawn.backends) {
            line(count, &format_args!("engines with backend {backend}"))?;
        }
        line(&self.drawn.narrow, &"engines with an allow-list")?;
        line(&self.drawn.left_to_others, &"engines that leave all calls to others")?;
        line(&self.drawn.rainy, &"engines under signals")?;
        line(&self.drawn.few, &"engines for one or two threads at a time")
    }
}
