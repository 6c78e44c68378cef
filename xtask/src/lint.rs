//! `cargo xtask lint`: everything about the sources that a machine can judge.

use std::process::ExitCode;

use anyhow::Result;

use crate::run::{cargo, everything, run};
use crate::{aarch64, deny, layers};

type Check = fn() -> Result<()>;

/// Runs every check, also after a failure, and fails if one did.
pub(crate) fn lint() -> Result<ExitCode> {
    let checks: [(&str, Check); 7] = [
        ("format", || run(&mut cargo("fmt --all --check"))),
        ("layers", layers::check),
        ("clippy", || {
            let what = everything()?;
            run(&mut cargo(&format!("clippy {what} --all-targets --locked -- -D warnings")))
        }),
        ("clippy for aarch64", aarch64::clippy),
        ("documentation", || {
            let what = everything()?;
            run(cargo(&format!("doc {what} --locked --no-deps")).env("RUSTDOCFLAGS", "-D warnings"))
        }),
        // Of no workspace, so nothing else sees whether they still compile.
        ("fuzz targets", || {
            let clippy = "clippy --manifest-path fuzz/Cargo.toml --locked -- -D warnings";
            run(cargo(clippy).env("RUSTFLAGS", "--cfg fuzzing"))
        }),
        ("dependencies", deny::check),
    ];
    let mut failed = Vec::new();
    for (name, check) in checks {
        if let Err(error) = check() {
            eprintln!("error: {name}: {error:#}");
            failed.push(name);
        }
    }
    if failed.is_empty() {
        println!("lint: clean");
        return Ok(ExitCode::SUCCESS);
    }
    println!("lint: failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}
