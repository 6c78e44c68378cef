//! A command with this terminal as its own.

use std::io;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kumiki_lab::{Command, Outcome};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// How often the terminal's size is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// The terminal passes every key on until this value goes.
struct Raw(Termios);

impl Raw {
    fn new() -> Result<Self> {
        let before = tcgetattr(stdin()).context("reading the terminal's modes")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).context("setting the terminal's modes")?;
        Ok(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.0);
    }
}

/// Runs a command with a terminal of this one's size.
pub(super) fn attached(command: Command) -> Result<Outcome> {
    ensure!(
        isatty(stdin()) && isatty(stdout()),
        "standard input and output are no terminal; `kumiki lab exec` without --tty needs none"
    );
    let size = || tcgetwinsize(stdout()).map(|size| (size.ws_row, size.ws_col));
    let (rows, columns) = size().context("reading the terminal's size")?;
    let term = std::env::var("TERM").unwrap_or_else(|_| "linux".to_owned());
    let running = command.env("TERM", term).terminal(rows, columns).spawn()?;
    let control = running.control();
    let _raw = Raw::new()?;
    thread::spawn(move || {
        let mut last = (rows, columns);
        loop {
            thread::sleep(LOOK);
            if let Ok(now) = size()
                && now != last
            {
                last = now;
                if control.resize(now.0, now.1).is_err() {
                    return;
                }
            }
        }
    });
    Ok(running.pass(io::stdin(), io::stdout(), io::stderr())?)
}
