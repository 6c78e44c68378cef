//! Durable places that are killed under clients that count, on a disk that forgets what was not flushed: nothing is lost
//! that was answered, and nothing runs twice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use kumiki_places::durable::{Disk, Folder};
use kumiki_places::standard::{Add, Counter, Get};
use kumiki_places::{Allow, Client, Error, Lease, Nats, Parts, Reference, Result, Served, Server};
use kumiki_resource::{Interface, Name};

use crate::disks::Forgetful;
use crate::here::unique;
use crate::nats::NatsServer;
use crate::scene::{Other, PATIENCE, block_on, stay};

const FOLDER: &str = "KUMIKI_TEST_PLACE_FOLDER";
const HOST: &str = "KUMIKI_TEST_PLACE_HOST";
const TAKES: &str = "KUMIKI_TEST_PLACE_TAKES";
const STANDS_BY: &str = "KUMIKI_TEST_PLACE_STANDS_BY";
const URL: &str = "KUMIKI_TEST_PLACE_URL";
/// The place that is to be taken into the folder first.
const MOVES: &str = "KUMIKI_TEST_PLACE_MOVES";
const CPU: &str = "KUMIKI_TEST_PLACE_CPU";
/// Bytes of a log's file: some are filled, and snapshots taken, in a test.
const FILE: u64 = 256 << 10;
/// Time of a flush.
const FLUSH: Duration = Duration::from_millis(1);
const CALLERS: usize = 16;
/// Counters of a batch.
const EACH: usize = 20;

/// The test that is a process which serves a durable place.
pub(crate) const SERVES: &str = "killed::a_durable_place_of_another_test";

/// Variables of that process, for a place of this host in this folder.
pub(crate) fn variables<'a>(
    folder: &'a str,
    host: &'a str,
    url: Option<&'a str>,
) -> Vec<(&'static str, &'a str)> {
    let mut variables = vec![(FOLDER, folder), (HOST, host)];
    variables.extend(url.map(|url| (URL, url)));
    variables
}

/// Program parts of what is kept.
pub(crate) fn parts() -> Parts {
    Parts::new().durable::<Counter>().part::<Add>().part::<Get>()
}

/// Serves one durable place of counters.
pub(crate) fn durable(
    server: Server,
    disk: impl Fn(&str) -> Result<Arc<dyn Disk>> + Send + Sync + 'static,
) -> Result<(Interface, Served, String)> {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    durable_at(cpu, server, disk)
}

/// The same on this cpu.
pub(crate) fn durable_at(
    cpu: usize,
    server: Server,
    disk: impl Fn(&str) -> Result<Arc<dyn Disk>> + Send + Sync + 'static,
) -> Result<(Interface, Served, String)> {
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
    let server = server.parts(parts()).allow(Allow::everything()).managing();
    let served = server.durable_on(disk).serve(&interface)?;
    let place = served.names()[0].to_owned();
    Ok((interface, served, place))
}

/// No test, but the process of those below.
#[test]
fn a_durable_place_of_another_test() {
    let (Ok(folder), Ok(host)) = (std::env::var(FOLDER), std::env::var(HOST)) else { return };
    let server = match std::env::var(URL) {
        Ok(url) => Server::new(Nats::at(&url), host),
        Err(_) => Server::here(host),
    };
    if let Ok(place) = std::env::var(MOVES) {
        return serve_moved(server, &place, Path::new(&folder));
    }
    let is = |variable| std::env::var(variable).is_ok();
    let (takes, stands_by) = (is(TAKES), is(STANDS_BY));
    let disk = move |core: &str| {
        let path = Path::new(&folder).join(core);
        let folder = match (takes, stands_by) {
            (true, _) => Folder::take(&path),
            (_, true) => Folder::stand_by(&path),
            _ => Folder::open(&path),
        };
        Ok(Arc::new(Forgetful::of(folder?, FILE, FLUSH)) as Arc<dyn Disk>)
    };
    let _served = durable(server, disk).unwrap();
    stay();
}

