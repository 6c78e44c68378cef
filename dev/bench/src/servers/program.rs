//! Servers as programs, on one cpu.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::child::with_us;
use crate::pair::Pair;

const PATIENCE: Duration = Duration::from_secs(20);

/// A server, ended when this is dropped.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    child: Child,
    _settings: Option<tempfile::TempDir>,
}

impl Program {
    /// One that says its address, which `said` finds in what it writes. It ends also if it says none.
    pub(super) fn saying(
        name: &'static str,
        child: Child,
        said: impl FnOnce(&mut Child) -> Result<SocketAddr>,
    ) -> Result<Self> {
        let nowhere = SocketAddr::from(([0; 4], 0));
        let mut server = Program { name, address: nowhere, child, _settings: None };
        server.address = said(&mut server.child)?;
        Ok(server)
    }

    /// One that was told its address and has its settings in a folder, once it listens.
    pub(super) fn listening(
        name: &'static str,
        address: SocketAddr,
        child: Child,
        settings: tempfile::TempDir,
    ) -> Result<Self> {
        let mut server = Program { name, address, child, _settings: Some(settings) };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            ensure!(server.child.try_wait()?.is_none(), "{name} has ended");
            ensure!(begin.elapsed() < PATIENCE, "{name} does not listen on {address}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Nanoseconds on a cpu so far, of all its threads and of its children's.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        let own = self.child.id();
        let children = format!("/proc/{own}/task/{own}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        let mut ns = 0;
        for pid in children.chain([own]) {
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                // One that has ended meanwhile has not served.
                let times = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
                ns += times.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(ns)
    }
}

/// An address whose port was free just now.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// One of the programs that are built beside this one.
pub(super) fn built(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(name);
    ensure!(program.exists(), "{} is not built: cargo xtask bench does so", program.display());
    Ok(program)
}

/// A child's first line on standard output.
pub(super) fn first_line(child: &mut Child) -> Result<String> {
    let mut line = String::new();
    let said = child.stdout.take().context("its words")?;
    BufReader::new(said).read_line(&mut line)?;
    Ok(line)
}

/// Whether this machine has a program.
pub(super) fn is_here(name: &str, version: &str) -> bool {
    let mut command = Command::new(name);
    let here = command.arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !here {
        eprintln!("left out: {name}, which is not installed");
    }
    here
}

/// Servers on the helper's cpu, clients on main's. They end with this process.
pub(super) fn on_cpu(pair: Pair, program: &Path) -> Command {
    let mut command = with_us(Path::new("taskset"));
    command.args(["-c", &pair.helper.to_string()]).arg(program).stdin(Stdio::null());
    command
}

impl Drop for Program {
    fn drop(&mut self) {
        // nginx ends its workers when it is told to end.
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(3) {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
