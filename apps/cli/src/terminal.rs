//! This process's terminal, handed to a program that runs elsewhere.

use anyhow::{Context, Result};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// True if somebody types and looks.
pub(crate) fn is_attended() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// Rows and columns, of the side that shows if that is a terminal.
pub(crate) fn size() -> rustix::io::Result<(u16, u16)> {
    let size = tcgetwinsize(stdout()).or_else(|_| tcgetwinsize(stdin()))?;
    Ok((size.ws_row, size.ws_col))
}

/// The kind of terminal, for the program's TERM.
pub(crate) fn kind() -> String {
    std::env::var("TERM").unwrap_or_else(|_| "linux".to_owned())
}

/// The terminal passes every key on until this value goes.
pub(crate) struct Raw {
    before: Termios,
    raw: Termios,
}

impl Raw {
    pub(crate) fn new() -> Result<Self> {
        let before = tcgetattr(stdin()).context("reading the terminal's modes")?;
        let mut raw = before.clone();
        raw.make_raw();
        let terminal = Raw { before, raw };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Again, after [`leave`](Self::leave).
    pub(crate) fn enter(&self) -> Result<()> {
        tcsetattr(stdin(), OptionalActions::Now, &self.raw).context("setting the terminal's modes")
    }

    /// Gives the terminal its former mode back, which an exit that drops nothing would not.
    pub(crate) fn leave(&self) {
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.before);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.leave();
    }
}
