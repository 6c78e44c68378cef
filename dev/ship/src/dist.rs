//! `cargo xtask dist`: a tarball for any x86-64 Linux with this glibc or a newer one, a wheel,
//! and their checksums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};

use super::{arm, install, sbom, size, wheel};
use crate::arch::Arch;
use crate::capi::{self, Place};
use crate::debian;
use crate::run::{program, read, root, run, succeeds, target_folder};
use crate::tool;

/// Makes all of it below `target/dist-files`.
pub fn dist() -> Result<ExitCode> {
    debian::install("install")?;
    debian::install("dist")?;
    sbom::ready()?;
    let folder = target_folder()?.join("dist-files");
    let name = format!("kumiki-{}-x86_64-linux-gnu", install::version()?);
    let tree = folder.join(&name);
    // What `--musl` has made stays.
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree).with_context(|| format!("making {}", tree.display()))?;
    // Moved to wherever it is unpacked: pkg-config is told by --define-prefix.
    let place = Place { staging: Some(tree.clone()), prefix: "/".into(), libdir: None };
    install::everything(&place, verb()?)?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(licence), tree.join(licence)).context("copying a licence")?;
    }
    let library = tree.join(format!("lib/libkumiki.so.{}", install::version()?));
    size::at_most(&tree.join("bin/kumiki"), size::KUMIKI)?;
    let agent = tree.join(install::place_of(install::AGENT));
    size::at_most(&agent, size::AGENT)?;
    size::is_alone(&agent)?;
    size::at_most(&library, size::LIBRARY)?;
    let tarball = folder.join(format!("{name}.tar.gz"));
    // The same bytes from the same tree.
    let mut tar = program("tar", ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mtime", &commit_time()?, "--use-compress-program=gzip -9n", "-cf"]);
    run(tar.arg(&tarball).arg("-C").arg(&folder).arg(&name))?;
    let wheel = wheel::wheel(Arch::X86, &library, &folder)?;
    size::at_most(&wheel, size::WHEEL)?;
    wheel::tried(&wheel)?;
    unpacked(&tarball, &name)?;
    let names = install::PROGRAMS.map(|(_, name, _)| name).into_iter();
    let lists = sbom::write(&tree, names, "x86_64-unknown-linux-gnu", &folder)?;
    let made: Vec<_> = [tarball, wheel].into_iter().chain(lists).collect();
    sums(&folder, "SHA256SUMS", &made)?;
    println!("made below {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Makes the wheel alone, and tries it; that for aarch64 in an emulator.
///
/// # Errors
/// A step failed; the text says which.
pub fn wheel_alone(arch: Arch) -> Result<ExitCode> {
    if arch == Arch::Arm {
        return arm::wheel();
    }
    debian::install("install")?;
    debian::install("dist")?;
    let folder = target_folder()?.join("dist-files");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let tree = tempfile::tempdir().context("a folder to install the library in")?;
    let place = Place { staging: None, prefix: tree.path().into(), libdir: None };
    capi::install(&place, install::PROFILE)?;
    let library = tree.path().join(format!("lib/libkumiki.so.{}", install::version()?));
    let wheel = wheel::wheel(Arch::X86, &library, &folder)?;
    size::at_most(&wheel, size::WHEEL)?;
    wheel::tried(&wheel)?;
    println!("made {}", wheel.display());
    Ok(ExitCode::SUCCESS)
}

/// The verb that programs are built by: their list of crates goes into them, by which a known fault of a
/// crate is found in a program.
fn verb() -> Result<&'static str> {
    tool::subcommand("auditable", "cargo-auditable")?;
    Ok("auditable rustc")
}

/// The time of the commit, or now where there is none.
pub(super) fn commit_time() -> Result<String> {
    match read(&mut program("git", ["log", "-1", "--format=%cI"])) {
        Ok(time) if !time.trim().is_empty() => Ok(time.trim().to_owned()),
        _ => Ok("now".to_owned()),
    }
}

/// Runs a program with a folder that is a read-only file system to it, which holds for root, too.
const READ_ONLY: &str = r#"
set -eu
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
shift
exec "$@"
"#;

/// Runs what is in the tarball from a place that nobody may write to.
fn unpacked(tarball: &Path, name: &str) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder to unpack the tarball in")?;
    let folder = folder.path();
    run(program("tar", ["-xf"]).arg(tarball).arg("-C").arg(folder))?;
    let tree = folder.join(name);
    let at = |below: &str| tree.join(below).to_string_lossy().into_owned();
    let words = ["--mount", "--map-root-user", "sh", "-c", READ_ONLY, "sh"];
    let there = |words_there: &[&str]| {
        let mut there = program("unshare", words);
        there.arg(&tree).args(words_there).current_dir(folder).env("HOME", folder);
        there
    };
    anyhow::ensure!(
        !succeeds(&mut there(&["touch", &at("bin/kumiki")])),
        "what is in {} can be written to, which nothing is tried with then",
        tree.display()
    );
    print!("{}", read(&mut there(&[&at("bin/kumiki"), "--version"]))?);
    for name in ["kumiki-noded", install::AGENT] {
        print!("{}", read(&mut there(&[&at(&install::place_of(name)), "--version"]))?);
    }
    let measure = ["measure", "entry.getppid", "--quick", "--time", "1"];
    print!("{}", read(there(&[&at("bin/kumiki")]).args(measure))?);
    first_answer(&at, folder, &there)?;
    read(&mut there(&[&at("bin/kumiki-du"), "-s", &at("bin")]))?;
    read(&mut there(&[&at("bin/kumiki-httpd"), "--version"]))?;
    linked(&at, folder, &there)
}

