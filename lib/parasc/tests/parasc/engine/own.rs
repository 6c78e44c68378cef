//! Threads of the program that serve, alone and beside the engine's own: the paper's own
//! set-up. Calls that say who made them, and calls that sleep.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use kumiki_parasc::{Config, CpuSet, Engine, Request, Requester};

use super::{engine, run, until};
use crate::processing_thread::{self, Thread};

const NONE: Option<CpuSet> = Some(CpuSet::new());

fn config(cpus: Option<CpuSet>, threads: usize) -> Config {
    Config { cpus, threads, wrong_thread_answers: true, ..Config::default() }
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Who makes `count` calls, as the calls themselves say; without the calling thread.
fn makers(requester: &mut Requester, count: usize) -> BTreeSet<i64> {
    let mut makers: BTreeSet<i64> =
        run(requester, &vec![Request::new(libc::SYS_gettid, []); count]).into_iter().collect();
    // SAFETY: only asks.
    makers.remove(&i64::from(unsafe { libc::gettid() }));
    makers
}

/// The name of a thread of this process.
fn name(thread: i64) -> String {
    std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default()
}

/// Runs `work` beside so many threads of the program, called `own`, and ends them.
fn beside<T>(engine: &Engine, threads: usize, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        for _ in 0..threads {
            let named = thread::Builder::new().name("own".to_owned());
            named.spawn_scoped(scope, || engine.process()).unwrap();
        }
        let done = work();
        engine.shut_down_timeout(std::time::Duration::ZERO);
        done
    })
}

#[test]
fn whoever_serves_makes_calls_of_a_batch() {
    if cpus() < 2 {
        return println!("skipped: one cpu, where nobody is faster than the caller alone");
    }
    let mixtures =
        [(NONE, 0, 1), (NONE, 0, 3), (NONE, 0, 8), (NONE, 8, 2), (None, 0, 3), (None, 8, 3)];
    for (cpus, pool, own) in mixtures {
        for count in [10, 300] {
            let engine = engine(config(cpus.clone(), pool));
            let alone = cpus.is_some();
            let mut requester = engine.requester().unwrap();
            beside(&engine, own, || {
                let requester = std::cell::RefCell::new(&mut requester);
                until("calls made by others", || {
                    // Batches in a row, as whoever comes would sleep again.
                    let mut made =
                        (0..1000).flat_map(|_| makers(&mut requester.borrow_mut(), count));
                    made.any(|thread| {
                        let name = name(thread);
                        // Who spins for the engine is faster to come by; there is none, or
                        // only the pool, which is not for these.
                        assert!(!alone || name.trim() == "own", "{name}");
                        name.trim() == "own" || name.starts_with("parasc")
                    })
                });
            });
        }
    }
}

/// How many calls of one batch are under way at the same time: until so many are.
fn sleep_at_once(engine: &Engine, requester: &mut Requester, wanted: usize) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    let request = Request::new(libc::SYS_nanosleep, [(&raw const time).addr() as u64, 0]);
    let mine = format!("{} {:#x} 0x0 ", request.sysnum, request.args[0]);
    let sleeping = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let calls = tasks.map(|task| std::fs::read_to_string(task.path().join("syscall")));
        calls.flatten().filter(|call| call.starts_with(&mine)).count()
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            until("so many calls at once", || sleeping() >= wanted);
            over.store(true, Relaxed);
        });
        while !over.load(Relaxed) {
            let requests = vec![request; 3 * wanted];
            assert_eq!(run(requester, &requests), vec![0; 3 * wanted]);
        }
    });
    assert!(engine.threads() < 64);
}

#[test]
fn calls_that_sleep_are_for_all_who_serve() {
    let mixtures =
        [(NONE, 0, 1), (NONE, 0, 3), (NONE, 0, 8), (NONE, 4, 3), (None, 0, 3), (None, 4, 2)];
    for (cpus, pool, own) in mixtures {
        for help in [true, false] {
            let config = Config { help, ..config(cpus.clone(), pool) };
            let engine = engine(config);
            let mut requester = engine.requester().unwrap();
            // Without help a batch is left to the program's threads and one of a seat.
            let wanted = if help { 1 + pool + own } else { own };
            beside(&engine, own, || sleep_at_once(&engine, &mut requester, wanted));
        }
    }
}

#[test]
fn they_come_and_go_between_batches() {
    if cpus() < 2 {
        return println!("skipped: one cpu, where nobody is faster than the caller alone");
    }
    let engine = engine(config(NONE, 0));
    let requester = std::cell::RefCell::new(engine.requester().unwrap());
    let make = || makers(&mut requester.borrow_mut(), 300);
    let ends: [fn(Thread); 2] = [
        |thread| {
            thread.cancel();
            thread.join();
        },
        Thread::kill,
    ];
    for threads in 1..=4 {
        // Nobody is there, or one that is dead and was not found yet.
        (0..100).for_each(|_| assert!(make().is_empty()));
        let own: Vec<Thread> = (0..threads).map(|_| processing_thread::start(&engine)).collect();
        until("calls made by others", || (0..1000).any(|_| !make().is_empty()));
        own.into_iter().zip(ends.into_iter().cycle().skip(threads)).for_each(|(it, end)| end(it));
    }
}
