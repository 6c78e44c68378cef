//! `cargo xtask deb`: Debian's packages, of the committed tree, without network, and their source
//! package.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use super::{install, source};
use crate::debian;
use crate::run::{cargo, program, read, root, run, succeeds, target_folder};

/// Builds the packages on this Debian, puts them into `target/deb`, and has lintian judge them.
pub fn deb() -> Result<ExitCode> {
    debian::install("install")?;
    debian::install("deb")?;
    versions_agree()?;
    run(&mut cargo("fetch --locked"))?;
    let source = source::source()?;
    judged(&[source])?;
    let mut build = without_network();
    // What it is built with is here, and Rust is no package but the one that runs this.
    build.args(["dpkg-buildpackage", "--build=binary", "--no-sign", "--no-check-builddeps"]);
    // A wrapper of the user's that caches may need the network.
    run(build.env("RUSTC_WRAPPER", ""))?;
    let folder = folder()?;
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    // dpkg-buildpackage has no other place for them than the folder above the tree.
    let above = root().parent().context("the clone is in a folder")?.to_owned();
    let listed = fs::read_to_string(root().join("debian/files")).context("reading debian/files")?;
    for name in listed.lines().filter_map(|line| line.split(' ').next()) {
        let (from, to) = (above.join(name), folder.join(name));
        fs::copy(&from, &to).with_context(|| format!("copying {}", from.display()))?;
        fs::remove_file(&from).with_context(|| format!("removing {}", from.display()))?;
    }
    for leaving in ["changes", "buildinfo"] {
        let file = above.join(format!("kumiki_{}_amd64.{leaving}", install::version()?));
        let _ = fs::remove_file(file);
    }
    let packages = packages()?;
    judged(&packages)?;
    println!("{} packages in {}", packages.len(), folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Has lintian look at packages.
fn judged(packages: &[PathBuf]) -> Result<()> {
    run(program("lintian", ["--fail-on", "error", "--tag-display-limit", "0"]).args(packages))
}

pub(super) fn folder() -> Result<PathBuf> {
    Ok(target_folder()?.join("deb"))
}

/// The packages that were built.
pub(super) fn packages() -> Result<Vec<PathBuf>> {
    let folder = folder()?;
    let entries = fs::read_dir(&folder)
        .with_context(|| format!("{}: run `cargo xtask deb` first", folder.display()))?;
    let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
    let mut packages: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(is_package).collect();
    packages.sort();
    ensure!(!packages.is_empty(), "{} has no packages: run `cargo xtask deb`", folder.display());
    Ok(packages)
}

/// A network of its own with nothing in it, where that may be made.
fn without_network() -> std::process::Command {
    let words = ["unshare", "--net"];
    if succeeds(program(words[0], words[1..].iter().copied()).arg("true")) {
        return program(words[0], words[1..].iter().copied());
    }
    eprintln!("this user may not make a network without anything: cargo alone is kept from it");
    program("env", [])
}

/// Debian's changelog and the workspace speak of one version.
fn versions_agree() -> Result<()> {
    let said = read(&mut program("dpkg-parsechangelog", ["--show-field", "Version"]))?;
    let (said, ours) = (said.trim(), install::version()?);
    ensure!(said == ours, "debian/changelog is at {said}, Cargo.toml at {ours}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The Build-Depends of debian/control are what is installed here, beside Rust and what every
    /// builder has.
    #[test]
    fn a_builder_has_what_is_installed_here() {
        let control = fs::read_to_string(root().join("debian/control")).unwrap();
        let asked = control.split("Build-Depends:\n").nth(1).unwrap();
        let asked = asked.lines().take_while(|line| line.starts_with(' '));
        let bare = |line: &str| line.trim().split([' ', ',', ':']).next().unwrap().to_owned();
        let asked: BTreeSet<String> = asked.map(bare).collect();
        let of = |group| debian::packages(group).unwrap().into_iter().map(|package| package.name);
        let given: BTreeSet<String> = of("install").chain(of("deb")).collect();
        let others = ["cargo", "rustc", "debhelper-compat", "python3"];
        let lacking: Vec<_> = asked
            .iter()
            .filter(|name| !given.contains(*name) && !others.contains(&&***name))
            .collect();
        assert_eq!(lacking, [] as [&String; 0]);
        let rust = root().join("apps/cli/Cargo.toml");
        let rust = fs::read_to_string(rust).unwrap();
        let rust = rust.split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap();
        for name in ["cargo", "rustc"] {
            assert!(control.contains(&format!(" {name} (>= {rust}),\n")), "{name} {rust}");
        }
        for name in of("install").filter(|name| name != "binutils") {
            assert!(asked.contains(&name), "{name}");
        }
    }
}
