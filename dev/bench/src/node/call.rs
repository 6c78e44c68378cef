//! A call from a host to a place in its node, by a line in the window, beside a bare cache line of the same two
//! cpus, both of which spin.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_measure::stopwatch::{Amount, Stopwatch};
use kumiki_node::{KernelForm, Lanes, Node, Run};
use kumiki_places::standard::{Add, Counter, parts};
use kumiki_places::{Allow, Lease, Line, Lines, Remote, Server};
use kumiki_resource::Interface;
use kumiki_sys::affinity;
use kumiki_sys::shm::Window;

use super::devices::in_node;
use super::{IMAGE, NODE, run};
use crate::raw::RAW;
use crate::run::median_of;

/// Word by which this program serves in the node.
pub(crate) const WORD: &str = "node_line";
const IN_NODE: &str = "/bin/kumiki-bench";
const LIMIT: Duration = Duration::from_secs(240);
/// Calls of a turn.
const CALLS: usize = 400;
/// For so long the bare line's server looks for the next request before it sleeps, so that the node's cpu is the
/// place's in its turns.
const SPIN: Duration = Duration::from_millis(2);

pub(super) fn rows(_: &Path, rounds: usize) -> Result<Vec<Row>> {
    // With room for this program beside its system.
    run(&["kumiki", "node", "create", NODE, "--cpus", "1", "--memory", "384M", "--image", IMAGE])?;
    let node = Node::find(NODE)?;
    node.start(KernelForm::Vmlinux, LIMIT)?;
    let own = std::env::current_exe().context("finding our own program")?;
    run(&["kumiki", "node", "cp", &own.to_string_lossy(), &format!("{NODE}:{IN_NODE}")])?;
    let rows = measure(rounds);
    node.stop(Duration::ZERO)?;
    node.delete()?;
    rows
}

fn measure(rounds: usize) -> Result<Vec<Row>> {
    // It claims a part of the window, and no more.
    let bare = Lanes::open(NODE, program(&["cat"]))?;
    let serve = format!("{IN_NODE} {WORD} {} > /tmp/line 2>&1 < /dev/null &", bare.base);
    in_node(&["sh", "-c", &serve])?;
    let Lanes { stream, window, base, .. } =
        Lanes::open(NODE, program(&["kumiki", "place", "relay", NODE]))?;
    let lines = Lines::open(NODE, stream, window, base)?;
    let mut line =
        opened(&lines).with_context(|| in_node(&["cat", "/tmp/line"]).unwrap_or_default())?;
    let hits = line.create::<Counter>(None, &0)?;

    let watch = Stopwatch::new();
    let [mut raw, mut kumiki] = [const { Vec::new() }; 2];
    for _ in 0..rounds {
        raw.push(bare_turn(&watch, &bare.window.words(0, 1)[0]));
        kumiki.push(turn(&watch, &mut line, &hits)?);
    }
    let limit = median_of(&raw);
    let bare_row = Row::of(("node_call", RAW), "ns", &raw, None);
    let row = Row::of(("node_call", "kumiki"), "ns", &kumiki, Some(limit));
    Ok(vec![bare_row, Row { limit: Some(limit), ..row }])
}

fn program(words: &[&str]) -> Run {
    Run::beside_root(words)
}

fn opened(lines: &Lines) -> Result<Line> {
    let begin = Instant::now();
    loop {
        if let Some(place) = lines.places().first() {
            return Ok(lines.line(place)?);
        }
        ensure!(begin.elapsed() < Duration::from_secs(60), "no place in the node");
        thread::sleep(Duration::from_millis(50));
    }
}

fn turn(watch: &Stopwatch, line: &mut Line, hits: &Remote<Counter>) -> Result<Vec<f64>> {
    let mut outcome = Ok(0);
    let samples = watch.each(Amount::hot(CALLS), || outcome = line.call::<Add>(hits, &1));
    outcome?;
    Ok(samples)
}

/// Odd values are requests, the next even one is the answer.
fn bare_turn(watch: &Stopwatch, line: &AtomicU64) -> Vec<f64> {
    let mut value = line.load(Ordering::Relaxed);
    watch.each(Amount::hot(CALLS), || {
        // Release and Acquire, each the other side's partner.
        line.store(value + 1, Ordering::Release);
        value += 2;
        while line.load(Ordering::Acquire) != value {}
    })
}

/// In the node: a place with lines, and a bare line at this byte of the window's part.
pub(crate) fn serve(base: usize) -> Result<()> {
    let window = || Lanes::here()?.context("this kernel is no node");
    let cpu = affinity::current()?.first().context("a cpu")?;
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core()?;
    let server = Server::here(NODE).parts(parts()).allow(Allow::everything());
    let _served = server.window(window()?).managing().serve(&interface)?;
    answer(&window()?, base);
    Ok(())
}

fn answer(window: &Window, base: usize) {
    let line = &window.words(base, 1)[0];
    let mut last = Instant::now();
    loop {
        for _ in 0..1000 {
            let value = line.load(Ordering::Acquire);
            if value % 2 == 1 {
                line.store(value + 1, Ordering::Release);
                last = Instant::now();
            }
        }
        if last.elapsed() > SPIN {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
