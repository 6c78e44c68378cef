//! Forked copies of this process: one thread, the same memory, bound to the
//! same cpus.
//!
//! Two kinds of case need one. The other end of a pair runs in it; and what
//! another thread of the measuring process could disturb or be harmed by
//! (moving the program break, unmapping and remapping a fixed range) is safe
//! where there is no other thread.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use kumiki_sys::affinity;
use nix::sys::signal::SigSet;
use nix::time::ClockId;
use nix::unistd::ForkResult;
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getppid, kill_process,
    set_parent_process_death_signal, waitid, waitpid,
};

use super::shared::Shared;
use crate::mask::Mask;
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::schema::CpuTime;

/// Exit status of a child that panicked. Others are their `errno`, all below it.
const PANICKED: i32 = 255;

/// A child, killed and waited for on drop.
pub(super) struct Child {
    pid: Pid,
}

/// End of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its body returned.
    Done,
    /// Its body failed.
    Failed(Errno),
    /// Its body panicked.
    Panicked,
    /// This signal killed it.
    Killed(i32),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Done => f.write_str("ended before its time"),
            Ending::Failed(errno) => write!(f, "ended: {}", io::Error::from(*errno)),
            Ending::Panicked => f.write_str("panicked"),
            Ending::Killed(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}

impl Child {
    /// Forks. The child runs `body` with every signal blocked and then ends;
    /// it dies with the calling thread.
    ///
    /// The child has a copy of one thread only, so a lock that another thread
    /// held at this moment is never released in it: `body` makes system calls
    /// and computes, and neither allocates nor prints.
    pub(super) fn fork(body: impl FnOnce() -> Result<(), Errno>) -> Result<Self> {
        let parent = getpid();
        // A handler of the parent (for Ctrl-C, say) must not run in the child.
        let _blocked = Mask::block(&SigSet::all())?;
        // SAFETY: the child runs only `live` and in it `body` (async-signal-safe,
        // see above) and leaves by `_exit`, so it touches no lock of another thread.
        match unsafe { nix::unistd::fork() }.map_err(|e| Error::os("fork", e))? {
            ForkResult::Parent { child } => Ok(Child {
                pid: Pid::from_raw(child.as_raw()).expect("fork returns a positive pid"),
            }),
            ForkResult::Child => live(parent, body),
        }
    }

    /// Forks a child onto `cpu`, where it runs when this returns.
    pub(super) fn fork_on(cpu: usize, body: impl FnOnce() -> Result<(), Errno>) -> Result<Self> {
        let child = Child::fork(body)?;
        // By the parent, which may allocate and can say what is wrong.
        affinity::bind_thread(child.pid, cpu)?;
        Ok(child)
    }

    /// Its process id, its own until this is dropped.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns how the child ended; `None` while it lives.
    pub(super) fn ended(&self) -> Result<Option<Ending>> {
        self.ending(WaitIdOptions::NOHANG)
    }

    /// Waits for its end.
    pub(super) fn wait(&self) -> Result<Ending> {
        loop {
            if let Some(ending) = self.ending(WaitIdOptions::empty())? {
                return Ok(ending);
            }
        }
    }

    fn ending(&self, options: WaitIdOptions) -> Result<Option<Ending>> {
        // It is left to be reaped by Drop, so that nobody else gets its id.
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = retry_on_intr(|| waitid(WaitId::Pid(self.pid), options))
            .map_err(|e| Error::os(format!("wait for child {}", self.pid), e))?;
        Ok(status.map(|status| match status.exit_status() {
            Some(0) => Ending::Done,
            Some(PANICKED) => Ending::Panicked,
            Some(errno) => Ending::Failed(Errno::from_raw_os_error(errno)),
            None => Ending::Killed(status.terminating_signal().unwrap_or(0)),
        }))
    }

    /// Processor time that it has used, nanoseconds. Exact for a child that
    /// sleeps; of one that runs, the kernel knows it as of its last tick
    /// (`thread_group_cputime`, kernel/sched/cputime.c), which evens out over
    /// many samples.
    fn cpu_ns(&self) -> Result<f64> {
        let pid = nix::unistd::Pid::from_raw(self.pid.as_raw_pid());
        let time = ClockId::pid_cpu_clock_id(pid)
            .and_then(ClockId::now)
            .map_err(|e| Error::os(format!("read the processor time of child {pid}"), e))?;
        Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
    }
}

impl AsRef<Child> for Child {
    fn as_ref(&self) -> &Child {
        self
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It has not been waited for, so the id is still its own. It can only
        // fail if somebody else has reaped it, and then all is done.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
    }
}

