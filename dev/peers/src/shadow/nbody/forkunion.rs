//! forkunion, with main as one of the two threads of its pool.

use anyhow::Result;
use forkunion::{CallerExclusivity, ThreadPool};

use super::Loops;
use crate::pair::Pair;
use crate::shadow::fork::forkunion::pool;

/// A slice for each thread, which its documentation advises for tasks of one length.
pub(crate) struct Static(ThreadPool);

/// Tasks one by one, for whoever is done.
pub(crate) struct Dynamic(ThreadPool);

fn both(pair: Pair) -> Result<ThreadPool> {
    let pool = pool(pair, 2, CallerExclusivity::Inclusive)?;
    pair.bind_main()?;
    Ok(pool)
}

impl Static {
    /// Starts the other thread.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(Static(both(pair)?))
    }
}

impl Dynamic {
    /// Starts the other thread.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(Dynamic(both(pair)?))
    }
}

impl Loops for Static {
    #[inline]
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        // It is the drop that runs and joins.
        drop(self.0.for_slices(n, |first, count| {
            (first.task_index..first.task_index + count).for_each(&task);
        }));
    }
}

impl Loops for Dynamic {
    #[inline]
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        drop(self.0.for_n_dynamic(n, |prong| task(prong.task_index)));
    }
}
