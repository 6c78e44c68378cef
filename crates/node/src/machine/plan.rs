//! From what is wanted and what is there to the steps between.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::file::{ImageWanted, Machine, NodeWanted};
use super::situation::{Existing, Situation};
use crate::listing::State;
use crate::needs::Needs;
use crate::spec::{Cpus, Fault, MemorySource, Spec};
use crate::{Result, cpu_list, cpus, numa};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "lowercase")]
pub enum Step {
    /// Put an image into memory.
    Add {
        /// Its name.
        image: String,
        /// Memory that it takes.
        bytes: u64,
        /// Where its kernel's configuration was found that was checked.
        config: Option<String>,
    },
    /// Make a node, of these very cpus.
    Create(Spec),
    /// Start a node.
    Start {
        /// Which one.
        node: String,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Add { image, bytes, config } => {
                let unchecked = ", no configuration to check";
                let unchecked = if config.is_none() { unchecked } else { "" };
                write!(f, "add image {image} ({} MiB{unchecked})", bytes >> 20)
            }
            Step::Create(spec) => {
                let (name, mib) = (&spec.name, spec.bytes() >> 20);
                write!(f, "create node {name} ({}, {mib} MiB, image {})", spec.cpus, spec.image)
            }
            Step::Start { node } => write!(f, "start node {node}"),
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cpus::Count(1) => f.write_str("1 cpu"),
            Cpus::Count(count) => write!(f, "{count} cpus"),
            Cpus::These(cpus) => write!(f, "cpus {}", cpu_list::text(cpus)),
        }
    }
}

/// An image as it would be made now.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) sha256: String,
    /// Memory that it takes.
    pub(super) bytes: u64,
    pub(super) needs: Option<Needs>,
    pub(super) config: Option<String>,
}

/// The steps from the situation to what is wanted, or the first thing that is in
/// the way. `offers` has each image of the machine.
pub(super) fn plan(
    machine: &Machine,
    offers: &BTreeMap<String, Offer>,
    situation: &Situation,
) -> Result<Vec<Step>> {
    let mut planning = Planning {
        offers,
        situation,
        taken_bytes: 0,
        taken_slices: 0,
        steps: Vec::new(),
        starts: Vec::new(),
    };
    for image in &machine.images {
        planning.image(image).map_err(|fault| machine.image_fault(image, &fault))?;
    }
    let specs = chosen(machine, situation)?;
    for node in &machine.nodes {
        let spec = specs.get(node.spec.name.as_str()).cloned();
        planning.node(node, spec).map_err(|fault| machine.node_fault(node, &fault))?;
    }
    planning.steps.append(&mut planning.starts);
    Ok(planning.steps)
}

/// The nodes that are to be made, each with cpus by number: those that are named
/// go first, and the others take the last ones that remain.
pub(super) fn chosen<'a>(
    machine: &'a Machine,
    situation: &Situation,
) -> Result<BTreeMap<&'a str, Spec>> {
    let all = &situation.free.cpus;
    let new = || {
        let nodes = machine.nodes.iter();
        nodes.filter(|node| !situation.nodes.contains_key(&node.spec.name))
    };
    let mut free = all.clone();
    for node in new() {
        let Cpus::These(cpus) = &node.spec.cpus else { continue };
        for cpu in cpus {
            let Some(at) = free.iter().position(|one| one == cpu) else {
                return Err(machine.node_fault(node, &not_free(*cpu, situation)));
            };
            free.remove(at);
        }
    }
    let mut specs = BTreeMap::new();
    for node in new() {
        let cpus = match &node.spec.cpus {
            Cpus::These(cpus) => cpus.clone(),
            Cpus::Count(count) if *count > free.len() => {
                let problem = format!(
                    "{count} cpus, and {} of {} that are free ({}) are left for it{}",
                    free.len(),
                    all.len(),
                    cpu_list::text(all),
                    cpus::and_holders(&situation.free.held)
                );
                return Err(machine.node_fault(node, &Fault::new("cpus", problem)));
            }
            Cpus::Count(count) => {
                let chosen = numa::together(&free, *count, &situation.numa_nodes);
                free.retain(|cpu| !chosen.contains(cpu));
                chosen
            }
        };
        let spec = Spec { cpus: Cpus::These(cpus), ..node.spec.clone() };
        specs.insert(node.spec.name.as_str(), spec);
    }
    Ok(specs)
}

