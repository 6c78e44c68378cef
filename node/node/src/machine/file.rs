//! The file: TOML, and what is wrong with it by line and key.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use kumiki_node_devices::pci::Function;
use kumiki_node_devices::record::{Elastic, MemoryLimits};
use kumiki_node_devices::spec::{DeviceSpec, Disk, Net, Share};
use kumiki_node_image::initramfs::Base;
use kumiki_node_image::root::RootOf;
use kumiki_node_wire::module::holding::{Holding, padded};
use kumiki_rootfs::Source as RootSource;
use serde::Deserialize;
use toml::{Spanned, Value};

use crate::host::spec::{Cpus, Fault, MemorySource, Spec};
use crate::service::Service;
use crate::{Error, Result};

/// Longest file, in bytes: longer was not written by a person for this.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Images and nodes that are to be there, as a file has them, in its order.
#[derive(Debug)]
pub struct Machine {
    /// Images to have in memory.
    pub images: Vec<ImageWanted>,
    /// Nodes to have.
    pub nodes: Vec<NodeWanted>,
    pub(super) source: Source,
}

/// An image that a file asks for.
#[derive(Debug)]
pub struct ImageWanted {
    /// Its name.
    pub name: String,
    /// The kernel's file.
    pub kernel: PathBuf,
    /// Sources of its initramfs.
    pub base: Base,
    pub(super) at: Places,
}

/// A node that a file asks for.
#[derive(Debug)]
pub struct NodeWanted {
    /// Sources that it is made of.
    pub spec: Spec,
    /// True if it is to run.
    pub start: bool,
    /// The snapshot that it starts from, as soon as there is one that suits it.
    pub from: Option<String>,
    /// Service by which `kumiki node supervise` keeps it up.
    pub service: Option<Service>,
    pub(super) at: Places,
}

/// Places in the text at which an entry begins, and each of its keys.
#[derive(Debug, Default)]
pub(super) struct Places {
    entry: usize,
    keys: BTreeMap<&'static str, usize>,
}

