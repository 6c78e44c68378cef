//! The file that a slow disk's bytes lie in, and commands that make and mount what is on it.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Its name in the folder of the disk.
pub(super) const IMAGE: &str = "image";
/// Size of the file system; what is not written takes no room.
pub(super) const BYTES: u64 = 2 << 30;

/// Runs a command that must succeed.
pub(super) fn ran(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(())
}