fn not_free(cpu: u32, situation: &Situation) -> Fault {
    let owner = situation.nodes.iter().find(|(_, node)| node.cpus.contains(&cpu));
    let why = match owner {
        Some((name, _)) => format!("is node {name}'s"),
        None => "is not on line in the host".to_owned(),
    };
    let free = cpu_list::text(&situation.free.cpus);
    Fault::new("cpus", format!("cpu {cpu} {why}; free are {free}"))
}

struct Planning<'a> {
    offers: &'a BTreeMap<String, Offer>,
    situation: &'a Situation,
    taken_bytes: u64,
    taken_slices: u64,
    steps: Vec<Step>,
    /// They come last, all at once.
    starts: Vec<Step>,
}

impl Planning<'_> {
    fn image(&mut self, wanted: &ImageWanted) -> Result<(), Fault> {
        let (name, offer) = (&wanted.name, &self.offers[&wanted.name]);
        let Some(resident) = self.situation.images.get(name) else {
            self.take("kernel", offer.bytes)?;
            let (bytes, config) = (offer.bytes, offer.config.clone());
            self.steps.push(Step::Add { image: name.clone(), bytes, config });
            return Ok(());
        };
        let problem = match &resident.sha256 {
            Some(sha256) if *sha256 == offer.sha256 => return Ok(()),
            Some(_) => {
                "an image of this name has other contents (its kernel, initramfs or module, \
                        or kumiki itself, was another)"
            }
            None => "an image of this name was begun and not finished",
        };
        let problem = format!("{problem}: kumiki image rm {name}, or choose another name");
        Err(Fault::new("kernel", problem))
    }

    fn node(&mut self, wanted: &NodeWanted, spec: Option<Spec>) -> Result<(), Fault> {
        let name = &wanted.spec.name;
        let rests = match (spec, self.situation.nodes.get(name)) {
            (Some(spec), _) => {
                self.fits(&spec)?;
                self.steps.push(Step::Create(spec));
                true
            }
            (None, Some(node)) => {
                is_as_wanted(&wanted.spec, node)?;
                matches!(node.state, State::Created | State::Stopped | State::Ended)
            }
            (None, None) => unreachable!("a node that does not exist has been given cpus"),
        };
        if wanted.start && rests {
            self.starts.push(Step::Start { node: name.clone() });
        }
        Ok(())
    }

    fn fits(&mut self, spec: &Spec) -> Result<(), Fault> {
        let image = &spec.image;
        let offered = self.offers.get(image).and_then(|offer| offer.needs);
        let resident = self.situation.images.get(image).and_then(|image| image.needs);
        let needs = offered.or(resident).ok_or_else(|| {
            let problem = format!("there is no image {image}, neither in this file nor in memory");
            Fault::new("image", problem)
        })?;
        needs.check(image, &spec.memory_bytes)?;
        let slices = self.situation.free.low_slices;
        if self.taken_slices == slices {
            let problem = format!(
                "a node more than have room below 1 MiB: {slices} are left beside the {} that \
                 exist; delete one (kumiki node ls), or start fewer with more cpus each",
                self.situation.nodes.len()
            );
            return Err(Fault::new("image", problem));
        }
        self.taken_slices += 1;
        // What was kept from the host when it started is not of what it has free.
        if spec.memory_from == MemorySource::Boot {
            return Ok(());
        }
        self.take("memory", spec.bytes())
    }

    fn take(&mut self, key: &'static str, bytes: u64) -> Result<(), Fault> {
        let free = self.situation.free.memory_bytes;
        let sum = self.taken_bytes.saturating_add(bytes);
        if sum > free {
            let problem = format!(
                "{bytes} bytes of memory after {} for what comes before it, and {free} are free \
                 (the host keeps {})",
                self.taken_bytes, self.situation.free.host_keeps_bytes
            );
            return Err(Fault::new(key, problem));
        }
        self.taken_bytes = sum;
        Ok(())
    }
}

