//! Cpus of the host: which there are, and taking them off and back on line.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use kumiki_node_wire::memory::cpu_list::{parse, text};
use kumiki_node_wire::memory::numa;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};

use crate::host::spec::Cpus;
use crate::{Error, ErrorKind, Result, Subject};

const ROOT: &str = "/sys/devices/system/cpu";

fn path(file: &str) -> PathBuf {
    PathBuf::from(ROOT).join(file)
}

fn online() -> Result<Vec<u32>> {
    let path = path("online");
    parse(&fs::read_to_string(&path).map_err(|error| Error::file(path, error))?)
}

/// The module keeps a word for each APIC id.
const LAST_APIC_ID: u32 = abi::APIC_IDS as u32 - 1;

fn cpuinfo() -> Result<String> {
    let path = "/proc/cpuinfo";
    fs::read_to_string(path).map_err(|error| Error::file(path, error))
}

/// Cpus that the host could give, the last cores first, and of each all that run on it one after
/// the other; never 0, which stays its own.
pub(crate) fn free() -> Result<Vec<u32>> {
    let ids = apic_ids(&cpuinfo()?);
    let mut free = online()?;
    free.retain(|cpu| *cpu != 0 && !ids.iter().any(|(one, id)| one == cpu && *id > LAST_APIC_ID));
    Ok(by_core(free, siblings))
}

/// The cpus that run on the core of this one and are on line, as the kernel says.
fn siblings(cpu: u32) -> Vec<u32> {
    let list = fs::read_to_string(path(&format!("cpu{cpu}/topology/thread_siblings_list")));
    list.ok().and_then(|list| parse(&list).ok()).unwrap_or_else(|| vec![cpu])
}

/// Whole cores first: two kernels on one core share its caches and its time. Firmware may number
/// one cpu of each core first and their siblings after them.
fn by_core(mut free: Vec<u32>, siblings: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    free.sort_unstable_by(|a, b| b.cmp(a));
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    for &cpu in &free {
        if whole.contains(&cpu) || parts.contains(&cpu) {
            continue;
        }
        let mut core = siblings(cpu);
        core.sort_unstable_by(|a, b| b.cmp(a));
        if core.iter().all(|one| free.contains(one)) && core.contains(&cpu) {
            whole.append(&mut core);
        } else {
            parts.push(cpu);
        }
    }
    whole.append(&mut parts);
    whole
}

/// Cpus that nodes have, and whose each is.
pub(crate) fn held() -> Result<BTreeMap<u32, String>> {
    let nodes = sysfs::all(Holding::Node)?.into_iter();
    let cpus = nodes.flat_map(|node| {
        let name = node.name;
        node.cpus.into_iter().map(move |(cpu, _)| (cpu, name.clone()))
    });
    Ok(cpus.collect())
}

/// Owners, for people: `node n1 has 3,2; node n2 has 1`; nothing if nobody has any.
pub(crate) fn holders(held: &BTreeMap<u32, String>) -> String {
    let mut nodes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (&cpu, name) in held.iter().rev() {
        nodes.entry(name).or_default().push(cpu);
    }
    let each: Vec<_> =
        nodes.iter().map(|(name, cpus)| format!("node {name} has {}", text(cpus))).collect();
    each.join("; ")
}

/// Owners, to stand behind what an error says.
pub(crate) fn and_holders(held: &BTreeMap<u32, String>) -> String {
    let holders = holders(held);
    if holders.is_empty() { holders } else { format!("; {holders}") }
}

/// Cpus that the host has on line and their APIC ids, by its `/proc/cpuinfo`.
fn apic_ids(cpuinfo: &str) -> Vec<(u32, u32)> {
    let number = |line: &str, key: &str| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then(|| value.trim().parse::<u32>().ok())?
    };
    let entries = cpuinfo.split("\n\n").filter_map(|entry| {
        let of = |key| entry.lines().find_map(|line| number(line, key));
        Some((of("processor")?, of("apicid")?))
    });
    entries.collect()
}

/// The cpus that an elastic node's kernel is told of: its own, then those that it may get, the
/// nearest first: the host's that are on line, and other nodes'.
pub(crate) fn to_be_told(own: &[(u32, u32)]) -> Result<Vec<(u32, u32)>> {
    let mut all = apic_ids(&cpuinfo()?);
    all.extend(sysfs::all(Holding::Node)?.into_iter().flat_map(|node| node.cpus));
    Ok(told_from(own, all, &numa::of_cpus()))
}

fn told_from(
    own: &[(u32, u32)],
    mut all: Vec<(u32, u32)>,
    nodes: &BTreeMap<u32, u32>,
) -> Vec<(u32, u32)> {
    // Of a cpu that is off line here nothing says where it is: as if it were near.
    let near = own.iter().find_map(|(cpu, _)| nodes.get(cpu));
    let is_far = |cpu: &u32| near.zip(nodes.get(cpu)).is_some_and(|(near, node)| near != node);
    all.retain(|cpu| cpu.0 != 0 && cpu.1 <= LAST_APIC_ID && !own.contains(cpu));
    all.sort_unstable_by_key(|&(cpu, _)| (is_far(&cpu), cpu));
    all.dedup();
    own.iter().copied().chain(all).take(abi::CPUS).collect()
}

/// Cpus for a node; a number of them is of these NUMA nodes, if any are named.
pub(crate) fn choose(wanted: &Cpus, named: &[u32]) -> Result<Vec<u32>> {
    let (mut free, nodes) = (free()?, numa::of_cpus());
    if let Cpus::Count(_) = wanted {
        free = numa::of_named(&free, named, &nodes);
    }
    choose_from(&free, wanted, named, &nodes, &held()?)
}

