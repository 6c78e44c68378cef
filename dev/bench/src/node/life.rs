//! A node's life beside its start: made, stopped in order, given back; several starts at the
//! same time, from memory and from a disk of limited rate; a start while other nodes are busy;
//! a container's.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_node::{Cpus, Ending, Files, Image, KernelForm, MemorySource, Node, Session, Spec};

use super::IMAGE;
use super::container::Container;
use super::start::drop_caches;
use crate::run::median_of;

const LIMIT: Duration = Duration::from_secs(240);
/// Time that a node may take to switch itself off.
const STOP_LIMIT: Duration = Duration::from_secs(60);
const BYTES: u64 = 256 << 20;
/// Nodes: as many as the machine has cpus to give.
const NAMES: [&str; 3] = ["bench1", "bench2", "bench3"];
/// The disk whose rate is limited, within the bench's folder.
const SLOW: &str = "slow";
/// Keeps a node's cpu busy until the node ends.
const BUSY: &str = "while :; do :; done > /dev/null 2>&1 < /dev/null &";

type LifeSamples = Vec<Vec<f64>>;

/// Samples of each case, in ms.
#[derive(Default)]
struct Life {
    create: LifeSamples,
    stop: LifeSamples,
    delete: LifeSamples,
    in_turn: LifeSamples,
    at_once: LifeSamples,
    in_turn_disk: LifeSamples,
    at_once_disk: LifeSamples,
    container: LifeSamples,
    idle: LifeSamples,
    busy: LifeSamples,
}

/// Way to start all nodes; the order of ways changes from round to round.
#[derive(Clone, Copy)]
struct LifeWay {
    at_once: bool,
    from_disk: bool,
}

const WAYS: [LifeWay; 4] = [
    LifeWay { at_once: true, from_disk: false },
    LifeWay { at_once: false, from_disk: false },
    LifeWay { at_once: true, from_disk: true },
    LifeWay { at_once: false, from_disk: true },
];

pub(super) fn rows(folder: &Path, rounds: usize) -> Result<Vec<Row>> {
    let slow = folder.join(SLOW);
    ensure!(slow.is_dir(), "{} is no folder: a disk of limited rate belongs there", slow.display());
    let files = Files { kernel: slow.join("bzImage"), initramfs: slow.join("initramfs") };
    Image::open(IMAGE)?.save(&files)?;
    let container = Container::new(folder)?;
    let (mut life, mut ways) = (Life::default(), WAYS);
    for round in 0..rounds {
        fastrand::shuffle(&mut ways);
        life.round(&ways, &files)?;
        life.container.push(vec![container.measure()?]);
        eprintln!("life: round {} of {rounds}", round + 1);
    }
    let row = |case, subject, samples, base| Row::of((case, subject), "ms", samples, base);
    let turns = Some(median_of(&life.in_turn));
    let starts =
        |subject, samples| row("starts_at_once", subject, samples, turns).of_size(NAMES.len());
    let alone = Some(median_of(&life.idle));
    Ok(vec![
        row("create", "kumiki", &life.create, None),
        row("stop", "kumiki", &life.stop, None),
        row("delete", "kumiki", &life.delete, None),
        starts("kumiki", &life.at_once),
        starts("in_turn", &life.in_turn),
        starts("kumiki/slow_disk", &life.at_once_disk),
        starts("in_turn/slow_disk", &life.in_turn_disk),
        row("start_beside", "busy", &life.busy, alone),
        row("start_beside", "idle", &life.idle, alone),
        row("start_beside", "container", &life.container, alone),
    ])
}

impl Life {
    fn round(&mut self, ways: &[LifeWay], files: &Files) -> Result<()> {
        for name in NAMES {
            let spec = spec(name);
            timed(&mut self.create, || Node::create(&spec).map(drop))?;
        }
        let nodes = NAMES.iter().map(|name| Node::find(name)).collect::<Result<Vec<_>, _>>()?;
        for way in ways {
            wipe(&nodes)?;
            self.starts(*way, &nodes, files)?;
            for node in &nodes {
                timed(&mut self.stop, || node.stop(STOP_LIMIT))?;
            }
        }
        self.beside(&nodes)?;
        for node in nodes {
            timed(&mut self.delete, || node.delete())?;
        }
        Ok(())
    }

    fn starts(&mut self, way: LifeWay, nodes: &[Node], files: &Files) -> Result<()> {
        let samples = match way {
            LifeWay { at_once: true, from_disk: false } => &mut self.at_once,
            LifeWay { at_once: false, from_disk: false } => &mut self.in_turn,
            LifeWay { at_once: true, from_disk: true } => &mut self.at_once_disk,
            LifeWay { at_once: false, from_disk: true } => &mut self.in_turn_disk,
        };
        if way.from_disk {
            drop_caches()?;
        }
        let start = |node: &Node| match way.from_disk {
            true => node.start_from(files, None, LIMIT).map(drop),
            false => node.start(KernelForm::Vmlinux, LIMIT).map(drop),
        };
        // In turn, the second finds in the cache what the first has read, as all do at once.
        let in_turn = || nodes.iter().try_for_each(start);
        timed(samples, || if way.at_once { at_once(nodes, start) } else { in_turn() })
    }

    /// The first node's start while the others wait, and while they compute.
    fn beside(&mut self, nodes: &[Node]) -> Result<()> {
        let [first, others @ ..] = nodes else { return Ok(()) };
        wipe(nodes)?;
        for other in others {
            other.start(KernelForm::Vmlinux, LIMIT)?;
        }
        timed(&mut self.idle, || first.start(KernelForm::Vmlinux, LIMIT).map(drop))?;
        first.stop(Duration::ZERO)?;
        first.wipe()?;
        for name in &NAMES[1..] {
            let words = ["sh", "-c", BUSY].map(str::to_owned);
            let (ending, ..) = Session::open(name)?.output(&words)?;
            ensure!(ending == Ending::Exited(0), "{BUSY} in {name}: {ending:?}");
        }
        timed(&mut self.busy, || first.start(KernelForm::Vmlinux, LIMIT).map(drop))?;
        nodes.iter().try_for_each(|node| Ok(node.stop(Duration::ZERO)?))
    }
}

fn spec(name: &str) -> Spec {
    Spec {
        name: name.to_owned(),
        image: IMAGE.to_owned(),
        cpus: Cpus::Count(1),
        numa: Vec::new(),
        elastic: None,
        memory_limits: None,
        memory_bytes: vec![BYTES],
        memory_from: MemorySource::Any,
        command_line: String::new(),
        devices: vec![],
        init: None,
        pci: Vec::new(),
        dma_unconfined: false,
    }
}

/// As in `start`: the emulator's own cost of a second start is none of a processor's.
fn wipe(nodes: &[Node]) -> Result<()> {
    nodes.iter().try_for_each(|node| Ok(node.wipe()?))
}

fn at_once(
    nodes: &[Node],
    start: impl Fn(&Node) -> kumiki_node::Result<()> + Copy + Send,
) -> kumiki_node::Result<()> {
    thread::scope(|scope| {
        let starts: Vec<_> = nodes.iter().map(|node| scope.spawn(move || start(node))).collect();
        starts.into_iter().try_for_each(|start| start.join().expect("a start does not panic"))
    })
}

fn timed(samples: &mut LifeSamples, work: impl FnOnce() -> kumiki_node::Result<()>) -> Result<()> {
    let begin = Instant::now();
    work()?;
    samples.push(vec![begin.elapsed().as_secs_f64() * 1e3]);
    Ok(())
}
