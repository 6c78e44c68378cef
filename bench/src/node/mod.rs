//! OS nodes: starts from a disk and from memory, programs in a node, memory taken. Runs
//! in a machine that has the module and an image `deb`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::run::Row;

mod exec;
mod reserve;
mod start;

/// The image that is there.
const IMAGE: &str = "deb";
/// The node that is made, of one cpu.
const NODE: &str = "bench";

/// Everything; `folder` is on a disk.
pub(crate) fn rows(folder: &Path, rounds: usize) -> Result<Vec<Row>> {
    let mut rows = start::rows(folder, rounds)?;
    rows.extend(reserve::rows(folder, rounds)?);
    Ok(rows)
}

/// Runs a program without its output.
fn run(words: &[&str]) -> Result<()> {
    let (name, arguments) = words.split_first().context("a program has a name")?;
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().with_context(|| format!("running {name}"))?;
    ensure!(status.success(), "{words:?}: {status}");
    Ok(())
}
