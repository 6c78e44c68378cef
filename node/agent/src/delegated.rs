//! Nodes that the host has lent to this one: where their grants are kept.

use std::fs;
use std::path::{Path, PathBuf};

use kumiki_node_devices::grant::Grant;
use kumiki_node_wire::module::abi;

use crate::{Error, Result};

/// Folder of the agent's grants.
pub const FOLDER: &str = "/run/kumiki/lent";

/// Keeps a grant that the host has sent.
pub(crate) fn keep(body: &[u8]) -> Result<()> {
    let grant: Grant = serde_json::from_slice(body)
        .map_err(|error| Error::Protocol(format!("no grant: {error}")))?;
    fs::create_dir_all(FOLDER).map_err(|error| Error::file(FOLDER, error))?;
    let path = path(&grant.entry.name);
    fs::write(&path, body).map_err(|error| Error::file(path, error))
}

/// Path of the grant of a node of this name.
pub fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// True if this kernel is a node.
pub fn is_node() -> bool {
    Path::new(abi::GUEST_DEVICE).exists()
}
