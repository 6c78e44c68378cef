//! From what is wanted and what is there to the steps between.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kumiki_node_image::listing::NodeState;
use kumiki_node_image::needs::Needs;
use kumiki_node_wire::memory::cpu_list;
use serde::Serialize;

use super::change::{Changes, MemoryResize, Resize, changed, chosen, memory_resizes, resizes};
use super::file::{ImageWanted, Machine, NodeWanted};
use super::situation::{Situation, slices_for};
use crate::host::spec::{Cpus, Fault, MemorySource, Spec};
use crate::{Result, Subject};

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
        /// Place of its kernel's configuration that was checked.
        config: Option<String>,
    },
    /// Make a node, of these very cpus.
    Create(Spec),
    /// Stop a node if it runs, and give back what it has: the file asks for another one.
    Remove {
        /// Name of the node.
        node: String,
        /// Difference between it and the file.
        why: String,
        /// Spec by which it is made again, should a later step fail.
        #[serde(skip)]
        before: Box<Spec>,
        /// True if it is started again then.
        #[serde(skip)]
        runs: bool,
    },
    /// Give a node cpus, or have it give some back, as it is.
    Resize {
        /// Name of the node.
        node: String,
        /// Cpus that it has then, the first of them first.
        cpus: Vec<u32>,
        /// Cpus that it has before.
        before: Vec<u32>,
    },
    /// Give a node memory, or have it give some back, as it is.
    Memory {
        /// Name of the node.
        node: String,
        /// Bytes that it has then.
        bytes: u64,
        /// Bytes that it has before.
        before: u64,
    },
    /// Start a node.
    Start {
        /// Name of the node.
        node: String,
        /// The snapshot that it is started from, if there is one that suits it by then.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
}

impl Step {
    /// The node that it changes, if it is one.
    pub(super) fn node(&self) -> Option<&str> {
        match self {
            Step::Add { .. } => None,
            Step::Create(spec) => Some(&spec.name),
            Step::Remove { node, .. }
            | Step::Resize { node, .. }
            | Step::Memory { node, .. }
            | Step::Start { node, .. } => Some(node),
        }
    }

    /// The node or image that it is about.
    pub(super) fn subject(&self) -> Subject {
        match self {
            Step::Add { image, .. } => Subject::image(image),
            _ => Subject::node(self.node().unwrap_or_default()),
        }
    }
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
            Step::Remove { node, why, .. } => write!(f, "stop and delete node {node} ({why})"),
            Step::Resize { node, cpus, before } => {
                let [cpus, before] = [cpus, before].map(|cpus| cpu_list::text(cpus));
                write!(f, "resize node {node} (cpus {cpus} after {before})")
            }
            Step::Memory { node, bytes, before } => {
                let [mib, before] = [bytes, before].map(|bytes| bytes >> 20);
                write!(f, "resize node {node} ({mib} MiB after {before})")
            }
            Step::Start { node, from: None } => write!(f, "start node {node}"),
            Step::Start { node, from: Some(from) } => write!(f, "start node {node} from {from}"),
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
/// the way. `offers` has each image of the machine. Nodes are replaced one after the other, each
/// running again before the next one goes, unless it needs what another one has to give back.
pub(super) fn plan(
    machine: &Machine,
    offers: &BTreeMap<String, Offer>,
    situation: &Situation,
    changes: Changes,
) -> Result<Vec<Step>> {
    let changed = changed(machine, situation, changes)?;
    let resizes = resizes(machine, situation)?;
    let mut specs = chosen(machine, situation, &changed, &resizes)?;
    let mut planning = Planning {
        offers,
        situation,
        free_cpus: situation.free.cpus.iter().copied().collect(),
        free_bytes: situation.free.memory_bytes,
        taken_bytes: 0,
        free_slices: situation.free.low_slices,
        sharers: situation.nodes.values().filter(|node| node.shares_slice()).count(),
        steps: Vec::new(),
        starts: Vec::new(),
    };
    for image in &machine.images {
        planning.image(image).map_err(|fault| machine.image_fault(image, &fault))?;
    }
    let fault = |node: &NodeWanted, fault: Fault| machine.node_fault(node, &fault);
    planning.free_cpus = resizes.free.iter().copied().collect();
    planning.steps.extend(
        resizes.each.into_iter().map(|Resize { node, cpus, before }| Step::Resize {
            node: node.to_owned(),
            cpus,
            before,
        }),
    );
    for MemoryResize { node, bytes, before } in memory_resizes(machine, situation) {
        planning.free_bytes = planning.free_bytes.saturating_add(before.saturating_sub(bytes));
        let more = bytes.saturating_sub(before);
        planning.take("memory", more).map_err(|error| fault(node, error))?;
        let node = node.spec.name.clone();
        planning.steps.push(Step::Memory { node, bytes, before });
    }
    let mut later = Vec::new();
    for node in &machine.nodes {
        let name = node.spec.name.as_str();
        let Some(why) = changed.get(name) else { continue };
        planning.remove(name, why.to_string());
        match specs.remove(name) {
            Some(spec) if planning.has_cpus(&spec) => {
                planning.make(spec).map_err(|error| fault(node, error))?;
                planning.steps.extend(
                    node.start
                        .then(|| Step::Start { node: name.to_owned(), from: node.from.clone() }),
                );
            }
            Some(spec) => later.push((node, spec)),
            None => {}
        }
    }
    for (node, spec) in later {
        planning.make(spec).map_err(|error| fault(node, error))?;
        planning.start(node);
    }
    for node in machine.nodes.iter().filter(|node| !changed.contains_key(&*node.spec.name)) {
        let name = node.spec.name.as_str();
        let rests = match specs.remove(name) {
            Some(spec) => {
                planning.make(spec).map_err(|error| fault(node, error))?;
                true
            }
            None => situation.nodes.get(name).is_some_and(|node| {
                matches!(node.state, NodeState::Created | NodeState::Stopped | NodeState::Ended)
            }),
        };
        if rests {
            planning.start(node);
        }
    }
    planning.steps.append(&mut planning.starts);
    Ok(planning.steps)
}

struct Planning<'a> {
    offers: &'a BTreeMap<String, Offer>,
    situation: &'a Situation,
    /// Cpus, memory and slices that are free after the steps so far; of memory, with what these
    /// steps have taken.
    free_cpus: BTreeSet<u32>,
    free_bytes: u64,
    taken_bytes: u64,
    free_slices: u64,
    /// Nodes that have one cpu for ever.
    sharers: usize,
    steps: Vec<Step>,
    /// Starts, which come last, all at once.
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