/// A child's whole life.
fn live(parent: Pid, body: impl FnOnce() -> Result<(), Errno>) -> ! {
    struct ExitOnUnwind;
    impl Drop for ExitOnUnwind {
        fn drop(&mut self) {
            exit(PANICKED)
        }
    }
    // A panic must not unwind into the copy of the parent's code.
    let _guard = ExitOnUnwind;
    let outcome = set_parent_process_death_signal(Some(Signal::KILL)).and_then(|()| {
        // The parent may have died before the kernel knew that this matters.
        if getppid() == Some(parent) { body() } else { Err(Errno::SRCH) }
    });
    exit(outcome.err().map_or(0, Errno::raw_os_error))
}

fn exit(status: i32) -> ! {
    // SAFETY: `_exit` has no preconditions; it runs no handler of the parent.
    unsafe { libc::_exit(status) }
}

/// Times `operations` and adds the processor time that these children use
/// meanwhile: they are not waited for before the end, so the meter alone sees
/// nothing of it.
pub(super) fn time_with(
    children: &[impl AsRef<Child>],
    meter: &Meter,
    operations: impl FnOnce() -> Result<()>,
) -> Result<Sample> {
    let used = || children.iter().map(|child| child.as_ref().cpu_ns()).sum::<Result<f64>>();
    let before = used()?;
    let mut sample = meter.time(operations)?;
    sample.cpu.children_ns += used()? - before;
    Ok(sample)
}

/// Takes one sample in a child made for it. `body` is bound by the rules of
/// [`Child::fork`]; its errors come back as their `errno`, said of `what`.
pub(super) fn sample_in_child(
    what: &str,
    meter: &Meter,
    body: impl FnOnce(&Meter) -> Result<Sample>,
) -> Result<Sample> {
    // Wall time and processor time, the bits of an f64 each.
    let report = Shared::<[AtomicU64; 2]>::new()?;
    let child = Child::fork(|| match body(meter) {
        Ok(sample) => {
            for (word, ns) in report.iter().zip([sample.wall_ns, sample.cpu.total_ns()]) {
                // Relaxed: the child's end comes between this and the reading.
                word.store(ns.to_bits(), Ordering::Relaxed);
            }
            Ok(())
        }
        Err(Error::Os { source, .. }) => Err(Errno::from_io_error(&source).unwrap_or(Errno::IO)),
        Err(_) => Err(Errno::IO),
    })?;
    match child.wait()? {
        Ending::Done => {
            let [wall_ns, children_ns] =
                [0, 1].map(|word: usize| f64::from_bits(report[word].load(Ordering::Relaxed)));
            // Seen from the measuring process it is a child's time.
            let cpu = CpuTime { children_ns, ..CpuTime::default() };
            Ok(Sample { wall_ns, cpu, ..Sample::default() })
        }
        Ending::Failed(errno) => Err(Error::os(what, errno)),
        ending => Err(Error::Program { program: what.to_owned(), what: ending.to_string() }),
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
        let here = getpid();
        let sample = sample_in_child("test", &meter(), |_| {
            let elsewhere = getpid() != here;
            let cpu = CpuTime { user_ns: 1.0, system_ns: 2.0, children_ns: 4.0 };
            Ok(Sample { wall_ns: if elsewhere { 42.0 } else { 0.0 }, cpu, ..Sample::default() })
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
            kill_process(getpid(), Signal::KILL).unwrap();
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

    #[test]
    fn every_ending_is_told_and_the_child_waited_for() {
        let killed = || {
            // Blocked, as all signals are that can be.
            kill_process(getpid(), Signal::TERM)?;
            kill_process(getpid(), Signal::KILL)
        };
        // Not `panic!`: its message may wait for a lock that another thread
        // held at the fork.
        let panics = || std::panic::resume_unwind(Box::new(()));
        type Body = fn() -> Result<(), Errno>;
        let bodies: [(Body, Ending); 4] = [
            (|| Ok(()), Ending::Done),
            (|| Err(Errno::OWNERDEAD), Ending::Failed(Errno::OWNERDEAD)),
            (panics, Ending::Panicked),
            (killed, Ending::Killed(Signal::KILL.as_raw())),
        ];
        for (body, ending) in bodies {
            let child = Child::fork(body).unwrap();
            // It can be asked again and again.
            assert_eq!([child.wait().unwrap(), child.wait().unwrap()], [ending; 2]);
            assert_eq!(child.ended().unwrap(), Some(ending));
            let pid = child.pid();
            drop(child);
            assert_eq!(rustix::process::test_kill_process(pid), Err(Errno::SRCH));
        }
    }

    #[test]
    fn a_child_runs_where_it_is_put() {
        let cpu = affinity::current().unwrap().iter().last().unwrap();
        let child = Child::fork_on(cpu, || {
            loop {
                rustix::thread::sched_yield();
            }
        })
        .unwrap();
        assert_eq!(child.ended().unwrap(), None);
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.pid())).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(list.unwrap().trim(), cpu.to_string());
    }
}
