//! `pthread_create` and `pthread_join` for each job.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use anyhow::Result;

use super::Fork;
use crate::pair::Pair;
use crate::shadow::job::{Job, lend};
use crate::stopwatch::Stopwatch;

/// Attributes that bind each new thread to the helper's cpu.
pub(crate) struct Pthread {
    attributes: libc::pthread_attr_t,
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
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: it initialises what the pointer is to; in glibc it cannot fail.
        unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
        // SAFETY: initialised by the line above.
        let mut attributes = unsafe { attributes.assume_init() };
        // SAFETY: all-zero bytes are the empty set.
        let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: panics for a cpu that the set cannot hold.
        unsafe { libc::CPU_SET(pair.helper, &mut cpus) };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: both are initialised and of the size given.
        let error = unsafe { libc::pthread_attr_setaffinity_np(&mut attributes, size, &cpus) };
        anyhow::ensure!(error == 0, "pthread_attr_setaffinity_np: error {error}");
        Ok(Pthread { attributes })
    }

    #[inline]
    fn create(&self, job: &Job) -> libc::pthread_t {
        let mut thread = MaybeUninit::uninit();
        let data: *const Job = job;
        // SAFETY: the attributes are initialised, and the job outlives the
        // thread because every caller joins it.
        let error = unsafe {
            libc::pthread_create(
                thread.as_mut_ptr(),
                &self.attributes,
                start,
                data.cast_mut().cast(),
            )
        };
        assert!(error == 0, "pthread_create: error {error}");
        // SAFETY: written by the successful call.
        unsafe { thread.assume_init() }
    }
}

fn join(thread: libc::pthread_t) {
    // SAFETY: the thread was created joinable and is joined once.
    let error = unsafe { libc::pthread_join(thread, null::<*mut c_void>().cast_mut()) };
    assert!(error == 0, "pthread_join: error {error}");
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
