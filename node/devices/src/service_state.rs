//! Notes on services for those who list nodes, beside a node's other files.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::process::Process;
use crate::{Error, Result, json, runtime};

/// State of a node that is kept up, as of now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceState {
    /// `up`, `starting`, `unhealthy` or `waiting`.
    pub state: String,
    /// Number of times that it was started again.
    pub restarts: u64,
    /// Number of times that it was not healthy when it was asked.
    pub unhealthy: u64,
    /// Seconds before the next start, where it waits.
    pub pause_s: u64,
    /// Reason for which it is not up, as far as that is known.
    pub why: Option<String>,
    /// The process that keeps it.
    #[serde(flatten)]
    pub process: Process,
}

fn name_of(node: &str) -> String {
    format!("{node}.service")
}

/// A node's, if some process keeps it.
pub fn state_of(node: &str) -> Option<ServiceState> {
    let path = runtime::file(&name_of(node)).ok()?;
    let state: ServiceState = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    state.process.lives().then_some(state)
}

/// Replaces it whole.
pub fn keep(node: &str, state: &ServiceState) -> Result<()> {
    let path = runtime::file(&name_of(node))?;
    let new = path.with_extension("service.new");
    let json = json(state)?;
    fs::write(&new, json).and_then(|()| fs::rename(&new, &path)).map_err(|e| Error::file(path, e))
}

pub fn forget(node: &str) {
    if let Ok(path) = runtime::file(&name_of(node)) {
        let _ = fs::remove_file(path);
    }
}
