//! Things that this machine has, and which are free.

use std::collections::BTreeMap;
use std::fs;

use kumiki_node_devices::pci::Function;
use kumiki_node_devices::record::{Elastic, MemoryLimits};
use kumiki_node_devices::spec::DeviceSpec;
use kumiki_node_image::image::{Image, ImageKind};
use kumiki_node_image::listing;
use kumiki_node_image::listing::NodeState;
use kumiki_node_image::needs::Needs;
use kumiki_node_wire::device;
use kumiki_node_wire::memory::numa;
use kumiki_node_wire::module::{requests, sysfs};
use serde::Serialize;

use crate::Result;
use crate::balance;
use crate::host::cpus;
use crate::host::spec::{Cpus, MemorySource, Spec};
use crate::node::hotplug::next_size;

/// Cpus, memory and images that a machine has for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Free {
    /// Cpus that the host could give, those first that are given first.
    pub cpus: Vec<u32>,
    /// Cpus that nodes have, and whose each is.
    pub held: BTreeMap<u32, String>,
    /// Number of further nodes for which there is a low slice: room below 1 MiB, which a start
    /// needs.
    pub low_slices: u64,
    /// Memory that the host could give.
    pub memory_bytes: u64,
    /// Memory that it keeps for itself beside that.
    pub host_keeps_bytes: u64,
    /// Blocks of 2 MiB and more that are free as they are. More can be had: the
    /// host moves what lies in the way.
    pub blocks: Vec<Blocks>,
}

/// Free contiguous memory of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// Bytes of each.
    pub bytes: u64,
    /// Number of them.
    pub count: u64,
}

impl Free {
    /// Looks at this machine.
    pub fn now() -> Result<Self> {
        requests::probe()?;
        let path = "/proc/buddyinfo";
        Ok(Free {
            cpus: cpus::free()?,
            held: cpus::held()?,
            low_slices: sysfs::low_slices()?,
            memory_bytes: device::available_bytes()?.saturating_sub(device::HOST_KEEPS_BYTES),
            host_keeps_bytes: device::HOST_KEEPS_BYTES,
            blocks: blocks(&fs::read_to_string(path).map_err(|e| crate::Error::file(path, e))?),
        })
    }
}

impl Free {
    /// Owners of the cpus that are not free, for people: `node n1 has 3,2`; cpu 0 is always
    /// the host's. Nothing if no node has any.
    pub fn holders(&self) -> String {
        cpus::holders(&self.held)
    }
}

/// Sums over all zones of what `/proc/buddyinfo` has in a column from 2 MiB on;
/// column n counts blocks of 4 KiB << n.
fn blocks(buddyinfo: &str) -> Vec<Blocks> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for line in buddyinfo.lines() {
        // `Node 0, zone   Normal   1 2 3 …`
        let columns = line.split_whitespace().skip(4).zip(0..);
        for (count, order) in columns.filter(|&(_, order)| order >= 9) {
            *counts.entry(4096 << order).or_default() += count.parse().unwrap_or(0);
        }
    }
    counts.into_iter().rev().map(|(bytes, count)| Blocks { bytes, count }).collect()
}

/// An image in memory.
#[derive(Clone, Debug)]
pub(super) struct Resident {
    /// Digest of its contents; none if making it was interrupted.
    pub(super) sha256: Option<String>,
    /// Needs of a node for it; none if making it was interrupted.
    pub(super) needs: Option<Needs>,
}

/// A node that exists.
#[derive(Clone, Debug)]
pub(super) struct Existing {
    pub(super) state: NodeState,
    pub(super) cpus: Vec<u32>,
    /// NUMA nodes that were named for its memory.
    pub(super) numa: Vec<u32>,
    pub(super) elastic: Option<Elastic>,
    /// Cpus that its kernel was told of, if it runs.
    pub(super) told: Vec<u32>,
    pub(super) bytes: u64,
    pub(super) memory: Option<MemoryLimits>,
    /// Bytes of that its kernel is started with, and of which the rest is a multiple; 0: not known yet.
    pub(super) started_with: u64,
    pub(super) unit: u64,
    /// Sizes of its pieces of memory.
    pub(super) pieces: Vec<u64>,
    /// Image and command line; none if making it was interrupted.
    pub(super) made_of: Option<(String, String)>,
    pub(super) devices: Vec<DeviceSpec>,
    pub(super) init: Option<String>,
    pub(super) pci: Vec<Function>,
    /// True if DMA of any of those may reach all memory.
    pub(super) dma_unconfined: bool,
}

/// Nodes of one cpu share so many places below 1 MiB (`SHARED_SLICES` of the module).
const SHARED_SLICES: usize = 4;

/// Number of places below 1 MiB for one more node, beside so many that share.
pub(super) fn slices_for(shares: bool, sharers: usize) -> u64 {
    u64::from(!shares || sharers < SHARED_SLICES)
}

impl Existing {
    /// True if it has one cpu for ever.
    pub(super) fn shares_slice(&self) -> bool {
        self.elastic.is_none() && self.cpus.len() == 1
    }

