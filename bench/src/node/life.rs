//! A node's life beside its start: made, stopped in order, given back; several starts at the
//! same time, and a start while other nodes are busy.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_node::{Cpus, Ending, KernelForm, MemorySource, Node, Session, Spec};

use super::IMAGE;
use crate::run::median_of;

const LIMIT: Duration = Duration::from_secs(240);
/// How long a node may take to switch itself off.
const STOP_LIMIT: Duration = Duration::from_secs(60);
const BYTES: u64 = 256 << 20;
/// As many as the machine has cpus to give.
const NAMES: [&str; 3] = ["bench1", "bench2", "bench3"];
/// Keeps a node's cpu busy until the node ends.
const BUSY: &str = "while :; do :; done > /dev/null 2>&1 < /dev/null &";

type Samples = Vec<Vec<f64>>;

/// Samples of each case, in ms.
#[derive(Default)]
struct Life {
    create: Samples,
    stop: Samples,
    delete: Samples,
    in_turn: Samples,
    at_once: Samples,
    idle: Samples,
    busy: Samples,
}

pub(super) fn rows(_: &Path, rounds: usize) -> Result<Vec<Row>> {
    let mut life = Life::default();
    for round in 0..rounds {
        life.round(round % 2 == 0)?;
        eprintln!("life: round {} of {rounds}", round + 1);
    }
    let Life { create, stop, delete, in_turn, at_once, idle, busy } = &life;
    let (turns, alone) = (Some(median_of(in_turn)), Some(median_of(idle)));
    let row = |case, subject, samples, base| Row::of((case, subject), "ms", samples, base);
    Ok(vec![
        row("create", "kumiki", create, None),
        row("stop", "kumiki", stop, None),
        row("delete", "kumiki", delete, None),
        row("starts", "at_once", at_once, turns),
        row("starts", "in_turn", in_turn, turns),
        row("start_beside", "busy", busy, alone),
        row("start_beside", "idle", idle, alone),
    ])
}

impl Life {
    fn round(&mut self, once_first: bool) -> Result<()> {
        for name in NAMES {
            let spec = spec(name);
            timed(&mut self.create, || Node::create(&spec).map(drop))?;
        }
        let nodes = NAMES.iter().map(|name| Node::find(name)).collect::<Result<Vec<_>, _>>()?;
        for once in [once_first, !once_first] {
            wipe(&nodes)?;
            if once {
                timed(&mut self.at_once, || at_once(&nodes))?;
            } else {
                let start = |node: &Node| node.start(KernelForm::Vmlinux, LIMIT).map(drop);
                timed(&mut self.in_turn, || nodes.iter().try_for_each(start))?;
            }
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
        memory_bytes: vec![BYTES],
        memory_from: MemorySource::Any,
        command_line: String::new(),
        devices: vec![],
        init: None,
    }
}

/// As in `start`: the emulator's own cost of a second start is none of a processor's.
fn wipe(nodes: &[Node]) -> Result<()> {
    nodes.iter().try_for_each(|node| Ok(node.wipe()?))
}

fn at_once(nodes: &[Node]) -> kumiki_node::Result<()> {
    thread::scope(|scope| {
        let start = |node: &Node| node.start(KernelForm::Vmlinux, LIMIT).map(drop);
        let starts: Vec<_> = nodes.iter().map(|node| scope.spawn(move || start(node))).collect();
        starts.into_iter().try_for_each(|start| start.join().expect("a start does not panic"))
    })
}

fn timed(samples: &mut Samples, work: impl FnOnce() -> kumiki_node::Result<()>) -> Result<()> {
    let begin = Instant::now();
    work()?;
    samples.push(vec![begin.elapsed().as_secs_f64() * 1e3]);
    Ok(())
}
