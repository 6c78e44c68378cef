//! libkumiki, installed for the subjects that are no Rust.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};

/// Path at which it is installed, below the folder of builds.
pub(crate) fn prefix(folder: &Path) -> PathBuf {
    folder.join("soak-capi")
}

/// Builds and installs it there; of several that do so at once one after the other.
pub(crate) fn install(folder: &Path) -> Result<()> {
    let lock = File::create(folder.join("soak-capi.lock")).context("a lock")?;
    flock(&lock, FlockOperation::LockExclusive).context("the lock")?;
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut install = Command::new(cargo);
    // By the profile of the tests of libkumiki, which may have built it.
    install.args(["xtask", "capi", "--profile", "release", "--prefix"]);
    install.arg(prefix(folder)).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = install.output().context("cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`cargo xtask capi` failed: {said}");
    Ok(())
}
