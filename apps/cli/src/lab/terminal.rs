//! A command with this terminal as its own.

use std::io;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kumiki_lab::{Command, Outcome};

use crate::terminal::{Raw, is_attended, kind, size};

/// Interval at which the terminal's size is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Runs a command with a terminal of this one's size.
pub(super) fn attached(command: Command) -> Result<Outcome> {
    ensure!(
        is_attended(),
        "standard input and output are no terminal; `kumiki lab exec` without --tty needs none"
    );
    let (rows, columns) = size().context("reading the terminal's size")?;
    let running = command.env("TERM", kind()).terminal(rows, columns).spawn()?;
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