    fn start(&mut self, node: &NodeWanted) {
        let name = node.spec.name.clone();
        let from = node.from.clone();
        self.starts.extend(node.start.then_some(Step::Start { node: name, from }));
    }

    /// Counts what a node gives back.
    fn remove(&mut self, name: &str, why: String) {
        let node = &self.situation.nodes[name];
        let Some(before) = node.spec(name).map(Box::new) else { return };
        self.free_cpus.extend(&node.cpus);
        self.free_bytes = self.free_bytes.saturating_add(node.bytes);
        let shares = node.shares_slice();
        self.sharers -= usize::from(shares);
        self.free_slices += slices_for(shares, self.sharers);
        let (node, runs) = (name.to_owned(), node.was_started());
        self.steps.push(Step::Remove { node, why, before, runs });
    }

    fn has_cpus(&self, spec: &Spec) -> bool {
        let Cpus::These(cpus) = &spec.cpus else { return false };
        cpus.iter().all(|cpu| self.free_cpus.contains(cpu))
    }

    fn make(&mut self, spec: Spec) -> Result<(), Fault> {
        self.fits(&spec)?;
        if let Cpus::These(cpus) = &spec.cpus {
            self.free_cpus.retain(|cpu| !cpus.contains(cpu));
        }
        self.steps.push(Step::Create(spec));
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
        let slices = slices_for(spec.shares_slice(), self.sharers);
        if self.free_slices < slices {
            let slices = self.situation.free.low_slices;
            let problem = format!(
                "a node more than have room below 1 MiB: {slices} are left beside the {} that \
                 exist; delete one (kumiki node ls), or start fewer with more cpus each",
                self.situation.nodes.len()
            );
            return Err(Fault::new("image", problem));
        }
        self.free_slices -= slices;
        self.sharers += usize::from(spec.shares_slice());
        // What was kept from the host when it started is not of what it has free.
        if spec.memory_from == MemorySource::Boot {
            return Ok(());
        }
        self.take("memory", spec.bytes())
    }

