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

/// Has the kernel end this process when the thread that started it has gone, as [`with_us`] does for
/// programs that are not ours.
pub fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("asking to end with the parent")
}

/// Serves as the subject that `begin` starts, until the parent closes the pipe.
pub fn serve(begin: impl FnOnce() -> Result<()>) -> Result<()> {
    // A stopped process would outlive its parent for ever.
    end_with_parent()?;
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
    use std::fs;
    use std::os::unix::process::ExitStatusExt;
    use std::path::PathBuf;

    use super::*;

    /// Words of a source whose processes end with the bench.
    const END: [&str; 3] = ["with_us(", "on_cpu(", "end_with_parent("];
    /// Sources whose processes end otherwise, and by what.
    const OTHERWISE: [(&str, &str); 8] = [
        ("bench/src/ahead/disk.rs", "the disk's server ends with its standard input"),
        ("bench/src/ahead/remote.rs", "both ends of sshfs end with the pipes between them"),
        ("bench/src/resource/paper.rs", "a program that ends at once"),
        ("bench/src/resource/process/parent.rs", "a program that ends at once"),
        ("bench/src/servers/multiget.rs", "it ends with its standard input"),
        ("peers/src/parasc/du/mod.rs", "a walk that has an end"),
        ("peers/src/shadow/nbody/others.rs", "it looks whether its parent is there"),
        ("peers/src/subject.rs", "it is served by `serve`, which asks for it"),
    ];

    /// Sources below a folder.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }

    #[test]
    fn whatever_a_bench_starts_ends_with_it() {
        let dev = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut all = Vec::new();
        for part in ["bench/src", "peers/src"] {
            sources(&dev.join(part), &mut all);
        }
        let mut left = Vec::new();
        let mut starts = 0;
        for path in all {
            let name = path.strip_prefix(dev).unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            if !text.contains(".spawn()") {
                continue;
            }
            starts += 1;
            let ends = END.iter().any(|word| text.contains(word));
            let listed = OTHERWISE.iter().any(|(listed, _)| *listed == name);
            if ends == listed {
                left.push(name);
            }
        }
        assert!(starts > 10, "{starts} sources start something");
        assert!(left.is_empty(), "these start what may outlive a bench that is killed: {left:?}");
    }

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
