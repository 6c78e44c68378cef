//! The other end of a measured pair: a process forked from this one, bound to
//! a cpu, that does nothing but system calls.
//!
//! It is forked, not run, so that both ends have the same code and memory; it
//! is a process and not a thread, because that is what inter-process
//! communication is between. The measuring process has threads, so the child
//! may only do what is safe in a signal handler: system calls, and memory that
//! was there before.
//!
//! How it ends: killed and reaped when the [`Peer`] is dropped, by the kernel
//! when the measuring thread dies, by itself when a call fails. How a measuring
//! thread learns that it has: its blocking calls are interrupted by a
//! [`Watchdog`], and [`Peer::call`] looks after each interruption.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getppid, kill_process,
    set_parent_process_death_signal, waitid, waitpid,
};

use super::watchdog::Watchdog;
use crate::affinity::OneCpu;
use crate::error::{Error, Result};
use crate::meter::{Meter, Sample};

/// How long a living peer may take for one answer before it counts as lost
/// (e.g. a datagram was dropped).
const PATIENCE: Duration = Duration::from_secs(10);

/// Exit status of a peer that panicked. Others are its `errno`, all below it.
const PANICKED: i32 = 255;

/// Who makes a call that may be interrupted: the measuring process, or the
/// peer. Transports are written once, for both.
pub(crate) trait Caller {
    /// What the caller makes of a failure.
    type Error;

    /// Runs `op` until it is not interrupted. `what` names it in an error.
    fn call<T>(
        &self,
        what: &'static str,
        op: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Self::Error>;
}

/// The peer itself, as a caller.
pub(crate) struct Forked;

impl Caller for Forked {
    type Error = Errno;

    #[inline]
    fn call<T>(&self, _: &'static str, op: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
        rustix::io::retry_on_intr(op)
    }
}

/// A peer, as seen from the measuring thread; and the measuring thread as a
/// caller that does not wait for a dead one.
pub(crate) struct Peer {
    pid: Pid,
    cpu_clock: libc::clockid_t,
    // Also ties the peer to this thread, with which it would die.
    _watchdog: Rc<Watchdog>,
}

impl Peer {
    /// Forks a process bound to `cpu` that runs `work` and then ends. `work`
    /// finds the caller's memory as it is now; all signals are blocked there.
    ///
    /// # Errors
    /// The process cannot be made or bound. What goes wrong inside `work` is
    /// found by [`Peer::check`].
    pub(crate) fn spawn(cpu: usize, work: impl FnOnce() -> Result<(), Errno>) -> Result<Self> {
        let watchdog = Watchdog::of_this_thread()?;
        let parent = getpid();
        let blocked = SignalsBlocked::new()?;
        // SAFETY: the child never returns from `live`, which makes system calls
        // only; `work` is held to the same.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            live(parent, work);
        }
        let error = io::Error::last_os_error();
        drop(blocked);
        let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) else {
            return Err(Error::os("fork the other end", error));
        };
        // From here on Drop ends the child if anything fails.
        let mut peer = Peer { pid, cpu_clock: 0, _watchdog: watchdog };
        // SAFETY: `cpu_clock` is writable.
        let errno =
            unsafe { libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &mut peer.cpu_clock) };
        if errno != 0 {
            let error = io::Error::from_raw_os_error(errno);
            return Err(Error::os("find the clock of the other end", error));
        }
        OneCpu::new(cpu).bind(Some(pid))?;
        Ok(peer)
    }

    /// An error if the peer has ended.
    pub(crate) fn check(&self) -> Result<()> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(self.pid), options)
            .map_err(|e| Error::os("look after the other end", e))?;
        let Some(status) = ended else { return Ok(()) };
        Err(self.error(match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => "ended before its time".to_owned(),
            (Some(PANICKED), _) => "panicked".to_owned(),
            (Some(errno), _) => format!("ended: {}", io::Error::from_raw_os_error(errno)),
            (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
        }))
    }

    /// Its process id.
    #[cfg(test)]
    pub(crate) fn id(&self) -> Pid {
        self.pid
    }

    fn error(&self, what: String) -> Error {
        Error::Program { program: format!("other end (process {})", self.pid), what }
    }

    /// Processor time that the peer has used, nanoseconds. Exact for a peer
    /// that sleeps; of one that runs, the kernel knows it as of its last tick
    /// (`thread_group_cputime`, kernel/sched/cputime.c), which evens out over
    /// many samples.
    fn cpu_ns(&self) -> Result<f64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is writable.
        if unsafe { libc::clock_gettime(self.cpu_clock, &mut time) } < 0 {
            return Err(Error::last_os("read the processor time of the other end"));
        }
        Ok(time.tv_sec as f64 * 1e9 + time.tv_nsec as f64)
    }
}

