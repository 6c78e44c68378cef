//! Clients that mean no good, drawn by seed, some kinds at a time: what the server has in memory
//! stays within what `--memory` says, and a client beside them is served throughout.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::scene::{Server, seeds};

mod kinds;
mod scene;

use kinds::KINDS;
use scene::Client;

const MEMORY: usize = 32 << 20;
/// What the server has beside keys and what clients have sent: `docs/design/kv.md`, "Bounds", whose
/// 2 KiB a client are for 512. Of its 16 MiB the text of a build for use has up to 4.
const BASE: usize = (12 << 20) + CLIENTS;
const CLIENTS: usize = (2 << 10) * 512;
/// What a shard keeps when nothing is in it: 1 MiB that was freed and is not given back for so little, 1 MiB of
/// its heap's end, and buffers.
const REST: usize = 3 << 20;
/// The longest that the client beside them waits for an answer, on however busy a machine. Not
/// speed: one that is forgotten waits for ever.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a client that means well waits beside one kind, at most. Beside load it is 2 s; it was 44 s where the
/// commands of a pipeline that has room made ran on to its end.
const LONGEST_WAIT: Duration = Duration::from_secs(8);

#[test]
fn memory_stays_within_its_bound_whatever_clients_send() {
    for shards in [1, 2] {
        attacked(shards, 5 + shards as u64, 2);
    }
}

#[test]
#[ignore = "a quarter of an hour: `cargo xtask test long`, after a change to what is kept of keys or clients"]
fn memory_stays_within_its_bound_for_long() {
    for seed in seeds(100..120) {
        attacked(1 + seed as usize % 2, seed, 12);
    }
}

/// Each kind alone, so that a fault has its name.
#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to what is kept of keys or clients"]
fn memory_stays_within_its_bound_of_each_kind_alone() {
    let mut faults = String::new();
    for shards in [1, 2] {
        for (kind, (name, _)) in KINDS.iter().enumerate() {
            let scene = Scene::new(shards, 1);
            let (most, longest) = match scene.round(&[kind]) {
                (most, Ok(longest)) => (most, longest),
                (_, Err(fault)) => {
                    let _ = writeln!(faults, "{name} with {shards} shards: {fault}");
                    continue;
                }
            };
            let left = scene.cleared();
            println!(
                "{name} with {shards} shards: {most} bytes, and {left} after it; a client that means \
                 well waited {longest:?}"
            );
            if longest > LONGEST_WAIT {
                let _ = writeln!(faults, "{name} with {shards} shards: a wait of {longest:?}");
            }
            for (what, bytes, limit) in
                [("while", most, scene.limit()), ("after", left, scene.rest())]
            {
                if bytes > limit {
                    let _ = writeln!(
                        faults,
                        "{name} with {shards} shards: {bytes} bytes {what} it, {limit} may be"
                    );
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

fn attacked(shards: usize, seed: u64, rounds: usize) {
    let scene = Scene::new(shards, seed);
    let mut rng = Rng::with_seed(seed);
    for round in 0..rounds {
        let kinds: Vec<usize> = (0..rng.usize(2..5)).map(|_| rng.usize(..KINDS.len())).collect();
        let (most, longest) = scene.round(&kinds);
        let names: Vec<&str> = kinds.iter().map(|kind| KINDS[*kind].0).collect();
        assert!(
            longest.is_ok(),
            "{longest:?} with {shards} shards; seed {seed}, round {round}: {names:?}"
        );
        assert!(
            most <= scene.limit(),
            "{most} bytes with {shards} shards, {} may be; seed {seed}, round {round}: {names:?}",
            scene.limit()
        );
    }
    let left = scene.cleared();
    assert!(left <= scene.rest(), "{left} bytes after FLUSHALL, {} may be", scene.rest());
}

/// A server, and a seed for its clients.
struct Scene {
    server: Server,
    shards: usize,
    seed: u64,
    before: usize,
}

impl Scene {
    fn new(shards: usize, seed: u64) -> Scene {
        let server = Server::start(shards, &["--memory", &MEMORY.to_string()]);
        let before = server.resident();
        Scene { server, shards, seed, before }
    }

    fn limit(&self) -> usize {
        MEMORY * 115 / 100 + BASE
    }

    /// What may be left when nothing is in it.
    fn rest(&self) -> usize {
        self.before + self.shards * REST + CLIENTS
    }

    /// Clients of these kinds at once, the most that was resident meanwhile, bytes, and how long the
    /// client beside them waited for an answer, or what went wrong for it.
    fn round(&self, kinds: &[usize]) -> (usize, Result<Duration, String>) {
        let (done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
        let longest = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    most.fetch_max(self.server.resident(), Relaxed);
                    thread::sleep(Duration::from_millis(3));
                }
            });
            let beside = scope.spawn(|| well_behaved(self.server.address, &done));
            let attackers: Vec<_> = kinds
                .iter()
                .enumerate()
                .map(|(place, kind)| {
                    let (at, seed) = (self.server.address, self.seed * 100 + place as u64);
                    scope.spawn(move || KINDS[*kind].1(at, &mut Rng::with_seed(seed)))
                })
                .collect();
            // Those that are done stay, until all are.
            let stay: Vec<_> = attackers.into_iter().map(|thread| thread.join()).collect();
            thread::sleep(Duration::from_millis(100));
            done.store(true, Relaxed);
            let served = beside.join();
            drop(stay);
            served.expect("it does not panic")
        });
        (most.into_inner(), longest)
    }

    /// What is resident after FLUSHALL, when there is time to give it back, bytes.
    fn cleared(&self) -> usize {
        let start = Instant::now();
        // What a client had sent before it went may still be run, after a FLUSHALL of another one.
        let when_empty = || {
            assert_eq!(self.server.cli(&["FLUSHALL"]), "OK\n");
            let left = self.server.resident();
            (left <= self.rest() && self.server.cli(&["DBSIZE"]) == "(integer) 0\n").then_some(left)
        };
        loop {
            match when_empty() {
                Some(left) => return left,
                None if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(50)),
                None => break,
            }
        }
        assert_eq!(self.server.cli(&["DBSIZE"]), "(integer) 0\n");
        self.server.resident()
    }
}

/// Asks for what it has set, until the others are done: how long it waited for two answers, at most. That memory is
/// full it is told, as Redis tells it.
fn well_behaved(at: SocketAddr, done: &AtomicBool) -> Result<Duration, String> {
    let mut client = Client::open(at);
    client.wait(PATIENCE);
    let (mut stored, mut longest) = (None, Duration::ZERO);
    for n in 0_u64.. {
        if done.load(Relaxed) {
            break;
        }
        let asked = Instant::now();
        match client.ask(&["SET", "good", &n.to_string()]).as_deref() {
            Some("+OK") => stored = Some(n),
            Some(full) if full.starts_with("-OOM") => {}
            other => {
                return Err(format!(
                    "SET of a client that means well: {other:?} after {:?}",
                    asked.elapsed()
                ));
            }
        }
        let expected = stored.map_or("$-1".to_owned(), |n| n.to_string());
        let got = client.ask(&["GET", "good"]);
        if got.as_deref() != Some(&*expected) {
            return Err(format!(
                "GET of a client that means well: {got:?} after {:?}, not {expected}",
                asked.elapsed()
            ));
        }
        longest = longest.max(asked.elapsed());
        thread::sleep(Duration::from_millis(2));
    }
    Ok(longest)
}
