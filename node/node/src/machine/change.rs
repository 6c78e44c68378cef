//! Nodes that exist and are not as a file has them: what differs, and which cpus they get anew.

use std::collections::BTreeMap;

use kumiki_node_devices::record::{Elastic, MemoryLimits};
use kumiki_node_wire::memory::{cpu_list, numa};

use super::file::{Machine, NodeWanted};
use super::situation::{Existing, Situation};
use crate::Result;
use crate::host::cpus;
use crate::host::spec::{Cpus, Fault, Spec};

/// Choice whether nodes that differ from a file's are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The first one is an error.
    Refuse,
    /// Replaced, one after the other.
    Replace,
}

/// Nodes to be replaced, by their names, each with what it has and the file has not.
pub(super) type Changed<'a> = BTreeMap<&'a str, Fault>;

/// The nodes of a file that exist otherwise; refused if nothing is to be replaced.
pub(super) fn changed<'a>(
    machine: &'a Machine,
    situation: &Situation,
    changes: Changes,
) -> Result<Changed<'a>> {
    let mut changed = Changed::new();
    for node in &machine.nodes {
        let name = node.spec.name.as_str();
        let Some(existing) = situation.nodes.get(name) else { continue };
        match is_as_wanted(&node.spec, existing) {
            Ok(()) => {}
            Err(fault) if existing.made_of.is_none() => {
                return Err(machine.node_fault(node, &fault));
            }
            Err(fault) if changes == Changes::Replace => drop(changed.insert(name, fault)),
            Err(Fault { key, problem }) => {
                let problem =
                    format!("{problem}: kumiki node apply --yes replaces it, or write what it has");
                return Err(machine.node_fault(node, &Fault::new(key, problem)));
            }
        }
    }
    Ok(changed)
}

/// Checks that a node that exists is the one that the file asks for.
fn is_as_wanted(wanted: &Spec, node: &Existing) -> Result<(), Fault> {
    let name = &wanted.name;
    let other = |key, has: String| Err(Fault::new(key, format!("node {name} exists with {has}")));
    let Some((image, command_line)) = &node.made_of else {
        let problem = format!("node {name} was begun and not finished: kumiki node rm {name}");
        return Err(Fault::new("image", problem));
    };
    if *image != wanted.image {
        return other("image", format!("image {image}"));
    }
    let sorted = |cpus: &[u32]| {
        let mut cpus = cpus.to_vec();
        cpus.sort_unstable();
        cpus
    };
    if node.elastic != wanted.elastic {
        let has = match node.elastic {
            Some(Elastic { min, max }) => format!("{min} to {max} cpus"),
            None => "no limits: its kernel is told of no other cpus than its own".to_owned(),
        };
        let is_min = node.elastic.map(|one| one.min) != wanted.elastic.map(|one| one.min);
        return other(if is_min { "min_cpus" } else { "max_cpus" }, has);
    }
    let same = match &wanted.cpus {
        Cpus::Count(count) => *count == node.cpus.len() || node.may_have(*count),
        Cpus::These(cpus) => sorted(cpus) == sorted(&node.cpus),
    };
    if !same {
        return other("cpus", Cpus::These(node.cpus.clone()).to_string());
    }
    if node.memory != wanted.memory_limits {
        let has = match node.memory {
            Some(MemoryLimits { min, max }) => format!("{min} to {max} bytes"),
            None => "no limits of memory".to_owned(),
        };
        let is_min = node.memory.map(|one| one.min) != wanted.memory_limits.map(|one| one.min);
        return other(if is_min { "min_memory" } else { "max_memory" }, has);
    }
    if node.bytes != wanted.bytes() && node.sized(wanted.bytes()).is_none() {
        return other("memory", format!("{} bytes", node.bytes));
    }
    if *command_line != wanted.command_line {
        return other("append", format!("{command_line:?}"));
    }
    if node.init != wanted.init {
        return other("init", node.init.clone().unwrap_or_else(|| "no init of its own".to_owned()));
    }
    let same = node.pci.len() == wanted.pci.len()
        && wanted.pci.iter().all(|function| node.pci.contains(function));
    if !same {
        let has: Vec<_> = node.pci.iter().map(ToString::to_string).collect();
        let has = if has.is_empty() { "no PCI function".to_owned() } else { has.join(", ") };
        return other("pci", has);
    }
    let kind = ["net", "disk", "share", "vsock", "rng", "console"].into_iter().find(|kind| {
        let of = |spec: &Spec| -> Vec<_> {
            spec.devices.iter().filter(|one| one.kind() == *kind).cloned().collect()
        };
        let has: Vec<_> = node.devices.iter().filter(|one| one.kind() == *kind).collect();
        let wanted = of(wanted);
        wanted.len() != has.len() || !wanted.iter().all(|one| has.contains(&one))
    });
    match kind {
        Some(kind) => {
            let has: Vec<_> = node.devices.iter().map(ToString::to_string).collect();
            let has = if has.is_empty() { "no devices".to_owned() } else { has.join(", ") };
            other(kind, has)
        }
        None => Ok(()),
    }
}

