//! A subject's process, as the parent sees it: stopped, but for its turns.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::Serialize;

use crate::child::Reply;
use crate::pair::Pair;

/// Longer than any turn takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks at a process that stops.
const STOPPING: Duration = Duration::from_micros(50);

/// A running subject. Killed on drop.
#[derive(Debug)]
pub struct Subject {
    name: &'static str,
    process: Child,
    pid: Pid,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Subject {
    /// Starts a `program` as `who` of a bench; it is not [ready](Self::ready) yet.
    /// `argument` is what the bench's subjects share; `environment` is what tunes a
    /// subject from outside of its program.
    pub fn start(
        (program, who): (PathBuf, &str),
        bench: &str,
        name: &'static str,
        pair: Pair,
        argument: &str,
        environment: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        let cpus = [pair.main, pair.helper].map(|cpu| cpu.to_string());
        command.args(["subject", bench, who]).args(cpus).arg(argument).envs(environment);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let pid = Pid::from_child(&process);
        let requests = process.stdin.take().expect("stdin is a pipe");
        let replies = BufReader::new(process.stdout.take().expect("stdout is a pipe"));
        Ok(Subject { name, process, pid, requests, replies })
    }

    /// Waits until it is ready, and stops it.
    pub fn ready(&mut self) -> Result<()> {
        self.reply().with_context(|| format!("starting {}", self.name))?;
        self.stop()
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Lets it have one turn. Samples, or `None` if it has nothing of the kind.
    pub fn turn(&mut self, request: &(impl Serialize + Debug)) -> Result<Option<Vec<f64>>> {
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        let asked = self.requests.write_all(line.as_bytes());
        asked.with_context(|| format!("asking {}", self.name))?;
        kill_process(self.pid, Signal::CONT)?;
        let samples = self.reply().with_context(|| format!("{}: {request:?}", self.name))?;
        self.stop()?;
        Ok(samples)
    }

    /// Stops every thread of it and waits until they stand still.
    fn stop(&mut self) -> Result<()> {
        kill_process(self.pid, Signal::STOP)?;
        let start = Instant::now();
        let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
        let state = loop {
            if let Some((_, status)) = waitpid(Some(self.pid), options)? {
                break status;
            }
            ensure!(start.elapsed() < PATIENCE, "{} does not stop", self.name);
            std::thread::sleep(STOPPING);
        };
        ensure!(state.stopped(), "{} ended between its turns", self.name);
        Ok(())
    }

    fn reply(&mut self) -> Result<Option<Vec<f64>>> {
        let timeout = Timespec::try_from(PATIENCE).expect("a minute fits");
        let pipe = &mut [PollFd::new(self.replies.get_ref(), PollFlags::IN)];
        if poll(pipe, Some(&timeout))? == 0 {
            bail!("{} did not answer within {} s", self.name, PATIENCE.as_secs());
        }
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        ensure!(!line.is_empty(), "{} ended without an answer", self.name);
        let reply: Reply = serde_json::from_str(&line)?;
        reply.map_err(|why| anyhow!("{}: {why}", self.name))
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // A stopped process dies of SIGKILL too.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
