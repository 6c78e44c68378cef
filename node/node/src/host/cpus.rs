//! Cpus of the host: which there are, and taking them off and back on line.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use kumiki_node_wire::memory::cpu_list::{parse, text};
use kumiki_node_wire::memory::numa;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::sysfs;

use crate::host::spec::Cpus;
use crate::{Error, ErrorKind, Result};

const ROOT: &str = "/sys/devices/system/cpu";

fn path(file: &str) -> PathBuf {
    PathBuf::from(ROOT).join(file)
}

fn online() -> Result<Vec<u32>> {
    let path = path("online");
    parse(&fs::read_to_string(&path).map_err(|error| Error::file(path, error))?)
}

/// A node's tables hold an APIC id in 8 bits, of which 255 means all.
const LAST_APIC_ID: u32 = 254;

/// Cpus that the host could give, the last ones first; never 0, which stays its own.
pub(crate) fn free() -> Result<Vec<u32>> {
    let path = "/proc/cpuinfo";
    let text = fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let beyond = beyond_apic(&text);
    let mut free = online()?;
    free.retain(|cpu| *cpu != 0 && !beyond.contains(cpu));
    free.sort_unstable_by(|a, b| b.cmp(a));
    Ok(free)
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

/// Cpus whose APIC ids no node's kernel is told, by the host's `/proc/cpuinfo`.
fn beyond_apic(cpuinfo: &str) -> Vec<u32> {
    let number = |line: &str, key: &str| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then(|| value.trim().parse::<u32>().ok())?
    };
    let entries = cpuinfo.split("\n\n").filter_map(|entry| {
        let of = |key| entry.lines().find_map(|line| number(line, key));
        Some((of("processor")?, of("apicid")?))
    });
    entries.filter(|&(_, id)| id > LAST_APIC_ID).map(|(cpu, _)| cpu).collect()
}

/// Cpus for a node.
pub(crate) fn choose(wanted: &Cpus) -> Result<Vec<u32>> {
    choose_from(&free()?, wanted, &numa::of_cpus(), &held()?)
}

fn choose_from(
    free: &[u32],
    wanted: &Cpus,
    nodes: &BTreeMap<u32, u32>,
    held: &BTreeMap<u32, String>,
) -> Result<Vec<u32>> {
    match wanted {
        Cpus::Count(count) if (1..=free.len()).contains(count) => {
            Ok(numa::together(free, *count, nodes))
        }
        Cpus::Count(count) => Err(Error::refused(
            ErrorKind::NoCpu,
            format!(
                "{count} cpus for a node: the host has {} online that it could give (cpu 0 stays \
             its own{}); ask for 1 to {0}, or delete another node",
                free.len(),
                and_holders(held)
            ),
        )),
        Cpus::These(cpus) => match cpus.iter().find(|cpu| !free.contains(cpu)) {
            None => Ok(cpus.clone()),
            Some(cpu) => Err(Error::refused(
                ErrorKind::NoCpu,
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
    fn a_cpu_whose_apic_id_a_node_is_not_told_is_not_given() {
        let text = "processor\t: 0\napicid\t\t: 0\ninitial apicid\t: 300\n\n\
                    processor\t: 1\nflags\t\t: fpu\napicid\t\t: 254\n\n\
                    processor\t: 2\napicid\t\t: 255\n\nprocessor\t: 3\napicid\t\t: 256\n";
        assert_eq!(beyond_apic(text), [2, 3]);
        assert!(beyond_apic("").is_empty());
    }

    #[test]
    fn the_last_cpus_are_given_or_those_named() {
        let held = BTreeMap::from([(5, "n2".to_owned()), (4, "n1".into()), (6, "n2".into())]);
        let choose_from =
            |free: &[u32], wanted: &Cpus| choose_from(free, wanted, &BTreeMap::new(), &held);
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
