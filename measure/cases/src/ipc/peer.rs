//! The other end of a measured pair: a process forked from this one, bound to
//! a cpu, that does nothing but system calls.
//!
//! It is forked, not run, so that both ends have the same code and memory; it
//! is a process and not a thread, because that is what inter-process
//! communication is between.
//!
//! How it ends: as every [`Child`], and by itself when a call fails. How a
//! measuring thread learns that it has: its blocking calls are interrupted by a
//! [`Watchdog`], and [`Peer::call`] looks after each interruption.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::caller::Caller;
use super::watchdog::Watchdog;
use crate::child::Child;
use kumiki_measure::error::{Error, Result};

/// Time a living peer may take for one answer before it counts as lost (e.g. a datagram was
/// dropped).
const PATIENCE: Duration = Duration::from_secs(10);

/// A peer, as seen from the measuring thread; and the measuring thread as a
/// caller that does not wait for a dead one.
pub(crate) struct Peer {
    child: Child,
    // Also ties the peer to this thread, with which it would die.
    _watchdog: Rc<Watchdog>,
}

impl Peer {
    /// Forks a process bound to `cpu` that runs `work` and then ends; see
    /// [`Child::fork`] for what `work` may do. It finds the caller's memory as
    /// it is now.
    ///
    /// # Errors
    /// The process cannot be made or bound. What goes wrong inside `work` is
    /// found by [`Peer::check`].
    pub(crate) fn spawn(cpu: usize, work: impl FnOnce() -> Result<(), Errno>) -> Result<Self> {
        let watchdog = Watchdog::of_this_thread()?;
        Ok(Peer { child: Child::fork_on(cpu, work)?, _watchdog: watchdog })
    }

    /// An error if the peer has ended.
    pub(crate) fn check(&self) -> Result<()> {
        match self.child.ended()? {
            None => Ok(()),
            Some(ending) => Err(self.error(ending.to_string())),
        }
    }

    /// Its process id.
    #[cfg(test)]
    pub(crate) fn id(&self) -> rustix::process::Pid {
        self.child.pid()
    }

    fn error(&self, what: String) -> Error {
        Error::Program { program: format!("other end (process {})", self.child.pid()), what }
    }
}

impl AsRef<Child> for Peer {
    fn as_ref(&self) -> &Child {
        &self.child
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

/// Checks made each time a call was interrupted.
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
