//! Running other programs: each is printed before it runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand, Package};

/// The repository's root: that of the cargo that runs us. The one that we were built in
/// may be another, where a clone was copied with its target folder.
pub fn root() -> PathBuf {
    let running = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let ours = running.unwrap_or_else(|| Path::new(BUILT_IN).to_owned());
    repository(&ours).to_owned()
}

/// This crate's folder when it was compiled. At run time cargo says that of the program's crate.
const BUILT_IN: &str = env!("CARGO_MANIFEST_DIR");

/// The repository that a crate of `dev/` is in.
fn repository(folder: &Path) -> &Path {
    folder.ancestors().nth(2).expect("a crate of dev/ is in a folder of it, in the repository")
}

/// The folder that this clone was copied or moved from with its target folder, if it
/// was. Cargo takes what is built there for fresh, and test programs have the old
/// folder's files and programs by their paths.
pub fn moved_from() -> Option<PathBuf> {
    let running = env::var_os("CARGO_MANIFEST_DIR")?;
    other_folder(Path::new(BUILT_IN), Path::new(&running))
}

/// The repository of `built`, unless both crates are of one.
fn other_folder(built: &Path, running: &Path) -> Option<PathBuf> {
    let (built, running) = (repository(built), repository(running));
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    (real(built) != real(running)).then(|| built.to_owned())
}

/// Has cargo build the workspace's own crates anew, ourselves too, and runs us again.
pub fn again_after_move(from: &Path) -> Result<ExitCode> {
    const ONCE: &str = "KUMIKI_XTASK_MOVED";
    ensure!(
        env::var_os(ONCE).is_none(),
        "xtask was built anew and still names {}: remove the folder target, and try again",
        from.display()
    );
    eprintln!(
        "the target folder is of {}, and what was built there names it: the workspace's crates \
         are built anew",
        from.display()
    );
    let metadata = metadata()?;
    let names: Vec<_> = metadata
        .workspace_packages()
        .iter()
        .map(|package| format!("-p {}", package.name))
        .collect();
    run(&mut cargo(&format!("clean {}", names.join(" "))))?;
    let mut again = cargo("run --quiet --package xtask --");
    again.args(env::args_os().skip(1)).current_dir(env::current_dir()?).env(ONCE, "");
    let status = again.status().context("cannot run xtask again")?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// The workspace's manifests, without what they depend on.
pub fn metadata() -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.current_dir(root()).no_deps();
    command.exec().context("reading the workspace's manifests")
}

/// Where cargo puts what it builds.
pub fn target_folder() -> Result<PathBuf> {
    Ok(metadata()?.target_directory.into())
}

/// A program, at the repository's root, with these arguments.
pub fn program<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs us, with these words as arguments.
pub fn cargo(words: &str) -> Command {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    program(&cargo, words.split_whitespace())
}

/// Says what is about to run.
pub fn announce(command: &Command) {
    eprintln!("$ {}", text(command));
}

/// The crates whose features bring peers, which need libraries in C++.
pub const PEERS: [&str; 2] = ["kumiki-bench", "kumiki-bench-peers"];

/// What cargo is told to check or test: the workspace with every feature but those that
/// bring peers. Always the same words, or crates would be compiled once more.
pub fn everything() -> Result<String> {
    Ok(format!("--workspace --features {}", features(&metadata()?).join(",")))
}

/// Words of cargo for the packages that `chosen` says yes to, with all of their features.
pub fn everything_of(chosen: impl Fn(&Package) -> bool) -> Result<String> {
    let mut metadata = metadata()?;
    metadata.packages.retain(|package| chosen(package));
    let packages: Vec<_> =
        metadata.packages.iter().map(|p| format!("--package {}", p.name)).collect();
    let features = features(&metadata);
    let features = if features.is_empty() {
        String::new()
    } else {
        format!(" --features {}", features.join(","))
    };
    Ok(packages.join(" ") + &features)
}

/// The door that a package is behind: the folder of the repository that its folder is in.
pub fn door(package: &Package) -> String {
    let path = package.manifest_path.as_std_path();
    let below = path.strip_prefix(root()).unwrap_or(path);
    below.iter().next().map_or(String::new(), |door| door.to_string_lossy().into_owned())
}

fn features(workspace: &Metadata) -> Vec<String> {
    let packages =
        workspace.packages.iter().filter(|package| !PEERS.contains(&package.name.as_str()));
    let mut features: Vec<_> = packages
        .flat_map(|package| package.features.keys().map(|name| format!("{}/{name}", package.name)))
        .collect();
    features.sort();
    features
}

/// Runs to the end; a failure is an error.
pub fn run(command: &mut Command) -> Result<()> {
    announce(command);
    let status = command.status().with_context(|| format!("cannot run `{}`", text(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", text(command));
    Ok(())
}

/// Runs to the end and hands back what it printed on stdout; stderr is passed
/// on. A failure is an error.
pub fn read(command: &mut Command) -> Result<String> {
    announce(command);
    let output = command.stderr(Stdio::inherit()).output();
    let Output { status, stdout, .. } =
        output.with_context(|| format!("cannot run `{}`", text(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", text(command));
    String::from_utf8(stdout).with_context(|| format!("output of `{}`", text(command)))
}

/// Whether a program ends well, without a word from it.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A command as a person would type it.
pub fn text(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let typed = words.join(" ");
    // Under rustup `CARGO` is a path inside the toolchain.
    match typed.split_once(' ') {
        Some((path, rest)) if path.ends_with("/cargo") => format!("cargo {rest}"),
        _ => typed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_clone_is_seen_and_a_link_to_one_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new, link] = ["old", "new", "link"].map(|name| folder.path().join(name));
        for clone in [&old, &new] {
            std::fs::create_dir_all(clone.join("dev/xtask")).unwrap();
        }
        std::os::unix::fs::symlink(&old, &link).unwrap();
        let seen = |built: &Path, running: &Path| {
            other_folder(&built.join("dev/ship"), &running.join("dev/xtask"))
        };
        assert_eq!(seen(&old, &new), Some(old.clone()));
        assert_eq!(seen(&old, &old), None);
        assert_eq!(seen(&old, &link), None);
        // Moved: the old one is gone.
        std::fs::remove_dir_all(&old).unwrap();
        assert_eq!(seen(&old, &new), Some(old));
        // As this test runs, it is not.
        assert_eq!(moved_from(), None);
        assert!(root().join("dev/ship/src/run.rs").exists());
    }

    #[test]
    fn everything_has_all_features_but_those_that_bring_peers() {
        let features = features(&metadata().unwrap());
        assert!(features.iter().any(|feature| feature == "kumiki-measure/store"), "{features:?}");
        assert!(!features.iter().any(|feature| feature.starts_with(PEERS[0])), "{features:?}");
    }
}
