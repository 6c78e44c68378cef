//! An NVMe that a node has for its own, beside the host's own reads of the same one.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_node::{KernelForm, Node};

use super::devices::{DIRECT, IN_NODE, READ, in_node, read};
use super::{NODE, run};
use crate::run::median_of;

/// The machine's, alone behind its port, as large as what is read.
const NVME: &str = "0000:01:00.0";
/// The image whose nodes load its driver, which `cargo xtask bench node` makes for this part.
const IMAGE: &str = "nvme";
const DISK: &str = "/dev/nvme0n1";
const PIECE: usize = 128 << 10;
const LIMIT: Duration = Duration::from_secs(240);

/// The device goes to the node and back in each round, and whoever has it reads it twice.
pub(super) fn rows(_: &Path, rounds: usize) -> Result<Vec<Row>> {
    run(&["kumiki", "node", "create", NODE, "--memory", "384M", "--image", IMAGE])?;
    let node = Node::find(NODE)?;
    let own = std::env::current_exe().context("finding our own program")?;
    let (own, piece) = (own.to_string_lossy(), PIECE.to_string());
    let (mut of_host, mut of_node) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        until(|| Ok(Path::new(DISK).exists())).context("the host's NVMe")?;
        let by_host = || read(Path::new(DISK), DIRECT, PIECE);
        of_host.push(vec![by_host()?, by_host()?]);
        // Nothing confines it here: what it does is measured, not whom it could reach.
        run(&["kumiki", "node", "device", "add", NODE, "--pci", NVME, "--dma-unconfined"])?;
        node.start(KernelForm::Vmlinux, LIMIT)?;
        run(&["kumiki", "node", "cp", &own, &format!("{NODE}:{IN_NODE}")])?;
        until(|| Ok(in_node(&["test", "-b", DISK]).is_ok())).context("the node's NVMe")?;
        let by_node = || -> Result<f64> {
            let said = in_node(&[IN_NODE, READ, DISK, DIRECT, &piece])?;
            said.trim().parse().with_context(|| format!("{said:?}"))
        };
        of_node.push(vec![by_node()?, by_node()?]);
        node.stop(Duration::ZERO)?;
        run(&["kumiki", "node", "device", "rm", NODE, &format!("pci:{NVME}")])?;
        eprintln!("functions: round {} of {rounds}", round + 1);
    }
    node.delete()?;
    let base = Some(median_of(&of_host));
    Ok(vec![
        Row::rate(("device_read", "kumiki"), "GB/s", &of_node, base),
        Row::rate(("device_read", "host"), "GB/s", &of_host, base),
    ])
}

/// Waits until a driver has its device.
fn until(is_there: impl Fn() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !is_there()? {
        ensure!(begin.elapsed() < Duration::from_secs(30), "{DISK} does not come");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
