//! fork_union, in the form that its documentation calls the fastest: main
//! coordinates only (`Exclusive`), so that the one worker gets every job and
//! no thread's callback runs twice.

use anyhow::{Result, anyhow};
use fork_union::{CallerExclusivity, ThreadPool};

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::lend;
use crate::stopwatch::Stopwatch;

/// A pool of one worker.
pub(crate) struct ForkUnion {
    pool: ThreadPool,
}

impl ForkUnion {
    /// Starts the worker. It inherits the cpu of its maker.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let make = || ThreadPool::try_spawn_with_exclusivity(1, CallerExclusivity::Exclusive);
        let pool = pair.on_helper(make)?.map_err(|e| anyhow!("fork_union's pool: {e}"))?;
        Ok(ForkUnion { pool })
    }
}

impl Fork for ForkUnion {
    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        lend(other, |job| {
            let job = &job;
            // SAFETY: there is one worker, so once; joined below.
            let mut operation = self.pool.for_threads(|_, _| unsafe { job.run() });
            operation.broadcast();
            let a = main();
            operation.join();
            a
        })
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        let mut operation = self.pool.for_threads(|_, _| ());
        let start = watch.clock().start();
        operation.broadcast();
        let end = watch.clock().end();
        operation.join();
        Some(watch.ns(start, end))
    }
}
