//! A machine file of any text, on a machine that is made up: for fuzzing, and for the
//! tests.

use std::collections::BTreeSet;
use std::path::Path;

use kumiki_node_image::listing::NodeState;
use kumiki_node_image::needs::Needs;

use super::change::Changes;
use super::file::Machine;
use super::plan::{Offer, Step, plan};
use super::situation::{Existing, Free, Resident, Situation, slices_for};
use crate::host::spec::{Cpus, MemorySource};
use crate::{Error, Result};

pub(super) const MIB: u64 = 1 << 20;
/// Path of every file.
const FILE: &str = "/etc/kumiki/machine.toml";

/// Any text is refused at a line that it has, or it is a machine whose steps are possible
/// one after the other, on a machine of eight cpus and 2000 MiB.
pub fn machine(text: &str) {
    match parse(text) {
        Err(error) => is_of_a_line(&error, text),
        Ok(machine) => {
            for node in &machine.nodes {
                assert_eq!(node.spec.check(), Ok(()));
            }
            if let Err(error) = planned(&machine, free(&[7, 6, 5, 4, 3, 2, 1], 2000)) {
                is_of_a_line(&error, text);
            }
        }
    }
}

fn is_of_a_line(error: &Error, text: &str) {
    let Error::MachineFile { line, problem, .. } = error else { panic!("{error}") };
    assert!((1..=1 + text.matches('\n').count()).contains(line), "{error}");
    assert!(!problem.is_empty());
}

pub(super) fn parse(text: &str) -> Result<Machine> {
    Machine::parse(Path::new(FILE), text.to_owned())
}

/// The situation when all has been done for a machine, of which each image is as it is
/// now; then nothing is left to do, and who is to run runs.
pub(super) fn planned(machine: &Machine, begin: Situation) -> Result<Situation> {
    let offers = machine.images.iter().map(|image| (image.name.clone(), offer("now"))).collect();
    let end = plan(machine, &offers, &begin, Changes::Refuse)?.iter().fold(begin, after);
    assert_eq!(plan(machine, &offers, &end, Changes::Refuse)?, []);
    for node in &machine.nodes {
        let is_ready = end.nodes[&node.spec.name].state == NodeState::Ready;
        assert_eq!(is_ready, node.start);
    }
    let given: Vec<u32> = end.nodes.values().flat_map(|node| node.cpus.clone()).collect();
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), given.len());
    Ok(end)
}

const NEEDS: Needs = Needs { first_piece_bytes: 100 * MIB, all_bytes: 100 * MIB };

pub(super) fn offer(sha256: &str) -> Offer {
    Offer {
        sha256: sha256.into(),
        bytes: 70 * MIB,
        needs: Some(NEEDS),
        config: Some("config".into()),
    }
}

#[cfg(test)]
pub(super) fn offers() -> std::collections::BTreeMap<String, Offer> {
    std::collections::BTreeMap::from([("deb".to_owned(), offer("now"))])
}

pub(super) fn free(cpus: &[u32], mib: u64) -> Situation {
    let free =
        Free { cpus: cpus.to_vec(), low_slices: 16, memory_bytes: mib * MIB, ..Free::default() };
    Situation { free, ..Situation::default() }
}

/// The situation after a step, which must be possible.
pub(super) fn after(mut situation: Situation, step: &Step) -> Situation {
    let mut taken = 0;
    match step {
        Step::Add { image, bytes, .. } => {
            taken = *bytes;
            let resident = Resident { sha256: Some("now".into()), needs: Some(NEEDS) };
            assert!(situation.images.insert(image.clone(), resident).is_none());
        }
        Step::Create(spec) => {
            let Cpus::These(cpus) = &spec.cpus else { panic!("{spec:?}") };
            for cpu in cpus {
                let at = situation.free.cpus.iter().position(|free| free == cpu);
                situation.free.cpus.remove(at.expect("a cpu that is free"));
            }
            let sharers = situation.nodes.values().filter(|node| node.shares_slice()).count();
            let slices = &mut situation.free.low_slices;
            let needs = slices_for(spec.shares_slice(), sharers);
            *slices = slices.checked_sub(needs).expect("a slice that is free");
            if spec.memory_from != MemorySource::Boot {
                taken = spec.bytes();
            }
            assert!(situation.images.contains_key(&spec.image));
            let node = Existing {
                state: NodeState::Created,
                cpus: cpus.clone(),
                numa: spec.numa.clone(),
                elastic: spec.elastic,
                told: Vec::new(),
                bytes: spec.bytes(),
                memory: spec.memory_limits,
                started_with: spec.bytes(),
                unit: 0,
                pieces: spec.memory_bytes.clone(),
                made_of: Some((spec.image.clone(), spec.command_line.clone())),
                devices: spec.devices.clone(),
                init: spec.init.clone(),
                pci: spec.pci.clone(),
                dma_unconfined: spec.dma_unconfined,
            };
            assert!(situation.nodes.insert(spec.name.clone(), node).is_none());
        }
        Step::Remove { node, .. } => {
            let gone = situation.nodes.remove(node).expect("a node that exists");
            situation.free.cpus.extend(&gone.cpus);
            let sharers = situation.nodes.values().filter(|node| node.shares_slice()).count();
            situation.free.low_slices += slices_for(gone.shares_slice(), sharers);
            situation.free.memory_bytes += gone.bytes;
        }
        Step::Resize { node, cpus, before } => {
            let node = situation.nodes.get_mut(node).expect("a node that exists");
            assert_eq!(*before, node.cpus);
            assert!(node.may_have(cpus.len()) && node.cpus[0] == cpus[0]);
            let free = &mut situation.free.cpus;
            free.extend(node.cpus.iter().filter(|cpu| !cpus.contains(cpu)));
            for cpu in cpus.iter().filter(|cpu| !node.cpus.contains(cpu)) {
                assert!(node.may_get(*cpu));
                free.remove(free.iter().position(|free| free == cpu).expect("a cpu that is free"));
            }
            free.sort_unstable_by(|a, b| b.cmp(a));
            node.cpus = cpus.clone();
        }
        Step::Memory { node, bytes, before } => {
            let node = situation.nodes.get_mut(node).expect("a node that exists");
            assert!(*before == node.bytes && node.sized(*bytes) == Some(*bytes));
            situation.free.memory_bytes += before.saturating_sub(*bytes);
            taken = bytes.saturating_sub(*before);
            node.bytes = *bytes;
        }
        Step::Start { node, .. } => {
            let node = situation.nodes.get_mut(node).expect("a node that exists");
            assert!(matches!(
                node.state,
                NodeState::Created | NodeState::Stopped | NodeState::Ended
            ));
            node.state = NodeState::Ready;
            node.unit = 128 * MIB;
            // A kernel that may get others is told of all cpus of the machine.
            node.told = if node.elastic.is_some() { (1..9).collect() } else { node.cpus.clone() };
        }
    }
    let free = &mut situation.free.memory_bytes;
    *free = free.checked_sub(taken).expect("memory that is free");
    situation
}
