//! Files that servers and commands keep as long as the machine runs: sockets, logs, notes.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use crate::{Error, Result};

/// Root's alone.
const FOLDER: &str = "/run/kumiki-node";

/// Path of a file there; the folder is made.
pub fn file(name: &str) -> Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(FOLDER);
    made.map_err(|error| Error::file(FOLDER, error))?;
    Ok(PathBuf::from(FOLDER).join(name))
}
