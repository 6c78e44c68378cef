//! A node's devices, served by its host. See `docs/design/node-devices.md`.
//!
//! ```text
//!  supervisor (root)          worker (nobody, seccomp)               node
//!  opens TAPs, disks, vhost   slot: handshake        +-- window --+  osnode-virtio.ko
//!  starts virtiofsd    -----> doorbell <-> eventfd   | bus, slots |  virtio_net, …
//!  starts a worker again      disk's thread          +------------+
//! ```

mod backend;
mod block;
mod bus;
mod confine;
mod console;
#[doc(hidden)]
pub mod control_socket;
#[doc(hidden)]
pub mod fd_passing;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fixtures;
mod irqfd;
mod net;
mod net_control;
#[doc(hidden)]
pub mod open;
mod queue;
mod rng;
mod slot;
mod supervisor;
mod tap;
mod terminal;
mod transfer;
mod vhost;
mod vhost_user;
mod virtiofsd;
#[doc(hidden)]
pub mod wake_filter;
mod worker;

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use supervisor::{Served, serve};
pub use worker::work;

#[doc(hidden)]
pub use supervisor::{Control, Reply, Taps, ask, taps};

use crate::spec::Assigned;
use crate::{Error, ErrorKind, Result, Subject, program, runtime};

/// Lines that one serving process writes to the log.
const LINES: u32 = 1000;

/// Says to the log what a node does: a node that does it again and again would fill the host's
/// memory, where the log is.
fn say(text: fmt::Arguments<'_>) {
    static SAID: AtomicU32 = AtomicU32::new(0);
    match SAID.fetch_update(Relaxed, Relaxed, |said| (said <= LINES).then_some(said + 1)) {
        Ok(LINES) => eprintln!("{text}; this process says nothing more of its node"),
        Ok(_) => eprintln!("{text}"),
        Err(_) => {}
    }
}

/// Tries each, whatever fails; the first failure.
fn each(outcomes: impl Iterator<Item = Result<()>>) -> Result<()> {
    outcomes.fold(Ok(()), Result::and)
}

/// The last line that a server writes to standard output: it serves from then on.
const BEGUN: &str = "begun";

/// A server's socket: a name that no node makes another one of, as `metrics.sock` is.
fn place(name: &str) -> Result<PathBuf> {
    runtime::file(&format!("{name}.serve.sock"))
}

/// A server's log.
fn log_of(name: &str) -> Result<PathBuf> {
    runtime::file(&format!("{name}.log"))
}

/// Removes what the servers of a node that is no more have left.
pub fn forget(name: &str, devices: &[Assigned]) {
    let shares = devices.iter().filter_map(|device| virtiofsd::pid_file(name, device).ok());
    for path in log_of(name).into_iter().chain(shares) {
        let _ = fs::remove_file(path);
    }
}

/// The program that serves, where it stands now.
fn noded() -> Result<Command> {
    let mut command = Command::new(program::find(program::NODED)?);
    command.arg0(program::NODED);
    Ok(command)
}

/// Starts a node's server, which outlives this process, and waits until all that can be
/// served is. Returns what cannot, and why. It goes on with these TAPs, by their cards' slots.
pub fn spawn(name: &str, taps: &[(usize, File)]) -> Result<Vec<String>> {
    let log = log_of(name)?;
    let file = File::create(&log).map_err(|error| Error::file(&log, error))?;
    let mut command = noded()?;
    command.args(["serve", name]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
    if !taps.is_empty() {
        let (ours, theirs) = fd_passing::pair()?;
        command.arg("--taps").stdin(theirs);
        for (slot, tap) in taps {
            fd_passing::send(&ours, slot, &[tap.as_fd()])?;
        }
    }
    let server =
        command.process_group(0).spawn().map_err(|error| Error::file(program::NODED, error))?;
    await_begin(server, &log).map_err(|error| error.about(|| Subject::node(name)))
}

/// Reads what a new server says: what cannot be served, and that it has begun.
fn await_begin(mut server: Child, log: &Path) -> Result<Vec<String>> {
    let mut text = String::new();
    if let Some(mut said) = server.stdout.take() {
        said.read_to_string(&mut text).map_err(|error| Error::os("a node's server", error))?;
    }
    let mut problems: Vec<_> = text.lines().map(str::to_owned).collect();
    // One that has failed closes its output before it has ended.
    if problems.pop_if(|last| last == BEGUN).is_none() {
        let status = server.wait().map_err(|error| Error::os("a node's server", error))?;
        let log = fs::read_to_string(log).unwrap_or_default();
        let last = log.lines().last().unwrap_or_default();
        return Err(Error::inner(
            ErrorKind::Lost,
            format!("the server of the node's devices has ended ({status}): {last}"),
        ));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_has_not_begun_has_failed_however_late_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "one\nno such node\n").unwrap();
        let said = |script: &str| {
            let mut command = Command::new("sh");
            await_begin(command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap(), &log)
        };
        let failed = said("exec >&-; sleep 0.1; exit 2").unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Lost);
        let failed = failed.to_string();
        assert!(failed.contains("has ended (exit status: 2): no such node"), "{failed}");
        assert_eq!(said("echo 'net0: no TAP'; echo begun; exec >&-").unwrap(), ["net0: no TAP"]);
    }
}
