//! Cpus and memory that go to a node and come back while it runs, beside what the two kernels themselves take
//! to switch a cpu off and on; and a load that goes from node to node, which the spare cpu follows.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_node::{
    Cpus, Elastic, Ending, KernelForm, MemoryLimits, MemorySource, Node, Session, Spec, balance,
};

use super::IMAGE;
use crate::run::median_of;

const LIMIT: Duration = Duration::from_secs(240);
const NAMES: [&str; 2] = ["bench1", "bench2"];
const BYTES: u64 = 256 << 20;
/// Memory that comes and goes: a block of the node's kernel.
const MORE: u64 = 128 << 20;
/// Number of cpus of a node at most: the host keeps one, and the other node has one.
const MOST: usize = 2;
/// Times that a kernel switches a cpu off and on: its clock counts hundredths of a second.
const TIMES: u32 = 8;
/// Interval of `kumiki node balance`, as it is without a word.
const EVERY: Duration = Duration::from_millis(500);
/// A load that has nothing by then gets nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than the node has cpus, until the file is there.
const BUSY: &str = "rm -f /enough; for n in 1 2 3; do (while ! test -e /enough; do :; done) \
                    > /dev/null 2>&1 < /dev/null & done";
const CALM: &str = "touch /enough";
/// Line of shell that switches a cpu of a node off and on, as the node sees it.
const OFF_AND_ON: &str = "c=/sys/devices/system/cpu/cpu1; a=$(cut -d ' ' -f 1 /proc/uptime); \
                          for n in $(seq TIMES); do echo 0 > $c/online && echo 1 > $c/online || exit 1; \
                          done; echo $a $(cut -d ' ' -f 1 /proc/uptime)";

pub(super) fn rows(_: &Path, rounds: usize) -> Result<Vec<Row>> {
    let mut nodes = Vec::new();
    for name in NAMES {
        let node = Node::create(&spec(name))?;
        node.start(KernelForm::Vmlinux, LIMIT)?;
        nodes.push(node);
    }
    let rows = measure(rounds, &nodes[0]);
    for node in nodes {
        node.stop(Duration::ZERO)?;
        node.delete()?;
    }
    rows
}

fn spec(name: &str) -> Spec {
    Spec {
        name: name.to_owned(),
        image: IMAGE.to_owned(),
        cpus: Cpus::Count(1),
        numa: Vec::new(),
        elastic: Some(Elastic { min: 1, max: MOST }),
        memory_limits: Some(MemoryLimits { min: BYTES, max: BYTES + MORE }),
        memory_bytes: vec![BYTES],
        memory_from: MemorySource::Any,
        command_line: String::new(),
        devices: vec![],
        init: None,
        pci: Vec::new(),
        dma_unconfined: false,
    }
}

fn measure(rounds: usize, node: &Node) -> Result<Vec<Row>> {
    let [mut moved, mut kernels, mut there, mut back] = [const { Vec::new() }; 4];
    for round in 0..rounds {
        moved.push(vec![a_move(node)?]);
        kernels.push(vec![kernels_own(node)?]);
        there.push(vec![timed(|| node.set_memory(BYTES + MORE).map(drop))?]);
        back.push(vec![timed(|| node.set_memory(BYTES).map(drop))?]);
        eprintln!("elastic: round {} of {rounds}", round + 1);
    }
    let followed = followed(rounds)?;
    let own = Some(median_of(&kernels));
    let mib = (MORE >> 20) as usize;
    Ok(vec![
        Row::of(("cpu_move", "kumiki"), "ms", &moved, own),
        Row::of(("cpu_move", "kernels"), "ms", &kernels, own),
        Row::of(("memory_to_node", "kumiki"), "ms", &there, None).of_size(mib),
        Row::of(("memory_to_host", "kumiki"), "ms", &back, None).of_size(mib),
        Row::of(("balance", "kumiki"), "ms", &followed, None),
    ])
}

fn timed(work: impl FnOnce() -> kumiki_node::Result<()>) -> Result<f64> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// A cpu that goes to the node, and one that comes back, by one process: half of both.
fn a_move(node: &Node) -> Result<f64> {
    let both = timed(|| {
        node.set_cpus(&Cpus::Count(2))?;
        node.set_cpus(&Cpus::Count(1)).map(drop)
    })?;
    Ok(both / 2.0)
}

/// Time that the two kernels take for that by themselves: each switches a cpu off and on, and half of both is a move.
fn kernels_own(node: &Node) -> Result<f64> {
    node.set_cpus(&Cpus::Count(2))?;
    let said = said(node.name(), &OFF_AND_ON.replace("TIMES", &TIMES.to_string()))?;
    node.set_cpus(&Cpus::Count(1))?;
    let times: Vec<f64> =
        said.split_whitespace().map(str::parse).collect::<Result<_, _>>().context(said.clone())?;
    ensure!(times.len() == 2, "{said:?} is not a begin and an end");
    let of_node = (times[1] - times[0]) * 1e3 / f64::from(TIMES);
    let cpu = Path::new("/sys/devices/system/cpu/cpu1/online");
    let begin = Instant::now();
    for _ in 0..TIMES {
        for state in ["0", "1"] {
            fs::write(cpu, state).with_context(|| format!("{} of {}", state, cpu.display()))?;
        }
    }
    let of_host = begin.elapsed().as_secs_f64() * 1e3 / f64::from(TIMES);
    Ok((of_node + of_host) / 2.0)
}

/// Time from the begin of a load in a node that idled to the moment that it has the spare cpu, which the other
/// node has: all that there is of them.
fn followed(rounds: usize) -> Result<Vec<Vec<f64>>> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let balancing =
            scope.spawn(|| balance(EVERY, None, 1, &stop, |text| eprintln!("balance: {text}")));
        let mut samples = Vec::new();
        let turns = (0..rounds.max(2)).try_for_each(|round| {
            let name = NAMES[round % 2];
            let begin = Instant::now();
            said(name, BUSY)?;
            let has_it = || Ok::<_, anyhow::Error>(cpus_of(name)? == MOST);
            while !has_it()? && begin.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(20));
            }
            let took = begin.elapsed();
            said(name, CALM)?;
            ensure!(took < PATIENCE, "{name} has no cpu more after {} s", PATIENCE.as_secs());
            // The first may have had it of the host, which has one more: from then on of the other node.
            if round > 0 {
                samples.push(vec![took.as_secs_f64() * 1e3]);
            }
            // The other one's load is over when it has been idle for a look.
            thread::sleep(2 * EVERY);
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        balancing.join().expect("balance does not panic")?;
        turns.map(|()| samples)
    })
}

fn cpus_of(name: &str) -> Result<usize> {
    let nodes = Node::list()?;
    let node = nodes.iter().find(|node| node.name == name);
    Ok(node.with_context(|| format!("node {name} is gone"))?.cpus.len())
}

/// Output of a line of shell in a node.
fn said(name: &str, line: &str) -> Result<String> {
    let words = ["sh", "-c", line].map(str::to_owned);
    let (ending, out, err) = Session::open(name)?.output(&words)?;
    let err = String::from_utf8_lossy(&err);
    ensure!(ending == Ending::Exited(0), "{line} in {name}: {ending:?}: {err}");
    Ok(String::from_utf8_lossy(&out).into_owned())
}
