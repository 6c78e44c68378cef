//! Specification of a node, and the limits that need no look at the machine.

use kumiki_boot::WINDOW_BYTES;
use kumiki_node_devices::pci::Function;
use kumiki_node_devices::record::{Elastic, MemoryLimits, Record};
use kumiki_node_devices::spec::{DeviceSpec, assign};
pub(crate) use kumiki_node_image::fault::Fault;
pub(crate) use kumiki_node_image::reservation::MemorySource;
use kumiki_node_wire::device::{Dma, Slice};
use kumiki_node_wire::module::abi;
use serde::{Deserialize, Serialize};

/// A kernel for x86 reads 2047, and a node of 64 cpus and PCI functions needs less than 340 of them.
const COMMAND_LINE_BYTES: usize = 1700;

/// A node to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// The image that it is to start from.
    pub image: String,
    /// Its cpus.
    pub cpus: Cpus,
    /// NUMA nodes of its memory, and of its cpus if these are a number, the first one first; none:
    /// that of its first cpu.
    #[serde(default)]
    pub numa: Vec<u32>,
    /// Limits of the number of cpus while it runs; without them its kernel is told of its own
    /// alone.
    #[serde(default)]
    pub elastic: Option<Elastic>,
    /// Limits of its memory while it runs.
    #[serde(default)]
    pub memory_limits: Option<MemoryLimits>,
    /// Sizes of its pieces of memory; the first one holds the kernel.
    pub memory_bytes: Vec<u64>,
    /// Origin of its memory.
    #[serde(default)]
    pub memory_from: MemorySource,
    /// Words for its kernel's command line.
    pub command_line: String,
    /// Devices that its host serves it from its first start on.
    #[serde(default)]
    pub devices: Vec<DeviceSpec>,
    /// The init that it is handed over to; without one, the usual one of an image that names no
    /// program, or ours.
    #[serde(default)]
    pub init: Option<String>,
    /// PCI functions of this machine that its kernel drives.
    #[serde(default)]
    pub pci: Vec<Function>,
    /// Acceptance that what these write to memory is not confined to the node's.
    #[serde(default)]
    pub dma_unconfined: bool,
}

/// Cpus of the host that a node gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cpus {
    /// A number of them: the last ones that are free.
    Count(usize),
    /// Cpus by number; the first one starts first.
    These(Vec<u32>),
}

impl Cpus {
    /// Number of cpus.
    pub fn count(&self) -> usize {
        match self {
            Cpus::Count(count) => *count,
            Cpus::These(cpus) => cpus.len(),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        let fault = |problem: String| Err(Fault::new("cpus", problem));
        let count = self.count();
        if !(1..=abi::CPUS).contains(&count) {
            return fault(format!("{count} cpus: a node has 1 to {}", abi::CPUS));
        }
        let Cpus::These(cpus) = self else { return Ok(()) };
        if cpus.contains(&0) {
            return fault("cpu 0 stays the host's, which needs it: choose another".into());
        }
        match cpus.iter().enumerate().find(|(at, cpu)| cpus[..*at].contains(cpu)) {
            Some((_, cpu)) => fault(format!("cpu {cpu} is there twice: name each once")),
            None => Ok(()),
        }
    }
}

/// Words that would have an elastic node's kernel start cpus that are not its own.
const ITS_OWN_CPUS: [&str; 5] =
    ["maxcpus=", "nr_cpus=", "possible_cpus=", "cpuhp.parallel", "nosmp"];

impl Spec {
    /// True if it has one cpu for ever, and so needs its room below 1 MiB while it starts only.
    pub(crate) fn shares_slice(&self) -> bool {
        self.elastic.is_none() && self.cpus.count() == 1
    }

    /// Room below 1 MiB that it needs.
    pub(crate) fn slice(&self) -> Slice {
        if self.shares_slice() { Slice::Shared } else { Slice::Own }
    }

    /// Reach of the DMA of its PCI functions.
    pub(crate) fn dma(&self) -> Dma {
        if self.dma_unconfined { Dma::Unconfined } else { Dma::Confined }
    }

    fn memory_limits_suit(&self) -> Result<(), Fault> {
        let Some(MemoryLimits { min, max }) = self.memory_limits else { return Ok(()) };
        let bytes = self.bytes();
        let wrong = |key, limit: u64, which: &str| {
            let problem = format!(
                "{limit} bytes: it begins with {bytes}, which is {which} than that: another limit, or \
                 another memory, is expected"
            );
            Err(Fault::new(key, problem))
        };
        if min > bytes {
            return wrong("min_memory", min, "less");
        }
        if max < bytes {
            return wrong("max_memory", max, "more");
        }
        if let Some(function) = self.pci.first() {
            let problem = format!(
                "a node with PCI functions ({function}) keeps the memory that they reach as it is"
            );
            return Err(Fault::new("max_memory", problem));
        }
        Ok(())
    }

