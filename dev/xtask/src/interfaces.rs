//! cargo-semver-checks: what the last release promised is still there, or the version says so.

use anyhow::Result;
use cargo_metadata::{Package, TargetKind};

use crate::package::is_published;
use crate::run::{cargo, metadata, program, read, run};
use crate::tool;

/// Compares each published library with itself at the last tag; without a tag there is nothing to compare.
pub(crate) fn check() -> Result<()> {
    let tags = read(&mut program("git", ["tag", "--list", "v*", "--sort=-version:refname"]))?;
    let Some(released) = tags.lines().next() else {
        eprintln!("nothing is released yet: there is no interface to keep");
        return Ok(());
    };
    tool::subcommand("semver-checks", "cargo-semver-checks")?;
    let metadata = metadata()?;
    let is_library =
        |package: &&&Package| package.targets.iter().any(|t| t.kind.contains(&TargetKind::Lib));
    let published = metadata.workspace_packages();
    let published = published.iter().filter(|package| is_published(package)).filter(is_library);
    let names: String = published.map(|package| format!(" --package {}", package.name)).collect();
    run(&mut cargo(&format!("semver-checks --baseline-rev {released}{names}")))
}