/// The file's name and text, to say where something is wrong.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// An error at this byte of the text.
    fn wrong(&self, at: usize, problem: impl Into<String>) -> Error {
        let line = 1 + self.text[..at.min(self.text.len())].matches('\n').count();
        Error::MachineFile { file: self.path.clone(), line, problem: problem.into() }
    }

    /// An error at a key of an entry, or at the entry where the key is missing.
    pub(super) fn fault(&self, kind: Holding, name: &str, at: &Places, fault: &Fault) -> Error {
        let place = at.keys.get(fault.key).copied().unwrap_or(at.entry);
        let (noun, key) = (kind.noun(), fault.key);
        self.wrong(place, format!("{noun}.{name}.{key}: {}", fault.problem))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    image: BTreeMap<String, Spanned<ImageTable>>,
    #[serde(default)]
    node: BTreeMap<String, Spanned<NodeTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageTable {
    kernel: Spanned<PathBuf>,
    initrd: Option<Spanned<PathBuf>>,
    overlay: Option<Spanned<PathBuf>>,
    config: Option<Spanned<PathBuf>>,
    guest_module: Option<Spanned<PathBuf>>,
    #[serde(default)]
    modules: Vec<Spanned<PathBuf>>,
    #[serde(default)]
    programs: Vec<Spanned<PathBuf>>,
    rootfs: Option<Spanned<String>>,
    #[serde(default)]
    entrypoint: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    image: Spanned<String>,
    cpus: Option<Spanned<Value>>,
    numa: Option<Spanned<Vec<u32>>>,
    min_cpus: Option<Spanned<u32>>,
    max_cpus: Option<Spanned<u32>>,
    memory: Spanned<Value>,
    min_memory: Option<Spanned<Value>>,
    max_memory: Option<Spanned<Value>>,
    memory_from: Option<Spanned<String>>,
    append: Option<Spanned<String>>,
    init: Option<Spanned<String>>,
    #[serde(default)]
    restart: bool,
    health: Option<Spanned<String>>,
    #[serde(default)]
    net: Vec<Spanned<String>>,
    #[serde(default)]
    disk: Vec<Spanned<String>>,
    #[serde(default)]
    share: Vec<Spanned<String>>,
    vsock: Option<Spanned<u32>>,
    #[serde(default)]
    rng: bool,
    #[serde(default)]
    console: bool,
    #[serde(default)]
    pci: Vec<Spanned<String>>,
    #[serde(default)]
    dma_unconfined: bool,
    start: Option<Spanned<Value>>,
}

impl Machine {
    /// Reads a file. Paths in it are relative to its folder.
    pub fn read(path: &Path) -> Result<Self> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|error| Error::file(path, error))?;
        let refused = |line, problem: String| {
            Err(Error::MachineFile { file: path.to_owned(), line, problem })
        };
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let problem = "a machine file has at most 1 MiB: this is none";
            return refused(1, problem.to_owned());
        }
        match String::from_utf8(bytes) {
            Ok(text) => Self::parse(path, text),
            Err(error) => {
                let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + memchr::memchr_iter(b'\n', good).count();
                let byte = error.as_bytes()[good.len()];
                refused(line, format!("byte {byte:#04x} is not of UTF-8, which TOML is written in"))
            }
        }
    }

    pub(super) fn parse(path: &Path, text: String) -> Result<Self> {
        let source = Source { path: path.to_owned(), text };
        let tables: Tables = toml::from_str(&source.text).map_err(|error| {
            let at = error.span().unwrap_or_default();
            let near = shown(&source.text, &at);
            source.wrong(at.start, format!("{}{near}", error.message()))
        })?;
        let mut images: Vec<_> = tables.image.into_iter().collect();
        images.sort_by_key(|(_, table)| table.span().start);
        let mut nodes: Vec<_> = tables.node.into_iter().collect();
        nodes.sort_by_key(|(_, table)| table.span().start);
        let images = images.into_iter().map(|(name, table)| image(&source, name, table));
        let images = images.collect::<Result<Vec<_>>>()?;
        let nodes = nodes.into_iter().map(|(name, table)| node(&source, name, table));
        let nodes = nodes.collect::<Result<Vec<NodeWanted>>>()?;
        let machine = Machine { images, nodes, source };
        machine.nobody_shares_a_cpu()?;
        machine.nobody_shares_a_function()?;
        Ok(machine)
    }

    /// Two nodes that name the same cpu cannot both have it.
    fn nobody_shares_a_cpu(&self) -> Result<()> {
        let mut owners: BTreeMap<u32, &str> = BTreeMap::new();
        for node in &self.nodes {
            let Cpus::These(cpus) = &node.spec.cpus else { continue };
            for &cpu in cpus {
                if let Some(owner) = owners.insert(cpu, &node.spec.name) {
                    let problem = format!("cpu {cpu} is node {owner}'s: a cpu has one node");
                    return Err(self.node_fault(node, &Fault::new("cpus", problem)));
                }
            }
        }
        Ok(())
    }

    /// A PCI function is one node's.
    fn nobody_shares_a_function(&self) -> Result<()> {
        let mut owners: Vec<(Function, &str)> = Vec::new();
        for node in &self.nodes {
            for &function in &node.spec.pci {
                if let Some((_, owner)) = owners.iter().find(|(other, _)| *other == function) {
                    let problem = format!("{function} is node {owner}'s: a function has one node");
                    return Err(self.node_fault(node, &Fault::new("pci", problem)));
                }
                owners.push((function, &node.spec.name));
            }
        }
        Ok(())
    }

    /// The file's name and its text.
    pub(super) fn into_source(self) -> (PathBuf, String) {
        (self.source.path, self.source.text)
    }

    pub(super) fn node_fault(&self, node: &NodeWanted, fault: &Fault) -> Error {
        self.source.fault(Holding::Node, &node.spec.name, &node.at, fault)
    }

    pub(super) fn image_fault(&self, image: &ImageWanted, fault: &Fault) -> Error {
        self.source.fault(Holding::Image, &image.name, &image.at, fault)
    }
}

/// The line around a fault of syntax or type, whose message names no key.
fn shown(text: &str, at: &Range<usize>) -> String {
    let start = text[..at.start.min(text.len())].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next().unwrap_or_default().trim();
    if line.is_empty() { String::new() } else { format!(", in `{line}`") }
}

