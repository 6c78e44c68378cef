//! What runs out: descriptors, threads, memory. Each in a process of its own.

use kumiki_parasc::{Config, Engine, Request};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::child::in_a_child;

use super::{engine, parent, parents, run, warm_up};

pub(crate) fn limit(resource: Resource, most: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(most), maximum }).unwrap();
}

/// Descriptors that a process may have: more than the harness leaves open.
const ROOM: u64 = 40;

#[test]
fn descriptors_are_exhausted() {
    in_a_child("engine::bad::descriptors_are_exhausted", || {
        for help in [true, false] {
            let engine = engine(Config { help, ..Config::default() });
            let mut requester = engine.requester().unwrap();
            warm_up(&engine, &mut requester);
            limit(Resource::Nofile, ROOM);
            let args = [libc::AT_FDCWD as u64, c"/dev/null".as_ptr() as u64, 0];
            let results = run(&mut requester, &[Request::new(libc::SYS_openat, args); 300]);
            let (open, refused): (Vec<i64>, Vec<i64>) = results.iter().partition(|fd| **fd >= 0);
            // As many as there was room for, each with a number of its own.
            assert!((1..=ROOM as usize).contains(&open.len()), "{open:?}");
            assert!(refused.iter().all(|error| *error == -i64::from(libc::EMFILE)));
            let closes: Vec<Request> =
                open.iter().map(|fd| Request::new(libc::SYS_close, [*fd as u64])).collect();
            assert_eq!(run(&mut requester, &closes), vec![0; open.len()]);
            // An engine needs no descriptor.
            parents(&mut super::engine(Config::default()).requester().unwrap(), 300);
        }
    });
}

/// Leaves this process without a right to another thread; `false` if that
/// cannot be done here.
fn no_more_threads() -> bool {
    if rustix::process::geteuid().is_root() {
        // Root has no such limit; a user without a process has.
        let user = 100_000 + std::process::id();
        // SAFETY: takes numbers only; the tests of this process are over then.
        if unsafe { libc::setresuid(user, user, user) } != 0 {
            return false;
        }
    }
    limit(Resource::Nproc, 0);
    std::thread::Builder::new().spawn(|| ()).is_err()
}

#[test]
fn no_thread_can_be_had() {
    in_a_child("engine::bad::no_thread_can_be_had", || {
        if !no_more_threads() {
            println!("skipped: the number of threads cannot be limited here");
            return;
        }
        for help in [true, false] {
            let engine = engine(Config { help, ..Config::default() });
            let mut requester = engine.requester().unwrap();
            for _ in 0..500 {
                parents(&mut requester, 300);
            }
            let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000 };
            let sleep = Request::new(libc::SYS_nanosleep, [&raw const time as u64, 0]);
            for _ in 0..50 {
                assert_eq!(run(&mut requester, &[sleep; 20]), [0; 20]);
            }
            assert_eq!(engine.threads(), 0);
            assert!(engine.shut_down_timeout(std::time::Duration::ZERO));
        }
    });
}

/// Bytes that this process has mapped.
pub(crate) fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn memory_is_exhausted() {
    in_a_child("engine::bad::memory_is_exhausted", || {
        // What the test itself needs is there.
        drop(vec![0u8; 100_000]);
        let config = Config { requesters: 61, slots: 4096, ..Config::default() };
        // An engine maps nothing by itself. A thread that gets a stack and has no room for its
        // first steps ends the process (`Engine::submit`, "Aborts"): some is left beside
        // stacks and the allocator's 64 MiB for a thread.
        for room in (15..24).map(|step| (1u64 << (10 + step)) - (16 << 20)) {
            limit(Resource::As, address_space() + room);
            let engine = Engine::new(&config).unwrap();
            let mut requester = engine.requester().unwrap();
            for _ in 0..100 {
                parents(&mut requester, 300);
            }
            drop(engine);
            assert_eq!(run(&mut requester, &[super::getppid(); 2]), [parent(); 2]);
        }
    });
}
