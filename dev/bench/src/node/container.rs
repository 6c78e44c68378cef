//! A container's start beside a node's: by Debian's runc, with the machine's busybox as its
//! root.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::run;

/// Folder to which `cargo xtask bench node` brings it, with the library that it needs.
const RUNC: &str = "/opt/runc/runc";
const LIBRARIES: &str = "/opt/runc/lib";
const CGROUPS: &str = "/sys/fs/cgroup";

/// A bundle whose program is `true`.
pub(super) struct Container {
    bundle: PathBuf,
}

impl Container {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        if !Path::new(CGROUPS).join("cgroup.controllers").exists() {
            run(&["mount", "-t", "cgroup2", "cgroup2", CGROUPS])?;
        }
        let bundle = folder.join("bundle");
        let root = bundle.join("rootfs");
        for inner in ["bin", "dev", "proc", "sys"] {
            let inner = root.join(inner);
            fs::create_dir_all(&inner).with_context(|| format!("making {}", inner.display()))?;
        }
        fs::copy("/bin/busybox", root.join("bin/busybox")).context("copying busybox")?;
        symlink("busybox", root.join("bin/true")).context("linking true")?;
        let made = runc(&bundle).args(["spec", "--bundle"]).arg(&bundle).status();
        ensure!(made.context("runc spec")?.success(), "runc spec failed");
        let config = bundle.join("config.json");
        let mut spec: serde_json::Value = serde_json::from_slice(&fs::read(&config)?)?;
        spec["process"]["terminal"] = json!(false);
        spec["process"]["args"] = json!(["true"]);
        fs::write(&config, spec.to_string()).context("writing a container's config.json")?;
        Ok(Container { bundle })
    }

    /// Time from the command to the end of the program, with its removal; ms.
    pub(super) fn measure(&self) -> Result<f64> {
        let begin = Instant::now();
        // The machine's root is its initramfs, which nobody can pivot from.
        let ran = runc(&self.bundle).args(["run", "--no-pivot", "bench"]).status();
        ensure!(ran.context("runc run")?.success(), "a container of `true` failed");
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    }
}

fn runc(bundle: &Path) -> Command {
    let mut command = Command::new(RUNC);
    command.current_dir(bundle).env("LD_LIBRARY_PATH", LIBRARIES);
    command
}