fn image(source: &Source, name: String, table: Spanned<ImageTable>) -> Result<ImageWanted> {
    let mut at = Places { entry: table.span().start, keys: BTreeMap::new() };
    let table = table.into_inner();
    let folder = source.path.parent().unwrap_or(Path::new(""));
    let mut path = |key, value: Spanned<PathBuf>| {
        at.keys.insert(key, value.span().start);
        folder.join(value.into_inner())
    };
    let kernel = path("kernel", table.kernel);
    let base = Base {
        initrd: table.initrd.map(|value| path("initrd", value)),
        overlay: table.overlay.map(|value| path("overlay", value)),
        config: table.config.map(|value| path("config", value)),
        guest_module: table.guest_module.map(|value| path("guest_module", value)),
        modules: table.modules.into_iter().map(|value| path("modules", value)).collect(),
        programs: table.programs.into_iter().map(|value| path("programs", value)).collect(),
        root: table.rootfs.map(|value| {
            let source = RootSource::parse(value.get_ref()).below(folder);
            RootOf { source, words: table.entrypoint }
        }),
    };
    named(source, Holding::Image, &name, at.entry)?;
    Ok(ImageWanted { name, kernel, base, at })
}

fn node(source: &Source, name: String, table: Spanned<NodeTable>) -> Result<NodeWanted> {
    let mut at = Places { entry: table.span().start, keys: BTreeMap::new() };
    let table = table.into_inner();
    at.keys.insert("image", table.image.span().start);
    at.keys.insert("memory", table.memory.span().start);
    at.keys.extend(table.cpus.iter().map(|cpus| ("cpus", cpus.span().start)));
    at.keys.extend(table.min_cpus.iter().map(|cpus| ("min_cpus", cpus.span().start)));
    at.keys.extend(table.max_cpus.iter().map(|cpus| ("max_cpus", cpus.span().start)));
    at.keys.extend(table.numa.iter().map(|numa| ("numa", numa.span().start)));
    at.keys.extend(table.min_memory.iter().map(|size| ("min_memory", size.span().start)));
    at.keys.extend(table.max_memory.iter().map(|size| ("max_memory", size.span().start)));
    at.keys.extend(table.memory_from.iter().map(|from| ("memory_from", from.span().start)));
    at.keys.extend(table.append.iter().map(|append| ("append", append.span().start)));
    at.keys.extend(table.health.iter().map(|health| ("health", health.span().start)));
    at.keys.extend(table.init.iter().map(|init| ("init", init.span().start)));
    at.keys.extend(table.start.iter().map(|start| ("start", start.span().start)));
    let lists =
        [("net", &table.net), ("disk", &table.disk), ("share", &table.share), ("pci", &table.pci)];
    for (key, list) in lists {
        at.keys.extend(list.first().map(|first| (key, first.span().start)));
    }
    at.keys.extend(table.vsock.iter().map(|vsock| ("vsock", vsock.span().start)));
    named(source, Holding::Node, &name, at.entry)?;
    let begin = table.start.map_or(Ok((true, None)), |value| start(value.get_ref()));
    let (start, from) = begin.map_err(|fault| source.fault(Holding::Node, &name, &at, &fault))?;
    let spec = || -> Result<(Spec, Option<Service>), Fault> {
        let health = table.health.as_ref().map(|health| health.get_ref().as_str());
        let service = Service::of(table.restart, health);
        let service = service.map_err(|problem| Fault::new("health", problem))?;
        let cpus = table.cpus.map_or(Ok(Cpus::Count(1)), |value| cpus(value.get_ref()))?;
        let limits = [table.min_cpus, table.max_cpus];
        let [min, max] = limits.map(|limit| limit.map(|limit| limit.into_inner() as usize));
        let memory_bytes = memory("memory", table.memory.get_ref())?;
        let limit = |key, value: &Option<Spanned<Value>>| {
            value.as_ref().map(|value| size(key, value.get_ref())).transpose()
        };
        let least = limit("min_memory", &table.min_memory)?;
        let most = limit("max_memory", &table.max_memory)?;
        let spec = Spec {
            name: name.clone(),
            image: table.image.into_inner(),
            elastic: Elastic::of(min, max, cpus.count()),
            cpus,
            numa: table.numa.map(Spanned::into_inner).unwrap_or_default(),
            memory_limits: MemoryLimits::of(
                least,
                most,
                memory_bytes.iter().fold(0, |sum: u64, &bytes| sum.saturating_add(bytes)),
            ),
            memory_bytes,
            memory_from: table.memory_from.map_or(Ok(MemorySource::Any), memory_from)?,
            command_line: table.append.map(Spanned::into_inner).unwrap_or_default(),
            devices: {
                let rng = table.rng.then_some(DeviceSpec::Rng);
                let console = table.console.then_some(DeviceSpec::Console);
                let others = devices(table.net, table.disk, table.share, table.vsock)?;
                others.into_iter().chain(rng).chain(console).collect()
            },
            init: table.init.map(Spanned::into_inner),
            pci: functions(table.pci)?,
            dma_unconfined: table.dma_unconfined,
        };
        spec.check()?;
        let reached = service.as_ref().is_none_or(|service| service.reaches(&spec.devices));
        if !reached {
            let problem = "this machine knows no address of the node: net = [\"user\"], or one with \
                           address=, is missing; exec:LINE needs none";
            return Err(Fault::new("health", problem));
        }
        Ok((spec, service))
    };
    match spec() {
        Ok((spec, service)) => Ok(NodeWanted { spec, start, from, service, at }),
        Err(fault) => Err(source.fault(Holding::Node, &name, &at, &fault)),
    }
}

