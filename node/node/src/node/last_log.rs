//! Logs of runs that have ended: a start empties the window that they stand in.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use kumiki_node_devices::runtime;
use kumiki_node_wire::window::Window;

use crate::{Error, Result};

fn place(node: &str) -> Result<PathBuf> {
    runtime::file(&format!("{node}.last"))
}

/// Keeps what the window has of the last run, if there was one. A start does without, if it must.
pub(super) fn keep(node: &str, window: &Window) {
    let log = if window.is_one() { window.log() } else { Vec::new() };
    if log.is_empty() {
        return;
    }
    let kept = place(node)
        .and_then(|path| fs::write(&path, log).map_err(|error| Error::file(path, error)));
    if let Err(error) = kept {
        eprintln!("node {node}: the log of its last run is lost: {error}");
    }
}

/// The text that was kept; empty if none was.
pub(super) fn read(node: &str) -> Result<Vec<u8>> {
    let path = place(node)?;
    match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|error| Error::file(path, error)),
    }
}

/// The node is no more.
pub(super) fn forget(node: &str) {
    if let Ok(path) = place(node) {
        let _ = fs::remove_file(path);
    }
}
