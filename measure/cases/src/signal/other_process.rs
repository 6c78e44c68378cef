//! A signal to another process, whose handler runs, and one back.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use rustix::process::PidfdFlags;

use super::SIGNAL;
use super::disposition::{Disposition, caught};
use super::target::SignalTarget;
use crate::child::{Child, time_with};
use crate::mask::Mask;
use crate::other_end::OtherEnd;
use kumiki_measure::case::{Case, Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

const ABOUT: &str = "signal another process, whose handler runs, and be signalled back";

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    let case = |end: OtherEnd| {
        let setup = move |place: &Place| Pair::new(end.cpu(place)?);
        end.mark(Case::new("signal.other_process", ABOUT, setup))
    };
    OtherEnd::BOTH.map(case).into()
}

/// This thread and a child that answers every signal by one.
///
/// Both keep the signal blocked and let it through only while they wait, so
/// none is handled between looking and waiting. Fields go in this order: the
/// child is gone before an answer could kill this process.
struct Pair {
    /// Readable when the child has ended.
    ended: OwnedFd,
    child: Child,
    /// The mask while waiting.
    waiting: SigSet,
    _blocked: Mask,
    _handler: Disposition,
}

impl Pair {
    fn new(cpu: usize) -> Result<Self> {
        let handler = Disposition::count()?;
        let blocked = Mask::block(&SigSet::from(SIGNAL))?;
        let mut waiting = SigSet::thread_get_mask().map_err(|e| Error::os("signal mask", e))?;
        waiting.remove(SIGNAL);

        let me = SignalTarget::me();
        let child = Child::fork_on(cpu, || answer(me))?;
        let pid = child.pid();
        let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(|e| Error::os(format!("pidfd_open of child {pid}"), e))?;
        let pair = Pair { ended, child, waiting, _blocked: blocked, _handler: handler };
        // The first answer says that the child is ready.
        pair.round_trip()?;
        Ok(pair)
    }

    #[inline]
    fn round_trip(&self) -> Result<()> {
        let before = caught();
        rustix::process::kill_process(self.child.pid(), rustix::process::Signal::USR1)
            .map_err(|e| Error::os(format!("kill child {}", self.child.pid()), e))?;
        while caught() == before {
            // The descriptor costs some tens of nanoseconds, and keeps this
            // from waiting for ever on a child that something killed.
            let mut ended = [PollFd::new(self.ended.as_fd(), PollFlags::POLLIN)];
            match ppoll(&mut ended, None, Some(self.waiting)) {
                // Interrupted by this signal or, rarely, by another one.
                Err(Errno::EINTR) => {}
                Err(e) => return Err(Error::os("ppoll", e)),
                Ok(_) => {
                    return Err(Error::Program {
                        program: format!("child {}", self.child.pid()),
                        what: "ended instead of answering a signal".into(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Workload for Pair {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let children = std::slice::from_ref(&self.child);
        time_with(children, meter, || (0..iterations).try_for_each(|_| self.round_trip()))
    }
}

/// The child: answers until it is killed.
fn answer(asker: SignalTarget) -> Result<(), rustix::io::Errno> {
    let mut waiting = SigSet::all();
    waiting.remove(SIGNAL);
    loop {
        let before = caught();
        while caught() == before {
            let _ = waiting.suspend();
        }
        asker.try_signal()?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kumiki_sys::clock::Clock;

    use super::*;
    use crate::signal::tests::alone;

    #[test]
    fn a_killed_child_is_an_error_and_not_a_hang() {
        let _alone = alone();
        let cpu = rustix::thread::sched_getcpu();
        let mut pair = Pair::new(cpu).unwrap();
        let meter = Meter::new(Clock::calibrate(Duration::from_millis(1)));
        assert!(pair.sample(3, &meter).unwrap().wall_ns > 0.0);
        rustix::process::kill_process(pair.child.pid(), rustix::process::Signal::KILL).unwrap();
        assert!(matches!(pair.sample(3, &meter), Err(Error::Program { .. })));
    }
}
