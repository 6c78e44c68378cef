//! Debian's source package: the committed tree, and the crates of others that the packages are
//! built of, so that a builder without network and with Debian's own Rust makes them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{CargoOpt, MetadataCommand};
use serde_json::{Value, json};

use super::install::{self, LIBRARIES, PROGRAMS};
use crate::run::{cargo, program, read, run, target_folder};

/// Where the crates lie in the package.
const VENDOR: &str = "vendor";
/// Has cargo take crates from there alone.
const SETTINGS: &str = "\n# Of the source package: nothing is fetched.\n[source.crates-io]\n\
                        replace-with = \"vendored\"\n\n[source.vendored]\ndirectory = \"vendor\"\n";
/// The machines that packages are for, as debian/control says.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Makes the source package in a folder of its own: its `.dsc`.
pub(super) fn source() -> Result<PathBuf> {
    let folder = folder()?;
    let _ = fs::remove_dir_all(&folder);
    let name = format!("kumiki-{}", install::version()?);
    let tree = folder.join(&name);
    fs::create_dir_all(&tree).with_context(|| format!("making {}", tree.display()))?;
    let tar = folder.join("tree.tar");
    run(program("git", ["archive", "--format=tar", "HEAD", "--output"]).arg(&tar))?;
    run(program("tar", ["-xf"]).arg(&tar).arg("-C").arg(&tree))?;
    fs::remove_file(&tar).context("removing tree.tar")?;
    vendor(&tree)?;
    // Most of it is text that packs well by the least effort, too.
    let words = ["--compression-level=2", "--build"];
    run(program("dpkg-source", words).arg(&name).current_dir(&folder))?;
    Ok(folder.join(format!("kumiki_{}.dsc", install::version()?)))
}

/// Where it and its files are.
pub(super) fn folder() -> Result<PathBuf> {
    Ok(target_folder()?.join("deb-source"))
}

/// Puts the crates into the tree: whole what the packages are built of, and of the others, which
/// the lock file names and cargo looks for, what cargo reads of them.
fn vendor(tree: &Path) -> Result<()> {
    // A cargo that was told to stay off the network for the build may use what is there.
    let words = format!("vendor --locked --versioned-dirs --quiet {VENDOR}");
    read(cargo(&words).current_dir(tree))?;
    let settings = tree.join(".cargo/config.toml");
    let mut settings =
        fs::File::options().append(true).open(settings).context("cargo's settings")?;
    settings.write_all(SETTINGS.as_bytes()).context("cargo's settings")?;
    let needed = needed(tree)?;
    let mut command = MetadataCommand::new();
    let options = ["--locked".to_owned(), "--offline".to_owned()];
    // Also those that only a feature brings, which the lock file names as the others.
    command.features(CargoOpt::AllFeatures);
    let metadata = command.current_dir(tree).other_options(options).exec();
    let metadata = metadata.context("reading the crates' manifests")?;
    let vendor = metadata.workspace_root.join(VENDOR);
    let mut whole = 0;
    for package in &metadata.packages {
        let Some(folder) = package.manifest_path.parent() else { continue };
        if !folder.starts_with(&vendor) {
            continue;
        }
        let targets = package.targets.iter().map(|target| target.src_path.as_std_path());
        if needed.contains(&format!("{} v{}", package.name, package.version)) {
            whole += 1;
        } else {
            emptied(folder.as_std_path(), &targets.collect::<Vec<_>>())?;
        }
        unsummed(folder.as_std_path())?;
        without_originals(folder.as_std_path())?;
    }
    ensure!(whole > 0 && whole == needed.len(), "{whole} crates are there of {needed:?}");
    println!("{whole} crates of {} are in the source package whole", metadata.packages.len());
    Ok(())
}

