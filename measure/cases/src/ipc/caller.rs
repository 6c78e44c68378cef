//! Who makes a call that a signal may interrupt.

use rustix::io::{Errno, retry_on_intr};

use kumiki_measure::error::{Error, Result};

/// A side that makes calls which may be interrupted: the measuring thread, with another process
/// ([`Peer`](super::peer::Peer)) or thread ([`InProcess`]) at the other end, or that process itself
/// ([`Forked`]). What both ends do is so written once.
pub(crate) trait Caller {
    /// Failure as the caller reports it.
    type Error;

    /// Runs `op` until it is not interrupted. `what` names it in an error.
    fn call<T>(
        &self,
        what: &'static str,
        op: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Self::Error>;
}

/// A forked child, as a caller.
pub(crate) struct Forked;

impl Caller for Forked {
    type Error = Errno;

    #[inline]
    fn call<T>(&self, _: &'static str, op: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
        retry_on_intr(op)
    }
}

/// A caller in a process whose other end is a thread: it cannot die alone, so
/// an interrupted call is just repeated.
pub(crate) struct InProcess;

impl Caller for InProcess {
    type Error = Error;

    #[inline]
    fn call<T>(&self, what: &'static str, op: impl FnMut() -> Result<T, Errno>) -> Result<T> {
        retry_on_intr(op).map_err(|errno| Error::os(what, errno))
    }
}
