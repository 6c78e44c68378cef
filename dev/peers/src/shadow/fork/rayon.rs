//! rayon, with main as one of the two workers of its pool.

use anyhow::Result;
use rayon::ThreadPool;

use super::Fork;
use crate::pair::Pair;
use crate::stopwatch::Stopwatch;

/// A pool of the calling thread and one on the helper's cpu.
pub(crate) fn pool(pair: Pair) -> Result<ThreadPool> {
    // The first worker is the calling thread, which is bound already.
    let bind = move |worker| {
        if worker > 0 {
            pair.bind_helper().expect("the cpu was free to use a moment ago");
        }
    };
    let builder = rayon::ThreadPoolBuilder::new().num_threads(2).use_current_thread();
    Ok(builder.start_handler(bind).build()?)
}

/// `rayon::join`.
pub(crate) struct RayonJoin {
    _pool: ThreadPool,
}

impl RayonJoin {
    /// Makes the calling thread a worker.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(RayonJoin { _pool: pool(pair)? })
    }
}

impl Fork for RayonJoin {
    fn split<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        rayon::join(main, other)
    }
}

/// `rayon::scope` with one `spawn`.
pub(crate) struct RayonScope {
    _pool: ThreadPool,
}

impl RayonScope {
    /// Makes the calling thread a worker.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(RayonScope { _pool: pool(pair)? })
    }
}

impl Fork for RayonScope {
    fn split<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let mut result = None;
        let a = rayon::scope(|scope| {
            scope.spawn(|_| result = Some(other()));
            main()
        });
        (a, result.expect("the scope ends after its jobs"))
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        Some(rayon::scope(|scope| {
            let start = watch.clock().start();
            scope.spawn(|_| ());
            let end = watch.clock().end();
            watch.ns(start, end)
        }))
    }
}
