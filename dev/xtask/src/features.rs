//! cargo-hack: each crate by itself, with its features alone and in pairs.

use anyhow::Result;

use crate::run::{PEERS, cargo, run};
use crate::tool;

/// Built with the rest of the workspace a crate has the features that others ask for: what it forgot to
/// ask for itself is found only alone.
pub(crate) fn check() -> Result<()> {
    tool::subcommand("hack", "cargo-hack")?;
    let without = PEERS.map(|package| format!("--exclude {package}")).join(" ");
    run(&mut cargo(&format!(
        "hack check --workspace {without} --feature-powerset --depth 2 --locked --quiet"
    )))
}
