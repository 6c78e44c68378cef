//! rayon, with main as one of the two workers of its pool.

use anyhow::Result;
use rayon::ThreadPool;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use super::Loops;
use crate::pair::Pair;
use crate::shadow::fork::rayon::pool;

/// A parallel iterator as it comes: divided as far as others ask for a part.
pub(crate) struct Divided {
    _pool: ThreadPool,
}

/// One that is told to divide once.
pub(crate) struct Halves {
    _pool: ThreadPool,
}

impl Divided {
    /// Makes the calling thread a worker.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(Divided { _pool: pool(pair)? })
    }
}

impl Halves {
    /// Makes the calling thread a worker.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(Halves { _pool: pool(pair)? })
    }
}

impl Loops for Divided {
    #[inline]
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        (0..n).into_par_iter().for_each(task);
    }
}

impl Loops for Halves {
    #[inline]
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        (0..n).into_par_iter().with_min_len(n / 2).for_each(task);
    }
}
