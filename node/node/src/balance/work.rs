//! Claim of the one process that balances: a second one is refused, and who carries out a file leaves to it what it may
//! have moved.

use std::fs;
use std::path::PathBuf;

use kumiki_node_devices::process::Process;
use kumiki_node_devices::runtime;

use crate::{Error, ErrorKind, Result, Subject, json};

/// No node's file ends so.
const NAME: &str = "this-machine.balancer";

/// Work of this process, until it is dropped or the process ends.
pub(super) struct Balancing(PathBuf);

impl Balancing {
    pub(super) fn begin() -> Result<Self> {
        let path = runtime::file(NAME)?;
        if let Some(other) = worker(&path) {
            return Err(Error::refused(
                ErrorKind::Busy,
                Subject::File(path),
                format!("process {} balances this machine already: end it first", other.id),
            ));
        }
        let process = json(&Process::this())?;
        fs::write(&path, process).map_err(|error| Error::file(&path, error))?;
        Ok(Balancing(path))
    }
}

impl Drop for Balancing {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn worker(path: &PathBuf) -> Option<Process> {
    let process = serde_json::from_slice::<Process>(&fs::read(path).ok()?).ok()?;
    process.lives().then_some(process)
}

/// True if a process that lives balances this machine.
pub(crate) fn is_at_work() -> bool {
    runtime::file(NAME).is_ok_and(|path| worker(&path).is_some())
}
