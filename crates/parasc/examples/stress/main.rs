//! Requests of random kinds, sizes and threads, each of which leaves a trace
//! that can be told from every other's: is one lost, made twice, or answered
//! with another's result?
//!
//! ```console
//! $ cargo run --release --package kumiki-parasc --example stress -- 100000000
//! ```
//!
//! Several threads run batches, each with a lane and files of its own; now and
//! then they stay away, so that the engine's threads fall asleep and retire. Others
//! submit requests one by one, which they await, take back or drop at any moment,
//! and one places them by hand. Now and then the engine is shut down in the middle
//! and another one follows.
//!
//! Ends with 0 if all is right, with 1 and a word on what is wrong at the first
//! discrepancy or if nothing has moved for half a minute. `cargo xtask stress
//! parasc` runs it, and a test runs a short one.

mod by_hand;
mod hand;
mod kind;
mod player;
mod single;
mod things;

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use kumiki_parasc::{Config, Engine};

use by_hand::ByHand;
pub(crate) use kind::KINDS;
use player::Player;
use single::Single;

/// Threads that run batches …
const PLAYERS: usize = 6;
/// … and those that submit requests one by one. One more places them by hand.
const SINGLES: usize = 2;
/// Words of the file that is read; word i holds `word(i)`.
const WORDS: u64 = 1 << 16;
/// Nothing for so long is a hang.
const PATIENCE: Duration = Duration::from_secs(30);
/// An engine lives for less than this, milliseconds.
const LIFE_MS: u64 = 200;

/// What has been done, over all threads.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Requests whose answers have been checked.
    pub(crate) requests: AtomicU64,
    /// The same by kind.
    pub(crate) kinds: [AtomicU64; KINDS.len()],
    pub(crate) batches: AtomicU64,
    /// Requests that were submitted one by one and awaited …
    pub(crate) awaited: AtomicU64,
    /// … taken back before anybody had begun them …
    pub(crate) taken_back: AtomicU64,
    /// … or dropped before they had ended.
    pub(crate) dropped: AtomicU64,
    /// Requests that were placed by hand.
    pub(crate) by_hand: AtomicU64,
    /// Requests of both sorts that a shut-down engine has not made.
    pub(crate) not_made: AtomicU64,
    /// Requests whose effect was found to be there, once.
    pub(crate) effects: AtomicU64,
    /// Lanes that have changed hands.
    pub(crate) lanes: AtomicU64,
    /// Engines that were shut down in the middle.
    pub(crate) engines: AtomicU64,
    /// The most threads that an engine was seen with.
    pub(crate) threads: AtomicU64,
}

/// What all threads share.
struct Scene {
    seed: u64,
    /// When so many requests have been made, all is over.
    requests: u64,
    counts: Counts,
    engine: RwLock<Arc<Engine>>,
    known: Arc<File>,
    fault: Mutex<Option<String>>,
}

impl Scene {
    fn is_over(&self) -> bool {
        self.counts.requests.load(Relaxed) >= self.requests || self.fault().is_some()
    }

    fn fault(&self) -> Option<String> {
        self.fault.lock().expect("nobody panics with it").clone()
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine.read().expect("nobody panics with it"))
    }
}

