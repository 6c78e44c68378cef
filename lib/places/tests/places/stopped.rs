//! Durable places whose process is stopped (SIGSTOP) while they move, or while another process is to take them over, and is
//! woken later: at each moment one of the two serves, and what has left answers nobody.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use kumiki_places::durable::{Disk, DiskFile, Folder};
use kumiki_places::standard::{Counter, Get};
use kumiki_places::wire::Operation;
use kumiki_places::{Client, Error, Nats, Server};
use kumiki_resource::Name;
use rustix::process::{Pid, Signal, kill_process};

use crate::disks::Held;
use crate::here::unique;
use crate::killed::{Gap, SERVES, count, durable, durable_at, variables};
use crate::nats::NatsServer;
use crate::scene::{Other, PATIENCE, block_on};

/// Time for which the process is stopped: longer than a place stands still.
const STOPPED: Duration = Duration::from_millis(2500);
const CALLERS: usize = 4;
/// Steps of a move that end with a sync or the removal of a file: more than there are.
const STEPS: usize = 12;

/// The disk of a taker, at one of whose steps the process that the place moves from is stopped for a while.
struct Stopping {
    held: Held,
    steps: AtomicUsize,
    /// The step after which it is stopped, and the process.
    at: usize,
    pid: Pid,
}

impl Stopping {
    fn step(&self) {
        if self.steps.fetch_add(1, SeqCst) == self.at {
            let pid = self.pid;
            stop(pid);
            std::thread::spawn(move || {
                std::thread::sleep(STOPPED);
                // It may have been killed since.
                let _ = kill_process(pid, Signal::CONT);
            });
        }
    }
}

/// Stops a process, and returns when all its threads stand still: on a busy machine others go on until the one that
/// takes the signal has a cpu.
fn stop(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    let is_stopped = |thread: io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
        // Behind its name in brackets; one that has ended has none.
        stat.map_or(true, |stat| stat.rsplit(") ").next().unwrap().starts_with('T'))
    };
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    while !std::fs::read_dir(&tasks).unwrap().all(is_stopped) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Disk for Stopping {
    fn list(&self) -> io::Result<Vec<String>> {
        self.held.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.held.read(name)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        self.held.create(name, bytes)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.held.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.held.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.held.remove(name)?;
        self.step();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.held.sync()?;
        self.step();
        Ok(())
    }

    fn name(&self) -> String {
        self.held.name()
    }
}

