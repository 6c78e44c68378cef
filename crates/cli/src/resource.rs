//! `kumiki resource`: what running processes own, as one tree.

mod list;
mod row;
mod top;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use crate::{Verdict, output};

#[derive(Debug, Args)]
pub(crate) struct Resource {
    #[command(subcommand)]
    command: ResourceCommand,
}

#[derive(Debug, Subcommand)]
enum ResourceCommand {
    /// List what processes of this user have published, and this machine's nodes
    ///
    /// A process publishes its resources by `Interface::publish`, or in C by
    /// `kumiki_resource_publish`. Exit status 1 if nothing matches.
    Ls {
        #[command(flatten)]
        which: Which,
        /// List resources without a name one by one, too, and ids
        #[arg(long)]
        all: bool,
        /// Print JSON on standard output: all of them, with their ids
        #[arg(long)]
        json: bool,
    },
    /// The same again and again, the most used first, until Ctrl-C
    Top {
        #[command(flatten)]
        which: Which,
        /// Seconds between two looks
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
        every: u64,
        /// End after so many looks
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// What comes first
        #[arg(long, value_enum, default_value_t = Sort::Calls)]
        sort: Sort,
    },
}

/// What `top` begins with.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// What is called most often
    Calls,
    /// What holds most memory
    Memory,
    /// Processes by their numbers, resources by their names
    Name,
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

pub(crate) fn run(args: Resource) -> Result<Verdict> {
    match args.command {
        ResourceCommand::Ls { which, all, json } => {
            let rows = row::look(&which)?;
            if json {
                output::json(&rows)?;
            } else if rows.is_empty() {
                output::talk("no running process of yours publishes a resource that matches");
            } else {
                list::print(rows.clone(), all)?;
            }
            Ok(if rows.is_empty() { Verdict::Negative } else { Verdict::Fine })
        }
        ResourceCommand::Top { which, every, count, sort } => {
            top::run(&which, every, count, sort).map(|()| Verdict::Fine)
        }
    }
}
