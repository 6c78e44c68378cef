//! The server's program, running: known by its pidfd, as its number may be another process's once
//! somebody has waited for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};

use crate::itself::{self, In};
use crate::valgrind;
use kumiki_spawn_wire::{CLOSE_AT_EXEC, MAY_FAIL, PUT};

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pid: Pid,
    /// `None`: valgrind has none.
    pidfd: Option<OwnedFd>,
}

impl Running {
    /// Starts it with these as its descriptors 0 to 2, and no others. Signals are blocked in it.
    pub(crate) fn start(image: &OwnedFd, standard: [BorrowedFd<'_>; 3]) -> io::Result<Running> {
        if valgrind::runs_in_it() {
            return Running::by_fork(image, standard);
        }
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
        let pidfd = pidfd.map_or_else(|| pidfd_open(pid, PidfdFlags::empty()), Ok);
        let pidfd = pidfd.inspect_err(|_| Running { pid, pidfd: None }.end())?;
        Ok(Running { pid, pidfd: Some(pidfd) })
    }

    /// Starts a program as the standard library does: by fork, which valgrind knows.
    fn by_fork(image: &OwnedFd, standard: [BorrowedFd<'_>; 3]) -> io::Result<Running> {
        let mut command = Command::new(format!("/proc/self/fd/{}", image.as_raw_fd()));
        let [socket, memory, third] = standard.map(|fd| fd.try_clone_to_owned());
        command.env_clear().stdin(socket?).stdout(memory?).stderr(third?);
        let pid = Pid::from_child(&command.spawn()?);
        Ok(Running { pid, pidfd: None })
    }

    fn id(&self) -> WaitId<'_> {
        let pidfd = self.pidfd.as_ref().map(|pidfd| WaitId::PidFd(pidfd.as_fd()));
        pidfd.unwrap_or(WaitId::Pid(self.pid))
    }

    /// True if it has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match (waitid(self.id(), look), &self.pidfd) {
            (Ok(ended), _) => ended.is_none(),
            // A kernel that does not wait at pidfds, or a filter.
            (Err(error), Some(pidfd)) if error != Errno::CHILD => {
                let mut it = [PollFd::new(pidfd, PollFlags::IN)];
                poll(&mut it, Some(&Timespec::default())) == Ok(0)
            }
            // Somebody else has waited for it.
            (Err(_), _) => false,
        }
    }

    /// Ends it, and clears it away.
    pub(crate) fn end(&self) {
        let _ = match &self.pidfd {
            Some(pidfd) => pidfd_send_signal(pidfd, Signal::KILL),
            None if self.is_alive() => kill_process(self.pid, Signal::KILL),
            None => return,
        };
        while let Err(Errno::INTR) = waitid(self.id(), WaitIdOptions::EXITED) {}
    }
}
