//! Reads a [`Topology`] from sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use super::{Cache, CacheKind, Cpu, Node, Topology};
use crate::affinity;
use crate::cpuset::CpuSet;
use crate::error::{Error, Result};

impl Topology {
    /// Reads the running machine. Without `/sys` the cpus that this thread may
    /// use are taken for separate cores.
    pub fn read() -> Result<Self> {
        #[cfg(sim)]
        if let Some(machine) = crate::sim::machine() {
            return Ok(Self::simulated(machine.cpus(), machine.group()));
        }
        match Self::read_from(Path::new("/sys/devices/system")) {
            Err(Error::Unsupported { .. }) => Ok(Self::flat(affinity::current()?)),
            outcome => outcome,
        }
    }

    /// Cpus of each NUMA node that has some, without a look at cores and caches; none if the kernel
    /// was built without NUMA, or does not tell.
    pub fn cpus_of_nodes() -> Vec<CpuSet> {
        Self::cpus_of_nodes_from(Path::new("/sys/devices/system"))
    }

    /// NUMA nodes alone, of a tree as [`read_from`](Self::read_from) reads.
    pub fn cpus_of_nodes_from(root: &Path) -> Vec<CpuSet> {
        // Files alone: std panics where close(2) is refused after a look into a folder.
        let dir = root.join("node");
        let nodes = list(&dir.join("has_cpu")).ok().flatten().unwrap_or_default();
        let cpus = |node| list(&dir.join(format!("node{node}/cpulist"))).ok().flatten();
        nodes.iter().filter_map(cpus).collect()
    }

    /// Reads a tree of the shape of `/sys/devices/system`, such as a recorded
    /// one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no cpu in it, [`Error::File`] or
    /// [`Error::Malformed`] naming the file that cannot be read or understood.
    /// A file that is missing is not an error.
    pub fn read_from(root: &Path) -> Result<Self> {
        let dir = root.join("cpu");
        let online = match list(&dir.join("online"))? {
            Some(online) => online,
            None => numbered(&dir, "cpu")?.into_iter().collect(),
        };
        if online.is_empty() {
            return Err(Error::unsupported(
                format!("the list of cpus in {}", dir.display()),
                "sysfs mounted (`mount -t sysfs sysfs /sys`)",
            ));
        }
        let possible = list(&dir.join("possible"))?.unwrap_or_else(|| online.clone());
        let offline = list(&dir.join("offline"))?.unwrap_or_else(|| possible.difference(&online));
        let nodes = nodes(&root.join("node"))?;
        let mut cpus = BTreeMap::new();
        for id in online.iter() {
            let mut cpu = cpu(&dir.join(format!("cpu{id}")), id)?;
            let mut nodes = nodes.values();
            cpu.node = nodes.find(|node| node.cpus.contains(id)).map(|node| node.id);
            cpus.insert(id, cpu);
        }
        Ok(Topology { online, offline, possible, cpus, nodes })
    }

    /// A simulated machine's: groups of cores with a cache in common.
    #[cfg(sim)]
    fn simulated(cpus: usize, group: usize) -> Self {
        let cache = |id: usize| {
            let first = id / group * group;
            let shared = (first..cpus.min(first + group)).collect();
            Cache { level: 3, kind: CacheKind::Unified, size_bytes: None, shared }
        };
        let cpu = |id| (id, Cpu { caches: vec![cache(id)], package: Some(0), ..Cpu::bare(id) });
        Topology { cpus: (0..cpus).map(cpu).collect(), ..Self::flat((0..cpus).collect()) }
    }

    /// Cpus of which nothing but the number is known.
    fn flat(cpus: CpuSet) -> Self {
        Topology {
            cpus: cpus.iter().map(|id| (id, Cpu::bare(id))).collect(),
            possible: cpus.clone(),
            online: cpus,
            ..Topology::default()
        }
    }
}

impl Cpu {
    fn bare(id: usize) -> Self {
        Cpu {
            id,
            package: None,
            core: None,
            siblings: CpuSet::from_iter([id]),
            node: None,
            caches: Vec::new(),
        }
    }
}

fn cpu(dir: &Path, id: usize) -> Result<Cpu> {
    let topology = dir.join("topology");
    // `core_cpus_list` since Linux 5.3, the other name before.
    let siblings = match list(&topology.join("core_cpus_list"))? {
        Some(siblings) => Some(siblings),
        None => list(&topology.join("thread_siblings_list"))?,
    };
    let bare = Cpu::bare(id);
    Ok(Cpu {
        package: identity(&topology.join("physical_package_id"))?,
        core: identity(&topology.join("core_id"))?,
        siblings: siblings.filter(|set| set.contains(id)).unwrap_or(bare.siblings),
        caches: caches(&dir.join("cache"), id)?,
        ..bare
    })
}

