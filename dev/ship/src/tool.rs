//! Programs of others that cargo installs, each built once where it is missing.

use anyhow::Result;

use crate::run::{cargo, program, run, succeeds};

/// Has cargo's word `verb` ready, which `cargo install` makes by these words.
pub fn subcommand(verb: &str, install: &str) -> Result<()> {
    let there = succeeds(&mut cargo(&format!("{verb} --version")));
    installed(there, &format!("cargo-{verb}"), install)
}

/// Has a program ready that is no subcommand of cargo.
pub fn command(name: &str, install: &str) -> Result<()> {
    installed(succeeds(&mut program(name, ["--version"])), name, install)
}

/// Has a program of a crate of its name ready that says no version of its own.
pub fn in_path(name: &str) -> Result<()> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    installed(std::env::split_paths(&folders).any(|at| at.join(name).is_file()), name, name)
}

fn installed(there: bool, name: &str, install: &str) -> Result<()> {
    if there {
        return Ok(());
    }
    eprintln!("{name} is not installed; building it once, which takes some minutes");
    run(&mut cargo(&format!("install --locked {install}")))
}
