//! Which cpus there are, and how near they are to each other.
//!
//! Read from sysfs (Documentation/ABI/stable/sysfs-devices-system-cpu and
//! -node): the kernel describes an offline cpu by nothing but its number, so
//! cores, caches and NUMA nodes are known for online cpus only. A container or
//! a small virtual machine may lack the cache, node or topology files; the
//! cpus are then taken for separate cores of one package.

mod read;

use std::collections::{BTreeMap, BTreeSet};

use crate::cpuset::CpuSet;

/// The machine's cpus as the kernel sees them, whoever may use them: see
/// [`affinity::current`](crate::affinity::current) for what this thread may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    online: CpuSet,
    offline: CpuSet,
    possible: CpuSet,
    cpus: BTreeMap<usize, Cpu>,
    nodes: BTreeMap<usize, Node>,
}

/// One online cpu (a hardware thread).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: usize,
    /// Physical package (socket), if the firmware says.
    pub package: Option<usize>,
    /// Core number, unique only within a package or die.
    pub core: Option<usize>,
    /// The online hardware threads of its core, itself included.
    pub siblings: CpuSet,
    /// NUMA node.
    pub node: Option<usize>,
    /// Its caches, nearest first.
    pub caches: Vec<Cache>,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u8,
    /// Contents: code, data or both.
    pub kind: CacheKind,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// The online cpus that use it.
    pub shared: CpuSet,
}

/// Contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// A NUMA node. Nodes without cpus exist (memory on a CXL bus).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: usize,
    /// Its online cpus.
    pub cpus: CpuSet,
    /// Its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// The firmware's distance to each online node; 10 is local.
    pub distances: BTreeMap<usize, u32>,
}

/// Relation of two cpus; the smaller is the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// One and the same cpu.
    Same,
    /// Hardware threads of one core.
    Sibling,
    /// Two cores with a common cache; the level is that of the nearest one.
    Cache {
        /// 2 or 3 on today's machines.
        level: u8,
    },
    /// One NUMA node, no common cache.
    Node,
    /// One package, another node.
    Package,
    /// Another package, or nothing is known.
    Remote,
}

impl Topology {
    /// Cpus that run.
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Cpus that are possible but switched off, absent or not brought up.
    pub fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// Cpus that this kernel could ever bring up on this machine.
    pub fn possible(&self) -> &CpuSet {
        &self.possible
    }

    /// The online cpus, smallest number first.
    pub fn cpus(&self) -> impl Iterator<Item = &Cpu> {
        self.cpus.values()
    }

    /// One cpu; `None` if it is not online.
    pub fn cpu(&self, cpu: usize) -> Option<&Cpu> {
        self.cpus.get(&cpu)
    }

    /// The NUMA nodes; none if the kernel was built without NUMA.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Number of NUMA nodes, at least 1.
    pub fn numa_nodes(&self) -> usize {
        self.nodes.len().max(1)
    }

    /// Number of physical cores with an online cpu.
    pub fn cores(&self) -> usize {
        let cores: BTreeSet<_> = self.cpus().map(|cpu| cpu.siblings.first()).collect();
        cores.len()
    }

    /// Hardware threads of the core that has most online.
    pub fn threads_per_core(&self) -> usize {
        let threads = self.cpus().map(|cpu| cpu.siblings.len());
        threads.max().unwrap_or(1)
    }

    /// The online hardware threads of `cpu`'s core, itself included; empty if
    /// `cpu` is not online.
    pub fn siblings(&self, cpu: usize) -> CpuSet {
        self.cpu(cpu).map(|cpu| cpu.siblings.clone()).unwrap_or_default()
    }

    /// The cache of `cpu` that is furthest from it.
    pub fn last_level_cache(&self, cpu: usize) -> Option<&Cache> {
        let caches = self.cpu(cpu)?.caches.iter();
        caches.max_by_key(|cache| cache.level)
    }

    /// Size in bytes of the largest last-level cache. A machine may have
    /// several, one for each package or group of cores.
    pub fn last_level_cache_bytes(&self) -> Option<u64> {
        let sizes = self.online.iter().filter_map(|cpu| {
            let cache = self.last_level_cache(cpu)?;
            cache.size_bytes
        });
        sizes.max()
    }

    /// Relation of two cpus. Cpus that are not online are remote.
    pub fn relation(&self, a: usize, b: usize) -> Relation {
        let (Some(a), Some(b)) = (self.cpu(a), self.cpu(b)) else {
            return Relation::Remote;
        };
        if a.id == b.id {
            return Relation::Same;
        }
        if a.siblings.contains(b.id) {
            return Relation::Sibling;
        }
        let common = a.caches.iter().filter(|cache| cache.shared.contains(b.id));
        if let Some(level) = common.map(|cache| cache.level).min() {
            return Relation::Cache { level };
        }
        let same = |a: Option<usize>, b: Option<usize>| a.is_some() && a == b;
        if same(a.node, b.node) {
            Relation::Node
        } else if same(a.package, b.package) {
            Relation::Package
        } else {
            Relation::Remote
        }
    }

    /// Another hardware thread of `cpu`'s core among `among`.
    pub fn sibling(&self, cpu: usize, among: &CpuSet) -> Option<usize> {
        let siblings = self.siblings(cpu).intersection(among);
        siblings.iter().find(|&other| other != cpu)
    }

    /// The cpu of `among` that is nearest to `cpu` and on another physical
    /// core: by shared cache, then NUMA node and distance, then package, then
    /// number. `None` if there is none that is online.
    pub fn nearest_core(&self, cpu: usize, among: &CpuSet) -> Option<usize> {
        self.nearest_from(cpu, among, Relation::Sibling)
    }

    /// The other cpu of `among` that is nearest to `cpu`, a hardware thread of
    /// the same core first.
    pub fn nearest(&self, cpu: usize, among: &CpuSet) -> Option<usize> {
        self.nearest_from(cpu, among, Relation::Same)
    }

    /// The nearest cpu whose relation is looser than `beyond`.
    fn nearest_from(&self, cpu: usize, among: &CpuSet, beyond: Relation) -> Option<usize> {
        let candidates = among.intersection(&self.online);
        let ranked = candidates.iter().filter_map(|other| {
            let relation = self.relation(cpu, other);
            let rank = (relation, self.numa_distance(cpu, other), other);
            (relation > beyond && other != cpu).then_some(rank)
        });
        ranked.min().map(|(_, _, other)| other)
    }

    /// The firmware's distance between the nodes of two cpus; unknown ones are
    /// furthest.
    fn numa_distance(&self, a: usize, b: usize) -> u32 {
        let distance = || {
            let from = self.nodes.get(&self.cpu(a)?.node?)?;
            from.distances.get(&self.cpu(b)?.node?).copied()
        };
        distance().unwrap_or(u32::MAX)
    }
}
