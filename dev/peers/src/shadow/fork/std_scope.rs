//! `std::thread::scope`: a new thread for each job.

use anyhow::Result;

use super::Fork;
use crate::pair::Pair;
use crate::stopwatch::Stopwatch;

/// A thread of the standard library cannot be bound before it runs, and would
/// inherit main's cpu: so both run where the kernel likes, on the two cpus.
pub(crate) struct StdScope;

impl StdScope {
    /// Lets the calling thread use both cpus.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        pair.bind_both()?;
        Ok(StdScope)
    }
}

impl Fork for StdScope {
    const BOUND: bool = false;

    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        std::thread::scope(|scope| {
            let other = scope.spawn(other);
            (main(), other.join().expect("jobs do not panic"))
        })
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        std::thread::scope(|scope| {
            let start = watch.clock().start();
            scope.spawn(|| ());
            let end = watch.clock().end();
            Some(watch.ns(start, end))
        })
    }
}
