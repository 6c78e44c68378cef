//! `cargo xtask lab`: what is tested in machines of their own.

use std::process::ExitCode;

use anyhow::Result;

use crate::debian;
use crate::run::{cargo, run};

/// The test programs that start machines.
const PROGRAMS: [&str; 2] = ["--package kumiki-lab --test lab", "--package kumiki-cli --test lab"];

/// Runs the tests whose names contain one of these words, or all. What a lab
/// lacks is an error here, where `cargo test` passes over it.
pub(crate) fn lab(tests: &[String]) -> Result<ExitCode> {
    debian::install(debian::LAB)?;
    for program in PROGRAMS {
        let mut command = cargo(&format!("test {program} --locked"));
        command.arg("--").args(tests).env("KUMIKI_LAB", "required");
        run(&mut command)?;
    }
    Ok(ExitCode::SUCCESS)
}