    fn take(&mut self, key: &'static str, bytes: u64) -> Result<(), Fault> {
        let free = self.free_bytes;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fixtures::{MIB, after, free, offers, parse, planned};
    use super::*;
    use crate::Error;
    use crate::machine::situation::Existing;

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
        let steps = plan(&parse(TWO).unwrap(), &offers(), &free(&[3, 2, 1], 2048), Changes::Refuse)
            .unwrap();
        assert_eq!(
            shown(&steps),
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
        let steps = plan(&machine, &offers(), &begin, Changes::Refuse).unwrap();
        let mut there = steps.iter().fold(begin, after);
        assert_eq!(plan(&machine, &offers(), &there, Changes::Refuse).unwrap(), []);
        there.nodes.get_mut("a").unwrap().state = NodeState::Ended;
        let steps = plan(&machine, &offers(), &there, Changes::Refuse).unwrap();
        assert_eq!(steps, [Step::Start { node: "a".into(), from: None }]);
        let warm = parse(&TWO.replace("start = false", "start = { from = \"warm\" }")).unwrap();
        let steps = plan(&warm, &offers(), &there, Changes::Refuse).unwrap();
        assert_eq!(shown(&steps), ["start node a", "start node b from warm"]);
    }

    #[test]
    fn memory_comes_and_goes_within_limits_as_nodes_run() {
        let text = |a: &str, b: &str| {
            format!(
                "[image.deb]\nkernel = \"/boot/vmlinuz\"\n[node.a]\nimage = \"deb\"\nmemory = \"{a}\"\n\
                 max_memory = \"512M\"\n[node.b]\nimage = \"deb\"\nmemory = \"{b}\"\n\
                 max_memory = \"640M\"\n"
            )
        };
        let planned = |a: &str, b: &str, there: &Situation| {
            plan(&parse(&text(a, b)).unwrap(), &offers(), there, Changes::Refuse)
        };
        let begin = free(&[3, 2, 1], 1024);
        let there = planned("256M", "256M", &begin).unwrap().iter().fold(begin, after);
        // 442 MiB are left, and a step has 128.
        let steps = planned("300M", "512M", &there).unwrap();
        let each = ["resize node a (384 MiB after 256)", "resize node b (512 MiB after 256)"];
        assert_eq!(shown(&steps), each);
        let balanced = Situation { balanced: true, ..there.clone() };
        assert_eq!(planned("300M", "512M", &balanced).unwrap(), []);
        let there = steps.iter().fold(there, after);
        assert_eq!(planned("300M", "512M", &there).unwrap(), []);
        // Who gives comes first: there would not be enough.
        let steps = planned("256M", "640M", &there).unwrap();
        let each = ["resize node a (256 MiB after 384)", "resize node b (640 MiB after 512)"];
        assert_eq!(shown(&steps), each);
        let error = planned("512M", "512M", &there).unwrap_err().to_string();
        assert!(error.contains(":5: node.a.memory: 134217728 bytes of memory after"), "{error}");
        // The next step above, which is its limit; less than it was started with.
        let mut roomy = there.clone();
        roomy.free.memory_bytes += 128 * MIB;
        let steps = planned("510M", "512M", &roomy).unwrap();
        assert_eq!(shown(&steps), ["resize node a (512 MiB after 384)"]);
        let error = planned("192M", "512M", &roomy).unwrap_err().to_string();
        assert!(error.contains("a exists with 402653184 bytes"), "{error}");
        let mut rests = there.clone();
        rests.nodes.get_mut("a").unwrap().unit = 0;
        let error = planned("512M", "512M", &rests).unwrap_err().to_string();
        assert!(error.contains("a exists with 402653184 bytes"), "{error}");
    }

    #[test]
    fn what_is_in_the_way_is_said_with_its_line() {
        let machine = parse(TWO).unwrap();
        let begin = free(&[3, 2, 1], 2048);
        let steps = plan(&machine, &offers(), &begin, Changes::Refuse).unwrap();
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
            let error =
                plan(&machine, &offers(), &situation, Changes::Refuse).unwrap_err().to_string();
            assert!(error.contains(says), "{error}\ninstead of {says}");
        }
        // A node of what exists owns the cpu.
        let mut taken = there.clone();
        taken.nodes.remove("b");
        let a = taken.nodes.remove("a").unwrap();
        taken.nodes.insert("z".into(), Existing { cpus: vec![3], ..a });
        let error = plan(&machine, &offers(), &taken, Changes::Refuse).unwrap_err().to_string();
        assert!(error.contains("cpu 3 is node z's; free are none"), "{error}");
        let small = TWO.replace("256M", "64M");
        let error = plan(&parse(&small).unwrap(), &offers(), &begin, Changes::Refuse)
            .unwrap_err()
            .to_string();
        assert!(error.contains(":7: node.a.memory: 67108864 bytes in the first piece"), "{error}");
        let none = TWO.replace("image = \"deb\"\ncpus = 2", "image = \"sid\"\ncpus = 2");
        let error = plan(&parse(&none).unwrap(), &offers(), &begin, Changes::Refuse)
            .unwrap_err()
            .to_string();
        assert!(error.contains(":5: node.a.image: there is no image sid"), "{error}");
    }

    fn shown(steps: &[Step]) -> Vec<String> {
        steps.iter().map(Step::to_string).collect()
    }

