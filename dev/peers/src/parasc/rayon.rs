//! A parallel iterator of rayon.

use anyhow::Result;
use kumiki_parasc::Request;
use kumiki_sys::syscall;
use rayon::ThreadPool;
use rayon::prelude::*;

use super::Execute;

/// `par_iter` in a pool of two.
pub(crate) struct Rayon {
    pool: ThreadPool,
}

impl Rayon {
    /// Starts the pool.
    pub(crate) fn new() -> Result<Self> {
        Ok(Rayon { pool: rayon::ThreadPoolBuilder::new().num_threads(2).build()? })
    }
}

impl Execute for Rayon {
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        self.pool.install(|| {
            requests.par_iter().zip(results).for_each(|(request, result)| {
                // SAFETY: the caller's promise.
                *result = unsafe { syscall::raw(request.sysnum.into(), request.args) };
            });
        });
    }
}
