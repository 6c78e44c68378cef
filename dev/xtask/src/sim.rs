//! `cargo xtask sim`: the protocols between threads on a machine of lines.

use std::env;
use std::path::{PathBuf, absolute};
use std::process::{Command, ExitCode};

use anyhow::Result;
use cargo_metadata::Package;

use crate::run::{cargo, run, target_folder};

/// The crate of the machine.
const PACKAGE: &str = "kumiki-sim";

/// Protocols to count, and use of the counts.
#[derive(Debug, clap::Args)]
pub(crate) struct Sim {
    /// Only these protocols; all if none is given
    #[arg(value_name = "PROTOCOL")]
    protocols: Vec<String>,
    /// On a machine of so many cpus, 1 to 256, those protocols that take as many as there are
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// Nanoseconds of a transfer between cpus of one group of eight
    #[arg(long, value_name = "NS")]
    near: Option<f64>,
    /// Nanoseconds of one between two groups
    #[arg(long, value_name = "NS")]
    far: Option<f64>,
    /// Fails where fork and join are not as a bench has measured them (`cargo xtask bench shadow --json FILE`)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["protocols", "cpus", "near", "far"])]
    against: Option<PathBuf>,
    /// Measures all of them on two cpus of this machine, too, by the same code; fails where one differs by more
    /// than a fifth
    #[arg(long, conflicts_with_all = ["protocols", "cpus", "near", "far", "against", "check", "keep"])]
    measured: bool,
    /// Prints what teams of 2 to 256 would take, as `kumiki many` has it in measure/many/src/predictions.txt
    #[arg(long, conflicts_with_all = ["protocols", "cpus", "near", "far", "against", "measured", "check", "keep"])]
    predict: bool,
    /// Fails where a count is not as dev/sim/counts.txt has it
    #[arg(long)]
    check: bool,
    /// Writes the counts to dev/sim/counts.txt
    #[arg(long, conflicts_with_all = ["check", "protocols"])]
    keep: bool,
}

/// Counts the protocols.
pub(crate) fn sim(asked: &Sim) -> Result<ExitCode> {
    let mut command = built(&format!("run --quiet --profile sim --locked --package {PACKAGE} --"))?;
    command.args(&asked.protocols);
    let numbers =
        [("--cpus", asked.cpus.map(|n| n as f64)), ("--near", asked.near), ("--far", asked.far)];
    for (name, number) in numbers {
        if let Some(number) = number {
            command.args([name, &number.to_string()]);
        }
    }
    if let Some(file) = &asked.against {
        command.arg("--against").arg(absolute(file)?);
    }
    command.args(asked.measured.then_some("--measured")).args(asked.predict.then_some("--predict"));
    command.args(asked.check.then_some("--check")).args(asked.keep.then_some("--keep"));
    run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}

/// Command that runs the machine's tests, of which the counts are one, if `chosen` says yes to it.
pub(crate) fn commands(chosen: impl Fn(&Package) -> bool) -> Result<Option<Command>> {
    let metadata = crate::run::metadata()?;
    let packages = metadata.workspace_packages();
    let is_chosen = packages.iter().any(|package| *package.name == PACKAGE && chosen(package));
    is_chosen
        .then(|| built(&format!("test --profile sim --locked --package {PACKAGE}")))
        .transpose()
}

/// Cargo with the doubles, whose other flags rebuild the world: in a folder of its own.
fn built(words: &str) -> Result<Command> {
    let flags = format!("{} --cfg sim", env::var("RUSTFLAGS").unwrap_or_default());
    let mut command = cargo(words);
    command.env("RUSTFLAGS", flags.trim()).env("CARGO_TARGET_DIR", target_folder()?.join("sim"));
    Ok(command)
}