impl Caller for Peer {
    type Error = Error;

    #[inline]
    fn call<T>(&self, what: &'static str, op: impl FnMut() -> Result<T, Errno>) -> Result<T> {
        std::slice::from_ref(self).call(what, op)
    }
}

/// The measuring thread, waiting for something that takes all of these peers.
impl Caller for &[Peer] {
    type Error = Error;

    #[inline]
    fn call<T>(&self, what: &'static str, mut op: impl FnMut() -> Result<T, Errno>) -> Result<T> {
        let mut since = None;
        loop {
            match op() {
                Err(Errno::INTR) => interrupted(self, what, &mut since)?,
                outcome => return outcome.map_err(|errno| Error::os(what, errno)),
            }
        }
    }
}

/// What a call does each time it was interrupted.
#[cold]
fn interrupted(peers: &[Peer], what: &str, since: &mut Option<Instant>) -> Result<()> {
    peers.iter().try_for_each(Peer::check)?;
    match peers.first() {
        Some(peer) if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE => {
            let patience = PATIENCE.as_secs();
            Err(peer.error(format!("lives but has not answered for {patience} s to: {what}")))
        }
        _ => Ok(()),
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It is a child not yet waited for, so the id is still its own. It can
        // only fail if somebody else has reaped it, and then all is done.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
    }
}

/// Times `operations` and adds the processor time of the peers to the sample,
/// as that of children.
pub(crate) fn time_with(
    peers: &[Peer],
    meter: &Meter,
    operations: impl FnOnce() -> Result<()>,
) -> Result<Sample> {
    let used = || peers.iter().map(Peer::cpu_ns).sum::<Result<f64>>();
    let before = used()?;
    let mut sample = meter.time(operations)?;
    sample.cpu.children_ns += used()? - before;
    Ok(sample)
}

/// The child's whole life.
fn live(parent: Pid, work: impl FnOnce() -> Result<(), Errno>) -> ! {
    struct NoUnwind;
    impl Drop for NoUnwind {
        fn drop(&mut self) {
            exit(PANICKED)
        }
    }
    // A panic must not unwind into the copy of the measuring process.
    let _guard = NoUnwind;
    let outcome = set_parent_process_death_signal(Some(Signal::KILL)).and_then(|()| {
        // It may have died before the kernel knew that this matters.
        if getppid() == Some(parent) { work() } else { Err(Errno::SRCH) }
    });
    exit(outcome.err().map_or(0, Errno::raw_os_error))
}

fn exit(status: i32) -> ! {
    // SAFETY: always sound; skips destructors and exit handlers, which belong
    // to the measuring process.
    unsafe { libc::_exit(status) }
}

/// All signals are blocked in the calling thread, and so in a child forked
/// meanwhile: handlers of the measuring process write to pipes that both
/// share, so Ctrl-C must not run them twice.
struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    fn new() -> Result<Self> {
        // SAFETY: all-zero bytes are a valid `sigset_t`.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `all` is writable.
        unsafe { libc::sigfillset(&mut all) };
        let mut former = all;
        // SAFETY: both sets are valid, `former` writable.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut former) } {
            0 => Ok(SignalsBlocked(former)),
            errno => Err(Error::os("block signals", io::Error::from_raw_os_error(errno))),
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by the kernel.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
