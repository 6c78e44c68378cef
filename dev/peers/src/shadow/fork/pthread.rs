//! `pthread_create` and `pthread_join` for each job.

use std::ffi::c_void;
use std::ptr::null_mut;

use anyhow::Result;
use kumiki_sys::pthread::{Attributes, Thread};

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::{Job, lend};
use crate::stopwatch::Stopwatch;

/// Attributes that bind each new thread to the helper's cpu.
pub(crate) struct Pthread {
    attributes: Attributes,
}

extern "C" fn start(job: *mut c_void) -> *mut c_void {
    // SAFETY: `create` passes a job that lives until this thread is joined.
    let job = unsafe { *job.cast::<Job>() };
    // SAFETY: once, and `lend` ends after the join.
    unsafe { job.run() };
    null_mut()
}

impl Pthread {
    /// For threads on the helper's cpu.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(Pthread { attributes: Attributes::bound_to(pair.helper)? })
    }

    /// The caller joins it while the job is lent.
    #[inline]
    fn create(&self, job: &Job) -> Thread {
        let data: *const Job = job;
        self.attributes.create(start, data.cast_mut().cast()).expect("a thread on the helper's cpu")
    }
}

fn join(thread: Thread) {
    thread.join().expect("the end of a thread");
}

impl Fork for Pthread {
    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        lend(other, |job| {
            let thread = self.create(&job);
            let a = main();
            join(thread);
            a
        })
    }

    fn fork_call(&mut self, watch: &Stopwatch) -> Option<f64> {
        let (ns, ()) = lend(
            || (),
            |job| {
                let start = watch.clock().start();
                let thread = self.create(&job);
                let end = watch.clock().end();
                join(thread);
                watch.ns(start, end)
            },
        );
        Some(ns)
    }
}
