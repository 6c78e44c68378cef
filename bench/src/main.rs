//! Kumiki's shadow threads beside their peers, all in one interleaved run.
//!
//! ```text
//! kumiki-bench                 starts a process for each subject, all stopped
//!   round 1   raw · rayon_join · raw · futex · raw · kumiki · raw …
//!   round 2   raw · kumiki · raw · rayon_join · raw · …          (new order)
//!       each turn: SIGCONT, a request by pipe, samples back, SIGSTOP
//! ```
//!
//! Run it by `cargo xtask bench shadow`. Prints the result as JSON.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::pair::Pair;

mod child;
mod copy;
mod fork;
mod job;
mod pair;
mod plan;
mod request;
mod run;
mod stopwatch;
mod subject;
mod sum;

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => println!("{}", serde_json::to_string(&run::run()?)?),
        ["subject", name, main, helper, arena] => {
            let pair = Pair { main: main.parse()?, helper: helper.parse()? };
            child::serve(name, pair, Path::new(arena))?;
        }
        _ => bail!("{words:?}: takes no arguments; run it by `cargo xtask bench shadow`"),
    }
    Ok(())
}
