//! `crossbeam::thread::scope`: a new thread for each job.

use anyhow::Result;

use super::Fork;
use crate::pair::Pair;
use crate::stopwatch::Stopwatch;

/// On both cpus, for the reason that [`StdScope`](super::std_scope::StdScope) has.
pub(crate) struct CrossbeamScope;

impl CrossbeamScope {
    /// Lets the calling thread use both cpus.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        pair.bind_both()?;
        Ok(CrossbeamScope)
    }
}

impl Fork for CrossbeamScope {
    const BOUND: bool = false;

    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let outcome = crossbeam_utils::thread::scope(|scope| {
            let other = scope.spawn(|_| other());
            (main(), other.join().expect("jobs do not panic"))
        });
        outcome.expect("jobs do not panic")
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        let outcome = crossbeam_utils::thread::scope(|scope| {
            let start = watch.clock().start();
            scope.spawn(|_| ());
            let end = watch.clock().end();
            watch.ns(start, end)
        });
        outcome.ok()
    }
}