fn named(source: &Source, kind: Holding, name: &str, at: usize) -> Result<()> {
    padded(kind, name).map(drop).map_err(|error| source.wrong(at, error.to_string()))
}

/// Start of a node: whether it is to run, and the snapshot that it starts from.
fn start(value: &Value) -> Result<(bool, Option<String>), Fault> {
    let from = |table: &toml::Table| {
        let from = table.get("from")?.as_str()?.to_owned();
        (table.len() == 1 && padded(Holding::Image, &from).is_ok()).then_some((true, Some(from)))
    };
    let known = match value {
        Value::Boolean(start) => Some((*start, None)),
        Value::Table(table) => from(table),
        _ => None,
    };
    known.ok_or_else(|| {
        let problem = format!("{value}: true, false or {{ from = \"SNAPSHOT\" }} is expected");
        Fault::new("start", problem)
    })
}

/// A count, or a list of cpus.
fn cpus(value: &Value) -> Result<Cpus, Fault> {
    let wrong = |value: &Value| {
        let problem = format!("{value}: a number of cpus is expected, or a list such as [2, 3]");
        Fault::new("cpus", problem)
    };
    let number = |value: &Value| value.as_integer().and_then(|number| u32::try_from(number).ok());
    match value {
        Value::Array(list) => {
            let cpus = list.iter().map(|cpu| number(cpu).ok_or_else(|| wrong(cpu)));
            Ok(Cpus::These(cpus.collect::<Result<_, _>>()?))
        }
        value => Ok(Cpus::Count(number(value).ok_or_else(|| wrong(value))? as usize)),
    }
}

/// A way to memory, by the word that `kumiki node create --memory-from` takes.
fn memory_from(value: Spanned<String>) -> Result<MemorySource, Fault> {
    let word = value.into_inner();
    let known = MemorySource::WORDS.into_iter().find(|(known, _)| *known == word);
    known.map(|(_, source)| source).ok_or_else(|| {
        let words = MemorySource::WORDS.map(|(known, _)| known).join(", ");
        let problem = format!("{word:?}: memory comes from one of {words}");
        Fault::new("memory_from", problem)
    })
}

/// Devices, each by the words that `kumiki node create` takes.
fn devices(
    net: Vec<Spanned<String>>,
    disk: Vec<Spanned<String>>,
    share: Vec<Spanned<String>>,
    vsock: Option<Spanned<u32>>,
) -> Result<Vec<DeviceSpec>, Fault> {
    let mut devices = Vec::new();
    for word in net {
        let net = Net::parse(word.get_ref()).map_err(|problem| Fault::new("net", problem))?;
        devices.push(DeviceSpec::Net(net));
    }
    for word in disk {
        let disk = Disk::parse(word.get_ref()).map_err(|problem| Fault::new("disk", problem))?;
        devices.push(DeviceSpec::Disk(disk));
    }
    for word in share {
        let share = Share::parse(word.get_ref()).map_err(|problem| Fault::new("share", problem))?;
        devices.push(DeviceSpec::Share(share));
    }
    if let Some(cid) = vsock {
        let vsock = DeviceSpec::vsock(&cid.get_ref().to_string());
        devices.push(vsock.map_err(|problem| Fault::new("vsock", problem))?);
    }
    Ok(devices)
}

