//! The package for Python on musl: its library of musl, tried by a program in C on Debian's own musl, or where that is for
//! another processor by one that has it within, in the emulator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::{dist, install, size, wheel};
use super::tools::Tools;
use super::tried::EMULATOR;
use crate::arch::Arch;
use crate::capi;
use crate::debian;
use crate::run::{program, read, run};

/// musl of zig's wheel is a 1.2.
fn platform(arch: Arch) -> String {
    format!("musllinux_1_2_{}", arch.name())
}

/// Makes it.
pub(super) fn wheel(tools: &Tools, folder: &Path) -> Result<PathBuf> {
    debian::install(debian::DIST)?;
    let profile = install::PROFILE;
    let words =
        format!("--package kumiki-capi --lib --crate-type staticlib --profile {profile} --locked");
    run(&mut tools.cargo("rustc", &words))?;
    let made = tempfile::tempdir().context("a folder for the library of musl")?;
    let library = made.path().join("libkumiki.so");
    // No program of musl was linked with the names of before.
    capi::link_shared(&mut tools.cc(), &tools.built(profile).join("libkumiki_c.a"), &library)?;
    run(program(&tools.arch().binutil("strip"), ["--strip-unneeded"]).arg(&library))?;
    size::at_most(&library, size::LIBRARY)?;
    let needs = read(program("readelf", ["--dynamic"]).arg(&library))?;
    let others = needs.lines().filter(|line| line.contains("(NEEDED)") && !line.contains("[libc."));
    let others: Vec<_> = others.collect();
    ensure!(others.is_empty(), "the library of musl needs more than musl: {}", others.join(", "));
    match tools.arch() {
        Arch::X86 => tried(tools, &library, made.path())?,
        Arch::Arm => emulated(tools, made.path())?,
    }
    let platform = platform(tools.arch());
    let file = wheel::packed(&library, &platform, folder)?;
    size::at_most(&file, size::WHEEL)?;
    wheel::taken_for(&file, &platform)?;
    Ok(file)
}

/// Runs a program in C that has the library's archive within, in the emulator.
fn emulated(tools: &Tools, folder: &Path) -> Result<()> {
    fs::write(folder.join("user.c"), dist::USER).context("writing a program in C")?;
    let user = folder.join("user");
    let mut cc = tools.cc();
    cc.args(["-static", "-I"]).arg(crate::run::root().join("lib/capi/include"));
    cc.arg(folder.join("user.c")).arg(tools.built(install::PROFILE).join("libkumiki_c.a"));
    run(cc.args(["-lunwind", "-o"]).arg(&user))?;
    run(Command::new(EMULATOR).arg(&user))
}

/// Runs a program in C that is linked with it, in the loader of Debian's musl.
fn tried(tools: &Tools, library: &Path, folder: &Path) -> Result<()> {
    fs::write(folder.join("user.c"), dist::USER).context("writing a program in C")?;
    let user = folder.join("user");
    let mut cc = tools.cc();
    cc.args(["-dynamic", "-I"]).arg(crate::run::root().join("lib/capi/include"));
    run(cc.arg(folder.join("user.c")).arg(library).arg("-o").arg(&user))?;
    let soname = folder.join("libkumiki.so.0");
    std::os::unix::fs::symlink(library, &soname).context("naming the library")?;
    let loader = Path::new("/lib/ld-musl-x86_64.so.1");
    ensure!(loader.exists(), "Debian's package musl has no {}", loader.display());
    run(Command::new(loader).arg(&user).env("LD_LIBRARY_PATH", folder))
}
