//! Topologies of machines that this one is not: trees of `/sys/devices/system`
//! as text (`trees/*.txt`, each saying whether it is recorded or composed) and
//! larger ones composed by [`Machine::write`] in the kernel's formats
//! (Documentation/ABI/stable/sysfs-devices-system-cpu, -node;
//! drivers/base/{cpu,topology,cacheinfo,node}.c).

use std::fs;
use std::path::Path;

use kumiki_sys::Error;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::{CacheKind, Relation, Topology};
use tempfile::TempDir;

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn put(root: &Path, path: &str, content: impl std::fmt::Display) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{content}\n")).unwrap();
}

/// Unpacks `path: content` lines; `#` opens a comment.
fn unpack(tree: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    for line in tree.lines().filter(|line| !line.starts_with('#')) {
        let (path, content) = line.split_once(':').unwrap();
        put(dir.path(), path, content.trim());
    }
    dir
}

fn read(dir: &TempDir) -> Topology {
    Topology::read_from(dir.path()).unwrap()
}

/// A machine of equal packages, numbered as Linux does on x86-64: first
/// threads of all cores, package by package, then the second threads.
struct Machine {
    packages: usize,
    cores_per_package: usize,
    threads: usize,
    nodes_per_package: usize,
    /// Cores behind one level-3 cache; 0 for no cache folders.
    cores_per_cache: usize,
    offline: &'static str,
}

impl Machine {
    fn cores(&self) -> usize {
        self.packages * self.cores_per_package
    }

    fn cpus(&self) -> usize {
        self.cores() * self.threads
    }

    fn online(&self) -> CpuSet {
        let all: CpuSet = (0..self.cpus()).collect();
        all.difference(&set(self.offline))
    }

    /// Cpus of `online` whose core is in the same group of `cores` as that of `cpu`.
    fn group(&self, online: &CpuSet, cpu: usize, cores: usize) -> CpuSet {
        let first = cpu % self.cores() / cores * cores;
        let threads = (0..self.threads).map(|thread| thread * self.cores());
        let cpus = threads.flat_map(|thread| (first..first + cores).map(move |core| thread + core));
        cpus.filter(|&cpu| online.contains(cpu)).collect()
    }

    fn write(&self) -> TempDir {
        let dir = TempDir::new().unwrap();
        let root = dir.path();
        let online = self.online();
        put(root, "cpu/online", &online);
        put(root, "cpu/offline", self.offline);
        put(root, "cpu/possible", format!("0-{}", self.cpus() - 1));
        for cpu in online.iter() {
            let file =
                |path: &str, content: String| put(root, &format!("cpu/cpu{cpu}/{path}"), content);
            let core = cpu % self.cores();
            file("topology/physical_package_id", (core / self.cores_per_package).to_string());
            file("topology/core_id", (core % self.cores_per_package).to_string());
            file("topology/core_cpus_list", self.group(&online, cpu, 1).to_string());
            for (index, (level, kind, size, cores)) in [
                (1, "Data", "32K", 1),
                (1, "Instruction", "32K", 1),
                (2, "Unified", "1024K", 1),
                (3, "Unified", "32768K", self.cores_per_cache),
            ]
            .into_iter()
            .filter(|_| self.cores_per_cache > 0)
            .enumerate()
            {
                let file = |name: &str, content: String| {
                    file(&format!("cache/index{index}/{name}"), content)
                };
                file("level", level.to_string());
                file("type", kind.to_string());
                file("size", size.to_string());
                file("shared_cpu_list", self.group(&online, cpu, cores).to_string());
            }
        }
        let nodes = self.packages * self.nodes_per_package;
        let cores_per_node = self.cores() / nodes;
        for node in 0..nodes {
            let distance = (0..nodes).map(|other| match other {
                _ if other == node => "10",
                _ if other / self.nodes_per_package == node / self.nodes_per_package => "12",
                _ => "32",
            });
            let distance: Vec<_> = distance.collect();
            let file = |name: &str, content: String| {
                put(root, &format!("node/node{node}/{name}"), content)
            };
            file("distance", distance.join(" "));
            file("cpulist", self.group(&online, node * cores_per_node, cores_per_node).to_string());
            file(
                "meminfo",
                format!("Node {node} MemTotal:       65536000 kB\nNode {node} MemFree: 1 kB"),
            );
        }
        dir
    }
}

