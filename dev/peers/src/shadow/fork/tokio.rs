//! tokio: a task for each job, on a runtime with one worker.

use anyhow::Result;
use tokio::runtime::{Builder, Runtime};

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::lend;
use crate::stopwatch::Stopwatch;

/// Main is outside of the runtime and blocks on the task, as a program does
/// that hands work to it.
pub(crate) struct Tokio {
    runtime: Runtime,
}

impl Tokio {
    /// Starts the worker.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let bind = move || pair.bind_helper().expect("the cpu was free to use a moment ago");
        let runtime =
            Builder::new_multi_thread().worker_threads(1).on_thread_start(bind).build()?;
        Ok(Tokio { runtime })
    }
}

impl Fork for Tokio {
    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        // Tasks cannot borrow.
        lend(other, |job| {
            // SAFETY: once, and awaited below.
            let task = self.runtime.spawn(async move { unsafe { { job }.run() } });
            let a = main();
            self.runtime.block_on(task).expect("jobs do not panic");
            a
        })
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        let start = watch.clock().start();
        let task = self.runtime.spawn(async {});
        let end = watch.clock().end();
        self.runtime.block_on(task).expect("jobs do not panic");
        Some(watch.ns(start, end))
    }
}
