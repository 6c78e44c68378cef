//! `cargo xtask test msrv`: the libraries by the oldest Rust that they promise, which is Debian 13's own.
//!
//! A crate's `rust-version` is a promise that no newer compiler can keep for it. Debian 13 has that
//! compiler and cargo, so they are had where packages of Debian are. Crates of others are chosen anew
//! there, as cargo chooses them for whoever depends on a library with that Rust.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use cargo_metadata::Metadata;

use crate::fresh::{CLONE, Clean, Release, verdicts_of};
use crate::run::{door, metadata};

/// Packages of that Debian beside its essential ones: no compiler but its own, and what the tests of places
/// talk to each other by.
const INSTALLED: [&str; 8] =
    ["ca-certificates", "cargo", "gcc", "git", "libc6-dev", "nats-server", "openssl", "rustc"];
/// The release whose Rust it is.
const RELEASE: Release = Release::Debian13;

/// Feature of the façade whose crates ask for Rust 1.87: every version of acpi_tables calls what that brought, and so does
/// each of ruzstd by which a packed file cannot ask for more memory than it is given.
const NEWER: &str = "node";

/// Builds and tests them there.
pub fn test() -> Result<ExitCode> {
    let metadata = metadata()?;
    let oldest = oldest(&metadata)?;
    let tested: Vec<_> = tested(&metadata, &oldest).map(|name| format!("-p {name}")).collect();
    ensure!(!tested.is_empty(), "no library has the workspace's rust-version, {oldest}");
    let features = features(&metadata)?;
    verdicts_of(Some(RELEASE), |release| {
        let clean = Clean::with_project("msrv", release, &INSTALLED)?;
        let before = format!(
            "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin CARGO_INCREMENTAL=0; cd {CLONE}"
        );
        let steps = [
            (
                format!("Rust is Debian's, and the one that is promised: {oldest}"),
                format!(
                    "[ \"$(command -v cargo)\" = /usr/bin/cargo ] && \
                     rustc --version | grep -F 'rustc {oldest}.' && cargo --version"
                ),
            ),
            (
                "crates of others are chosen for it".to_owned(),
                "rm Cargo.lock && cargo generate-lockfile && cargo fetch".to_owned(),
            ),
            (
                format!("the façade is built with all features but {NEWER}"),
                format!("cargo build --locked -p kumiki --features {features}"),
            ),
            (
                "the libraries' tests pass".to_owned(),
                format!("cargo test --locked --no-fail-fast --lib --tests {}", tested.join(" ")),
            ),
        ];
        clean.check(steps.map(|(what, line)| (what, format!("{before} && {line}"))).into())
    })
}

/// Features of the façade that the oldest Rust builds, with commas between them.
fn features(metadata: &Metadata) -> Result<String> {
    let facade = metadata.packages.iter().find(|package| *package.name == "kumiki");
    let facade = facade.ok_or_else(|| anyhow::anyhow!("the workspace has no crate kumiki"))?;
    let names = facade.features.keys().map(String::as_str);
    Ok(names.filter(|name| *name != NEWER).collect::<Vec<_>>().join(","))
}

/// The oldest Rust of the workspace, without its patch: `1.85`.
pub fn oldest(metadata: &Metadata) -> Result<String> {
    let versions = metadata.packages.iter().filter_map(|package| package.rust_version.as_ref());
    let oldest = versions.min().map(|version| format!("{}.{}", version.major, version.minor));
    oldest.ok_or_else(|| anyhow::anyhow!("no crate of the workspace has a rust-version"))
}

/// The libraries that are tested with it: those that promise it, but for what the tests of the
/// interface for C build by chores, which ask for more.
pub fn tested<'a>(metadata: &'a Metadata, oldest: &'a str) -> impl Iterator<Item = &'a str> {
    let promises = move |version: &cargo_metadata::semver::Version| {
        format!("{}.{}", version.major, version.minor) == oldest
    };
    let packages = metadata.packages.iter().filter(move |package| {
        package.rust_version.as_ref().is_some_and(promises)
            && (door(package) == "lib" || ["kumiki-ab", "kumiki-ring"].contains(&&**package.name))
            && !package.name.starts_with("kumiki-capi")
    });
    packages.map(|package| package.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_promise_the_oldest_rust_and_programs_ask_for_more() {
        let metadata = metadata().unwrap();
        let features = features(&metadata).unwrap();
        let has = |name: &str| features.split(',').any(|feature| feature == name);
        assert!(has("places") && has("ab") && !has(NEWER), "{features}");
        let oldest = oldest(&metadata).unwrap();
        let tested: Vec<_> = tested(&metadata, &oldest).collect();
        for name in ["sys", "wait", "calls", "slot", "crew", "shadow", "copy", "parasc", "resource"]
        {
            assert!(tested.contains(&&*format!("kumiki-{name}")), "{name}: {tested:?}");
        }
        for name in
            ["kumiki", "kumiki-spawn", "kumiki-ring", "kumiki-tokio", "kumiki-places", "kumiki-ab"]
        {
            assert!(tested.contains(&name), "{name}: {tested:?}");
        }
        assert!(!tested.contains(&"kumiki-cli") && !tested.contains(&"xtask"), "{tested:?}");
    }
}
