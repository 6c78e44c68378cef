//! Programs with calls asked ahead beside plain ones, measured by `dev/bench/`, and what is promised of it.

use anyhow::Result;

use super::judge::{Figures, measured};
use super::{BenchOutcome, promises};
use crate::debian::{self, Package};
use crate::run::{cargo, run};

/// Programs that are measured, and those that make the slow disk.
const PACKAGES: &[Package] = &[
    Package { name: "e2fsprogs", reason: "makes the slow disk's file system" },
    Package { name: "gcc", reason: "a file with many headers is measured" },
    Package { name: "git", reason: "its status is measured" },
    Package { name: "nodejs", reason: "a program of many files is measured" },
    Package {
        name: "python3",
        reason: "imports a large package, and opens one file of each folder",
    },
    Package { name: "openssh-sftp-server", reason: "is the other machine of sshfs" },
    Package { name: "rsync", reason: "is measured" },
    Package { name: "sshfs", reason: "a file system of another machine is measured" },
    Package { name: "util-linux", reason: "losetup and mount" },
];

/// Measures all cases, or these; with `judge` says whether the promises hold.
pub(super) fn ahead(judge: bool, cases: &[String]) -> Result<BenchOutcome> {
    debian::install(PACKAGES)?;
    // Not among the programs of all benches, whose features it would change.
    run(&mut cargo("build --profile dist --locked --package kumiki-ahead"))?;
    let mut outcome = measured("ahead", cases)?;
    if judge {
        outcome.musts = promises::musts("ahead", &Figures(&outcome.rows));
    }
    Ok(outcome)
}