/// Name and version of each crate of others that something packaged is built of.
fn needed(tree: &Path) -> Result<BTreeSet<String>> {
    let libraries = LIBRARIES.map(|package| (package, "", ""));
    let mut all = BTreeSet::new();
    for (package, _, features) in PROGRAMS.iter().chain(&libraries).chain(&[("xtask", "", "")]) {
        let mut tree_of = cargo(&format!(
            "tree --locked --offline --target {TARGET} --edges normal,build --prefix none \
             --package {package}"
        ));
        tree_of.args(["--format", "{p}"]).current_dir(tree);
        if !features.is_empty() {
            tree_of.args(["--features", features]);
        }
        all.extend(read(&mut tree_of)?.lines().filter_map(of_others));
    }
    Ok(all)
}

/// `name v1.2.3` of a line of `cargo tree`; nothing of one of our own, which has its folder.
fn of_others(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?);
    let more: Vec<&str> = words.collect();
    let ours = more.iter().any(|word| word.starts_with("(/"));
    (!ours).then(|| format!("{name} {version}"))
}

/// Leaves of a crate its manifest, and the files that this names, with nothing in them.
fn emptied(folder: &Path, targets: &[&Path]) -> Result<()> {
    let kept = ["Cargo.toml", ".cargo-checksum.json"];
    let kept = kept.map(|name| (folder.join(name), fs::read(folder.join(name))));
    fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    let made = |path: &Path, bytes: &[u8]| {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, bytes)
    };
    for (path, bytes) in kept {
        let bytes = bytes.with_context(|| format!("reading {}", path.display()))?;
        made(&path, &bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    for path in targets {
        made(path, b"").with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Removes what lintian takes for what a patch has left: a manifest as it was before it was published.
fn without_originals(folder: &Path) -> Result<()> {
    match fs::remove_file(folder.join("Cargo.toml.orig")) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing Cargo.toml.orig of {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Has cargo check no file of a crate: some are removed by their names, as `*.orig`.
fn unsummed(folder: &Path) -> Result<()> {
    let path = folder.join(".cargo-checksum.json");
    let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut sums: Value = serde_json::from_slice(&text).context("a crate's sums")?;
    sums["files"] = json!({});
    fs::write(&path, sums.to_string()).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_of_others_is_one_without_a_folder() {
        assert_eq!(of_others("libc v0.2.191"), Some("libc v0.2.191".to_owned()));
        assert_eq!(
            of_others("serde_derive v1.0.2 (proc-macro) (*)").unwrap(),
            "serde_derive v1.0.2"
        );
        assert_eq!(of_others("kumiki-sys v0.1.0 (/home/x/lib/sys) (*)"), None);
        assert_eq!(of_others(""), None);
    }

    #[test]
    fn an_emptied_crate_has_its_manifest_and_names() {
        let folder = tempfile::tempdir().unwrap();
        let crate_of = folder.path().join("a-1.0.0");
        fs::create_dir_all(crate_of.join("src")).unwrap();
        let write = |name: &str, text: &str| fs::write(crate_of.join(name), text).unwrap();
        write("Cargo.toml", "[package]");
        write("src/lib.rs", "mod long;");
        write("src/long.rs", "text");
        write(".cargo-checksum.json", r#"{"files":{"src/long.rs":"0"},"package":"1"}"#);
        emptied(&crate_of, &[&crate_of.join("src/lib.rs")]).unwrap();
        unsummed(&crate_of).unwrap();
        write("Cargo.toml.orig", "[package]");
        (0..2).for_each(|_| without_originals(&crate_of).unwrap());
        assert!(!crate_of.join("Cargo.toml.orig").exists());
        let text = |name: &str| fs::read_to_string(crate_of.join(name)).unwrap();
        assert_eq!((text("Cargo.toml"), text("src/lib.rs")), ("[package]".into(), String::new()));
        assert!(!crate_of.join("src/long.rs").exists());
        assert_eq!(text(".cargo-checksum.json"), r#"{"files":{},"package":"1"}"#);
    }
}
