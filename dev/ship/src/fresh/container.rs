//! A Debian as new in a container, where mounts are refused.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::RUST;
use crate::run::{program, run, succeeds};

/// Where a container sees the folder that it is given.
pub(super) const LENT: &str = "/lent";

/// The engine that works here.
pub(super) fn engine() -> Option<&'static str> {
    ["podman", "docker"].into_iter().find(|engine| succeeds(&mut program(engine, ["info"])))
}

/// A container that is there until the value is dropped.
#[derive(Debug)]
pub(super) struct Container {
    engine: &'static str,
    name: String,
}

impl Container {
    /// Starts Debian's own image of a suite, with `folder` and this machine's Rust to read
    /// and this machine's network.
    pub(super) fn start(
        engine: &'static str,
        suite: &str,
        folder: &Path,
        sysroot: &Path,
    ) -> Result<Self> {
        let container = Container { engine, name: format!("kumiki-fresh-{suite}") };
        // One that a killed run has left.
        let _ = succeeds(&mut container.remove());
        let shown = |path: &Path, at: &str| format!("--volume={}:{at}:ro", path.display());
        run(program(engine, ["run", "--detach", "--rm", "--network=host"])
            .args([shown(folder, LENT), shown(sysroot, RUST)])
            .args(["--name", &container.name, &format!("debian:{suite}"), "sleep", "infinity"]))?;
        Ok(container)
    }

    /// What runs the words that are added to it there.
    pub(super) fn command(&self) -> Command {
        program(self.engine, ["exec", &self.name])
    }

    fn remove(&self) -> Command {
        program(self.engine, ["rm", "--force", &self.name])
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = succeeds(&mut self.remove());
    }
}
