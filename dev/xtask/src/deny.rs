//! `cargo deny`: licences, sources and known faults of the dependencies.

use anyhow::Result;

use crate::run::{cargo, run};
use crate::tool;

/// Runs what `deny.toml` asks for. Known faults (advisories) are checked only
/// where their database can be fetched: a lint must also work offline.
pub(crate) fn check() -> Result<()> {
    tool::subcommand("deny", "cargo-deny")?;
    run(&mut cargo("deny --workspace --all-features --locked check licenses bans sources"))?;
    match run(&mut cargo("deny --workspace fetch db")) {
        Ok(()) => run(&mut cargo("deny --workspace --all-features --locked check advisories")),
        Err(error) => {
            eprintln!("advisories not checked: their database could not be fetched: {error:#}");
            Ok(())
        }
    }
}
