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
//! and one places them by hand. At times one or two of them are alone, so that others
//! have a cpu to make their calls on. Now and then the engine is shut down in the middle
//! and another one follows, with another backend, with or without an allow-list. It
//! has threads of the program among its processing threads, which are cancelled at
//! any moment, and signals interrupt all but the engine's own.
//!
//! Who is killed and not cancelled leaves a request of which nobody knows whether it
//! was made: for that there is a test of its own (`tests/parasc/open/mortal.rs`).
//!
//! Ends with 0 if all is right, with 1 and a word on what is wrong at the first
//! discrepancy or if nothing has moved for half a minute. `cargo xtask stress
//! parasc` runs it, and a test runs a short one.

mod by_hand;
mod counts;
mod hand;
mod kind;
mod player;
#[path = "../../tests/parasc/processing_thread.rs"]
mod processing_thread;
mod rain;
mod round;
mod single;
mod things;

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use by_hand::ByHand;
pub(crate) use counts::Counts;
use player::Player;
use round::{Deck, Round};
use single::Single;

/// Threads that run batches …
const PLAYERS: usize = 6;
/// … and those that submit requests one by one. One more places them by hand.
const SINGLES: usize = 2;
/// All of these.
const THREADS: usize = PLAYERS + SINGLES + 1;
/// Words of the file that is read; word i holds `word(i)`.
const WORDS: u64 = 1 << 16;
/// Nothing for so long is a hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// What all threads share.
struct Scene {
    seed: u64,
    /// When so many requests have been made, and some of each sort, all is over; or after [`PATIENCE`] without one of
    /// these.
    requests: u64,
    begin: Instant,
    counts: Counts,
    round: RwLock<Arc<Round>>,
    known: Arc<File>,
    fault: Mutex<Option<String>>,
}

impl Scene {
    fn is_over(&self) -> bool {
        let made = self.counts.requests.load(Relaxed) >= self.requests;
        let had = || self.counts.missing().is_empty() || self.begin.elapsed() > PATIENCE;
        made && had() || self.fault().is_some()
    }

    fn fault(&self) -> Option<String> {
        self.fault.lock().expect("nobody panics with it").clone()
    }

    fn round(&self) -> Arc<Round> {
        Arc::clone(&self.round.read().expect("nobody panics with it"))
    }

    /// Returns when thread `number` is one of the round's, or all is over.
    fn await_turn(&self, number: usize) {
        while !self.is_over() && !self.round().has(number) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The content of word `at` of the known file: neighbours differ in all bytes (a
/// step of a Weyl sequence).
fn word(at: u64) -> u64 {
    (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Makes `requests` requests and looks at what has come of them.
///
/// # Errors
/// The first discrepancy; or where nothing moves any more, and then the threads
/// hang on.
pub(crate) fn run(requests: u64, seed: u64) -> Result<Counts, String> {
    let mut known = tempfile::tempfile().map_err(|error| error.to_string())?;
    let words: Vec<u8> = (0..WORDS).flat_map(|at| word(at).to_ne_bytes()).collect();
    known.write_all(&words).map_err(|error| error.to_string())?;
    rain::interrupt();
    let (mut deck, counts) = (Deck::new(seed), Counts::default());
    let first = deck.draw(&counts.drawn)?;
    let scene = Arc::new(Scene {
        seed,
        requests,
        begin: Instant::now(),
        counts,
        round: RwLock::new(Arc::new(first)),
        known: Arc::new(known),
        fault: Mutex::new(None),
    });
    let players: Vec<_> = (0..THREADS)
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
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| rain::rain(&scene, &players, &over));
        let ended = || players.iter().all(|player| player.is_finished());
        let watched = watch(&scene, &mut deck, ended);
        over.store(true, Relaxed);
        watched
    })?;
    for player in players {
        player.join().map_err(|_| "a thread has panicked".to_owned())?;
    }
    match scene.fault() {
        Some(fault) => Err(fault),
        None => Ok(Arc::into_inner(scene).expect("the threads have ended").counts),
    }
}

/// Changes engines until all threads have ended.
fn watch(scene: &Scene, deck: &mut Deck, ended: impl Fn() -> bool) -> Result<(), String> {
    let progress = || scene.counts.requests.load(Relaxed);
    let (mut seen, mut since) = (progress(), Instant::now());
    let mut begin = Instant::now();
    while !ended() {
        thread::sleep(Duration::from_millis(2));
        let current = scene.round();
        scene.counts.threads.fetch_max(current.engine.threads() as u64, Relaxed);
        if seen != progress() {
            (seen, since) = (progress(), Instant::now());
        } else if since.elapsed() > PATIENCE {
            let fault = scene.fault().unwrap_or_default();
            return Err(format!("nothing moves after {seen} requests {fault}"));
        }
        if begin.elapsed() >= current.life && !scene.is_over() {
            // While the others work with it.
            if !current.engine.shut_down_timeout(PATIENCE) {
                return Err(format!("{} threads do not end", current.engine.threads()));
            }
            let next = deck.draw(&scene.counts.drawn)?;
            *scene.round.write().expect("nobody panics with it") = Arc::new(next);
            begin = Instant::now();
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
            print!("{counts}");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("after {seconds:.1} s (seed {seed}): {fault}");
            ExitCode::FAILURE
        }
    })
}