/// Variable with the seconds that a first answer may take, where the machine does other work, too.
const SECONDS: &str = "KUMIKI_SMOKE_SECONDS";

/// Writes the quick report, which is promised within a minute of a machine that does nothing else.
fn first_answer(
    at: &dyn Fn(&str) -> String,
    folder: &Path,
    there: &dyn Fn(&[&str]) -> Command,
) -> Result<()> {
    let most = std::env::var(SECONDS).unwrap_or_else(|_| "60".to_owned());
    let most: u64 = most.parse().with_context(|| format!("{SECONDS}={most}: no number"))?;
    let begin = Instant::now();
    let page = folder.join("report.html");
    run(there(&[&at("bin/kumiki"), "report", "--quick", "--output"]).arg(&page))?;
    let took = begin.elapsed().as_secs();
    println!("kumiki report --quick: {took} s, of {most} at most ({SECONDS})");
    anyhow::ensure!(took <= most, "kumiki report --quick took {took} s, of {most} at most");
    anyhow::ensure!(page.is_file(), "kumiki report --quick has written no page");
    Ok(())
}

/// Builds a program in C with the library in that place, and runs it.
fn linked(
    at: &dyn Fn(&str) -> String,
    folder: &Path,
    there: &dyn Fn(&[&str]) -> Command,
) -> Result<()> {
    let pkg_config = ["--define-prefix", "--libs", "--cflags", &at("lib/pkgconfig/kumiki.pc")];
    let words = read(&mut program("pkg-config", pkg_config))?;
    anyhow::ensure!(words.contains(&at("lib")), "pkg-config says {words}");
    fs::write(folder.join("user.c"), USER).context("writing a program in C")?;
    let mut cc = there(&["cc", "-o", "user", "user.c"]);
    run(cc.args(words.split_whitespace()))?;
    run(there(&["./user"]).env("LD_LIBRARY_PATH", at("lib")))
}

const USER: &str = r#"
#include <kumiki/spawn.h>
#include <stddef.h>
#include <sys/wait.h>

int main(void)
{
    pid_t child;
    int status;
    char *argv[] = { "true", NULL }, *envp[] = { NULL };
    if (kumiki_spawn_start_server() != 0 || kumiki_spawnp(&child, "true", NULL, NULL, argv, envp))
        return 1;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
"#;

/// A file of sums, as `sha256sum --check` reads it.
pub(super) fn sums(folder: &Path, name: &str, files: &[PathBuf]) -> Result<()> {
    let names = files.iter().filter_map(|file| file.file_name()?.to_str());
    let sums = read(program("sha256sum", names).current_dir(folder))?;
    fs::write(folder.join(name), sums).with_context(|| format!("writing {name}"))
}
