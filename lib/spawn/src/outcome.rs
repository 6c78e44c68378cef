//! The outcome of a request: a child, or why there is none.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

/// A child, if there is one, why it does not run if it does not, and at which step.
pub(crate) struct Answer {
    pub(crate) pid: Option<Pid>,
    pub(crate) errno: i32,
    pub(crate) failed: u32,
}

/// An error, and the step that was refused.
pub(crate) struct Refused {
    pub(crate) error: io::Error,
    /// Its number ([`Step::what`](kumiki_spawn_wire::Step::what)); `None`: there was none.
    pub(crate) step: Option<u32>,
    /// True if the request is not at fault: there is no server.
    pub(crate) lacks_server: bool,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused { error, step: None, lacks_server: false }
    }
}

/// The child, or why there is none.
pub(crate) fn pid_of(answer: Answer) -> Result<Pid, Refused> {
    if answer.errno == 0 {
        return Ok(answer.pid.ok_or_else(gone)?);
    }
    // One that could not execute its program has ended.
    if let Some(pid) = answer.pid {
        while let Err(Errno::INTR) = waitpid(Some(pid), WaitOptions::empty()) {}
    }
    let error = io::Error::from_raw_os_error(answer.errno);
    Err(Refused { error, step: Some(answer.failed), lacks_server: false })
}

pub(crate) fn gone() -> io::Error {
    io::Error::other("the spawn server was killed each time it was asked; see who does that")
}
