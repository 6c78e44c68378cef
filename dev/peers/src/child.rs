//! A subject in a process of its own: ready, then a turn for each request.
//!
//! A process for each, because helpers that spin cannot all be put to rest by
//! their own means: the parent stops the whole process between its turns. And
//! some are tuned by the environment that a process starts with.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::de::DeserializeOwned;

use crate::pair::Pair;
use crate::raw::{Raw, RoundTrip};

/// What a child says when it is ready and after each turn: samples, or `None`
/// if the subject has nothing of the kind; else why it cannot go on.
pub type Reply = Result<Option<Vec<f64>>, String>;

/// A command that is told to end (SIGTERM, so that it takes its own along) when the thread that
/// starts it has gone, however: forty-three servers of benches that had been killed went on for days.
pub fn with_us(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

/// Serves as the subject that `begin` starts, until the parent closes the pipe.
pub fn serve(begin: impl FnOnce() -> Result<()>) -> Result<()> {
    // A stopped process would outlive its parent for ever.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let outcome = begin();
    if let Err(error) = &outcome {
        say(&Err(format!("{error:#}")))?;
    }
    outcome
}

/// The raw round trip, the same in every bench.
pub fn raw(pair: Pair) -> Result<()> {
    pair.bind_main()?;
    let mut raw = Raw::new(pair)?;
    turns(|RoundTrip| Ok(Some(raw.turn())))
}

/// Says that the subject is ready, then has `answer` take every turn.
pub fn turns<R: DeserializeOwned>(
    mut answer: impl FnMut(R) -> Result<Option<Vec<f64>>>,
) -> Result<()> {
    say(&Ok(None))?;
    for line in io::stdin().lock().lines() {
        let line = line.context("reading the next request")?;
        let request = serde_json::from_str(&line).with_context(|| format!("request {line:?}"))?;
        say(&Ok(answer(request)?))?;
    }
    Ok(())
}

fn say(reply: &Reply) -> Result<()> {
    let mut line = serde_json::to_string(reply)?;
    line.push('\n');
    io::stdout().lock().write_all(line.as_bytes()).context("answering the parent")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_is_started_ends_with_who_started_it() {
        // The kernel tells it when this thread ends, as when the whole process does.
        let child = std::thread::spawn(|| {
            let mut child = with_us(Path::new("sh"));
            // It says something once it is what it is to be.
            child.args(["-c", "echo on; exec sleep 1000"]).stdout(std::process::Stdio::piped());
            let mut child = child.spawn().unwrap();
            let mut line = String::new();
            let said = child.stdout.take().unwrap();
            io::BufReader::new(said).read_line(&mut line).unwrap();
            assert_eq!(line, "on\n");
            child
        });
        let status = child.join().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    }
}