    /// Each runs again before the next one goes; what needs another one's cpus waits for them.
    #[test]
    fn changed_nodes_are_replaced_one_after_the_other() {
        let begin = free(&[3, 2, 1], 700);
        let both = TWO.replace("start = false", "");
        let there = plan(&parse(&both).unwrap(), &offers(), &begin, Changes::Refuse).unwrap();
        let there = there.iter().fold(begin, after);
        let replaced = |text: &str| -> Vec<String> {
            let machine = parse(text).unwrap();
            let steps = plan(&machine, &offers(), &there, Changes::Replace).unwrap();
            let end = steps.iter().fold(there.clone(), after);
            assert_eq!(plan(&machine, &offers(), &end, Changes::Refuse).unwrap(), []);
            shown(&steps)
        };
        let why = "stop and delete node a (append: node a exists with \"\")";
        let quiet = both.replace("image = \"deb\"\n", "image = \"deb\"\nappend = \"quiet\"\n");
        assert_eq!(
            replaced(&quiet),
            [
                why.to_owned(),
                "create node a (cpus 2,1, 256 MiB, image deb)".into(),
                "start node a".into(),
                why.replace("node a", "node b"),
                "create node b (cpus 3, 256 MiB, image deb)".into(),
                "start node b".into(),
            ]
        );
        // One of two cpus becomes two of one, and what has not changed is left alone.
        let split =
            both.replace("cpus = 2", "cpus = 1") + "\n[node.c]\nimage = \"deb\"\nmemory = \"100M\"";
        let steps = replaced(&split);
        assert!(steps[0].starts_with("stop and delete node a (cpus: "), "{steps:?}");
        assert_eq!(
            steps[1..],
            [
                "create node a (cpus 2, 256 MiB, image deb)",
                "start node a",
                "create node c (cpus 1, 100 MiB, image deb)",
                "start node c",
            ]
        );
        // They change cpus: both go before one of them comes.
        let swapped = both
            .replace("cpus = 2", "cpus = [3]")
            .replace("\ncpus = [3]\nmemory = [", "\ncpus = [2]\nmemory = [");
        let steps = replaced(&swapped);
        assert!(steps[1].starts_with("stop and delete node b"), "{steps:?}");
        assert_eq!(steps.len(), 6);
        // Its devices.
        let net = both.replace("cpus = 2", "cpus = 2\nnet = [\"auto\"]");
        assert!(replaced(&net)[0].contains("a exists with no devices"));
    }

    #[test]
    fn an_elastic_node_is_resized_as_it_is() {
        let elastic =
            TWO.replace("cpus = 2", "cpus = 2\nmax_cpus = 3").replace("start = false", "");
        let begin = free(&[4, 3, 2, 1], 2048);
        let machine = parse(&elastic).unwrap();
        let there = plan(&machine, &offers(), &begin, Changes::Refuse).unwrap();
        let there = there.iter().fold(begin, after);
        let steps = |text: &str, there: &Situation| -> Vec<String> {
            let machine = parse(text).unwrap();
            let steps = plan(&machine, &offers(), there, Changes::Refuse).unwrap();
            let end = steps.iter().fold(there.clone(), after);
            assert_eq!(plan(&machine, &offers(), &end, Changes::Refuse).unwrap(), []);
            shown(&steps)
        };
        let more = elastic.replace("cpus = 2\n", "cpus = 3\n");
        assert_eq!(steps(&more, &there), ["resize node a (cpus 4,2,1 after 4,2)"]);
        // Where who balances has moved one meanwhile, it stays there.
        let balanced = Situation { balanced: true, ..there.clone() };
        assert_eq!(steps(&more, &balanced), [""; 0]);
        let less = elastic.replace("cpus = 2\n", "cpus = 1\n");
        assert_eq!(steps(&less, &there), ["resize node a (cpus 4 after 4,2)"]);
        // What it gives another one gets.
        let new = less.clone() + "\n[node.c]\nimage = \"deb\"\ncpus = 2\nmemory = \"100M\"";
        assert_eq!(
            steps(&new, &there),
            [
                "resize node a (cpus 4 after 4,2)",
                "create node c (cpus 1,2, 100 MiB, image deb)",
                "start node c",
            ]
        );
        // Other limits need a kernel that is told so.
        let limits = elastic.replace("max_cpus = 3", "max_cpus = 4");
        let error = plan(&parse(&limits).unwrap(), &offers(), &there, Changes::Refuse).unwrap_err();
        assert!(error.to_string().contains("node.a.max_cpus: node a exists with 1 to 3 cpus"));
        let mut full = there.clone();
        full.free.cpus = Vec::new();
        let error = plan(&parse(&more).unwrap(), &offers(), &full, Changes::Refuse).unwrap_err();
        assert!(error.to_string().contains("node.a.cpus: 3 cpus, and of those"), "{error}");
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
                    let running = end.nodes.values().filter(|node| node.state == NodeState::Ready);
                    prop_assert_eq!(running.count(), nodes.iter().filter(|node| node.2).count());
                }
            }
        }
    }
}
