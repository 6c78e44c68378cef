//! A user-level thread: a context of the C library (makecontext(3)) on a stack of
//! its own, which the kernel knows nothing of. For the MPC++ of Table 1.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::{io, mem};

use kumiki_measure::{Error, Result};
use kumiki_sys::shm::{Anon, Huge, Populate};
use libc::ucontext_t;

/// Bytes of the stack, which is also that of a signal handler that comes meanwhile: its frame has
/// all registers, some 11 KiB with AMX.
const STACK_BYTES: usize = 64 << 10;

/// One after the other on the same stack, as a library keeps stacks for reuse.
pub(super) struct UserThread {
    stack: Anon,
    starter: ucontext_t,
    thread: ucontext_t,
}

impl UserThread {
    pub(super) fn new() -> Result<Self> {
        let stack = Anon::new(STACK_BYTES, Huge::Never, Populate::Now)?;
        // SAFETY: it consists of integers and of pointers that may be null.
        let blank = || unsafe { mem::zeroed() };
        Ok(UserThread { stack, starter: blank(), thread: blank() })
    }

    /// Forks a thread that does nothing, and joins it.
    #[inline]
    pub(super) fn null(&mut self) -> Result<()> {
        // SAFETY: it needs no stack but for its return address.
        unsafe { self.fork_join(nothing) }
    }

    /// Makes a thread, switches to it, and is back when `job` has returned.
    ///
    /// # Safety
    /// `job` makes do with the stack: below it there is no guard page.
    #[inline]
    unsafe fn fork_join(&mut self, job: extern "C" fn()) -> Result<()> {
        let UserThread { stack, starter, thread } = self;
        let (starter, thread) = (&raw mut *starter, &raw mut *thread);
        // SAFETY: writable, and nobody switches to what it saves: that is
        // overwritten below, so this returns once.
        done("getcontext", unsafe { libc::getcontext(thread) })?;
        // SAFETY: borrowed by this function alone.
        let made = unsafe { &mut *thread };
        made.uc_stack.ss_sp = stack.as_ptr().cast();
        made.uc_stack.ss_size = stack.len();
        // Where its end switches to.
        made.uc_link = starter;
        // SAFETY: initialised by getcontext; the stack is mapped, writable, as long
        // as said, and of no thread that has not ended; `job` takes no arguments.
        unsafe { libc::makecontext(thread, job, 0) };
        // SAFETY: `thread` was made above for this very thread of the kernel. It
        // ends by switching to `starter`, saved here, so this returns once, and
        // until then nobody moves either. `job` has the stack that it needs (the
        // caller's promise) and does not unwind from it, being `extern "C"`.
        done("swapcontext", unsafe { libc::swapcontext(starter, thread) })
    }
}

extern "C" fn nothing() {}

fn done(call: &str, outcome: c_int) -> Result<()> {
    if outcome == 0 { Ok(()) } else { Err(Error::os(call, io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kumiki_sys::affinity;
    use rustix::thread::sched_getcpu;

    use super::*;

    thread_local! {
        /// Number of jobs this thread of the kernel has run, the last one's cpu, and
        /// an address on its stack.
        static SEEN: Cell<(usize, usize, usize)> = const { Cell::new((0, 0, 0)) };
    }

    extern "C" fn look() {
        let on_stack = 0_u8;
        let address = (&raw const on_stack).addr();
        SEEN.set((SEEN.get().0 + 1, sched_getcpu(), address));
    }

    #[test]
    fn each_runs_its_job_once_on_this_cpu_and_a_stack_of_its_own() {
        for cpu in affinity::current().unwrap().iter() {
            let _bound = affinity::bind(cpu).unwrap();
            let mut thread = UserThread::new().unwrap();
            let bottom = thread.stack.as_ptr().addr();
            SEEN.set((0, usize::MAX, 0));
            for jobs in 1..=100 {
                // SAFETY: two calls deep, far less than the stack.
                unsafe { thread.fork_join(look) }.unwrap();
                let (seen, on, address) = SEEN.get();
                assert_eq!((seen, on), (jobs, cpu));
                assert!(address.wrapping_sub(bottom) < STACK_BYTES);
            }
            thread.null().unwrap();
            assert_eq!(SEEN.get().0, 100);
        }
    }
}