/// The `indexN` folders. A cache without level or type is left out.
fn caches(dir: &Path, cpu: usize) -> Result<Vec<Cache>> {
    let mut caches = Vec::new();
    for index in numbered(dir, "index")? {
        let dir = dir.join(format!("index{index}"));
        let kind = match text(&dir.join("type"))?.as_deref() {
            Some("Data") => CacheKind::Data,
            Some("Instruction") => CacheKind::Instruction,
            Some("Unified") => CacheKind::Unified,
            _ => continue,
        };
        let Some(level) = number(&dir.join("level"))? else {
            continue;
        };
        let alone = || CpuSet::from_iter([cpu]);
        caches.push(Cache {
            level,
            kind,
            size_bytes: size(&dir.join("size"))?,
            shared: list(&dir.join("shared_cpu_list"))?.unwrap_or_else(alone),
        });
    }
    caches.sort_by_key(|cache| cache.level);
    Ok(caches)
}

fn nodes(dir: &Path) -> Result<BTreeMap<usize, Node>> {
    let ids = numbered(dir, "node")?;
    let mut nodes = BTreeMap::new();
    for &id in &ids {
        let dir = dir.join(format!("node{id}"));
        let path = dir.join("distance");
        let distances = text(&path)?.unwrap_or_default();
        let distances = distances.split_whitespace().map(|word| parse(&path, word));
        // One distance for each online node, in the order of their numbers.
        let distances = ids.iter().copied().zip(distances.collect::<Result<Vec<_>>>()?);
        let node = Node {
            id,
            cpus: list(&dir.join("cpulist"))?.unwrap_or_default(),
            memory_bytes: text(&dir.join("meminfo"))?.as_deref().and_then(memory_bytes),
            distances: distances.collect(),
        };
        nodes.insert(id, node);
    }
    Ok(nodes)
}

/// `Node 0 MemTotal:        4548820 kB` (drivers/base/node.c).
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(3)?.parse().ok()?;
    Some(kib * 1024)
}

/// `32768K` (drivers/base/cacheinfo.c prints nothing but K; M and G are taken
/// too).
fn size(path: &Path) -> Result<Option<u64>> {
    let Some(text) = text(path)? else {
        return Ok(None);
    };
    let unit = match text.as_bytes().last() {
        Some(b'K') => 1 << 10,
        Some(b'M') => 1 << 20,
        Some(b'G') => 1 << 30,
        _ => 1,
    };
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let size: u64 = parse(path, digits)?;
    Ok(Some(size * unit))
}

/// A package or core number; firmware that does not know writes -1.
fn identity(path: &Path) -> Result<Option<usize>> {
    let number: Option<i64> = number(path)?;
    Ok(number.and_then(|number| number.try_into().ok()))
}

fn number<T: FromStr>(path: &Path) -> Result<Option<T>> {
    text(path)?.map(|text| parse(path, &text)).transpose()
}

fn parse<T: FromStr>(path: &Path, text: &str) -> Result<T> {
    text.parse().map_err(|_| {
        let why = "is not a number in the range of its kind";
        Error::malformed(path.display().to_string(), text, why)
    })
}

fn list(path: &Path) -> Result<Option<CpuSet>> {
    let Some(text) = text(path)? else {
        return Ok(None);
    };
    let set = text.parse().map_err(|error: Error| {
        Error::malformed(path.display().to_string(), &text, format!("({error})"))
    })?;
    Ok(Some(set))
}

/// A file's text without the end of line; `None` if there is no such file.
/// A cpu that goes offline while it is read takes its files away (ENOENT,
/// ENODEV).
fn text(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(source) => Err(Error::File { path: path.to_owned(), source }),
    }
}

/// The numbers N of the entries `prefixN` of a folder, ascending; none if
/// there is no such folder.
fn numbered(dir: &Path, prefix: &str) -> Result<Vec<usize>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(source) => {
            return Err(Error::File { path: dir.to_owned(), source });
        }
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let number = |name: &std::ffi::OsStr| name.to_str()?.strip_prefix(prefix)?.parse().ok();
    let mut numbers: Vec<usize> = names.filter_map(|name| number(&name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn is_absent(error: &io::Error) -> bool {
    let gone = rustix::io::Errno::NODEV.raw_os_error();
    error.kind() == io::ErrorKind::NotFound
        || error.kind() == io::ErrorKind::NotADirectory
        || error.raw_os_error() == Some(gone)
}
