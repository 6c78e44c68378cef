//! A thread as the receiver of signals.

use rustix::io::Errno;

use super::SIGNAL;
use kumiki_measure::error::{Error, Result, last_errno};

/// One thread of one process.
#[derive(Clone, Copy)]
pub(super) struct SignalTarget {
    process: libc::pid_t,
    thread: libc::pid_t,
}

impl SignalTarget {
    /// The calling thread.
    pub(super) fn me() -> Self {
        SignalTarget {
            process: rustix::process::getpid().as_raw_pid(),
            thread: rustix::thread::gettid().as_raw_pid(),
        }
    }

    /// Sends it [`SIGNAL`] (`tgkill(2)`).
    #[inline]
    pub(super) fn signal(self) -> Result<()> {
        self.try_signal().map_err(|e| Error::os("tgkill", e))
    }

    /// Signals with an error that takes no memory, for a forked child.
    #[inline]
    pub(super) fn try_signal(self) -> Result<(), Errno> {
        let number = SIGNAL as libc::c_int;
        // SAFETY: takes three integers; the signal is one that the process of
        // this thread has arranged for.
        match unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, number) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Queues it [`SIGNAL`] with a value (`rt_tgsigqueueinfo(2)`, what
    /// `sigqueue(3)` is for one thread).
    #[inline]
    pub(super) fn queue(self) -> Result<()> {
        let number = SIGNAL as libc::c_int;
        // SAFETY: all-zero bytes are a valid `siginfo_t`, a union of integers
        // and addresses.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = number;
        info.si_code = libc::SI_QUEUE;
        let (call, info) = (libc::SYS_rt_tgsigqueueinfo, &raw const info);
        // SAFETY: three integers and a `siginfo_t` that the kernel reads; the
        // signal is one that the process of this thread has arranged for.
        match unsafe { libc::syscall(call, self.process, self.thread, number, info) } {
            0 => Ok(()),
            _ => Err(Error::last_os("rt_tgsigqueueinfo")),
        }
    }
}
