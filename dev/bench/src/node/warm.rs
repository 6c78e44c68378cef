//! A service's first answer by HTTP: of a node started from its image, of one started where it
//! served already, and of one that sleeps in its memory until the question comes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_node::{Ending, Image, KernelForm, Node, Session};

use super::{IMAGE, NODE, run};
use crate::run::median_of;

const LIMIT: Duration = Duration::from_secs(240);
/// The snapshot of the node that serves.
const SERVING: &str = "serving";
pub(super) const CARD: &str = "auto,address=10.93.0.2/24,host=10.93.0.1/24";
const AT: ([u8; 4], u16) = ([10, 93, 0, 2], 80);
const SERVE: &str = "mkdir -p /tmp/www; echo answer > /tmp/www/index.html; httpd -h /tmp/www";
/// Pause between two questions of one who is not answered.
const AGAIN: Duration = Duration::from_millis(5);
/// Nobody asks for so long, and the node sleeps.
const QUIET: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WarmWay {
    Image,
    Snapshot,
    Idle,
}

pub(super) fn rows(_: &Path, rounds: usize) -> Result<Vec<Row>> {
    run(&["kumiki", "node", "create", NODE, "--memory", "256M", "--image", IMAGE, "--net", CARD])?;
    let node = Node::find(NODE)?;
    let stages = node.start(KernelForm::Vmlinux, LIMIT)?;
    ensure!(stages.problems.is_empty(), "the node's devices: {:?}", stages.problems);
    serve()?;
    answered(Duration::from_secs(1)).context("a started node's first answer")?;
    node.take_snapshot(SERVING)?;
    let mut ways = [WarmWay::Image, WarmWay::Snapshot, WarmWay::Idle].map(|way| (way, Vec::new()));
    let mut rng = fastrand::Rng::new();
    for round in 0..rounds {
        rng.shuffle(&mut ways);
        for (way, samples) in &mut ways {
            // As in `start`: what the emulator has of the last start's kernel is thrown away.
            node.wipe()?;
            let sample = way.measure(&node).with_context(|| format!("{way:?}"))?;
            samples.push(vec![sample]);
            node.stop(Duration::ZERO)?;
        }
        eprintln!("warm: round {} of {rounds}", round + 1);
    }
    node.delete()?;
    Image::remove(SERVING)?;
    let of = |wanted: WarmWay| {
        let all = ways.iter().find(|(way, _)| *way == wanted);
        all.map(|(_, samples)| &samples[..]).unwrap_or_default()
    };
    let base = Some(median_of(of(WarmWay::Image)));
    let snapshot = Some(median_of(of(WarmWay::Snapshot)));
    Ok(vec![
        Row::of(("start", "resident_http"), "ms", of(WarmWay::Image), base),
        Row::of(("start", "snapshot_http"), "ms", of(WarmWay::Snapshot), base),
        Row::of(("idle_wake", "kumiki"), "ms", of(WarmWay::Idle), snapshot),
        Row::of(("idle_wake", "snapshot_http"), "ms", of(WarmWay::Snapshot), snapshot),
    ])
}

impl WarmWay {
    /// Time from the request, or the question, to the answer.
    fn measure(self, node: &Node) -> Result<f64> {
        let begin = Instant::now();
        match self {
            WarmWay::Image => {
                node.start(KernelForm::Vmlinux, LIMIT)?;
                serve()?;
            }
            WarmWay::Snapshot => drop(node.start_snapshot(SERVING, LIMIT)?),
            WarmWay::Idle => return of_idle(node),
        }
        answered(Duration::from_millis(200))?;
        Ok(ms(begin))
    }
}

fn of_idle(node: &Node) -> Result<f64> {
    node.start_snapshot(SERVING, LIMIT)?;
    answered(Duration::from_secs(1))?;
    let (stop, asleep) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (until, times) = (Arc::clone(&stop), Arc::clone(&asleep));
    let watching = thread::spawn(move || {
        kumiki_node::idle(NODE, QUIET, None, &until, |what, _| {
            if what == "asleep" {
                times.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let begin = Instant::now();
    while asleep.load(Ordering::Relaxed) == 0 {
        ensure!(begin.elapsed() < LIMIT && !watching.is_finished(), "the node does not sleep");
        thread::sleep(AGAIN);
    }
    let begin = Instant::now();
    let asked = question(LIMIT);
    let took = ms(begin);
    stop.store(true, Ordering::Relaxed);
    watching.join().expect("it does not panic")?;
    asked.map(|()| took)
}

pub(super) fn ms(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

fn serve() -> Result<()> {
    let words = ["sh", "-c", SERVE].map(str::to_owned);
    let (ending, _, err) = Session::open(NODE)?.output(&words)?;
    let err = String::from_utf8_lossy(&err);
    ensure!(ending == Ending::Exited(0), "{SERVE} in the node: {ending:?}: {err}");
    Ok(())
}

/// Asks until there is an answer, for which each question has so long.
pub(super) fn answered(each: Duration) -> Result<()> {
    let begin = Instant::now();
    while let Err(error) = question(each) {
        ensure!(begin.elapsed() < LIMIT, "{error:#}");
        thread::sleep(AGAIN);
    }
    Ok(())
}

fn question(limit: Duration) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(AT), limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut said = String::new();
    stream.read_to_string(&mut said).context("reading the answer")?;
    ensure!(said.contains("200 OK") && said.ends_with("answer\n"), "{said:?}");
    Ok(())
}
