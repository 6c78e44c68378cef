//! Nodes that a command replaces just now: who keeps services up leaves them alone.

use std::fs;

use kumiki_node_devices::process::Process;
use kumiki_node_devices::runtime;

use crate::{Error, Result, json};

fn name_of(node: &str) -> String {
    format!("{node}.held")
}

/// Hold of this process on some nodes, until it is dropped, or the process ends.
pub(crate) struct Held(Vec<String>);

impl Held {
    pub(crate) fn all(nodes: Vec<String>) -> Result<Self> {
        let mut held = Held(Vec::new());
        for node in nodes {
            let path = runtime::file(&name_of(&node))?;
            let process = json(&Process::this())?;
            fs::write(&path, process).map_err(|error| Error::file(path, error))?;
            held.0.push(node);
        }
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for node in &self.0 {
            if let Ok(path) = runtime::file(&name_of(node)) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// True if a process that lives holds a node.
pub(crate) fn is_held(node: &str) -> bool {
    let process = runtime::file(&name_of(node)).ok().and_then(|path| fs::read(path).ok());
    let process = process.and_then(|text| serde_json::from_slice::<Process>(&text).ok());
    process.is_some_and(Process::lives)
}
