//! Forked copies of this process: one thread, the same memory, bound to the
//! same cpus.
//!
//! Two kinds of case need one. The other end of a pair runs in it; and what
//! another thread of the measuring process could disturb or be harmed by
//! (moving the program break, unmapping and remapping a fixed range) is safe
//! where there is no other thread.

use std::io;

use nix::sys::signal::SigSet;
use nix::unistd::ForkResult;
use rustix::io::Errno;
use rustix::mm::MapFlags;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::mapping::{Mapping, PAGE_BYTES};
use super::signal::mask::Mask;
use crate::error::{Error, Result};
use crate::meter::{Meter, Sample};
use crate::schema::CpuTime;

/// Exit status of a child whose error carries no `errno`; above all of Linux's.
const NO_ERRNO: i32 = 255;

/// A running child, killed and waited for on drop.
pub(super) struct Child {
    pid: Pid,
    waited: bool,
}

impl Child {
    /// Forks. The child runs `body` with every signal blocked and exits with
    /// what it returns; it dies with the calling thread.
    ///
    /// The child has a copy of one thread only, so a lock that another thread
    /// held at this moment is never released in it: `body` makes system calls
    /// and computes, and neither allocates nor prints.
    pub(super) fn fork(body: impl FnOnce() -> i32) -> Result<Self> {
        let parent = rustix::process::getpid();
        // A handler of the parent (for Ctrl-C, say) must not run in the child.
        let _blocked = Mask::block(&SigSet::all())?;
        // SAFETY: the child runs only `body` (async-signal-safe, see above)
        // and leaves by `_exit`, so it touches no lock of another thread.
        match unsafe { nix::unistd::fork() }.map_err(|e| Error::os("fork", e))? {
            ForkResult::Parent { child } => {
                let pid = Pid::from_raw(child.as_raw()).expect("fork returns a positive pid");
                Ok(Child { pid, waited: false })
            }
            ForkResult::Child => {
                let guard = ExitOnUnwind;
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                // The parent may have died before it could be watched.
                let orphan = rustix::process::getppid() != Some(parent);
                let status = if orphan { NO_ERRNO } else { body() };
                std::mem::forget(guard);
                exit(status)
            }
        }
    }

    /// Its process id.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for its end.
    pub(super) fn wait(mut self) -> Result<WaitStatus> {
        self.waited = true;
        wait(self.pid).map_err(|e| Error::os(format!("wait for child {}", self.pid), e))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.waited {
            let _ = rustix::process::kill_process(self.pid, Signal::KILL);
            let _ = wait(self.pid);
        }
    }
}

fn wait(pid: Pid) -> Result<WaitStatus, Errno> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Ends a child that panics before the panic reaches the parent's code.
struct ExitOnUnwind;

impl Drop for ExitOnUnwind {
    fn drop(&mut self) {
        exit(NO_ERRNO)
    }
}

fn exit(status: i32) -> ! {
    // SAFETY: `_exit` has no preconditions; it runs no handler of the parent.
    unsafe { libc::_exit(status) }
}

/// Takes one sample in a child made for it. `body` is bound by the rules of
/// [`Child::fork`]; its errors come back as their `errno`, said of `what`.
pub(super) fn sample_in_child(
    what: &str,
    meter: &Meter,
    body: impl FnOnce(&Meter) -> Result<Sample>,
) -> Result<Sample> {
    let shared = Mapping::anonymous(PAGE_BYTES, MapFlags::SHARED)?;
    let report = shared.start().cast::<Sample>();
    let child = Child::fork(|| match body(meter) {
        Ok(sample) => {
            // SAFETY: `report` is the start of a shared, writable page, large
            // and aligned enough; the parent reads only after the child's end.
            unsafe { report.write(sample) };
            0
        }
        Err(Error::Os { source, .. }) => source.raw_os_error().unwrap_or(NO_ERRNO),
        Err(_) => NO_ERRNO,
    })?;
    let status = child.wait()?;
    match status.exit_status() {
        Some(0) => {
            // SAFETY: the child wrote a whole `Sample` before it exited with 0,
            // and it is gone.
            let sample = unsafe { report.read() };
            // Seen from the measuring process it is a child's time.
            let children_ns = sample.cpu.total_ns();
            Ok(Sample { cpu: CpuTime { children_ns, ..CpuTime::default() }, ..sample })
        }
        Some(NO_ERRNO) | None => {
            Err(Error::Program { program: what.to_owned(), what: format!("ended with {status:?}") })
        }
        Some(errno) => Err(Error::os(what, io::Error::from_raw_os_error(errno))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kumiki_sys::clock::Clock;

    use super::*;

    fn meter() -> Meter {
        Meter::new(Clock::calibrate(Duration::from_millis(1)))
    }

    #[test]
    fn a_sample_comes_back_from_the_child() {
        let here = rustix::process::getpid();
        let sample = sample_in_child("test", &meter(), |_| {
            let elsewhere = rustix::process::getpid() != here;
            let cpu = CpuTime { user_ns: 1.0, system_ns: 2.0, children_ns: 4.0 };
            Ok(Sample { wall_ns: if elsewhere { 42.0 } else { 0.0 }, cpu })
        });
        let sample = sample.unwrap();
        assert_eq!(sample.wall_ns, 42.0);
        assert_eq!(sample.cpu, CpuTime { children_ns: 7.0, ..CpuTime::default() });
    }

    #[test]
    fn the_childs_errno_comes_back() {
        let error =
            sample_in_child("the thing", &meter(), |_| Err(Error::os(String::new(), Errno::NOMEM)));
        let error = error.unwrap_err();
        assert!(error.to_string().starts_with("the thing: Cannot allocate"), "{error}");
    }

    #[test]
    fn a_dead_child_is_an_error_and_not_a_sample() {
        let error = sample_in_child("the thing", &meter(), |_| {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, Signal::KILL).unwrap();
            Ok(Sample::default())
        });
        assert!(matches!(error, Err(Error::Program { .. })), "{error:?}");
    }

    #[test]
    fn dropping_ends_the_child() {
        let child = Child::fork(|| {
            loop {
                std::hint::spin_loop();
            }
        });
        let pid = child.unwrap().pid();
        assert_eq!(rustix::process::test_kill_process(pid), Err(Errno::SRCH));
    }
}
