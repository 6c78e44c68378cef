//! `kumiki report --nodes`: who has which cpus and memory of this machine.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use kumiki_node::Node;
use kumiki_report::{Owner, Owners, nodes_html};
use kumiki_sys::cpuset::CpuSet;

use crate::output;

/// The page, of a bench's result, of this machine if it can have nodes, or of both.
pub(crate) fn page(bench: Option<&Path>) -> Result<String> {
    let bench = bench.map(|path| crate::benched::read(path, "node")).transpose()?;
    let owners = match (kumiki_node::probe(), &bench) {
        (Ok(()), _) => Some(owners()?),
        (Err(error), Some(_)) => {
            output::talk(format_args!("only what was measured: {error}"));
            None
        }
        (Err(error), None) => bail!("{error}; or name the result of a bench: --nodes FILE"),
    };
    Ok(nodes_html(bench.as_ref(), owners.as_ref()))
}

fn owners() -> Result<Owners> {
    let present = "/sys/devices/system/cpu/present";
    let text = fs::read_to_string(present).with_context(|| format!("reading {present}"))?;
    let cpus: CpuSet = text.trim().parse().with_context(|| format!("reading {present}"))?;
    let iomem = fs::read_to_string("/proc/iomem").context("reading /proc/iomem")?;
    let nodes = Node::list()?.into_iter().map(|node| Owner {
        state: node.state_word().to_owned(),
        memory: node.memory.iter().filter_map(|piece| range(&piece.replace("0x", ""))).collect(),
        cpus: node.cpus,
        image: node.image,
        devices: devices(&node.name),
        name: node.name,
    });
    Ok(Owners {
        cpus: cpus.iter().map(|cpu| cpu as u32).collect(),
        memory: ram(&iomem),
        nodes: nodes.collect(),
    })
}

/// A node's devices; none of one whose making was interrupted.
fn devices(name: &str) -> Vec<String> {
    let devices = Node::find(name).and_then(|node| node.devices()).unwrap_or_default();
    devices.into_iter().map(|one| format!("{} ({})", one.name, one.what)).collect()
}

/// The ranges that the kernel calls its own memory.
fn ram(iomem: &str) -> Vec<(u64, u64)> {
    let own = iomem.lines().filter_map(|line| line.strip_suffix(" : System RAM"));
    own.filter_map(|text| range(text).map(|(from, last)| (from, last + 1))).collect()
}

/// Two hexadecimal numbers with a line between them.
fn range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.trim().split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_kernel_calls_so() {
        let iomem = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n\
                     fd000000-fdffffff : PCI\n  fd000000-fd000fff : x\n";
        assert_eq!(ram(iomem), [(0x1000, 0x9fc00)]);
        assert_eq!(range("40000000-50000000"), Some((0x4000_0000, 0x5000_0000)));
        assert_eq!(range("x-1"), None);
    }
}
