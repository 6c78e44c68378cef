//! NUMA nodes of the host: parts of its memory, each with the cpus that are nearest.

use std::collections::BTreeMap;
use std::fs;

use crate::memory::cpu_list;

const ROOT: &str = "/sys/devices/system/node";
pub(super) const BLOCKS: &str = "/sys/devices/system/memory";

/// The NUMA node of each cpu that is on line; empty where the kernel knows of none.
pub fn of_cpus() -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    for node in nodes_with("has_cpu") {
        let list = fs::read_to_string(format!("{ROOT}/node{node}/cpulist")).unwrap_or_default();
        nodes.extend(cpu_list::parse(&list).unwrap_or_default().into_iter().map(|cpu| (cpu, node)));
    }
    nodes
}

/// NUMA nodes that have memory, in any case one.
pub fn with_memory() -> Vec<u32> {
    let nodes = nodes_with("has_memory");
    if nodes.is_empty() { vec![0] } else { nodes }
}

/// NUMA nodes whose memory serves a node that starts on this cpu: its own alone.
pub fn nearest(cpu: u32) -> Vec<u32> {
    of_cpus().get(&cpu).map_or_else(with_memory, |&node| vec![node])
}

/// Says of `named` which one this machine does not have, or has no memory of.
pub fn lacks(named: &[u32]) -> Option<String> {
    let there = with_memory();
    let lacks = named.iter().find(|node| !there.contains(node))?;
    Some(format!("NUMA node {lacks} has no memory: name one of {}", cpu_list::text(&there)))
}

/// True if a block of memory is one of these nodes'.
pub fn has_block(nodes: &[u32], block: u64) -> bool {
    let folder = format!("{BLOCKS}/memory{block}");
    let is_of = |node: &u32| fs::symlink_metadata(format!("{folder}/node{node}")).is_ok();
    // A kernel without NUMA has no such links.
    nodes == with_memory() || nodes.iter().any(is_of)
}

/// True if memory at this address is the NUMA node's, as far as this kernel knows.
pub fn has_address(node: u32, address: u64) -> bool {
    let size = fs::read_to_string(format!("{BLOCKS}/block_size_bytes")).unwrap_or_default();
    let size = u64::from_str_radix(size.trim(), 16).unwrap_or(0);
    address.checked_div(size).is_some_and(|block| has_block(&[node], block))
}

/// Words that an error adds where memory of others would have been there.
pub fn restriction(nodes: &[u32]) -> String {
    let all = with_memory();
    match nodes {
        [node] if all.len() > 1 => format!(
            " in NUMA node {node}, whose cpus these are, or which was named (numa, --numa): ask for \
             less, choose cpus of another one, or name others as well"
        ),
        _ if nodes.len() < all.len() => format!(
            " in the NUMA nodes that were named, {}: ask for less, or name others as well",
            cpu_list::text(nodes)
        ),
        _ => String::new(),
    }
}

/// Memory of `free` that these NUMA nodes have, the first node's first; all if none is named.
pub fn of_named(free: &[u32], named: &[u32], nodes: &BTreeMap<u32, u32>) -> Vec<u32> {
    if named.is_empty() {
        return free.to_vec();
    }
    let of = |node: &u32| {
        let node = *node;
        free.iter().copied().filter(move |cpu| nodes.get(cpu).copied().unwrap_or(0) == node)
    };
    named.iter().flat_map(of).collect()
}

/// A number of cpus of one NUMA node, the first of `free` that are; if none has so many, the
/// first.
pub fn together(free: &[u32], count: usize, nodes: &BTreeMap<u32, u32>) -> Vec<u32> {
    let node = |cpu: &u32| nodes.get(cpu).copied().unwrap_or(0);
    for first in free {
        let near = free.iter().filter(|cpu| node(cpu) == node(first)).copied();
        let near: Vec<u32> = near.take(count).collect();
        if near.len() == count {
            return near;
        }
    }
    free.iter().take(count).copied().collect()
}

fn nodes_with(file: &str) -> Vec<u32> {
    let list = fs::read_to_string(format!("{ROOT}/{file}")).unwrap_or_default();
    cpu_list::parse(&list).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_one_node_are_given_where_there_are_so_many() {
        let nodes = BTreeMap::from([(1, 0), (2, 0), (3, 1), (4, 1), (5, 0)]);
        let together = |count| together(&[5, 4, 3, 2, 1], count, &nodes);
        assert_eq!(together(1), [5]);
        assert_eq!(together(2), [5, 2]);
        assert_eq!(together(3), [5, 2, 1]);
        assert_eq!(together(4), [5, 4, 3, 2]);
        assert_eq!(super::together(&[3, 2, 1], 2, &BTreeMap::new()), [3, 2]);
    }

    #[test]
    fn cpus_are_of_the_nodes_that_are_named() {
        let nodes = BTreeMap::from([(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)]);
        let named = |named: &[u32]| of_named(&[5, 4, 3, 2, 1], named, &nodes);
        assert_eq!(named(&[]), [5, 4, 3, 2, 1]);
        assert_eq!(named(&[1]), [4, 3]);
        assert_eq!(named(&[0, 2]), [2, 1, 5]);
        assert_eq!(named(&[7]), [0_u32; 0]);
    }

    #[test]
    fn every_machine_has_memory_somewhere() {
        assert!(!with_memory().is_empty());
        assert!(has_block(&with_memory(), 0));
        assert!(!has_block(&[4000], u64::MAX));
        assert_eq!(lacks(&with_memory()), None);
        assert!(
            lacks(&[4000]).is_some_and(|said| said.starts_with("NUMA node 4000 has no memory"))
        );
    }
}