    /// True if it was started, whatever has become of it.
    pub(super) fn was_started(&self) -> bool {
        !matches!(self.state, NodeState::Created | NodeState::Stopped)
    }

    /// True if its number of cpus lies in its limits.
    pub(super) fn has_cpus_within_limits(&self) -> bool {
        self.elastic.is_some_and(|Elastic { min, max }| (min..=max).contains(&self.cpus.len()))
    }

    /// True if its memory lies in its limits.
    pub(super) fn has_memory_within_limits(&self) -> bool {
        self.memory.is_some_and(|MemoryLimits { min, max }| (min..=max).contains(&self.bytes))
    }

    /// True if it may get this cpu as it is.
    pub(super) fn may_get(&self, cpu: u32) -> bool {
        !self.was_started() || self.told.contains(&cpu)
    }

    /// True if it may have so many as it is: its kernel was told of so many, and its agent answers.
    pub(super) fn may_have(&self, count: usize) -> bool {
        let is_elastic =
            self.elastic.is_some_and(|Elastic { min, max }| (min..=max).contains(&count));
        match self.state {
            NodeState::Ready => is_elastic && count <= self.told.len(),
            NodeState::Created | NodeState::Stopped => is_elastic,
            _ => false,
        }
    }

    /// Memory that it has as it is when it is to have so much, if its limits and its kernel allow that.
    pub(super) fn sized(&self, wanted: u64) -> Option<u64> {
        let MemoryLimits { min, max } = self.memory?;
        let is_there = matches!(self.state, NodeState::Ready | NodeState::Stopped);
        let may = is_there && self.unit > 0 && (min..=max).contains(&wanted);
        let size = next_size(self.started_with, self.unit, wanted).filter(|_| may)?;
        (size <= max).then_some(size)
    }

    /// Specification by which it would be made again; none if making it was interrupted.
    pub(super) fn spec(&self, name: &str) -> Option<Spec> {
        let (image, command_line) = self.made_of.clone()?;
        Some(Spec {
            name: name.to_owned(),
            image,
            cpus: Cpus::These(self.cpus.clone()),
            numa: self.numa.clone(),
            elastic: self.elastic,
            memory_limits: self.memory,
            memory_bytes: self.pieces.clone(),
            memory_from: MemorySource::Any,
            command_line,
            devices: self.devices.clone(),
            init: self.init.clone(),
            pci: self.pci.clone(),
            dma_unconfined: self.dma_unconfined,
        })
    }
}

/// All that a plan depends on beside the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Situation {
    pub(super) free: Free,
    /// NUMA node of each cpu that is on line.
    pub(super) numa_nodes: BTreeMap<u32, u32>,
    pub(super) images: BTreeMap<String, Resident>,
    pub(super) nodes: BTreeMap<String, Existing>,
    /// True if `balance` is at work, whose moves within limits are to stay.
    pub(super) balanced: bool,
}

impl Situation {
    /// Looks at this machine.
    pub(super) fn now() -> Result<Self> {
        let free = Free::now()?;
        let mut images = BTreeMap::new();
        for image in Image::list()? {
            let complete = image.sha256.is_some() && image.kind == ImageKind::Kernel;
            let needs = if complete { Some(Image::open(&image.name)?.needs()) } else { None };
            images.insert(image.name, Resident { sha256: image.sha256, needs });
        }
        let nodes = listing::records()?.into_iter().map(
            |listing::Recorded { info: node, record, pieces, unit }| {
                let record = record.as_ref();
                let with = record.and_then(|record| record.pieces).unwrap_or(pieces.len());
                let existing = Existing {
                    state: node.state,
                    cpus: node.cpus,
                    numa: record.map_or(Vec::new(), |record| record.numa.clone()),
                    elastic: record.and_then(|record| record.elastic),
                    told: record.map_or(Vec::new(), |record| {
                        record.told.iter().map(|&(cpu, _)| cpu).collect()
                    }),
                    bytes: node.bytes,
                    memory: record.and_then(|record| record.memory),
                    started_with: pieces.iter().take(with).sum(),
                    unit,
                    pieces,
                    made_of: node.image.zip(node.command_line),
                    devices: record.map_or(Vec::new(), |record| {
                        record.devices.iter().map(|device| device.device.clone()).collect()
                    }),
                    init: record.and_then(|record| record.init.clone()),
                    pci: record.map_or(Vec::new(), |record| record.pci.clone()),
                    dma_unconfined: record
                        .is_some_and(|record| record.confined.len() < record.pci.len()),
                };
                (node.name, existing)
            },
        );
        let (numa_nodes, nodes) = (numa::of_cpus(), nodes.collect());
        Ok(Situation { free, numa_nodes, images, nodes, balanced: balance::is_at_work() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_blocks_are_summed_over_zones() {
        let text = "Node 0, zone      DMA      0 0 0 0 0 0 0 0 1      1      3 \n\
                    Node 0, zone   Normal  45184 2 3 4 5 6 7 8 9    463    412 \n";
        let mib = |bytes: u64, count| Blocks { bytes: bytes << 20, count };
        assert_eq!(blocks(text), [mib(4, 415), mib(2, 464)]);
        assert!(blocks("").is_empty());
    }
}
