//! The server's program, running: known by its pidfd, as its number may be another process's once
//! somebody has waited for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::itself::{self, In};
use crate::wire::{CLOSE_AT_EXEC, MAY_FAIL, PUT};

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pid: Pid,
    pidfd: OwnedFd,
}

impl Running {
    /// Starts it with these as its descriptors 0 to 2, and no others. Signals are blocked in it.
    pub(crate) fn start(image: &OwnedFd, standard: [BorrowedFd<'_>; 3]) -> io::Result<Running> {
        let (pid, pidfd) = itself::spawn(In::Caller, true, |draft| {
            draft.arg(b"kumiki-spawn")?;
            draft.image = draft.descriptor(image.as_fd()) + 1;
            draft.step(0, CLOSE_AT_EXEC, MAY_FAIL, [3, u32::MAX.into()]);
            for (number, fd) in standard.into_iter().enumerate() {
                let place = draft.descriptor(fd);
                draft.step(0, PUT, 0, [place.into(), number as u64, 0]);
            }
            Ok(())
        })
        .map_err(|refused| refused.error)?;
        // Of a kernel that does not make it with the process. Nobody has waited for that yet.
        let pidfd = pidfd.map_or_else(|| pidfd_open(pid, PidfdFlags::empty()), Ok)?;
        Ok(Running { pid, pidfd })
    }

    /// Whether it has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), look) {
            Ok(ended) => ended.is_none(),
            // Somebody else has waited for it.
            Err(Errno::CHILD) => false,
            // A kernel that does not wait at pidfds, or a filter.
            Err(_) => {
                let mut it = [PollFd::new(&self.pidfd, PollFlags::IN)];
                poll(&mut it, Some(&Timespec::default())) == Ok(0)
            }
        }
    }

    /// Ends it, and clears it away.
    pub(crate) fn end(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let ended = || waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
        while let Err(Errno::INTR) = ended() {}
    }
}
