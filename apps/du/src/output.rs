//! Where lines go: stdout, and what it means if they cannot.

use std::io::{self, StdoutLock, Write};

use anyhow::{Result, bail};
use kumiki_sys::stdio::stdout_was_closed;
use rustix::io::Errno;

use crate::talk::reason;

/// Stdout, if there is one.
pub(crate) struct Output(StdoutLock<'static>);

impl Output {
    pub(crate) fn new() -> Self {
        Output(io::stdout().lock())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        is_there()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Asks whether there was a stdout when the program began. The standard library puts
/// /dev/null there otherwise, which takes everything.
pub(crate) fn is_there() -> io::Result<()> {
    if stdout_was_closed() { Err(Errno::BADF.into()) } else { Ok(()) }
}

/// Judges the end of the output.
pub(crate) fn written(outcome: io::Result<()>) -> Result<()> {
    // A pipe that nobody reads has ended the program, `kumiki-du / | head`, unless its starter
    // had SIGPIPE ignored: then it is an error as others are.
    outcome.or_else(|error| bail!("write error: {}", reason(&error)))
}
