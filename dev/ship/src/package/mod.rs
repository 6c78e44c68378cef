//! `cargo xtask package`: the crates as a registry would have them.
//!
//! Every crate that is published is packed, unpacked into a folder and built there without the
//! workspace around it: what a crate reads that its package lacks is missing there, too. Then
//! the README's first program is run in a new crate that knows the packed ones only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Package;

use crate::readme;
use crate::run::{cargo, metadata, program, read, root, run, target_folder};

mod blanks;
mod leaving;
mod published;

pub use blanks::{ACTION, blanks};
pub use published::check;
pub use published::{PRIVATE, is_published};

/// Packs, builds and uses the crates; with `tests` runs the tests of these, as packed. For a `release`
/// nothing may be left for a maintainer to fill in.
pub fn package(tests: &[String], release: bool) -> Result<ExitCode> {
    check()?;
    let blanks = blanks()?;
    for blank in &blanks {
        eprintln!("a maintainer fills in before a release: {blank}");
    }
    ensure!(!release || blanks.is_empty(), "{} places are not filled in", blanks.len());
    run(&mut cargo("fetch --locked"))?;
    let packed = unpack()?;
    let cargo_there = |words: &str| {
        let mut there = cargo(words);
        there.current_dir(&packed);
        there
    };
    // Features as each crate has them by default: those are what is fetched with it.
    run(&mut cargo_there("check --workspace --all-features --all-targets"))?;
    for name in tests {
        run(&mut cargo_there(&format!("test --all-features --package {name}")))?;
    }
    first_program(&packed)?;
    println!("packed: {} crates build and run outside of the workspace", names()?.len());
    Ok(ExitCode::SUCCESS)
}

/// Packs every published crate; the files of a registry's upload.
pub fn pack() -> Result<Vec<PathBuf>> {
    // What is not committed is packed, too: a person looks at what they are about to commit.
    // Offline: asking the registry for each crate anew takes ten times as long.
    let mut words =
        "package --workspace --no-verify --allow-dirty --quiet --locked --offline".to_owned();
    for name in PRIVATE {
        words += &format!(" --exclude {name}");
    }
    run(&mut cargo(&words))?;
    let folder = target_folder()?.join("package");
    let file = |package: &Package| {
        let file = folder.join(format!("{}-{}.crate", package.name, package.version));
        ensure!(file.is_file(), "cargo packed no {}", file.display());
        Ok(file)
    };
    metadata()?.workspace_packages().into_iter().filter(|p| is_published(p)).map(file).collect()
}

fn names() -> Result<Vec<String>> {
    let metadata = metadata()?;
    let published = metadata.workspace_packages().into_iter().filter(|p| is_published(p));
    Ok(published.map(|package| package.name.to_string()).collect())
}

/// The packed crates side by side, as members of a workspace that has nothing else.
fn unpack() -> Result<PathBuf> {
    let files = pack()?;
    let folder = target_folder()?.join("packed");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for file in &files {
        run(program("tar", ["-xf"]).arg(file).arg("-C").arg(&folder))?;
    }
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\nexclude = [\"user\"]\n\n{}\n{}",
        patches(&folder)?,
        profiles()?
    );
    fs::write(folder.join("Cargo.toml"), manifest).context("writing the packed workspace")?;
    // The versions that are here already: nothing is downloaded.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).context("copying Cargo.lock")?;
    Ok(folder)
}

/// Lines that have cargo take our crates from `folder` instead of a registry.
fn patches(folder: &Path) -> Result<String> {
    let metadata = metadata()?;
    let published = metadata.workspace_packages().into_iter().filter(|p| is_published(p));
    let line = |package: &Package| {
        let path = folder.join(format!("{}-{}", package.name, package.version));
        format!("{} = {{ path = {path:?} }}\n", package.name)
    };
    Ok(format!("[patch.crates-io]\n{}", published.map(line).collect::<String>()))
}

/// The workspace's profiles, by which what it has built of other crates is not built again.
fn profiles() -> Result<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("reading Cargo.toml")?;
    let at = manifest.find("[profile.dev]").context("Cargo.toml has no [profile.dev]")?;
    Ok(manifest[at..].to_owned())
}

/// The README's first program in Rust, in a crate that has only packed ones to build upon.
fn first_program(packed: &Path) -> Result<()> {
    let (dependencies, program) = readme::first_program()?;
    let folder = packed.join("user");
    fs::create_dir_all(folder.join("src")).context("making the user's crate")?;
    let manifest = format!(
        "[package]\nname = \"user\"\nedition = \"2024\"\n\n{}\n[workspace]\n\n{}\n{}",
        from_registry(&dependencies)?,
        patches(packed)?,
        profiles()?
    );
    fs::write(folder.join("Cargo.toml"), manifest).context("writing the user's manifest")?;
    fs::write(folder.join("src/main.rs"), program).context("writing the user's program")?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).context("copying Cargo.lock")?;
    let mut user: Command = cargo("run --quiet");
    user.current_dir(&folder).stdin(Stdio::null()).env("CARGO_TARGET_DIR", target_folder()?);
    let said = read(&mut user)?;
    ensure!(!said.is_empty(), "the README's first program printed nothing");
    print!("{said}");
    Ok(())
}

/// The README's dependencies with this version in place of a clone's path.
fn from_registry(dependencies: &str) -> Result<String> {
    const SHOWN: &str = "path = \"kumiki/lib/kumiki\"";
    ensure!(dependencies.contains(SHOWN), "the README no longer depends on {SHOWN}");
    let metadata = metadata()?;
    let kumiki = metadata.packages.iter().find(|package| package.name == "kumiki");
    let version = &kumiki.context("the workspace has no kumiki")?.version;
    Ok(dependencies.replace(SHOWN, &format!("version = \"{version}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_s_crate_names_a_version_and_every_packed_crate_stands_in() {
        let dependencies = readme::first_program().unwrap().0;
        let manifest = from_registry(&dependencies).unwrap();
        assert!(manifest.contains("kumiki = { version = \"") && !manifest.contains("path"));
        let patches = patches(Path::new("/packed")).unwrap();
        assert!(patches.contains("kumiki-sys = { path = \"/packed/kumiki-sys-"), "{patches}");
        assert!(PRIVATE.iter().all(|name| !patches.contains(&format!("\n{name} ="))), "{patches}");
        assert!(profiles().unwrap().starts_with("[profile.dev]\n"));
    }
}
