//! A durable place that moves from process to process, each on another cpu and with another folder, while callers go on.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kumiki_places::durable::{Disk, Folder};
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::{Client, Reference};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::child::with_us;
use crate::pair::Pair;

use super::{ServedPlace, durable, host, interface, runtime};

/// The word of a process that serves the place.
pub(crate) const PEER: &str = "place-peer";

pub(super) const CALLS_A_SECOND: u64 = 10_000;
/// Share of the calls that are made at least, or it is another case.
const LEAST: f64 = 0.9;
/// Callers, each of a counter of its own.
const CALLERS: u64 = 256;
/// Other counters of the place, with names.
const OTHERS: u64 = 1000;
/// Moves that are measured.
const MOVES: usize = 12;
/// Time between two of them, in which callers go on.
const BETWEEN: Duration = Duration::from_secs(2);
/// Time behind a move that is still of it.
const BEHIND: Duration = Duration::from_millis(500);
/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that serves the place until it is dropped.
struct PlaceProcess(Child);

impl PlaceProcess {
    /// Starts one with a folder of its own; one that is not the `first` takes the place from the one that has it.
    fn start(
        host: &str,
        home: usize,
        cpu: usize,
        folder: &Path,
        first: bool,
    ) -> Result<PlaceProcess> {
        let own = std::env::current_exe().context("finding our own program")?;
        let mut command = with_us(&own);
        command.args([PEER, host]).args([home, cpu].map(|cpu| cpu.to_string())).arg(folder);
        command.arg(if first { "first" } else { "takes" });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().context("its standard output")?;
        let peer = PlaceProcess(child);
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        ensure!(line == "it serves\n", "the process that is to serve the place has ended");
        Ok(peer)
    }
}

impl Drop for PlaceProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Is such a process.
pub(crate) fn serve_peer(
    host: &str,
    [home, cpu]: [usize; 2],
    folder: &Path,
    how: &str,
) -> Result<()> {
    let path = folder.to_owned();
    // Opened once: the same folder is taken into and served from.
    let disk = Arc::new(Folder::open(&path)?) as Arc<dyn Disk>;
    let server = durable(host, move |_| Ok(Arc::clone(&disk)));
    let place = match how {
        "first" => ServedPlace::serve(server, cpu)?,
        _ => {
            let name = format!("{host}.core{home}");
            let (server, interface) = (server.called(&name), interface(cpu)?);
            let to = format!("{}", folder.display());
            runtime()?.block_on(async {
                let client = Client::here().with_timeout(PATIENCE);
                client.take_place_for(&server, &interface, &to).await
            })?;
            let served = server.serve(&interface)?;
            ServedPlace { served, _interface: interface }
        }
    };
    println!("it serves");
    let _ = std::io::stdin().read(&mut [0]);
    drop(place);
    Ok(())
}

/// Answers, and the longest time without one.
struct Answers {
    begin: Instant,
    count: AtomicU64,
    last_us: AtomicU64,
    longest_us: AtomicU64,
    over: AtomicBool,
}

impl Answers {
    fn one(&self) {
        let now = self.begin.elapsed().as_micros() as u64;
        self.count.fetch_add(1, SeqCst);
        let last = self.last_us.fetch_max(now, SeqCst);
        self.longest_us.fetch_max(now.saturating_sub(last), SeqCst);
    }
}

/// Counts at its time, so often: each sum is the one before and one more, or a call was lost, or ran twice.
async fn count(
    client: Client,
    on: Reference<Counter>,
    number: u64,
    all: Arc<Answers>,
) -> Result<()> {
    let period = Duration::from_nanos(1_000_000_000 * CALLERS / CALLS_A_SECOND);
    let mut next = all.begin + period * number as u32 / CALLERS as u32;
    let mut sum = 0;
    while !all.over.load(SeqCst) {
        sleep_until(next).await;
        next += period;
        let now = client.call::<Add>(&on, 1).await?;
        ensure!(now == sum + 1, "a counter says {now} after {sum}: a call was lost, or ran twice");
        sum = now;
        all.one();
    }
    let now = client.call::<Get>(&on, ()).await?;
    ensure!(now == sum, "a counter says {now} in the end, and {sum} were answered");
    Ok(())
}

/// Milliseconds without an answer of each move.
pub(super) fn all(pair: Pair) -> Result<Vec<Vec<f64>>> {
    let folder = tempfile::tempdir().context("making folders for a place")?;
    let host = host("move");
    let home = pair.helper;
    let path = |number: usize| folder.path().join(number.to_string());
    let mut peer = PlaceProcess::start(&host, home, home, &path(0), true)?;
    let place = format!("{host}.core{home}");
    runtime()?.block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        for number in 0..OTHERS {
            client.create::<Counter>(&place, Some(&format!("n{number}")), 0).await?;
        }
        let mut counters = Vec::new();
        for _ in 0..CALLERS {
            counters.push(client.create::<Counter>(&place, None, 0).await?);
        }
        let all = Arc::new(Answers {
            begin: Instant::now(),
            count: AtomicU64::new(0),
            last_us: AtomicU64::new(0),
            longest_us: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let mut callers = JoinSet::new();
        for (counter, number) in counters.into_iter().zip(0..) {
            callers.spawn(count(client.clone(), counter, number, Arc::clone(&all)));
        }
        let (mut gaps, mut slowest) = (Vec::new(), f64::INFINITY);
        for number in 1..=MOVES {
            let before = all.count.load(SeqCst);
            let begin = Instant::now();
            sleep(BETWEEN).await;
            let made = (all.count.load(SeqCst) - before) as f64 / begin.elapsed().as_secs_f64();
            slowest = made.min(slowest);
            let still = all.longest_us.swap(0, SeqCst);
            let cpu = if number % 2 == 1 { pair.main } else { pair.helper };
            let (host, folder) = (host.clone(), path(number));
            let start = move || PlaceProcess::start(&host, home, cpu, &folder, false);
            // The one before has ended its place by itself, and is not killed for that.
            let taker = tokio::task::spawn_blocking(start).await??;
            sleep(BEHIND).await;
            peer = taker;
            let gap = all.longest_us.swap(0, SeqCst);
            eprintln!(
                "move {number}: {} ms, and without one {}, at {made:.0} calls a second",
                gap / 1000,
                still / 1000
            );
            gaps.push(vec![gap as f64 / 1e3]);
        }
        all.over.store(true, SeqCst);
        while let Some(caller) = callers.join_next().await {
            caller??;
        }
        drop(peer);
        ensure!(
            slowest >= LEAST * CALLS_A_SECOND as f64,
            "{slowest:.0} calls a second are answered here, of {CALLS_A_SECOND}"
        );
        Ok(gaps)
    })
}