#[test]
fn one_cpu_without_any_folder() {
    let machine = read(&unpack(include_str!("trees/container-1.txt")));
    assert_eq!(machine.online(), &set("0"));
    assert!(machine.offline().is_empty());
    assert_eq!((machine.cores(), machine.threads_per_core(), machine.numa_nodes()), (1, 1, 1));
    assert_eq!(machine.last_level_cache_bytes(), None);
    assert_eq!(machine.siblings(0), set("0"));
    assert_eq!(machine.nearest(0, machine.online()), None);
}

#[test]
fn two_recorded_cpus() {
    let machine = read(&unpack(include_str!("trees/vm-2.txt")));
    assert_eq!((machine.cores(), machine.threads_per_core(), machine.numa_nodes()), (2, 1, 1));
    assert_eq!(machine.last_level_cache_bytes(), Some(32 << 20));
    let cpu = machine.cpu(1).unwrap();
    assert_eq!((cpu.package, cpu.core, cpu.node), (Some(0), Some(1), Some(0)));
    let caches: Vec<_> = cpu.caches.iter().map(|c| (c.level, c.kind, c.size_bytes)).collect();
    assert_eq!(
        caches,
        [
            (1, CacheKind::Data, Some(48 << 10)),
            (1, CacheKind::Instruction, Some(32 << 10)),
            (2, CacheKind::Unified, Some(1 << 20)),
            (3, CacheKind::Unified, Some(32 << 20)),
        ]
    );
    assert_eq!(machine.relation(0, 1), Relation::Cache { level: 3 });
    assert_eq!(machine.nodes().next().unwrap().memory_bytes, Some(5_466_324 << 10));
}

#[test]
fn older_names_holes_and_unknown_package() {
    let machine = read(&unpack(include_str!("trees/old-firmware-4.txt")));
    assert_eq!((machine.online(), machine.offline()), (&set("0-1,3"), &set("2,4-7")));
    assert_eq!((machine.cores(), machine.threads_per_core()), (2, 2));
    assert!(machine.cpu(2).is_none());
    assert!(machine.siblings(2).is_empty());
    let cpu = machine.cpu(0).unwrap();
    assert_eq!((cpu.package, cpu.caches.len()), (None, 2));
    assert_eq!(machine.last_level_cache(0).unwrap().size_bytes, None);
    // No common package is known, only that the others are not nearer.
    assert_eq!(machine.relation(0, 3), Relation::Remote);
    assert_eq!(machine.nearest_core(0, &machine.possible().clone()), Some(3));
}

#[test]
fn sixty_four_cpus_two_packages_with_smt() {
    let machine = Machine {
        packages: 2,
        cores_per_package: 16,
        threads: 2,
        nodes_per_package: 1,
        cores_per_cache: 16,
        offline: "",
    };
    let machine = read(&machine.write());
    assert_eq!((machine.cores(), machine.threads_per_core(), machine.numa_nodes()), (32, 2, 2));
    let all = machine.online();
    assert_eq!(all, &set("0-63"));
    assert_eq!(machine.siblings(5), set("5,37"));
    assert_eq!(machine.sibling(37, all), Some(5));
    assert_eq!(machine.sibling(37, &set("0-4,37")), None);
    assert_eq!(machine.nearest(5, all), Some(37));
    assert_eq!(machine.nearest_core(5, all), Some(0));
    assert_eq!(machine.nearest_core(0, &set("0,16,32,31,15")), Some(15));
    assert_eq!(machine.nearest_core(0, &set("0,32")), None);
    assert_eq!(machine.relation(0, 15), Relation::Cache { level: 3 });
    assert_eq!(machine.relation(0, 16), Relation::Remote);
}