    fn limits_suit(&self) -> Result<(), Fault> {
        let Some(Elastic { min, max }) = self.elastic else { return Ok(()) };
        let count = self.cpus.count();
        if min < 1 || min > count {
            let problem = format!("{min}: it begins with {count} cpus: 1 to {count} are expected");
            return Err(Fault::new("min_cpus", problem));
        }
        if max < count || max > abi::CPUS {
            let most = abi::CPUS;
            let problem =
                format!("{max}: it begins with {count} cpus: {count} to {most} are expected");
            return Err(Fault::new("max_cpus", problem));
        }
        let is_its_own = |word: &&str| ITS_OWN_CPUS.iter().any(|own| word.starts_with(own));
        match self.command_line.split_whitespace().find(is_its_own) {
            Some(word) => Err(Fault::new(
                "append",
                format!(
                    "{word}: a node with max_cpus tells its kernel itself which cpus to start: leave \
                     it out"
                ),
            )),
            None => Ok(()),
        }
    }

    /// Memory in all pieces.
    pub fn bytes(&self) -> u64 {
        self.memory_bytes.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// The record of a node that is about to be made of these cpus.
    pub(crate) fn record(&self, cpus: Vec<u32>) -> Record {
        let mut record = Record::new(&self.name, &self.image, cpus);
        record.numa.clone_from(&self.numa);
        record.elastic = self.elastic;
        record.memory = self.memory_limits;
        record.command_line.clone_from(&self.command_line);
        record.init.clone_from(&self.init);
        for device in &self.devices {
            let assigned = assign(&record.devices, device.clone());
            record.devices.extend(assigned);
        }
        record
    }

    /// Checks that it may be a node on some machine.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.name == "0" {
            let problem = "0 stands for this machine's own kernel in lists: choose another";
            return Err(Fault::new("name", problem));
        }
        self.cpus.check()?;
        if let Some((_, node)) =
            self.numa.iter().enumerate().find(|(at, node)| self.numa[..*at].contains(node))
        {
            let problem = format!("NUMA node {node} is there twice: name each once");
            return Err(Fault::new("numa", problem));
        }
        self.limits_suit()?;
        self.memory_limits_suit()?;
        let is_free = |function: &&Function| !self.dma_unconfined && !function.is_behind_iommu();
        if let Some(function) = self.pci.iter().find(is_free) {
            let problem = format!(
                "what {function} writes to memory is not confined to the node, for this machine has \
                 no IOMMU before it, or its kernel does not use that: dma_unconfined = true \
                 (--dma-unconfined) accepts that"
            );
            return Err(Fault::new("pci", problem));
        }
        let fault = |problem: String| Err(Fault::new("memory", problem));
        let unit = abi::PIECE_UNIT;
        if !(1..=abi::PIECES).contains(&self.memory_bytes.len()) {
            let count = self.memory_bytes.len();
            return fault(format!("{count} pieces: a node has 1 to {}", abi::PIECES));
        }
        for &bytes in &self.memory_bytes {
            if bytes == 0 || bytes % unit != 0 {
                let above = bytes.div_ceil(unit).max(1).saturating_mul(unit) >> 20;
                return fault(format!(
                    "{bytes} bytes are no multiple of 2 MiB, of which pieces of memory consist: \
                     {above}M is the next"
                ));
            }
        }
        // What the kernel needs is known with the image only; this is never enough.
        if self.memory_bytes[0] <= unit + WINDOW_BYTES {
            return fault(format!(
                "{} bytes in the first piece do not even hold the tables and the window: 256M \
                 suit a distribution's kernel",
                self.memory_bytes[0]
            ));
        }
        if self.devices.len() > abi::SLOTS {
            let problem =
                format!("{} devices: a node has {} at most", self.devices.len(), abi::SLOTS);
            return Err(Fault::new("devices", problem));
        }
        let have = self.command_line.len();
        if have > COMMAND_LINE_BYTES {
            let problem = format!(
                "{have} bytes for the kernel's command line: at most {COMMAND_LINE_BYTES} fit \
                 beside those that every node needs"
            );
            return Err(Fault::new("append", problem));
        }
        if let Some(init) = self.init.as_ref().filter(|init| !init.starts_with('/')) {
            let problem = format!("{init}: the whole path is expected, such as /sbin/init");
            return Err(Fault::new("init", problem));
        }
        if let Some(letter) = self.command_line.chars().find(|letter| letter.is_control()) {
            return Err(Fault::new(
                "append",
                format!("{letter:?} cannot be in a kernel's command line: give words on one line"),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn spec(name: &str, cpus: Cpus, memory_bytes: &[u64]) -> Spec {
        Spec {
            name: name.to_owned(),
            image: "deb".to_owned(),
            cpus,
            numa: Vec::new(),
            elastic: None,
            memory_limits: None,
            memory_bytes: memory_bytes.to_vec(),
            memory_from: MemorySource::Any,
            command_line: String::new(),
            devices: vec![],
            init: None,
            pci: Vec::new(),
            dma_unconfined: false,
        }
    }

    #[test]
    fn what_no_machine_could_give_is_refused_with_value_and_limit() {
        const MIB: u64 = 1 << 20;
        let one = || Cpus::Count(1);
        let good = [256 * MIB];
        for (cpus, memory, key, says) in [
            (Cpus::Count(0), &good[..], "cpus", "0 cpus: a node has 1 to 64"),
            (Cpus::Count(65), &good, "cpus", "65 cpus: a node has 1 to 64"),
            (Cpus::These(vec![]), &good, "cpus", "0 cpus"),
            (Cpus::These(vec![3, 0]), &good, "cpus", "cpu 0 stays"),
            (Cpus::These(vec![3, 2, 3]), &good, "cpus", "cpu 3 is there twice"),
            (one(), &[], "memory", "0 pieces: a node has 1 to 64"),
            (one(), &[2 * MIB; 65], "memory", "65 pieces"),
            (one(), &[255 * MIB], "memory", "256M is the next"),
            (one(), &[256 * MIB, 0], "memory", "2M is the next"),
            (one(), &[4 * MIB], "memory", "256M suit"),
        ] {
            let fault = spec("n1", cpus, memory).check().unwrap_err();
            assert!(fault.key == key && fault.problem.contains(says), "{fault:?}");
        }
        assert_eq!(spec("n1", Cpus::These(vec![3, 2]), &[256 * MIB, 2 * MIB]).check(), Ok(()));
        let problem = spec("0", Cpus::Count(1), &[256 * MIB]).check().unwrap_err().problem;
        assert!(problem.contains("own kernel"), "{problem}");
        for (min, max, key) in
            [(0, 4, "min_cpus"), (3, 4, "min_cpus"), (1, 1, "max_cpus"), (1, 65, "max_cpus")]
        {
            let elastic = Some(Elastic { min, max });
            let limits = Spec { elastic, ..spec("n1", Cpus::Count(2), &good) };
            assert_eq!(limits.check().unwrap_err().key, key, "{min} {max}");
        }
        for (min, max, key) in [(257, 512, "min_memory"), (0, 255, "max_memory")] {
            let memory_limits = MemoryLimits::of(Some(min * MIB), Some(max * MIB), 256 * MIB);
            let limits = Spec { memory_limits, ..spec("n1", one(), &good) };
            assert_eq!(limits.check().unwrap_err().key, key, "{min} {max}");
        }
        let twice = Spec { numa: vec![1, 0, 1], ..spec("n1", one(), &good) };
        let fault = twice.check().unwrap_err();
        assert_eq!((fault.key, fault.problem.contains("node 1 is there twice")), ("numa", true));
        let memory_limits = MemoryLimits::of(None, Some(512 * MIB), 256 * MIB);
        let limits = Spec { memory_limits, ..spec("n1", one(), &good) };
        assert_eq!(limits.check(), Ok(()));
        let pci = vec!["0000:01:00.0".parse().unwrap()];
        let of_card = Spec { pci, dma_unconfined: true, ..limits };
        assert_eq!(of_card.check().unwrap_err().key, "max_memory");
        let elastic = Elastic::of(None, Some(4), 2);
        assert_eq!(elastic, Some(Elastic { min: 1, max: 4 }));
        let own = Spec {
            elastic,
            command_line: "quiet maxcpus=4".into(),
            ..spec("n1", Cpus::Count(2), &good)
        };
        assert!(own.check().unwrap_err().problem.starts_with("maxcpus=4: "));
        let lines = Spec { command_line: "a\nb".into(), ..spec("n1", one(), &good) };
        assert_eq!(lines.check().unwrap_err().key, "append");
        let short = Spec { init: Some("init".into()), ..spec("n1", one(), &good) };
        assert!(short.check().unwrap_err().problem.contains("/sbin/init"));
        let many = vec![DeviceSpec::Vsock(3); 64];
        let many = Spec { devices: many, ..spec("n1", one(), &good) };
        assert_eq!(many.check().unwrap_err().problem, "64 devices: a node has 63 at most");
        let long = Spec { command_line: "a".repeat(1701), ..spec("n1", one(), &good) };
        assert!(long.check().unwrap_err().problem.contains("1701 bytes for the kernel's"));
    }
}
