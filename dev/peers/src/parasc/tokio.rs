//! tokio's threads for blocking calls.

use anyhow::Result;
use kumiki_parasc::Request;
use tokio::runtime::{Builder, Runtime};

use super::Execute;
use super::share::Share;
use super::work::Work;
use crate::pair::Pair;

/// `spawn_blocking` on a multi-threaded runtime. As its documentation advises,
/// a task has many calls (`tokio::fs`, "Tuning your file IO"): one task for
/// each cpu, but one for each call if the calls sleep.
pub(crate) struct Tokio {
    runtime: Runtime,
    sleeps: bool,
}

impl Tokio {
    /// Starts the runtime.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        // Threads for blocking calls are made when they are needed, by a main
        // that is bound.
        let free = move || pair.bind_both().expect("the cpus were free to use a moment ago");
        let runtime =
            Builder::new_multi_thread().worker_threads(1).on_thread_start(free).build()?;
        Ok(Tokio { runtime, sleeps: false })
    }
}

impl Execute for Tokio {
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        let shares = if self.sleeps { requests.len() } else { 2 };
        let tasks = Share::cut(requests, results, shares).map(|share| {
            // SAFETY: the caller's promise, and all tasks are awaited below.
            self.runtime.spawn_blocking(|| unsafe { share.execute() })
        });
        let tasks: Vec<_> = tasks.collect();
        self.runtime.block_on(async {
            for task in tasks {
                task.await.expect("calls do not panic");
            }
        });
    }

    fn expect(&mut self, work: &Work) -> Result<()> {
        self.sleeps = work.kind().sleeps();
        Ok(())
    }
}