fn functions(words: Vec<Spanned<String>>) -> Result<Vec<Function>, Fault> {
    let parse = |word: Spanned<String>| word.get_ref().parse::<Function>();
    let functions = words.into_iter().map(parse).collect::<Result<Vec<_>, _>>();
    functions.map_err(|problem| Fault::new("pci", problem))
}

/// A size: a number of bytes, or a text such as 256M.
fn size(key: &'static str, value: &Value) -> Result<u64, Fault> {
    let wrong = |reason: &str| {
        let problem = format!("{value}: a size such as \"256M\" is expected{reason}");
        Fault::new(key, problem)
    };
    match value {
        Value::Integer(bytes) => u64::try_from(*bytes).map_err(|_| wrong("")),
        Value::String(text) => parse_size::Config::new()
            .with_binary()
            .parse_size(text)
            .map_err(|error| wrong(&format!(" ({error})"))),
        _ => Err(wrong("")),
    }
}

/// A size, or a list of sizes.
fn memory(key: &'static str, value: &Value) -> Result<Vec<u64>, Fault> {
    match value {
        Value::Array(list) => list.iter().map(|value| size(key, value)).collect(),
        value => Ok(vec![size(key, value)?]),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::super::fixtures::{machine, parse};
    use super::*;

    const GOOD: &str = r#"
[image.deb]
kernel = "/boot/vmlinuz"
overlay = "files.cpio"

[node.b]
image = "deb"
cpus = [3, 2]
memory = ["192M", "64M"]
memory_from = "offline"

[node.a]
image = "deb"
memory = 268435456
append = "quiet"
start = false
"#;

    /// The keys of a table, by what is said of one that it does not have.
    fn keys(table: &str, needed: &str) -> Vec<String> {
        let error = parse(&format!("[{table}]\n{needed}\nno_such_key = 1\n")).unwrap_err();
        let said = error.to_string();
        let (_, names) = said.split_once("expected one of ").expect("the names are said");
        // The line that is wrong follows, between such signs, too.
        let is_key =
            |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        names.split('`').skip(1).step_by(2).filter(is_key).map(str::to_owned).collect()
    }

    #[test]
    fn the_page_and_the_example_have_a_word_on_every_key() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let read = |name: &str| fs::read_to_string(format!("{root}/{name}")).unwrap();
        let (page, example) =
            (read("apps/cli/kumiki-machine.5"), read("docs/examples/machine.toml"));
        let items: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix(".It Sy ")).collect();
        let items: Vec<&str> = items.iter().flat_map(|item| item.split(" , ")).collect();
        let set = |line: &str| {
            line.trim_start_matches("# ").split_once(" = ").map(|(key, _)| key.to_owned())
        };
        let shown: Vec<String> = example.lines().filter_map(set).collect();
        let all =
            [keys("image.x", "kernel = \"k\""), keys("node.x", "image = \"i\"\nmemory = 2097152")];
        assert!(all.iter().flatten().count() > 20, "{all:?}");
        for key in all.iter().flatten() {
            assert!(items.contains(&key.as_str()), "kumiki-machine(5) does not say {key}");
            assert!(shown.contains(key), "the example does not show {key}");
        }
        // What is said of health is what is read.
        for way in ["tcp:PORT", "http:PORT/PATH", "exec:LINE"] {
            assert!(page.contains(way), "{way}");
        }
    }

    #[test]
    fn a_file_says_what_is_to_be_there_in_its_order() {
        let machine = parse(GOOD).unwrap();
        let image = &machine.images[0];
        assert_eq!((image.name.as_str(), image.kernel.to_str()), ("deb", Some("/boot/vmlinuz")));
        assert_eq!(image.base.overlay.as_deref(), Some(Path::new("/etc/kumiki/files.cpio")));
        let [b, a] = &machine.nodes[..] else { panic!("{machine:?}") };
        assert_eq!((b.spec.name.as_str(), &b.spec.cpus), ("b", &Cpus::These(vec![3, 2])));
        assert_eq!(b.spec.memory_bytes, [192 << 20, 64 << 20]);
        assert!(b.start && !a.start);
        let from = [b.spec.memory_from, a.spec.memory_from];
        assert_eq!(from, [MemorySource::Offline, MemorySource::Any]);
        assert!(b.spec.numa.is_empty());
        let named = GOOD.replace("start = false", "numa = [1, 0]");
        assert_eq!(parse(&named).unwrap().nodes[1].spec.numa, [1, 0]);
        let twice = GOOD.replace("start = false", "numa = [1, 1]");
        let said = parse(&twice).unwrap_err().to_string();
        assert!(said.contains("node.a.numa: NUMA node 1 is there twice"), "{said}");
        assert_eq!((&a.spec.cpus, a.spec.command_line.as_str()), (&Cpus::Count(1), "quiet"));
    }

    #[test]
    fn an_image_may_have_a_root_and_a_node_a_service() {
        let text = "[image.web]\nkernel = \"k\"\nrootfs = \"oci:nginx\"\nentrypoint = [\"a\", \"b\"]\n\
                    [node.a]\nimage = \"web\"\nmemory = \"256M\"\nrestart = true\n\
                    health = \"http:80/\"\nnet = [\"user\"]\n";
        let machine = parse(text).unwrap();
        let root = machine.images[0].base.root.as_ref().unwrap();
        assert_eq!(root.source, RootSource::Oci("/etc/kumiki/nginx".into()));
        assert_eq!(root.words, ["a", "b"]);
        assert!(machine.nodes[0].service.is_some());
        for (from, to, says) in [
            ("restart = true\n", "", "8: node.a.health: health is looked at to start"),
            ("http:80/", "http", "9: node.a.health: \"http\": tcp:PORT"),
            ("\"user\"", "\"auto\"", "9: node.a.health: this machine knows no address"),
        ] {
            let error = parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn an_image_may_have_modules_in_an_order() {
        let text = "[image.deb]\nkernel = \"k\"\nmodules = [\"b.ko\", \"/a.ko\"]\n\
                    programs = [\"/usr/bin/kumiki\"]\n";
        let base = &parse(text).unwrap().images[0].base;
        assert_eq!(base.modules, &[Path::new("/etc/kumiki/b.ko"), Path::new("/a.ko")]);
        assert_eq!(base.programs, &[Path::new("/usr/bin/kumiki")]);
    }

    #[test]
    fn an_error_names_line_key_value_and_limit() {
        for (from, to, says) in [
            ("[3, 2]", "[3, 0]", "machine.toml:8: node.b.cpus: cpu 0 stays the host's"),
            ("[3, 2]", "0", "machine.toml:8: node.b.cpus: 0 cpus: a node has 1 to 64"),
            ("[3, 2]", "-1", "machine.toml:8: node.b.cpus: -1: a number of cpus is expected"),
            ("[3, 2]", "\"all\"", "8: node.b.cpus: \"all\": a number of cpus is expected"),
            ("\"192M\"", "\"191M\"", "9: node.b.memory: 200278016 bytes are no multiple of 2 MiB"),
            ("\"192M\"", "\"much\"", "9: node.b.memory: \"much\": a size such as"),
            ("\"192M\"", "true", "9: node.b.memory: true: a size such as"),
            ("cpus =", "cpu =", "machine.toml:8: unknown field `cpu`"),
            (
                "memory = 268435456",
                "memory = 268435456\nmax_memory = \"128M\"",
                "15: node.a.max_memory: 134217728 bytes: it begins with 268435456, which is more",
            ),
            (
                "memory = 268435456",
                "memory = 268435456\nmin_memory = [1]",
                "15: node.a.min_memory: [1]: a size such as",
            ),
            ("\"offline\"", "\"disk\"", "10: node.b.memory_from: \"disk\": memory comes from one"),
            ("memory = 268435456", "", "missing field `memory`, in `[node.a]`"),
            ("start = false", "start = 1", "node.a.start: 1: true, false or { from ="),
            (
                "start = false",
                "start = { to = \"w\" }",
                "node.a.start: { to = \"w\" }: true, false",
            ),
            ("start = false", "start = { from = \"A\" }", "node.a.start: { from = \"A\" }: true"),
            ("[node.a]", "[node.A]", "machine.toml:12: \"A\" cannot name a node"),
            ("memory = 26", "cpus = [2]\nmemory = 26", "14: node.a.cpus: cpu 2 is node b's"),
            ("[image.deb]", "[image.deb", "machine.toml:2: "),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}\ninstead of {says}");
        }
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.toml");
        let says = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            Machine::read(&file).unwrap_err().to_string()
        };
        assert!(says(b"# one\n\xff").contains("m.toml:2: byte 0xff is not of UTF-8"));
        assert!(says(&vec![b'\n'; 1 + (1 << 20)]).contains("at most 1 MiB"));
        let error = Machine::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("directory"), "{error}");
        // It has no end.
        let error = Machine::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("/dev/zero:1: a machine file has at most 1 MiB"), "{error}");
    }

    const TABLES: [&str; 5] = [
        "[node.a]\nimage = \"i\"\nmemory = \"256M\"",
        "[node.b]",
        "[image.i]\nkernel = \"k\"",
        "[node.a.b]",
        "[[node]]",
    ];

    /// A line of a table.
    fn entry() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            "cpus",
            "memory",
            "min_memory",
            "max_memory",
            "memory_from",
            "numa",
            "append",
            "start",
            "image",
            "kernel",
            "modules",
            "programs",
        ]);
        let one = prop_oneof![
            any::<i64>().prop_map(|number| number.to_string()),
            (0..9_u32).prop_map(|number| number.to_string()),
            (0..9_u64, prop::sample::select(vec!["", "M", "G", "T", "E", "x"]))
                .prop_map(|(number, unit)| format!("\"{}{unit}\"", number * 64)),
            prop::sample::select(vec!["true", "\"boot\"", "\"a\\nb\"", "1e9", "1979-05-27", "{}"])
                .prop_map(str::to_owned),
        ];
        let value = prop_oneof![
            3 => one.clone(),
            1 => prop::collection::vec(one, 0..70).prop_map(|list| format!("[{}]", list.join(", "))),
        ];
        (key, value).prop_map(|(key, value)| format!("{key} = {value}\n"))
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(
            text in "(\\[(node|image)\\.[a-z]?\\]|cpus|memory|image|=|\"|[0-9]|\\[|\\]|,|é|\n| )*",
        ) {
            machine(&text);
        }

        /// Mostly well formed, with numbers and words that may be too much.
        #[test]
        fn no_machine_is_too_odd(
            tables in prop::collection::vec(
                (prop::sample::select(TABLES.to_vec()), prop::collection::vec(entry(), 0..4)), 0..5
            ),
        ) {
            let lines = tables.into_iter().map(|(table, entries)| {
                format!("{table}\n{}", entries.concat())
            });
            machine(&lines.collect::<String>());
        }

        #[test]
        fn what_is_written_is_what_is_read(
            nodes in prop::collection::btree_map(
                "[a-z][a-z0-9]{0,8}",
                (1..64usize, prop::collection::vec(4..512u64, 1..5), any::<bool>()),
                0..6,
            ),
        ) {
            let mut text = String::new();
            for (name, (cpus, sizes, start)) in &nodes {
                let sizes: Vec<_> = sizes.iter().map(|size| format!("\"{}M\"", 2 * size)).collect();
                text += &format!(
                    "[node.{name}]\nimage = \"i\"\ncpus = {cpus}\nmemory = [{}]\nstart = {start}\n",
                    sizes.join(", ")
                );
            }
            let machine = parse(&text).unwrap();
            prop_assert_eq!(machine.nodes.len(), nodes.len());
            for (node, (name, (cpus, sizes, start))) in machine.nodes.iter().zip(&nodes) {
                prop_assert_eq!(&node.spec.name, name);
                prop_assert_eq!(&node.spec.cpus, &Cpus::Count(*cpus));
                let bytes: Vec<_> = sizes.iter().map(|size| size << 21).collect();
                prop_assert_eq!(&node.spec.memory_bytes, &bytes);
                prop_assert_eq!(node.start, *start);
            }
        }
    }
}
