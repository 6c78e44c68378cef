//! A process for each further core: what the operating system itself allows, without memory
//! that they share.

// Forking, for which only who does it can vouch.
#![allow(unsafe_code)]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kumiki_measure::{Error, Result};

/// A child of this process that runs one function. It is ended when this is dropped, and
/// ends with this process.
pub(super) struct Forked(libc::pid_t);

impl Forked {
    /// Runs `work` in a child. It may allocate and make system calls; of the other threads of
    /// this process it has none, and their locks as they were.
    pub(super) fn start(work: impl FnOnce()) -> Result<Forked> {
        // SAFETY: the child uses what is its own and memory that is there to be shared, and
        // glibc gives it an allocator that works.
        match unsafe { libc::fork() } {
            -1 => Err(Error::os("start a process for a core", io::Error::last_os_error())),
            0 => {
                // SAFETY: changes this process alone.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let outcome = catch_unwind(AssertUnwindSafe(work));
                // SAFETY: ends this process, and runs nothing of the parent's.
                unsafe { libc::_exit(i32::from(outcome.is_err())) }
            }
            child => Ok(Forked(child)),
        }
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        // SAFETY: a child of ours, which nobody has waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: as above, and an integer of ours to write to.
        unsafe { libc::waitpid(self.0, &mut status, 0) };
    }
}
