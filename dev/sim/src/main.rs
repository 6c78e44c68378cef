//! `cargo xtask sim`: counts what Kumiki's protocols cost on a machine of lines.

use std::process::ExitCode;

#[cfg(not(sim))]
fn main() -> ExitCode {
    eprintln!("error: built without --cfg sim: run `cargo xtask sim`");
    ExitCode::from(2)
}

#[cfg(sim)]
fn main() -> anyhow::Result<ExitCode> {
    kumiki_sim::table(std::env::args().skip(1))
}
