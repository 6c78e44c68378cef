//! A subject's process, as the parent sees it: stopped, but for its turns.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::child::Reply;
use crate::pair::Pair;
use crate::request::Request;

/// Longer than any turn takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running subject. Killed on drop.
pub(crate) struct Subject {
    name: &'static str,
    process: Child,
    pid: Pid,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Subject {
    /// Starts this program again as `name`, waits until it is ready, stops it.
    pub(crate) fn start(name: &'static str, pair: Pair, arena: &str) -> Result<Self> {
        let program = std::env::current_exe().context("finding our own program")?;
        let mut command = Command::new(program);
        let cpus = [pair.main, pair.helper].map(|cpu| cpu.to_string());
        command.arg("subject").arg(name).args(cpus).arg(arena);
        command.envs(environment(name, pair));
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let pid = Pid::from_child(&process);
        let requests = process.stdin.take().expect("stdin is a pipe");
        let replies = BufReader::new(process.stdout.take().expect("stdout is a pipe"));
        let mut subject = Subject { name, process, pid, requests, replies };
        subject.reply()?;
        subject.stop()?;
        Ok(subject)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Lets it have one turn. Samples, or `None` if it has nothing of the kind.
    pub(crate) fn turn(&mut self, request: Request) -> Result<Option<Vec<f64>>> {
        let mut line = serde_json::to_string(&request)?;
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
        let state = waitpid(Some(self.pid), WaitOptions::UNTRACED)?;
        let stopped = state.is_some_and(|(_, status)| status.stopped());
        ensure!(stopped, "{} ended between its turns", self.name);
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

/// What tunes a subject from outside of its program.
fn environment(name: &str, pair: Pair) -> Vec<(&'static str, String)> {
    #[cfg(feature = "peers")]
    match name {
        "openmp_active" => return crate::fork::openmp::environment(pair, "active"),
        "openmp_passive" => return crate::fork::openmp::environment(pair, "passive"),
        _ => {}
    }
    let _ = (name, pair);
    Vec::new()
}