/// Whether a node that exists is the one that the file asks for.
fn is_as_wanted(wanted: &Spec, node: &Existing) -> Result<(), Fault> {
    let name = &wanted.name;
    let other = |key, has: String| {
        let problem = format!(
            "node {name} exists with {has}: kumiki node delete {name}, or write what it has"
        );
        Err(Fault::new(key, problem))
    };
    let Some((image, command_line)) = &node.made_of else {
        let problem = format!("node {name} was begun and not finished: kumiki node delete {name}");
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
    let same = match &wanted.cpus {
        Cpus::Count(count) => *count == node.cpus.len(),
        Cpus::These(cpus) => sorted(cpus) == sorted(&node.cpus),
    };
    if !same {
        return other("cpus", Cpus::These(node.cpus.clone()).to_string());
    }
    if node.bytes != wanted.bytes() {
        return other("memory", format!("{} bytes", node.bytes));
    }
    if *command_line != wanted.command_line {
        return other("append", format!("{command_line:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::made_up::{MIB, after, free, offers, parse, planned};
    use super::*;
    use crate::Error;

    const TWO: &str = r#"
[image.deb]
kernel = "/boot/vmlinuz"
[node.a]
image = "deb"
cpus = 2
memory = "256M"
[node.b]
image = "deb"
cpus = [3]
memory = ["192M", "64M"]
start = false
"#;

    #[test]
    fn named_cpus_are_kept_for_who_names_them() {
        let steps = plan(&parse(TWO).unwrap(), &offers(), &free(&[3, 2, 1], 2048)).unwrap();
        let shown: Vec<_> = steps.iter().map(Step::to_string).collect();
        assert_eq!(
            shown,
            [
                "add image deb (70 MiB)",
                "create node a (cpus 2,1, 256 MiB, image deb)",
                "create node b (cpus 3, 256 MiB, image deb)",
                "start node a",
            ]
        );
    }

    #[test]
    fn what_is_there_is_left_and_what_rests_is_started() {
        let machine = parse(TWO).unwrap();
        let begin = free(&[3, 2, 1], 2048);
        let steps = plan(&machine, &offers(), &begin).unwrap();
        let mut there = steps.iter().fold(begin, after);
        assert_eq!(plan(&machine, &offers(), &there).unwrap(), []);
        there.nodes.get_mut("a").unwrap().state = State::Ended;
        let steps = plan(&machine, &offers(), &there).unwrap();
        assert_eq!(steps, [Step::Start { node: "a".into() }]);
    }

    #[test]
    fn what_is_in_the_way_is_said_with_its_line() {
        let machine = parse(TWO).unwrap();
        let begin = free(&[3, 2, 1], 2048);
        let steps = plan(&machine, &offers(), &begin).unwrap();
        let there = steps.iter().fold(begin.clone(), after);
        type Change = fn(&mut Situation);
        let cases: [(&Situation, Change, &str); 13] = [
            (&begin, |s| s.free.cpus = vec![2, 1], ":10: node.b.cpus: cpu 3 is not on line"),
            (&begin, |s| s.free.cpus = vec![3, 2], ":6: node.a.cpus: 2 cpus, and 1 of 2"),
            (&begin, |s| s.free.memory_bytes = 500 * MIB, ":11: node.b.memory: 268435456 bytes"),
            (&begin, |s| s.free.memory_bytes = 9 * MIB, ":3: image.deb.kernel: 73400320 bytes"),
            (&begin, |s| s.free.low_slices = 1, ":9: node.b.image: a node more than have room"),
            (&there, |s| s.nodes.get_mut("a").unwrap().cpus = vec![1], "a exists with cpus 1:"),
            (&there, |s| s.nodes.get_mut("b").unwrap().cpus = vec![5], "b exists with cpus 5:"),
            (&there, |s| s.nodes.get_mut("b").unwrap().bytes = 9, ":11: node.b.memory: node b"),
            (&there, |s| s.nodes.get_mut("b").unwrap().made_of = None, "begun and not finished"),
            (
                &there,
                |s| s.nodes.get_mut("a").unwrap().made_of = Some(("sid".into(), "".into())),
                ":5: node.a.image: node a exists with image sid",
            ),
            (
                &there,
                |s| s.nodes.get_mut("a").unwrap().made_of = Some(("deb".into(), "x".into())),
                ":4: node.a.append: node a exists with \"x\"",
            ),
            (
                &there,
                |s| s.images.get_mut("deb").unwrap().sha256 = Some("old".into()),
                ":3: image.deb.kernel: an image of this name has other contents",
            ),
            (
                &there,
                |s| s.images.get_mut("deb").unwrap().sha256 = None,
                "begun and not finished: kumiki image rm deb",
            ),
        ];
        for (situation, change, says) in cases {
            let mut situation = situation.clone();
            change(&mut situation);
            let error = plan(&machine, &offers(), &situation).unwrap_err().to_string();
            assert!(error.contains(says), "{error}\ninstead of {says}");
        }
        // A node of what exists owns the cpu.
        let mut taken = there.clone();
        taken.nodes.remove("b");
        let a = taken.nodes.remove("a").unwrap();
        taken.nodes.insert("z".into(), Existing { cpus: vec![3], ..a });
        let error = plan(&machine, &offers(), &taken).unwrap_err().to_string();
        assert!(error.contains("cpu 3 is node z's; free are none"), "{error}");
        let small = TWO.replace("256M", "64M");
        let error = plan(&parse(&small).unwrap(), &offers(), &begin).unwrap_err().to_string();
        assert!(error.contains(":7: node.a.memory: 67108864 bytes in the first piece"), "{error}");
        let none = TWO.replace("image = \"deb\"\ncpus = 2", "image = \"sid\"\ncpus = 2");
        let error = plan(&parse(&none).unwrap(), &offers(), &begin).unwrap_err().to_string();
        assert!(error.contains(":5: node.a.image: there is no image sid"), "{error}");
    }

    proptest! {
        /// Steps are possible one after the other, give each cpu once, and lead to
        /// where nothing is left to do; or the file is refused.
        #[test]
        fn a_plan_can_be_carried_out_and_ends(
            nodes in prop::collection::vec((0..5usize, 50..400u64, any::<bool>()), 0..5),
            named in prop::collection::btree_set(1..8u32, 0..3),
            cpus in prop::collection::btree_set(1..8u32, 0..8),
            mib in 0..2000u64,
        ) {
            let mut text = "[image.deb]\nkernel = \"k\"\n".to_owned();
            let named: Vec<_> = named.into_iter().collect();
            for (n, (count, size, start)) in nodes.iter().enumerate() {
                let cpus = match (n, count) {
                    (0, _) if !named.is_empty() => format!("{named:?}"),
                    (_, count) => (count + 1).to_string(),
                };
                text += &format!(
                    "[node.n{n}]\nimage = \"deb\"\ncpus = {cpus}\nmemory = \"{}M\"\nstart = {start}\n",
                    2 * size
                );
            }
            let machine = parse(&text).unwrap();
            let cpus: Vec<_> = cpus.into_iter().rev().collect();
            let begin = free(&cpus, mib);
            match planned(&machine, begin) {
                Err(error) => {
                    let with_line = matches!(error, Error::MachineFile { .. });
                    prop_assert!(with_line);
                }
                Ok(end) => {
                    let running = end.nodes.values().filter(|node| node.state == State::Ready);
                    prop_assert_eq!(running.count(), nodes.iter().filter(|node| node.2).count());
                }
            }
        }
    }
}
