//! Running other programs: each is printed before it runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask is a folder of the repository").to_owned()
}

/// The workspace's manifests, without what they depend on.
pub(crate) fn metadata() -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.current_dir(root()).no_deps();
    command.exec().context("reading the workspace's manifests")
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    Ok(metadata()?.target_directory.into())
}

/// A program, at the repository's root, with these arguments.
pub(crate) fn program<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs us, with these words as arguments.
pub(crate) fn cargo(words: &str) -> Command {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    program(&cargo, words.split_whitespace())
}

/// Says what is about to run.
pub(crate) fn announce(command: &Command) {
    eprintln!("$ {}", text(command));
}

/// The crate whose features bring peers, which need libraries in C++.
const PEERS: &str = "kumiki-bench";

/// What cargo is told to check or test: the workspace with every feature but those that
/// bring peers. Always the same words, or crates would be compiled once more.
pub(crate) fn everything() -> Result<String> {
    Ok(format!("--workspace --features {}", features(&metadata()?).join(",")))
}

fn features(workspace: &Metadata) -> Vec<String> {
    let packages = workspace.packages.iter().filter(|package| *package.name != PEERS);
    let mut features: Vec<_> = packages
        .flat_map(|package| package.features.keys().map(|name| format!("{}/{name}", package.name)))
        .collect();
    features.sort();
    features
}

/// Runs to the end; a failure is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    announce(command);
    let status = command.status().with_context(|| format!("cannot run `{}`", text(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", text(command));
    Ok(())
}

/// Runs to the end and hands back what it printed on stdout; stderr is passed
/// on. A failure is an error.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    announce(command);
    let output = command.stderr(Stdio::inherit()).output();
    let Output { status, stdout, .. } =
        output.with_context(|| format!("cannot run `{}`", text(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", text(command));
    String::from_utf8(stdout).with_context(|| format!("output of `{}`", text(command)))
}

/// Whether a program ends well, without a word from it.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A command as a person would type it.
pub(crate) fn text(command: &Command) -> String {
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
    fn everything_has_all_features_but_those_that_bring_peers() {
        let features = features(&metadata().unwrap());
        assert!(features.iter().any(|feature| feature == "kumiki-measure/store"), "{features:?}");
        assert!(!features.iter().any(|feature| feature.starts_with(PEERS)), "{features:?}");
    }
}
