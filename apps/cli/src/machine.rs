//! `kumiki node plan` and `apply`: a whole machine by one file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use kumiki_node::{Apply, Changes, Free, Rollout, RolloutState, Step};
use kumiki_report::format;
use serde::Serialize;

use crate::duration::duration;
use crate::{Verdict, interrupt, output};

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// TOML file of images and nodes
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// TOML file of images and nodes
    file: PathBuf,
    /// Replace nodes that exist otherwise, one after the other
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    how: ApplyOptions,
}

/// Carrying out of a plan.
#[derive(Debug, Args)]
struct ApplyOptions {
    /// Give up waiting for a node to start, and to be healthy, after so long
    #[arg(long, value_parser = duration, default_value = "1m", value_name = "TIME")]
    timeout: Duration,
    /// Stop the next node that is replaced so long after the one before is healthy: until a
    /// balancer knows it, too
    #[arg(long, value_parser = duration, default_value = "0s", value_name = "TIME")]
    min_ready: Duration,
    /// Print the steps that were done as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCommand {
    /// Show how far the last `apply` is
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Return to what stood in the file before it was changed and applied
    Undo {
        #[command(flatten)]
        how: ApplyOptions,
    },
}

#[derive(Serialize)]
struct Planned {
    free: Free,
    /// None without a file.
    steps: Option<Vec<Step>>,
}

pub(crate) fn plan(args: &PlanArgs) -> Result<()> {
    let (free, steps) = match &args.file {
        Some(file) => {
            let apply = Apply::plan(file, Changes::Replace)?;
            (apply.free().clone(), Some(apply.steps().to_vec()))
        }
        None => (Free::now()?, None),
    };
    if args.json {
        return output::json(&Planned { free, steps });
    }
    shown(&free).iter().try_for_each(output::line)?;
    match steps {
        None => Ok(()),
        Some(steps) if steps.is_empty() => output::line("nothing to do"),
        Some(steps) => steps.iter().try_for_each(output::line),
    }
}

/// Two lines.
fn shown(free: &Free) -> [String; 2] {
    let cpus: Vec<_> = free.cpus.iter().map(u32::to_string).collect();
    let cpus = if cpus.is_empty() { "none".to_owned() } else { cpus.join(",") };
    let holders = free.holders();
    let holders = if holders.is_empty() { holders } else { format!(" ({holders})") };
    let blocks = free.blocks.iter();
    let blocks: Vec<_> = blocks
        .map(|blocks| format!("{} of {}", blocks.count, format::bytes(blocks.bytes)))
        .collect();
    let memory = format!(
        "free memory: {} beside {} that the host keeps; in one piece now: {}",
        format::bytes(free.memory_bytes),
        format::bytes(free.host_keeps_bytes),
        blocks.join(", ")
    );
    [format!("free cpus: {cpus}{holders}, room for {} more nodes", free.low_slices), memory]
}

pub(crate) fn apply(args: &ApplyArgs) -> Result<Verdict> {
    let changes = if args.yes { Changes::Replace } else { Changes::Refuse };
    carry_out(Apply::plan(&args.file, changes)?, &args.how)
}

pub(crate) fn rollout(args: &RolloutArgs) -> Result<Verdict> {
    match &args.command {
        RolloutCommand::Undo { how } => carry_out(Apply::undo()?, how),
        RolloutCommand::Status { json } => status(*json).map(|()| Verdict::Fine),
    }
}

fn status(json: bool) -> Result<()> {
    let last = Rollout::last()?;
    if json {
        return output::json(&last);
    }
    let Some(last) = last else { return output::line("no file was applied yet") };
    let begun =
        i64::try_from(last.begun_s).ok().and_then(|at| jiff::Timestamp::from_second(at).ok());
    let begun = begun.map_or(String::new(), |at| format!(", begun at {at}"));
    let state = match last.state {
        RolloutState::Running => "being applied",
        RolloutState::Interrupted => "interrupted: apply it again",
        RolloutState::Done => "applied",
        RolloutState::Failed => "failed, what was done is undone",
    };
    output::line(format_args!("{}: {state}{begun}", last.file.display()))?;
    for (n, step) in last.steps.iter().enumerate() {
        output::line(format_args!("{} {step}", if n < last.done { "done" } else { "    " }))?;
    }
    last.error.iter().try_for_each(output::line)
}

fn carry_out(apply: Apply, args: &ApplyOptions) -> Result<Verdict> {
    let steps = apply.steps().to_vec();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    interrupt::each(move |signal| {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(signal.exit_status().into());
        }
        output::talk("interrupted; what was done is undone. Once more does not wait for that");
    })?;
    apply.carry_out(args.timeout, args.min_ready, &stop, |step| {
        output::talk(format_args!("done: {step}"));
    })?;
    if args.json {
        output::json(&steps)?;
    } else if steps.is_empty() {
        output::talk("nothing to do: all of it is there");
    }
    Ok(Verdict::Fine)
}
