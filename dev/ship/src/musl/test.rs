//! `cargo xtask test musl`: the libraries' tests as static programs, in a root that has no glibc.
//!
//! Their shell and its programs are busybox's there. The clone is seen at its own place, so a test finds its
//! files; nothing of this machine's libraries, programs and settings is.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use super::tools::Tools;
use crate::arch::Arch;
use crate::msrv;
use crate::run::{metadata, root, run, target_folder};

/// Runs a test program in such a root. `$1` is the clone, `$2` the target folder, `$3` where it runs.
const RUNNER: &str = r#"#!/bin/sh
exec unshare --mount --propagation=private sh -c '
set -eu
clone=$1 target=$2 here=$3
shift 3
root=$(mktemp -d)
mount -t tmpfs tmpfs "$root"
cd "$root"
mkdir -p proc sys dev tmp bin etc "./$clone" "./$target"
mount --rbind /proc proc
mount --rbind /sys sys
mount --rbind /dev dev
cp /bin/busybox bin/busybox
chroot . /bin/busybox --install -s /bin
printf "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n" >etc/passwd
printf "root:x:0:\nnogroup:x:65534:\n" >etc/group
mount --bind "$clone" "./$clone"
mount --bind "$target" "./$target"
exec chroot . /bin/sh -c "cd \"\$1\" && shift && exec \"\$@\"" sh "$here" "$@"
' enter "@CLONE@" "@TARGET@" "$PWD" "$@"
"#;

/// Tests that need what is not there, and what they need.
const NOT_THERE: [&str; 0] = [];

/// Builds and runs them.
pub fn test() -> Result<ExitCode> {
    let tools = Tools::ready(Arch::X86)?;
    let metadata = metadata()?;
    let oldest = msrv::oldest(&metadata)?;
    let packages: String =
        msrv::tested(&metadata, &oldest).map(|name| format!("--package {name} ")).collect();
    let skips = NOT_THERE.map(|test| format!(" --skip {test}")).concat();
    let words = format!("{packages} --lib --tests --locked --no-fail-fast --{skips}");
    let mut tests = tools.cargo("test", &words);
    run(runner(&tools, &mut tests)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Has cargo run test programs by the runner.
fn runner<'a>(tools: &Tools, tests: &'a mut Command) -> Result<&'a mut Command> {
    let (clone, target) = (root(), target_folder()?);
    let clone = clone.to_str().context("the clone's folder has a name that is not UTF-8")?;
    let target = target.to_str().context("the target folder's name is not UTF-8")?;
    let text = RUNNER.replace("@CLONE@", clone).replace("@TARGET@", target);
    let runner = tools.script("runner", &text)?;
    let variable = Arch::X86.with_musl().to_uppercase().replace('-', "_");
    Ok(tests.env(format!("CARGO_TARGET_{variable}_RUNNER"), runner))
}