fn choose_from(
    free: &[u32],
    wanted: &Cpus,
    named: &[u32],
    nodes: &BTreeMap<u32, u32>,
    held: &BTreeMap<u32, String>,
) -> Result<Vec<u32>> {
    match wanted {
        Cpus::Count(count) if (1..=free.len()).contains(count) => {
            Ok(numa::together(free, *count, nodes))
        }
        Cpus::Count(count) => Err(Error::refused(
            ErrorKind::NoCpu,
            Subject::Cpus { asked: *count, most: free.len() },
            format!(
                "{count} cpus for a node: the host has {} online{} that it could give (cpu 0 stays \
             its own{}); ask for 1 to {0}, or delete another node",
                free.len(),
                if named.is_empty() {
                    String::new()
                } else {
                    format!(" in NUMA node {}", text(named))
                },
                and_holders(held)
            ),
        )),
        Cpus::These(cpus) => match cpus.iter().find(|cpu| !free.contains(cpu)) {
            None => Ok(cpus.clone()),
            Some(cpu) => Err(Error::refused(
                ErrorKind::NoCpu,
                Subject::Cpu(*cpu),
                format!(
                    "cpu {cpu} cannot be given to a node: cpu 0 stays the host's, and another one \
                 must be on line, no node's, and of an APIC id up to {LAST_APIC_ID}; free are \
                 {}{}",
                    text(free),
                    and_holders(held)
                ),
            )),
        },
    }
}

/// Takes a cpu from the host or gives it back; the kernel moves what ran there.
pub(crate) fn set_online(cpu: u32, online: bool) -> Result<()> {
    let path = path(&format!("cpu{cpu}/online"));
    let now = match fs::read_to_string(&path) {
        // The machine has lost it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && online => return Ok(()),
        now => now.map_err(|error| Error::file(&path, error))?,
    };
    if (now.trim() == "1") == online {
        return Ok(());
    }
    fs::write(&path, if online { "1" } else { "0" }).map_err(|error| {
        let doing = if online { "on" } else { "off" };
        Error::os(format!("switching cpu {cpu} {doing} ({})", path.display()), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_apic_id() {
        let text = "processor\t: 0\napicid\t\t: 0\ninitial apicid\t: 300\n\n\
                    processor\t: 1\nflags\t\t: fpu\napicid\t\t: 254\n\n\
                    processor\t: 2\napicid\t\t: 255\n\nprocessor\t: 3\napicid\t\t: 256\n";
        assert_eq!(apic_ids(text), [(0, 0), (1, 254), (2, 255), (3, 256)]);
        assert!(apic_ids("").is_empty());
    }

    #[test]
    fn a_kernel_is_told_of_its_own_cpus_first_and_then_of_the_nearest() {
        let nodes = BTreeMap::from([(0, 0), (1, 0), (2, 1), (4, 1)]);
        let all = vec![(0, 0), (1, 1), (2, 2), (4, 4), (3, 3), (5, 5), (3, 3), (6, 1024)];
        let told = |own: &[(u32, u32)]| -> Vec<u32> {
            told_from(own, all.clone(), &nodes).into_iter().map(|(cpu, _)| cpu).collect()
        };
        // Those of other nodes, 3 and 5, are on no list of a NUMA node.
        assert_eq!(told(&[(4, 4)]), [4, 2, 3, 5, 1]);
        assert_eq!(told(&[(3, 3)]), [3, 1, 2, 4, 5]);
        let many: Vec<_> = (1..200).map(|n| (n, n)).collect();
        let told = told_from(&[(150, 150)], many, &nodes);
        assert_eq!((told.len(), told[0], told[63]), (abi::CPUS, (150, 150), (63, 63)));
    }

    #[test]
    fn whole_cores_are_given_before_halves() {
        // One of each core first, then their siblings.
        let core = |cpu: u32| vec![cpu % 4, cpu % 4 + 4];
        assert_eq!(by_core((1..8).collect(), core), [7, 3, 6, 2, 5, 1, 4]);
        assert_eq!(by_core(vec![1, 2, 6, 7], core), [6, 2, 7, 1]);
        // Neighbours; and no threads at all.
        assert_eq!(by_core((1..6).collect(), |cpu| vec![cpu & !1, cpu | 1]), [5, 4, 3, 2, 1]);
        assert_eq!(by_core(vec![1, 3, 2], |cpu| vec![cpu]), [3, 2, 1]);
    }

    #[test]
    fn the_last_cpus_are_given_or_those_named() {
        let held = BTreeMap::from([(5, "n2".to_owned()), (4, "n1".into()), (6, "n2".into())]);
        let choose_from =
            |free: &[u32], wanted: &Cpus| choose_from(free, wanted, &[], &BTreeMap::new(), &held);
        assert_eq!(choose_from(&[3, 2, 1], &Cpus::Count(2)).unwrap(), [3, 2]);
        let these = Cpus::These(vec![1, 3]);
        assert_eq!(choose_from(&[3, 2, 1], &these).unwrap(), [1, 3]);
        let refused = |wanted| {
            let error = choose_from(&[1], wanted).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoCpu);
            error.to_string()
        };
        assert!(refused(&Cpus::Count(2)).contains("1 online"));
        assert!(refused(&Cpus::Count(0)).contains("1 online"));
        assert!(
            refused(&these).contains("cpu 3 cannot be given")
                && refused(&these).ends_with("free are 1; node n1 has 4; node n2 has 6,5")
        );
        assert!(refused(&Cpus::Count(2)).contains("its own; node n1 has 4; node n2 has 6,5); ask"));
    }
}
