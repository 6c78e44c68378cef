//! A child that was spawned.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitIdOptions, WaitOptions, kill_process, pidfd_open,
    pidfd_send_signal, waitpid,
};

use crate::tree::{Cgroup, Tree};

/// Bytes of one read.
const PART: usize = 64 << 10;

/// A child process, as `std::process::Child`. Dropping it neither ends the child nor waits for it.
#[derive(Debug)]
pub struct Child {
    /// The other end of the child's standard input, if that is a pipe.
    pub stdin: Option<File>,
    /// The reading end of its standard output.
    pub stdout: Option<File>,
    /// The reading end of its standard error.
    pub stderr: Option<File>,
    pid: Pid,
    pidfd: OnceLock<OwnedFd>,
    status: Option<ExitStatus>,
    tree: Option<Tree>,
}

/// Status and output of a child, as `std::process::Output`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit status.
    pub status: ExitStatus,
    /// Bytes that it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// Bytes written to its standard error.
    pub stderr: Vec<u8>,
}

impl Child {
    pub(crate) fn new(pid: Pid, pipes: [Option<File>; 3]) -> Child {
        let [stdin, stdout, stderr] = pipes;
        Child { stdin, stdout, stderr, pid, pidfd: OnceLock::new(), status: None, tree: None }
    }

    /// Makes it the root of a tree: of this cgroup, or of its process group.
    pub(crate) fn in_tree(self, cgroup: Option<Cgroup>) -> Child {
        let tree = cgroup.map_or(Tree::Group, Tree::Cgroup);
        if let Tree::Group = tree {
            // By it is known whether somebody else has waited.
            let _ = self.pidfd();
        }
        Child { tree: Some(tree), ..self }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Its pidfd, to wait for it with others: readable when it has ended. It is opened when
    /// it is first asked for, as not everybody needs one.
    ///
    /// # Errors
    /// No descriptor is to be had; `ESRCH` if it was waited for.
    pub fn pidfd(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(pidfd) = self.pidfd.get() {
            return Ok(pidfd.as_fd());
        }
        let pidfd = pidfd_open(self.pid, PidfdFlags::empty())?;
        Ok(self.pidfd.get_or_init(|| pidfd).as_fd())
    }

    /// Ends it by SIGKILL; nothing if it was waited for. With
    /// [`Command::kill_tree`](crate::Command::kill_tree) all that came of it, too; in a cgroup what
    /// is left of that also when the child itself was waited for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill(&mut self) -> io::Result<()> {
        match &self.tree {
            Some(Tree::Cgroup(cgroup)) => cgroup.kill(),
            Some(Tree::Group) => self.kill_group(),
            None => self.signal(Signal::KILL),
        }
    }

    /// Its number is that of its group as long as nobody has waited for it.
    fn kill_group(&self) -> io::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        let unwaited = match self.pidfd.get() {
            Some(pidfd) => rustix::process::waitid(
                rustix::process::WaitId::PidFd(pidfd.as_fd()),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
            ),
            None => Ok(None),
        };
        match unwaited {
            Err(Errno::CHILD) => Ok(()),
            _ => Ok(rustix::process::kill_process_group(self.pid, Signal::KILL)?),
        }
    }

    /// Closes its standard input and waits for its end, or so long; `None` if it goes on.
    ///
    /// # Errors
    /// As [`Child::wait`] and [`Child::pidfd`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        drop(self.stdin.take());
        let end = Instant::now().checked_add(timeout);
        while self.status.is_none() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            // More than the kernel takes is for ever.
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let pidfd = self.pidfd()?;
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.status)
    }

    /// Sends it a signal; nothing if it was waited for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        match self.pidfd.get() {
            Some(pidfd) => Ok(pidfd_send_signal(pidfd, signal)?),
            None => Ok(kill_process(self.pid, signal)?),
        }
    }

    /// Closes its standard input and waits for its end.
    ///
    /// # Errors
    /// The kernel's: `ECHILD` if somebody else has waited for it.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        loop {
            if let Some(status) = self.look(WaitOptions::empty())? {
                return Ok(status);
            }
        }
    }

    /// Its end, if that has come.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.look(WaitOptions::NOHANG)
    }

    fn look(&mut self, options: WaitOptions) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            match waitpid(Some(self.pid), options) {
                Ok(ended) => {
                    self.status = ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.status)
    }

    /// Reads both outputs to their ends, and waits.
    ///
    /// # Errors
    /// As [`Child::wait`], and reading's.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let read = read_all([self.stdout.take(), self.stderr.take()]);
        let status = self.wait()?;
        let [stdout, stderr] = read?;
        Ok(Output { status, stdout, stderr })
    }
}

/// Reads both to their ends: one may be full while the other is waited for.
fn read_all(mut from: [Option<File>; 2]) -> io::Result<[Vec<u8>; 2]> {
    let mut all = [Vec::new(), Vec::new()];
    while let [Some(first), Some(second)] = &mut from {
        let mut both = [&*first, &*second].map(|end| PollFd::new(end, PollFlags::IN));
        match poll(&mut both, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = both.map(|end| !end.revents().is_empty());
        for (place, _) in ready.into_iter().enumerate().filter(|(_, ready)| *ready) {
            let Some(end) = &mut from[place] else { continue };
            let bytes = &mut all[place];
            bytes.reserve(PART);
            // What it reads is there, if nobody else reads it.
            match rustix::io::read(&*end, spare_capacity(bytes)) {
                Ok(0) => from[place] = None,
                Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    for (end, bytes) in from.into_iter().zip(&mut all) {
        end.map_or(Ok(0), |mut end| end.read_to_end(bytes))?;
    }
    Ok(all)
}
