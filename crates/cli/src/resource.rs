//! `kumiki resource`: what running processes own, as one tree.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use kumiki_report::format;
use kumiki_resource::Listed;
use kumiki_resource::published::{ls_of, processes};
use serde::Serialize;

use crate::{Verdict, output};

#[derive(Debug, Args)]
pub(crate) struct Resource {
    #[command(subcommand)]
    command: ResourceCommand,
}

#[derive(Debug, Subcommand)]
enum ResourceCommand {
    /// List what processes of this user have published
    ///
    /// A process publishes its resources by `Interface::publish`. Exit status 1 if
    /// nothing matches.
    Ls {
        #[command(flatten)]
        which: Which,
        /// Print JSON on standard output
        #[arg(long)]
        json: bool,
    },
    /// The same again and again, what holds most memory first, until Ctrl-C
    Top {
        #[command(flatten)]
        which: Which,
        /// Seconds between two looks
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
        every: u64,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// Names as place/kind/unique, with *, ? and [a-c] within a part and ** across
    #[arg(default_value = "**")]
    pattern: String,
    /// Of this process only
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

/// A resource and whose it is.
#[derive(Debug, Serialize)]
struct Owned {
    process: u32,
    #[serde(flatten)]
    listed: Listed,
}

pub(crate) fn run(args: Resource) -> Result<Verdict> {
    match args.command {
        ResourceCommand::Ls { which, json } => {
            let all = look(&which)?;
            let verdict = if all.is_empty() { Verdict::Negative } else { Verdict::Fine };
            if json {
                output::json(&all)?;
            } else if all.is_empty() {
                output::talk("no running process of yours publishes a resource that matches");
            } else {
                print(&all)?;
            }
            Ok(verdict)
        }
        ResourceCommand::Top { which, every } => loop {
            let mut all = look(&which)?;
            all.sort_by_key(|owned| std::cmp::Reverse(owned.listed.about.bytes));
            // Home, and nothing below: as top(1) does, without a line of history.
            output::data(b"\x1b[H\x1b[J")?;
            print(&all)?;
            std::thread::sleep(Duration::from_secs(every));
        },
    }
}

/// A process that ends meanwhile, or does not answer, is said and passed over; one that
/// was asked for by its number is an error.
fn look(which: &Which) -> Result<Vec<Owned>> {
    let mut all = Vec::new();
    let asked = which.pid.map_or_else(processes, |pid| Ok(vec![pid]))?;
    for process in asked {
        match ls_of(process, &which.pattern) {
            Ok(listing) => {
                all.extend(listing.into_iter().map(|listed| Owned { process, listed }));
            }
            // The pattern is wrong for every process alike.
            Err(error @ kumiki_resource::Error::Refused { .. }) => return Err(error.into()),
            Err(error) if which.pid.is_some() => return Err(error.into()),
            Err(error) => output::talk(error),
        }
    }
    Ok(all)
}

fn print(all: &[Owned]) -> Result<()> {
    let mut table = output::columns(&["process", "name", "id", "state", "memory"], 4);
    for Owned { process, listed } in all {
        table.add_row([
            process.to_string(),
            listed.name.clone(),
            listed.id.to_string(),
            listed.about.state.clone(),
            format::bytes(listed.about.bytes),
        ]);
    }
    output::line(table.trim_fmt())
}
