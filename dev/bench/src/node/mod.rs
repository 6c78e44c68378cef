//! OS nodes: starts from a disk and from memory, of services and idle nodes, of container images,
//! programs in a node, whole lives of nodes, memory taken, devices, cpus and memory that move. Runs in a machine that has the module and an image `deb`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;

pub(crate) mod call;
mod container;
pub(crate) mod devices;
mod elastic;
mod exec;
mod functions;
mod life;
pub(crate) mod peer;
mod reserve;
mod rooted;
mod start;
mod warm;

/// The image that is there.
const IMAGE: &str = "deb";
/// The node that is made, of one cpu.
const NODE: &str = "bench";

/// Everything, or what `only` names; `folder` is on a disk.
pub(crate) fn rows(folder: &Path, rounds: usize, only: &[&str]) -> Result<Vec<Row>> {
    type Part = (&'static str, fn(&Path, usize) -> Result<Vec<Row>>);
    const PARTS: [Part; 9] = [
        ("start", start::rows),
        ("warm", warm::rows),
        ("rooted", rooted::rows),
        ("life", life::rows),
        ("reserve", reserve::rows),
        ("devices", devices::rows),
        ("functions", functions::rows),
        ("call", call::rows),
        ("elastic", elastic::rows),
    ];
    let known = |name: &&str| PARTS.iter().any(|(part, _)| part == name);
    ensure!(
        only.iter().all(known),
        "the bench node has start, warm, rooted, life, reserve, devices, functions, call and elastic, not {only:?}"
    );
    let mut rows = Vec::new();
    for (_, part) in PARTS.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        rows.extend(part(folder, rounds)?);
    }
    Ok(rows)
}

/// Runs a program without its output.
fn run(words: &[&str]) -> Result<()> {
    let (name, arguments) = words.split_first().context("a program has a name")?;
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().with_context(|| format!("running {name}"))?;
    ensure!(status.success(), "{words:?}: {status}");
    Ok(())
}
