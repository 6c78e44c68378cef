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
#[cfg(any(test, fuzzing))]
pub(crate) mod made_up;
mod net;
mod open;
mod pass;
mod share;
mod slot;
mod supervisor;
mod tap;
mod user;
mod vhost;
mod worker;

use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub use supervisor::{Served, serve};
pub use worker::work;

pub(crate) use supervisor::{Control, ask};

use crate::{Error, Result};

/// Sockets and logs of servers.
const FOLDER: &str = "/run/kumiki-node";

/// A server's socket.
fn place(name: &str) -> Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(FOLDER);
    made.map_err(|error| Error::file(FOLDER, error))?;
    Ok(PathBuf::from(FOLDER).join(format!("{name}.sock")))
}

/// This very program, by whatever name.
fn this_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("kumiki");
    command
}

/// Starts a node's server, which outlives this process, and waits until all that can be
/// served is. Returns what cannot, and why.
pub(crate) fn spawn(name: &str) -> Result<Vec<String>> {
    let log = place(name)?.with_extension("log");
    let log = File::create(&log).map_err(|error| Error::file(&log, error))?;
    let mut command = this_program();
    command.args(["node", "serve", name]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut server =
        command.process_group(0).spawn().map_err(|error| Error::file("/proc/self/exe", error))?;
    let mut text = String::new();
    if let Some(mut said) = server.stdout.take() {
        said.read_to_string(&mut text).map_err(|error| Error::os("a node's server", error))?;
    }
    let mut problems: Vec<_> = text.lines().map(str::to_owned).collect();
    // One that has ended by now has failed.
    if let Ok(Some(status)) = server.try_wait() {
        let log = fs::read_to_string(place(name)?.with_extension("log")).unwrap_or_default();
        let last = log.lines().last().unwrap_or_default();
        problems.push(format!("the server of the node's devices has ended ({status}): {last}"));
    }
    Ok(problems)
}