#[test]
fn two_hundred_and_fifty_six_cpus_with_holes() {
    let machine = Machine {
        packages: 2,
        cores_per_package: 64,
        threads: 2,
        nodes_per_package: 4,
        cores_per_cache: 8,
        // Seven of the eight cores behind one cache, and one thread each of
        // cores 9, 10 and 127.
        offline: "1-7,9,129-135,138,255",
    };
    let machine = read(&machine.write());
    assert_eq!(machine.online().len(), 256 - 17);
    assert_eq!((machine.threads_per_core(), machine.numa_nodes()), (2, 8));
    assert_eq!(machine.cores(), 128 - 7);
    assert_eq!(machine.siblings(137), set("137"));
    assert_eq!(machine.siblings(127), set("127"));
    let all = machine.online();
    // Alone behind its cache: the nearest core is in the same NUMA node.
    assert_eq!(machine.nearest(0, all), Some(128));
    assert_eq!(machine.nearest_core(0, all), Some(8));
    assert_eq!(machine.relation(0, 8), Relation::Node);
    // Another node of the package comes before the other package.
    assert_eq!(machine.nearest_core(0, &set("0,64,17")), Some(17));
    assert_eq!(machine.relation(0, 17), Relation::Package);
    assert_eq!(machine.relation(0, 64), Relation::Remote);
    assert_eq!(machine.relation(0, 1), Relation::Remote);
    // Offline cpus are nobody's neighbours.
    assert_eq!(machine.nearest_core(0, &set("0-7")), None);
    let node = machine.nodes().nth(5).unwrap();
    assert_eq!(node.distances[&4], 12);
    assert_eq!(node.distances[&3], 32);
}

#[test]
fn more_cpus_than_a_cpu_set_t_holds() {
    let machine = Machine {
        packages: 8,
        cores_per_package: 144,
        threads: 1,
        nodes_per_package: 1,
        cores_per_cache: 0,
        offline: "1000-1099",
    };
    let machine = read(&machine.write());
    assert_eq!(machine.online().to_string(), "0-999,1100-1151");
    assert_eq!((machine.cores(), machine.numa_nodes()), (1052, 8));
    assert_eq!(machine.cpu(1151).unwrap().node, Some(7));
    assert_eq!(machine.nearest_core(1151, machine.online()), Some(1100));
}

#[test]
fn relations_are_symmetric_and_ordered() {
    let machine = Machine {
        packages: 2,
        cores_per_package: 8,
        threads: 2,
        nodes_per_package: 2,
        cores_per_cache: 2,
        offline: "3",
    };
    let machine = read(&machine.write());
    let cpus: Vec<_> = machine.online().iter().collect();
    for &a in &cpus {
        for &b in &cpus {
            assert_eq!(machine.relation(a, b), machine.relation(b, a), "{a} {b}");
            assert_eq!(machine.relation(a, b) == Relation::Same, a == b);
        }
        let nearest = machine.nearest_core(a, machine.online()).unwrap();
        let others = cpus.iter().filter(|&&b| machine.relation(a, b) > Relation::Sibling);
        let best = others.map(|&b| machine.relation(a, b)).min().unwrap();
        assert_eq!(machine.relation(a, nearest), best, "{a}");
    }
}

#[test]
fn the_lack_of_everything_is_typed() {
    let empty = TempDir::new().unwrap();
    let error = Topology::read_from(empty.path()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("mount -t sysfs"));
}

#[test]
fn the_folders_stand_in_for_a_missing_list() {
    let tree = unpack("cpu/cpu0/uevent: x\ncpu/cpu2/uevent: x\ncpu/cpufreq/boost: 1\n");
    assert_eq!(read(&tree).online(), &set("0,2"));
}

#[test]
fn what_cannot_be_understood_is_named() {
    let fault = |line: &str| {
        let tree = unpack(&format!("cpu/online: 0\n{line}"));
        let error = Topology::read_from(tree.path()).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }));
        error.to_string()
    };
    assert!(fault("cpu/cpu0/topology/core_id: zero").contains("cpu0/topology/core_id"));
    assert!(fault("cpu/cpu0/topology/core_cpus_list: 0-").contains("core_cpus_list"));
    assert!(fault("node/node0/distance: 10 far").contains("\"far\""));
}

#[test]
fn this_machine() {
    let machine = Topology::read().unwrap();
    let allowed = kumiki_sys::affinity::current().unwrap();
    assert!(allowed.is_subset(machine.online()));
    assert!(machine.cores() * machine.threads_per_core() >= machine.online().len());
}
