//! Random operations with faults, held against a model: is an answer lost, a call executed
//! twice, something left behind? `cargo xtask stress resource` makes ten million of them.
//! A process of its own: it has managers killed, lowers limits, and counts descriptors.

mod ledger;
mod worker;

use std::env;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use kumiki_resource::Interface;
use kumiki_sys::affinity;

use crate::ledger::{Ledger, THREADS};
use crate::worker::{Board, Outcome, Worker};

/// How many operations, if not said by [`OPERATIONS`].
const FEW: u64 = 100_000;
const OPERATIONS: &str = "KUMIKI_STRESS_OPERATIONS";
const SEED: &str = "KUMIKI_STRESS_SEED";

/// Who the managers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    /// The library's threads.
    PerCore,
    /// The same; one is killed on the way.
    Killed,
    /// The threads that make the operations.
    Adopted,
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Regions that are mapped, and addresses of spaces: all are of 1 MiB.
fn mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let bytes = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(number(end)? - number(start)?)
    };
    let space = |line: &str| {
        line.contains(" ---p ") && bytes(line).is_some_and(|n| (1 << 19..=1 << 20).contains(&n))
    };
    maps.lines().filter(|line| line.contains("memfd:kumiki-") || space(line)).count()
}

/// One interface from its beginning to its end; how many operations were made.
fn round(of: Type, operations: u64, rng: &mut Rng) -> Outcome {
    let live = Arc::new(AtomicUsize::new(0));
    let builder = Interface::builder().standard().kind::<Ledger>();
    let cpus: Vec<usize> = affinity::current().unwrap().iter().take(2).collect();
    let interface = match of {
        Type::PerCore | Type::Killed => builder.cores(cpus).per_core(),
        Type::Adopted => builder.cores([]).adopted(cpus).per_core(),
    }
    .unwrap();
    let places = interface.places();
    let threads = if of == Type::Adopted { places.len() } else { THREADS };
    let killed = (of == Type::Killed).then(|| places[rng.usize(..places.len())]);
    let kill_at = killed.map(|_| rng.u64(..operations / threads as u64));
    let board = Board::default();
    let (at_work, to_finish) = (AtomicUsize::new(threads), AtomicUsize::new(threads));
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let start = |thread: usize| {
            let (interface, board, at_work, places) =
                (&interface, &board, [&at_work, &to_finish], &places);
            let (live, rng) = (Arc::clone(&live), rng.fork());
            let manages = (of == Type::Adopted).then(|| places[thread]);
            scope.spawn(move || {
                let mut manager = manages.map(|place| interface.manage(place).unwrap());
                let kill = killed.zip(kill_at).filter(|_| thread == 0);
                let mut worker = Worker::new(interface, thread, board, live, killed, rng);
                for n in 0..operations / threads as u64 {
                    match kill {
                        Some((place, at)) if at == n => worker.kill(place),
                        _ => worker.step(),
                    }
                    manager.iter().for_each(|manager| _ = manager.serve());
                }
                // Others may still need this one, and the board's ledgers are checked when
                // all have written into them for the last time.
                let mut all_have = |done: &AtomicUsize| {
                    done.fetch_sub(1, Ordering::AcqRel);
                    while done.load(Ordering::Acquire) > 0 {
                        let soon = Duration::from_millis(1);
                        match &mut manager {
                            Some(manager) => manager.wait_timeout(soon),
                            None => thread::sleep(soon),
                        }
                    }
                };
                all_have(at_work[0]);
                let outcome = worker.finish();
                all_have(at_work[1]);
                outcome
            })
        };
        let started: Vec<_> = (0..threads).map(start).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(interface);
    let left = live.load(Ordering::Relaxed);
    assert_eq!(left, 0, "ledgers were never destroyed");
    outcomes.into_iter().fold(Outcome::default(), Outcome::and)
}

#[test]
fn random_operations_do_what_the_model_does() {
    let operations = number(OPERATIONS).unwrap_or(FEW);
    let seed = number(SEED).unwrap_or_else(|| fastrand::u64(..));
    println!("{operations} operations, {SEED}={seed}");
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<&str>();
        if !text.is_some_and(|text| text.contains(worker::ON_PURPOSE)) {
            hook(panic);
            // The other threads would wait for this one.
            std::process::exit(101);
        }
    }));
    let mut rng = Rng::with_seed(seed);
    let types = [Type::PerCore, Type::Adopted, Type::Killed];
    // What the first of a process makes for good, such as what a sleep costs.
    let mut sum = Outcome::default();
    for of in types {
        sum = sum.and(round(of, 400, &mut rng));
    }
    let before = (descriptors(), mappings());
    let mut rounds = 0;
    while sum.operations < operations {
        let of = types[rng.usize(..types.len())];
        let outcome = round(of, rng.u64(1000..20_000), &mut rng);
        assert_eq!((descriptors(), mappings()), before, "round {rounds}, {of:?}");
        sum = sum.and(outcome);
        rounds += 1;
        if rounds % 50 == 0 {
            println!("{rounds} rounds: {sum:?}");
        }
    }
    println!("{rounds} rounds: {sum:?}");
    assert!(sum.answered > 0 && sum.panicked > 0 && sum.refused > 0 && sum.unanswered > 0);
}
