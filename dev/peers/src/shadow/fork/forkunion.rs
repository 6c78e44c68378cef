//! forkunion, in the form that its documentation has for work of main's own beside that
//! of the pool: main coordinates only (`Exclusive`), so that the one worker gets every
//! job as soon as it is handed out.

use anyhow::{Result, anyhow};
use forkunion::{CallerExclusivity, ThreadPool, Topology};

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::lend;
use crate::stopwatch::Stopwatch;

/// A pool of one worker.
pub(crate) struct ForkUnion {
    pool: ThreadPool,
}

/// A pool of so many threads, which spin by the best instruction of this processor as
/// they do by default. It pins them to the cpus that its maker may use: all that are
/// its own to the helper's. Main, if it is one of them, is to go back to its cpu.
pub(crate) fn pool(pair: Pair, threads: usize, caller: CallerExclusivity) -> Result<ThreadPool> {
    let make = || {
        let topology = Topology::new()?;
        ThreadPool::try_spawn_with_exclusivity(&topology, threads, caller)
    };
    pair.on_helper(make)?.map_err(|error| anyhow!("forkunion's pool: {error}"))
}

impl ForkUnion {
    /// Starts the worker.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(ForkUnion { pool: pool(pair, 1, CallerExclusivity::Exclusive)? })
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
            let run = |_, _| unsafe { job.run() };
            let mut operation = self.pool.for_threads(&run);
            let a = main();
            operation.join();
            a
        })
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        let start = watch.clock().start();
        let mut operation = self.pool.for_threads(&|_, _| ());
        let end = watch.clock().end();
        operation.join();
        Some(watch.ns(start, end))
    }
}