/// Another number of cpus for a node as it is.
pub(super) struct Resize<'a> {
    pub(super) node: &'a str,
    /// Cpus that it has then, the first of them first.
    pub(super) cpus: Vec<u32>,
    pub(super) before: Vec<u32>,
}

/// Nodes that get another number of cpus as they are.
pub(super) struct Resizes<'a> {
    /// Changes, those that give first: others may need the cpus.
    pub(super) each: Vec<Resize<'a>>,
    /// Cpus that are free then; those that were given back come last.
    pub(super) free: Vec<u32>,
}

/// Another size of memory for a node as it is.
pub(super) struct MemoryResize<'a> {
    pub(super) node: &'a NodeWanted,
    pub(super) bytes: u64,
    pub(super) before: u64,
}

/// The nodes of a file that exist with another size of memory and can have that of the file as they
/// are, those that give first: others may need what they have.
pub(super) fn memory_resizes<'a>(
    machine: &'a Machine,
    situation: &Situation,
) -> Vec<MemoryResize<'a>> {
    let resize = |node: &'a NodeWanted| {
        let existing = situation.nodes.get(&node.spec.name)?;
        is_as_wanted(&node.spec, existing).ok()?;
        if situation.balanced && existing.has_memory_within_limits() {
            return None;
        }
        let bytes = existing.sized(node.spec.bytes())?;
        let before = existing.bytes;
        (bytes != before).then_some(MemoryResize { node, bytes, before })
    };
    let (giving, getting): (Vec<_>, Vec<_>) =
        machine.nodes.iter().filter_map(resize).partition(|one| one.bytes < one.before);
    giving.into_iter().chain(getting).collect()
}

/// The nodes of a file that exist with another number of cpus and can have that of the file as they are.
pub(super) fn resizes<'a>(machine: &'a Machine, situation: &Situation) -> Result<Resizes<'a>> {
    let mut free = situation.free.cpus.clone();
    let (mut giving, mut getting) = (Vec::new(), Vec::new());
    let resize = |node: &'a NodeWanted, cpus, before: &[u32]| Resize {
        node: &node.spec.name,
        cpus,
        before: before.to_vec(),
    };
    for node in &machine.nodes {
        let Some(existing) = situation.nodes.get(&node.spec.name) else { continue };
        let (Cpus::Count(count), has) = (&node.spec.cpus, &existing.cpus) else { continue };
        let is_left = situation.balanced && existing.has_cpus_within_limits();
        if *count == has.len() || is_left || is_as_wanted(&node.spec, existing).is_err() {
            continue;
        }
        if *count < has.len() {
            free.extend(&has[*count..]);
            giving.push(resize(node, has[..*count].to_vec(), has));
        } else {
            getting.push((node, existing, *count));
        }
    }
    let is_named = |cpu: &u32| {
        let named = |node: &NodeWanted| match &node.spec.cpus {
            Cpus::These(cpus) => cpus.contains(cpu),
            Cpus::Count(_) => false,
        };
        machine.nodes.iter().any(named)
    };
    for (node, existing, count) in getting {
        let mut cpus = existing.cpus.clone();
        while cpus.len() < count {
            let Some(at) = free.iter().position(|cpu| existing.may_get(*cpu) && !is_named(cpu))
            else {
                let problem = format!(
                    "{count} cpus, and of those that are free ({}) too few are left that its kernel \
                     was told of when it started; it has {}",
                    cpu_list::text(&free),
                    existing.cpus.len()
                );
                return Err(machine.node_fault(node, &Fault::new("cpus", problem)));
            };
            cpus.push(free.remove(at));
        }
        giving.push(resize(node, cpus, &existing.cpus));
    }
    Ok(Resizes { each: giving, free })
}

