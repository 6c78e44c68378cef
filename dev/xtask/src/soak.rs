//! `cargo xtask soak SUBJECT`: one of Kumiki's programs or libraries under mixed clients and drawn
//! faults; see `soak`.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::run::{cargo, run, target_folder};

/// A subject, and how long it runs.
#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// The subject; a wrong name lists all
    subject: String,
    /// For so long; part of one, too
    #[arg(long, default_value_t = 0.5)]
    minutes: f64,
    /// Decides what the clients do and which faults come; another one each time if not given
    #[arg(long)]
    seed: Option<u64>,
}

/// Builds it as it is released, and runs it with its files in the build's folder.
pub(crate) fn soak(asked: &Soak) -> Result<ExitCode> {
    let folder = target_folder()?.join("tmp");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut command = cargo("run --quiet --release --locked --package kumiki-soak --");
    command.arg(&asked.subject).args(["--minutes", &asked.minutes.to_string()]);
    if let Some(seed) = asked.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    run(command.arg("--folder").arg(folder))?;
    Ok(ExitCode::SUCCESS)
}