/// The content of word `at` of the known file: neighbours differ in all bytes (a
/// step of a Weyl sequence).
fn word(at: u64) -> u64 {
    (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// An engine of one sort or another.
fn engine(random: &mut Rng) -> Result<Arc<Engine>, String> {
    let config = Config {
        // Two for each thread: the former one is dropped when there is a new one.
        requesters: PLAYERS * 2,
        slots: [2, 7, 64, 512][random.usize(..4)],
        threads: [0, 3, 64][random.usize(..3)],
        retire: [Duration::from_micros(100), Duration::from_millis(5), Duration::MAX]
            [random.usize(..3)],
        help: random.u32(..8) != 0,
        ..Config::default()
    };
    Engine::new(&config).map(Arc::new).map_err(|error| error.to_string())
}

/// Makes `requests` requests and looks at what has come of them.
///
/// # Errors
/// The first discrepancy; or where nothing moves any more, and then the threads
/// hang on.
pub(crate) fn run(requests: u64, seed: u64) -> Result<Counts, String> {
    let mut random = Rng::with_seed(seed);
    let mut known = tempfile::tempfile().map_err(|error| error.to_string())?;
    let words: Vec<u8> = (0..WORDS).flat_map(|at| word(at).to_ne_bytes()).collect();
    known.write_all(&words).map_err(|error| error.to_string())?;
    let scene = Arc::new(Scene {
        seed,
        requests,
        counts: Counts::default(),
        engine: RwLock::new(engine(&mut random)?),
        known: Arc::new(known),
        fault: Mutex::new(None),
    });
    let players: Vec<_> = (0..=PLAYERS + SINGLES)
        .map(|number| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                let played = match number {
                    ..PLAYERS => Player::new(&scene, number).and_then(Player::play),
                    PLAYERS => ByHand::new(&scene, number).play(),
                    _ => Single::new(&scene, number).and_then(Single::play),
                };
                if let Err(fault) = played {
                    let mut first = scene.fault.lock().expect("nobody panics with it");
                    first.get_or_insert(format!("thread {number}: {fault}"));
                }
            })
        })
        .collect();
    watch(&scene, &mut random, || players.iter().all(|player| player.is_finished()))?;
    for player in players {
        player.join().map_err(|_| "a thread has panicked".to_owned())?;
    }
    match scene.fault() {
        Some(fault) => Err(fault),
        None => Ok(Arc::into_inner(scene).expect("the threads have ended").counts),
    }
}

/// Changes engines until all threads have ended.
fn watch(scene: &Scene, random: &mut Rng, ended: impl Fn() -> bool) -> Result<(), String> {
    let progress = || scene.counts.requests.load(Relaxed);
    let (mut seen, mut since) = (progress(), Instant::now());
    let mut change = Instant::now();
    while !ended() {
        thread::sleep(Duration::from_millis(2));
        let current = scene.engine();
        scene.counts.threads.fetch_max(current.threads() as u64, Relaxed);
        if seen != progress() {
            (seen, since) = (progress(), Instant::now());
        } else if since.elapsed() > PATIENCE {
            let fault = scene.fault().unwrap_or_default();
            return Err(format!("nothing moves after {seen} requests {fault}"));
        }
        if Instant::now() >= change && !scene.is_over() {
            change = Instant::now() + Duration::from_millis(random.u64(..LIFE_MS));
            // While the others work with it.
            if !current.shut_down(PATIENCE) {
                return Err(format!("{} threads do not end", current.threads()));
            }
            *scene.engine.write().expect("nobody panics with it") = engine(random)?;
            scene.counts.engines.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

#[allow(dead_code, reason = "the test that includes this file has its own")]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let requests: u64 = words.next().as_deref().unwrap_or("1000000").parse()?;
    let seed = words.next().map_or(Ok(fastrand::u64(..)), |seed| seed.parse())?;
    let begin = Instant::now();
    let outcome = run(requests, seed);
    let seconds = begin.elapsed().as_secs_f64();
    Ok(match outcome {
        Ok(counts) => {
            let all = counts.requests.load(Relaxed);
            println!("{all} requests in {seconds:.1} s (seed {seed}): each made once, all right");
            for (kind, count) in KINDS.iter().zip(&counts.kinds) {
                println!("  {:>12} {kind:?}", count.load(Relaxed));
            }
            let facts = [
                (&counts.effects, "effects found, once each"),
                (&counts.batches, "batches"),
                (&counts.awaited, "submitted one by one and awaited"),
                (&counts.taken_back, "taken back"),
                (&counts.dropped, "dropped"),
                (&counts.by_hand, "placed by hand"),
                (&counts.not_made, "not made by an engine that was shut down"),
                (&counts.lanes, "lanes changed hands"),
                (&counts.engines, "engines shut down in the middle"),
                (&counts.threads, "threads of an engine, at most"),
            ];
            for (count, what) in facts {
                println!("  {:>12} {what}", count.load(Relaxed));
            }
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("after {seconds:.1} s (seed {seed}): {fault}");
            ExitCode::FAILURE
        }
    })
}