/// Moves a place whose process is stopped after this step; the taker waits so long for each answer. False if the move
/// has fewer steps.
fn moved(at: usize, patience: Duration, nats: Option<&NatsServer>) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let transport = if nats.is_some() { "nats" } else { "here" };
    let host = unique(&format!("stopped-{transport}-{}-{at}", patience.as_secs()));
    let url = nats.map(NatsServer::url);
    let path = folder.path().to_str().unwrap();
    let mut other = Some(Other::start(SERVES, &variables(path, &host, url.as_deref())));
    let pid = Pid::from_raw(other.as_ref().unwrap().pid() as i32).unwrap();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let place = format!("{host}.core{cpu}");
    let disk = Stopping { held: Held::default(), steps: AtomicUsize::new(0), at, pid };
    let (mut served, gap) = (None, Gap::new());
    let seen = block_on(async {
        let connect = async |limit| {
            let client = match &url {
                Some(url) => Client::connect(&Nats::at(url)).await.unwrap(),
                None => Client::here(),
            };
            client.with_timeout(limit)
        };
        let (client, taker) = (connect(PATIENCE).await, connect(patience).await);
        let mut counters = Vec::new();
        for _ in 0..CALLERS {
            counters.push(client.create::<Counter>(&place, None, 0).await.unwrap());
        }
        let over = AtomicBool::new(false);
        let callers = counters.iter().map(|counter| count(&client, counter, &over, &gap));
        let moves = async {
            let outcome = taker.take_place(&place, &disk, "away").await;
            let has_copy = !disk.held.names().iter().any(|name| name == "arriving");
            let has_left = has_copy && !disk.held.names().is_empty();
            match &outcome {
                Ok(()) => assert!(has_left),
                // It serves on, or nobody but its former folder knows.
                Err(error) => println!("step {at}: {error}"),
            }
            // Whatever it was in the middle of, it is awake again.
            tokio::time::sleep(STOPPED).await;
            if has_left {
                // It has ended by itself, and is not asked to.
                let end = Instant::now() + PATIENCE;
                while client.ask(&place, Operation::Age).await.is_ok() {
                    assert!(Instant::now() < end, "it serves on where it has left");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let held = disk.held.clone();
                let server = match &url {
                    Some(url) => Server::new(Nats::at(url), &host),
                    None => Server::here(&host),
                };
                let disk = move |_: &str| Ok(Arc::new(held.clone()) as Arc<dyn Disk>);
                let start = move || durable_at(cpu, server, disk).unwrap();
                served = Some(tokio::task::spawn_blocking(start).await.unwrap());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            over.store(true, SeqCst);
            has_left
        };
        let (seen, has_left) = tokio::join!(futures_util::future::join_all(callers), moves);
        // Of the two folders one serves.
        let home = Folder::open(&folder.path().join(format!("core{cpu}")));
        match has_left {
            true => assert!(!kumiki_places::durable::has_place(&home.unwrap()).unwrap()),
            false => assert!(home.is_err(), "its process has let it go"),
        }
        let mut sum = 0;
        for counter in &counters {
            sum += client.call::<Get>(counter, ()).await.unwrap() as u64;
        }
        (seen, sum)
    });
    drop(other.take());
    let (seen, sum) = seen;
    let done: u64 = seen.iter().map(|seen| seen.done).sum();
    let unknown: u64 = seen.iter().map(|seen| seen.unknown).sum();
    println!("stopped after step {at}: {done} done, {unknown} unknown, {sum} in all");
    assert_eq!((sum, unknown), (done, 0));
    assert!(done > 0);
    disk.steps.load(SeqCst) > at
}

/// At each step of it.
fn moved_at_each_step(patience: Duration, nats: bool) {
    let server = nats.then(NatsServer::start);
    let last = (0..STEPS).find(|at| !moved(*at, patience, server.as_ref()));
    assert!(last.is_some_and(|last| last >= 4), "{last:?} steps");
}

#[test]
fn a_place_that_is_stopped_at_any_step_of_its_move_is_one_place() {
    moved_at_each_step(PATIENCE, false);
}

#[test]
#[ignore = "more than a minute: `cargo xtask stress places`, after a change to durable places that move"]
fn nor_is_it_two_where_its_taker_gives_up_or_behind_a_nats_server() {
    moved_at_each_step(Duration::from_secs(1), false);
    moved_at_each_step(PATIENCE, true);
}

#[test]
fn a_place_that_is_stopped_is_not_taken_over_and_serves_on_when_it_is_woken() {
    let folder = tempfile::tempdir().unwrap();
    let host = unique("stopped-taken");
    let path = folder.path().to_str().unwrap();
    let other = Other::start(SERVES, &variables(path, &host, None));
    let pid = Pid::from_raw(other.pid() as i32).unwrap();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let place = format!("{host}.core{cpu}");
    let name: Name = format!("{place}/counter/hits").parse().unwrap();
    let create = async {
        let client = Client::here().with_timeout(PATIENCE);
        client.create::<Counter>(&place, Some("hits"), 7).await.unwrap();
    };
    block_on(create);
    stop(pid);
    let its = folder.path().to_owned();
    let take = move |core: &str| Ok(Arc::new(Folder::take(&its.join(core))?) as Arc<dyn Disk>);
    let error = durable(Server::here(&host), take).map(drop).unwrap_err();
    assert!(error.to_string().contains("another process serves from it"), "{error}");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    kill_process(pid, Signal::CONT).unwrap();
    // It is not asked for any more, and has it still.
    std::thread::sleep(Duration::from_millis(200));
    let value = block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let hits = client.open::<Counter>(&name).await.unwrap();
        client.call::<Get>(&hits, ()).await.unwrap()
    });
    assert_eq!(value, 7);
    drop(other);
}
