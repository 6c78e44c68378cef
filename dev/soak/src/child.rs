//! The subject as a process: this program, started once more.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::soak::Soak;

/// A server says where it listens, or has ended, within this.
const STARTS: Duration = Duration::from_secs(120);
/// A server that is told to end has ended within this.
const ENDS: Duration = Duration::from_secs(60);

/// Has this process end with the one that has started it, however that ends.
pub(crate) fn end_with_parent() -> Result<()> {
    let signal = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(signal)
        .context("asking to end with the parent")
}

/// A server, ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Mutex<Child>,
    pid: u32,
    said: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts this program's `serve` with these words, through a command that takes it as its last
    /// words if one is given; gives the first line for which `is_ready` holds.
    pub(crate) fn start(
        words: &[&str],
        through: &[&str],
        is_ready: impl Fn(&str) -> bool,
    ) -> Result<(Server, String)> {
        let this = std::env::current_exe().context("finding this program")?;
        let mut command = match through {
            [] => Command::new(&this),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&this);
                command
            }
        };
        command.arg("serve").args(words);
        Server::of(command, is_ready)
    }

    /// Starts a command that says when it is ready, on either of its outputs.
    pub(crate) fn of(
        mut command: Command,
        is_ready: impl Fn(&str) -> bool,
    ) -> Result<(Server, String)> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let pid = child.id();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let (tell, told) = mpsc::channel();
        let outputs: [Option<Box<dyn std::io::Read + Send>>; 2] = [
            child.stdout.take().map(|output| Box::new(output) as _),
            child.stderr.take().map(|output| Box::new(output) as _),
        ];
        for output in outputs.into_iter().flatten() {
            let (said, tell) = (Arc::clone(&said), tell.clone());
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    said.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
                    let _ = tell.send(line);
                }
            });
        }
        drop(tell);
        let server = Server { child: Mutex::new(child), pid, said };
        let begun = Instant::now();
        loop {
            let left = STARTS.saturating_sub(begun.elapsed());
            match told.recv_timeout(left) {
                Ok(line) if is_ready(&line) => return Ok((server, line)),
                Ok(_) => {}
                Err(_) => anyhow::bail!("{command:?} did not start: {}", server.said().join(" | ")),
            }
        }
    }

    /// Starts `serve` with these words and so many descriptors; it says its address behind `before`.
    pub(crate) fn at_address(
        words: &[&str],
        descriptors: usize,
        before: &str,
    ) -> Result<(Server, SocketAddr)> {
        let limit = format!("--nofile={descriptors}");
        let said = format!("{before}127.0.0.1:");
        let (server, line) =
            Server::start(words, &["prlimit", &limit], |line| line.contains(&said))?;
        let address = line.split(before).nth(1).and_then(|rest| rest.split([' ', ',']).next());
        let address = address.context("no address")?.parse().context("an address")?;
        Ok((server, address))
    }

    /// Ends it well, and looks whether each of these was counted.
    pub(crate) fn finish(&self, soak: &Soak, whats: &[&str]) -> Result<()> {
        self.look(soak);
        let status = self.end()?;
        soak.forget_process(self.pid());
        let said = self.said().join(" | ");
        ensure!(status.success(), "the server was told to end: {status}: {said}");
        for what in whats {
            ensure!(soak.counted(what) > 0, "no request was {what}");
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// All lines that it has printed.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        signal::kill(Pid::from_raw(self.pid as i32), signal)
            .with_context(|| format!("{signal} to {}", self.pid))
    }

    /// End of the child, if it has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten()
    }

    /// Ends the run if it has ended by itself, or one of its threads has panicked.
    pub(crate) fn look(&self, soak: &Soak) {
        self.look_for_panic(soak);
        if let Some(status) = self.ended() {
            soak.fail(&format!("the server has ended, {status}: {}", self.said().join(" | ")));
        }
    }

    /// Ends the run if one of its threads has panicked.
    pub(crate) fn look_for_panic(&self, soak: &Soak) {
        let said = self.said();
        if let Some(line) = said.iter().position(|line| line.contains("panicked at")) {
            let told = said[line..].iter().take(6).cloned().collect::<Vec<_>>().join(" | ");
            soak.fail(&format!("a thread of the server has panicked: {told}"));
        }
    }

    /// Looks so until the run is over.
    pub(crate) fn look_until_over(&self, soak: &Soak) {
        while !soak.is_over() {
            self.look(soak);
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Tells it to end by SIGTERM, and waits for it.
    pub(crate) fn end(&self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait(ENDS)
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&self, patience: Duration) -> Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            ensure!(begun.elapsed() < patience, "the server has not ended after {patience:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}