/// The nodes that are to be made, each with cpus by number: those that are named
/// go first, then those whose node has enough already, and the others take the last ones that
/// remain.
pub(super) fn chosen<'a>(
    machine: &'a Machine,
    situation: &Situation,
    changed: &Changed<'_>,
    resizes: &Resizes<'_>,
) -> Result<BTreeMap<&'a str, Spec>> {
    let own = |name: &str| match changed.contains_key(name) {
        true => &situation.nodes[name].cpus[..],
        false => &[],
    };
    let mut free = resizes.free.clone();
    free.extend(changed.keys().flat_map(|name| own(name)));
    let all = free.clone();
    let new: Vec<_> = machine
        .nodes
        .iter()
        .filter(|node| {
            let name = node.spec.name.as_str();
            changed.contains_key(name) || !situation.nodes.contains_key(name)
        })
        .collect();
    let mut given: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for node in &new {
        let Cpus::These(cpus) = &node.spec.cpus else { continue };
        for cpu in cpus {
            let Some(at) = free.iter().position(|one| one == cpu) else {
                return Err(machine.node_fault(node, &not_free(*cpu, &all, situation)));
            };
            free.remove(at);
        }
        given.insert(&node.spec.name, cpus.clone());
    }
    let by_count = || new.iter().copied().filter(|node| matches!(node.spec.cpus, Cpus::Count(_)));
    for node in by_count() {
        let mut kept = own(&node.spec.name).to_vec();
        kept.retain(|cpu| free.contains(cpu));
        let count = node.spec.cpus.count();
        if kept.len() >= count {
            kept.truncate(count);
            free.retain(|cpu| !kept.contains(cpu));
            given.insert(&node.spec.name, kept);
        }
    }
    for node in by_count() {
        let (name, count) = (node.spec.name.as_str(), node.spec.cpus.count());
        if given.contains_key(name) {
            continue;
        }
        let suiting = numa::of_named(&free, &node.spec.numa, &situation.numa_nodes);
        if count > suiting.len() {
            let of = match &node.spec.numa[..] {
                [] => String::new(),
                named => format!(" in NUMA node {}", cpu_list::text(named)),
            };
            let problem = format!(
                "{count} cpus, and {}{of} of {} that are free ({}) are left for it{}",
                suiting.len(),
                all.len(),
                cpu_list::text(&all),
                cpus::and_holders(&situation.free.held)
            );
            return Err(machine.node_fault(node, &Fault::new("cpus", problem)));
        }
        let taken = numa::together(&suiting, count, &situation.numa_nodes);
        free.retain(|cpu| !taken.contains(cpu));
        given.insert(name, taken);
    }
    let spec = |node: &'a NodeWanted| {
        let name = node.spec.name.as_str();
        let cpus = given.remove(name)?;
        Some((name, Spec { cpus: Cpus::These(cpus), ..node.spec.clone() }))
    };
    Ok(new.into_iter().filter_map(spec).collect())
}

fn not_free(cpu: u32, free: &[u32], situation: &Situation) -> Fault {
    let owner = situation.nodes.iter().find(|(_, node)| node.cpus.contains(&cpu));
    let why = match owner {
        Some((name, _)) => format!("is node {name}'s"),
        None => "is not on line in the host".to_owned(),
    };
    Fault::new("cpus", format!("cpu {cpu} {why}; free are {}", cpu_list::text(free)))
}
