//! The kind *process*: a child as a resource, under a name.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Error, Handle, Interface, Place, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::child::Child;
use crate::command::Command;
use crate::servers::SpawnServer;

/// A child under a name, such as `core2/process/worker-7`. Destroying it ends it by
/// SIGKILL, if it has not ended, and waits for it. No signal is blocked in it, unless its command
/// [says so](Command::signal_mask).
///
/// ```
/// use kumiki_resource::Builder;
/// use kumiki_spawn::{Command, Process};
///
/// let interface = Builder::new().kind::<Process>().per_core()?;
/// let place = interface.places()[0];
/// let worker = interface.create::<Process>(place, Some("worker"), Command::new("true"))?;
/// assert!(Process::wait(&interface, &worker)?.success());
/// interface.destroy(worker)?;
/// # Ok::<(), kumiki_resource::Error>(())
/// ```
#[derive(Debug)]
pub struct Process {
    child: Child,
    status: Option<ExitStatus>,
}

fn refused(text: String) -> Error {
    Error::Kind { kind: Process::NAME, text }
}

impl Process {
    /// Waits for the end of a process. The caller waits, not the place's manager.
    ///
    /// # Errors
    /// The handle's; somebody else has waited for it; no descriptor is to be had.
    pub fn wait(interface: &Interface, process: &Handle<Process>) -> Result<ExitStatus> {
        loop {
            if let Some(status) = Self::wait_timeout(interface, process, Duration::MAX)? {
                return Ok(status);
            }
        }
    }

    /// Waits for the end of a process, or so long; `None` if it goes on.
    ///
    /// # Errors
    /// As of [`wait`](Self::wait).
    pub fn wait_timeout(
        interface: &Interface,
        process: &Handle<Process>,
        timeout: Duration,
    ) -> Result<Option<ExitStatus>> {
        let end = Instant::now().checked_add(timeout);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let ended = interface.with(process, |process, _| -> Result<_> {
                Ok(match process.try_wait()? {
                    Some(status) => Ok(status),
                    None => Err(process.child.pidfd().and_then(|pidfd| pidfd.try_clone_to_owned())),
                })
            })??;
            let pidfd = match ended {
                Ok(status) => return Ok(Some(status)),
                Err(pidfd) => pidfd.map_err(|error| refused(format!("its pidfd: {error}")))?,
            };
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            // More than the kernel takes is for ever.
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(refused(format!("waiting for its pidfd: {error}"))),
            }
        }
    }

    /// Its end, if that has come.
    ///
    /// # Errors
    /// Somebody else has waited for it.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        let ended = self.child.try_wait();
        let id = self.child.id();
        self.status =
            ended.map_err(|error| refused(format!("waiting for process {id}: {error}")))?;
        Ok(self.status)
    }

    /// The child itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Kind for Process {
    const NAME: &'static str = "process";
    type Spec = Command;
    type Pool = SpawnServer;

    fn pool(_: Place) -> Result<SpawnServer> {
        Ok(SpawnServer::new())
    }

    fn create(mut command: Command, server: &mut SpawnServer) -> Result<Process> {
        // Its place's thread has all signals blocked, for itself.
        command.attributes.blocked.get_or_insert_default();
        let child = command.spawn_by(server);
        let failed = |source| {
            let what = command.shown().to_string();
            Error::System { kind: Self::NAME, what, source, way: "" }
        };
        let child = child.map_err(failed)?;
        Ok(Process { child, status: None })
    }

    fn destroy(mut self, _: &mut SpawnServer) {
        // Ended, or waited for by somebody else: then there is nothing left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn about(&self) -> About {
        let id = self.child.id();
        let state = self.status.map_or_else(|| format!("pid {id}"), |status| status.to_string());
        About { state, bytes: 0 }
    }
}