/// Takes a place into this folder, and serves it on another cpu.
fn serve_moved(server: Server, place: &str, folder: &Path) {
    let cpu: usize = std::env::var(CPU).unwrap().parse().unwrap();
    let disk = Folder::open(folder).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(Forgetful::of(disk, FILE, FLUSH));
    block_on(async {
        let client = match std::env::var(URL) {
            Ok(url) => Client::connect(&Nats::at(&url)).await.unwrap(),
            Err(_) => Client::here(),
        };
        client.take_place(place, &*disk, &format!("cpu {cpu}")).await.unwrap();
    });
    let disk = move |_: &str| Ok(Arc::clone(&disk));
    let _served = durable_at(cpu, server.called(place), disk).unwrap();
    stay();
}

/// Does it until it is known to be done, or may be; false of what nobody knows.
async fn done<T>(again: impl AsyncFn() -> Result<T>) -> Option<T> {
    loop {
        match again().await {
            Ok(value) => return Some(value),
            Err(Error::Unknown { why, .. }) => {
                println!("unknown: {why}");
                return None;
            }
            Err(Error::Gone { .. } | Error::NotSent { .. } | Error::Unanswered { .. }) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Operations that were answered, and the longest time without an answer.
pub(crate) struct Gap {
    begin: Instant,
    done: AtomicU64,
    last_us: AtomicU64,
    longest_us: AtomicU64,
}

impl Gap {
    pub(crate) fn new() -> Gap {
        let (begin, zero) = (Instant::now(), || AtomicU64::new(0));
        Gap { begin, done: zero(), last_us: zero(), longest_us: zero() }
    }

    /// Notes an answer of so many operations.
    fn end(&self, operations: u64) {
        self.done.fetch_add(operations, SeqCst);
        let now = self.begin.elapsed().as_micros() as u64;
        let last = self.last_us.fetch_max(now, SeqCst);
        self.longest_us.fetch_max(now.saturating_sub(last), SeqCst);
    }
}

/// What one caller has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) done: u64,
    pub(crate) unknown: u64,
}

/// Counts by calls: each sum must be the one before and one more, and more by what nobody knows at most.
pub(crate) async fn count(
    client: &Client,
    counter: &Reference<Counter>,
    over: &AtomicBool,
    gap: &Gap,
) -> Seen {
    let (mut seen, mut sum, mut maybe) = (Seen::default(), 0, 0);
    while !over.load(SeqCst) {
        match done(async || client.call::<Add>(counter, 1).await).await {
            Some(now) => {
                assert!(now > sum && now <= sum + 1 + maybe, "{now} after {sum}, {maybe} unknown");
                (sum, maybe) = (now, 0);
                seen.done += 1;
                gap.end(1);
            }
            None => {
                maybe += 1;
                seen.unknown += 1;
            }
        }
    }
    let now = done(async || client.call::<Get>(counter, ()).await).await.unwrap();
    assert!(now >= sum && now <= sum + maybe, "{now} at the end, after {sum}, {maybe} unknown");
    seen
}

/// Counts by batches.
async fn count_each(
    client: &Client,
    counters: &[Reference<Counter>],
    over: &AtomicBool,
    gap: &Gap,
) -> Seen {
    let (mut seen, mut sums, mut maybe) = (Seen::default(), vec![0; EACH], vec![0; EACH]);
    while !over.load(SeqCst) {
        let all = client.each::<Add>(counters.iter().map(|counter| (counter, 1))).await;
        gap.end(all.iter().filter(|outcome| outcome.is_ok()).count() as u64);
        let mut has_gone = false;
        for (at, outcome) in all.into_iter().enumerate() {
            match outcome {
                Ok(now) => {
                    let (sum, maybe) = (&mut sums[at], &mut maybe[at]);
                    assert!(now > *sum && now <= *sum + 1 + *maybe, "{now} after {sum} of {at}");
                    (*sum, *maybe) = (now, 0);
                    seen.done += 1;
                }
                Err(Error::Unknown { .. }) => {
                    maybe[at] += 1;
                    seen.unknown += 1;
                }
                Err(Error::Gone { .. } | Error::NotSent { .. } | Error::Unanswered { .. }) => {
                    has_gone = true
                }
                Err(other) => panic!("{other}"),
            }
        }
        if has_gone {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    seen
}

/// Makes and destroys resources of names; what it was told is so.
async fn make(client: &Client, place: &str, over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    for number in 0.. {
        if over.load(SeqCst) {
            break;
        }
        let unique = format!("n{number}");
        let name: Name = format!("{place}/counter/{unique}").parse().unwrap();
        let made =
            done(async || client.create::<Counter>(place, Some(&unique), number).await).await;
        let Some(made) = made else {
            seen.unknown += 1;
            continue;
        };
        let opened = done(async || client.open::<Counter>(&name).await).await.unwrap();
        let value = done(async || client.call::<Get>(&opened, ()).await).await.unwrap();
        assert_eq!((opened.id(), value), (made.id(), number));
        seen.done += 1;
        if number % 2 == 0 {
            match done(async || client.destroy(made.clone()).await).await {
                Some(()) => {
                    let error = loop {
                        match client.open::<Counter>(&name).await {
                            Err(
                                Error::Gone { .. }
                                | Error::NotSent { .. }
                                | Error::Unanswered { .. },
                            ) => {
                                tokio::time::sleep(Duration::from_millis(5)).await;
                            }
                            outcome => break outcome.unwrap_err(),
                        }
                    };
                    assert!(error.to_string().contains(&unique), "{error}");
                    seen.done += 1;
                }
                None => seen.unknown += 1,
            }
        }
    }
    seen
}

/// The way in which a place ends under its callers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// It is killed, and started again.
    Killed,
    /// It is killed, and another process has stood by.
    StoodBy,
    /// Another process takes it over.
    Taken,
    /// Another process, on another cpu and with another folder, takes it.
    Moved,
}

/// Ends a place so many times, while its callers have so many operations done.
pub(crate) fn ended(end: End, test: &str, (times, operations): (usize, u64), nats: bool) {
    let folder = tempfile::tempdir().unwrap();
    let server = nats.then(NatsServer::start);
    let url = server.as_ref().map(NatsServer::url);
    let host = unique(test);
    let cpus: Vec<usize> = kumiki_sys::affinity::current().unwrap().iter().collect();
    let place = format!("{host}.core{}", cpus[0]);
    let start = {
        let (place, url, folder) = (place.clone(), url.clone(), folder.path().to_owned());
        Arc::new(move |number: usize| {
            let path = match end {
                End::Moved => folder.join(number.to_string()),
                _ => folder.clone(),
            };
            let (path, cpu) = (path.to_str().unwrap(), cpus[number % cpus.len()].to_string());
            let mut variables = variables(path, &host, url.as_deref());
            variables.push((CPU, &*cpu));
            variables.extend((end == End::Taken).then_some((TAKES, "1")));
            variables.extend((end == End::StoodBy).then_some((STANDS_BY, "1")));
            variables.extend((end == End::Moved && number > 0).then_some((MOVES, &*place)));
            Other::start(SERVES, &variables)
        })
    };
    let (mut other, gap) = (Some(start(0)), Gap::new());
    let all = block_on(async {
        let connect = async || {
            let client = match &url {
                Some(url) => Client::connect(&Nats::at(url)).await.unwrap(),
                None => Client::here(),
            };
            client.with_timeout(PATIENCE)
        };
        let client = connect().await;
        let mut counters = Vec::new();
        for _ in 0..CALLERS + EACH {
            counters.push(client.create::<Counter>(&place, None, 0).await.unwrap());
        }
        let over = AtomicBool::new(false);
        // Each with a connection and a lease of its own.
        let mut clients = Vec::new();
        for _ in 0..CALLERS {
            clients.push(connect().await);
        }
        let (client, place, over, counters, gap) = (&client, &*place, &over, &*counters, &gap);
        let callers = clients.iter().zip(counters);
        let callers = callers.map(|(client, counter)| count(client, counter, over, gap));
        let kills = async {
            for kill in 0..times {
                tokio::time::sleep(Duration::from_millis(50 + 17 * (kill as u64 % 7))).await;
                while gap.done.load(SeqCst) < operations * kill as u64 / times as u64 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                // It starts while callers call, by a thread of its own: this one is theirs.
                let mut former = other.take().filter(|_| end != End::Killed);
                let start = Arc::clone(&start);
                let started = tokio::task::spawn_blocking(move || start(kill + 1));
                if end == End::StoodBy {
                    // It waits for the folder by then, or a little later.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    drop(former.take());
                }
                other = Some(started.await.unwrap());
                drop(former);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            while gap.done.load(SeqCst) < operations {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            over.store(true, SeqCst);
        };
        let (mut seen, each, made, ()) = tokio::join!(
            futures_util::future::join_all(callers),
            count_each(client, &counters[CALLERS..], over, gap),
            make(client, place, over),
            kills
        );
        seen.extend([each, made]);
        seen
    });
    let done: u64 = all.iter().map(|seen| seen.done).sum();
    let unknown: u64 = all.iter().map(|seen| seen.unknown).sum();
    let gap = gap.longest_us.load(SeqCst) / 1000;
    println!(
        "{end:?} {times} times: {done} done, {unknown} unknown, {gap} ms without an answer at most"
    );
    if end == End::Moved {
        let last = folder.path().join(times.to_string());
        let kept = std::fs::read_dir(last).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        let kept: u64 = kept.map(|metadata| metadata.len()).sum();
        // Of seven MiB after twenty moves were all logs but the last ones, which a snapshot takes the place of.
        assert!(kept < 4 << 20, "{kept} bytes in the last folder");
    }
    let is_killed = matches!(end, End::Killed | End::StoodBy);
    assert!(is_killed || unknown == 0, "it has flushed what it had answered, and more");
    assert!(done > 20 * times as u64, "most of them found a place");
}

#[test]
fn nothing_that_a_killed_place_has_answered_is_lost_and_nothing_runs_twice() {
    ended(End::Killed, "durable", (10, 20_000), false);
}

#[test]
fn nor_behind_a_nats_server() {
    ended(End::Killed, "durable-nats", (5, 5000), true);
}

#[test]
fn callers_go_on_where_a_place_is_killed_and_another_process_has_stood_by() {
    ended(End::StoodBy, "stood-by", (10, 5000), false);
    ended(End::StoodBy, "stood-by-nats", (5, 1000), true);
}

#[test]
fn callers_go_on_where_another_process_takes_a_place_over() {
    ended(End::Taken, "taken", (5, 1000), false);
    ended(End::Taken, "taken-nats", (5, 1000), true);
}

#[test]
#[ignore = "a quarter of an hour: `cargo xtask stress places`, after a change to the log of durable places"]
fn killed_a_hundred_times_it_loses_nothing_and_runs_nothing_twice() {
    ended(End::Killed, "durable-often", (100, 1_000_000), false);
    ended(End::Killed, "durable-often-nats", (100, 100_000), true);
}

#[test]
#[ignore = "a quarter of an hour: `cargo xtask stress places`, after a change to how a place is taken over"]
fn taken_over_a_hundred_times_it_loses_nothing_and_runs_nothing_twice() {
    ended(End::Taken, "taken-often", (100, 100_000), false);
}

#[test]
#[ignore = "a quarter of an hour: `cargo xtask stress places`, after a change to how a place moves"]
fn moved_a_hundred_times_it_loses_nothing_and_runs_nothing_twice() {
    ended(End::Moved, "moved-often", (100, 100_000), false);
}

#[test]
#[ignore = "a minute: as the one above"]
fn moved_a_hundred_times_behind_a_nats_server_it_loses_nothing_and_runs_nothing_twice() {
    ended(End::Moved, "moved-often-nats", (100, 10_000), true);
}
