//! Programs that this one becomes for what goes on long, or is a node's.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use kumiki_node::{AGENT, program};

/// Becomes the one that works for nodes as long as they run.
pub(super) fn noded(words: &[impl AsRef<OsStr>]) -> Result<()> {
    let path = program::find(program::NODED)?;
    let mut command = Command::new(&path);
    command.arg0(program::NODED).args(words);
    become_it(&mut command, &path).map(|never| match never {})
}

/// Becomes, in a node, its agent, which knows the other nodes.
pub(super) fn agent() -> Result<()> {
    let mut command = Command::new(AGENT);
    command.args(std::env::args_os().skip(1));
    become_it(&mut command, Path::new(AGENT)).map(|never| match never {})
}

fn become_it(command: &mut Command, path: &Path) -> Result<Infallible> {
    Err(command.exec()).with_context(|| format!("running {}", path.display()))
}
