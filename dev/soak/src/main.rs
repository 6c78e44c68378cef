//! One of Kumiki's programs or libraries under mixed clients and drawn faults, each answer checked
//! byte by byte, for as long as is asked: `cargo xtask soak`.
//!
//! ```text
//!  clients ── requests, each noted ──▶ subject ◀── faults, drawn by the seed
//!     │                                   │
//!     └─ answers checked, counted         └─ no answer for 5 s: all its threads' stacks, and the seed
//! ```
#![forbid(unsafe_code)]

mod child;
mod content;
mod faults;
mod ground;
mod http;
mod libkumiki;
// Of the tests of places, which need the same.
#[path = "../../../lib/places/tests/nats/mod.rs"]
mod nats;
mod site;
mod soak;
mod stacks;
mod starved;
mod subject;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use soak::Soak;
use subject::Subject;

/// Runs one of Kumiki's programs under mixed clients and drawn faults, and checks every answer.
#[derive(Debug, Parser)]
#[command(name = "kumiki-soak")]
struct Args {
    /// The subject
    subject: Subject,
    /// For so long; part of one, too: 0.5
    #[arg(long, default_value_t = 0.5)]
    minutes: f64,
    /// Decides what the clients do and which faults come; another one each time if not given
    #[arg(long)]
    seed: Option<u64>,
    /// Folder on a disk for the files that are served
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    // How this program starts a subject that is a server.
    let done = match words.next().as_deref() {
        Some("serve") => serve(&words.collect::<Vec<_>>()),
        _ => run(&Args::parse()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kumiki-soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(words: &[String]) -> Result<()> {
    let subject = words.first().context("no subject")?;
    let subject = Subject::from_str(subject, false).map_err(anyhow::Error::msg)?;
    child::end_with_parent()?;
    subject.serve(words)
}

fn run(args: &Args) -> Result<()> {
    let subject = args.subject;
    let seed = match args.seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64),
    };
    let span = Duration::try_from_secs_f64(args.minutes * 60.0).context("--minutes")?;
    let folder = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    // Before there are threads, which it would not be for.
    let ground = ground::Ground::new(&folder)?;
    if !subject.prepare(&ground)? {
        return Ok(());
    }
    println!("soak {}: {:.1} minutes, --seed {seed}", subject.name(), args.minutes);
    // As long as the process: tasks have it that nobody waits for.
    let soak: &Soak = Box::leak(Box::new(Soak::new(subject.name(), seed, span, ground.within())));
    match subject.soak(soak, &ground) {
        Ok(()) => {}
        Err(why) => soak.fail(&format!("{why:#}")),
    }
    soak.finish();
    Ok(())
}
