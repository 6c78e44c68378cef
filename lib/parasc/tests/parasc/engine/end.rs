//! Engines, threads and requesters that end while others go on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kumiki_parasc::{Config, Operation, Request};

use super::{PATIENCE, ends, engine, getppid, parent, parents, run, until, warm_up};

#[test]
fn an_engine_dropped_while_requesters_work() {
    ends(|| {
        for round in 0..40 {
            let engine = engine(Config { help: round % 4 != 0, ..Config::default() });
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let mut requester = engine.requester().unwrap();
                    thread::spawn(move || {
                        for batch in 0..200 {
                            parents(&mut requester, [300, 1, 2, 17][batch % 4]);
                        }
                    })
                })
                .collect();
            thread::sleep(Duration::from_micros(fastrand::u64(..4000)));
            drop(engine);
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        }
    });
}

#[test]
fn a_requester_outlives_its_engine() {
    ends(|| {
        let engine = engine(Config::default());
        let mut requester = engine.requester().unwrap();
        warm_up(&engine, &mut requester);
        assert!(engine.shut_down_timeout(PATIENCE));
        assert_eq!(engine.threads(), 0);
        parents(&mut requester, 1000);
        // Nor does the engine start threads again.
        assert_eq!(engine.threads(), 0);
        drop(engine);
        parents(&mut requester, 1000);
    });
}

#[test]
fn lanes_change_hands_under_processing_threads() {
    ends(|| {
        let engine = Arc::new(engine(Config { requesters: 2, ..Config::default() }));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let engine = Arc::clone(&engine);
                thread::spawn(move || {
                    for _ in 0..500 {
                        let mut requester = engine.requester().unwrap();
                        for _ in 0..fastrand::usize(..10) {
                            parents(&mut requester, fastrand::usize(..200));
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// getppid, whose caller fails before or after it.
struct Fails {
    before: bool,
    after: bool,
}

// SAFETY: getppid has no pointers and changes nothing.
unsafe impl Operation for Fails {
    type Output = i64;

    fn request(&mut self) -> Request {
        assert!(!self.before, "as a caller's code may");
        getppid()
    }

    unsafe fn complete(&mut self, ret_val: i64) -> i64 {
        assert!(!self.after, "as a caller's code may");
        ret_val
    }
}

#[test]
fn a_caller_that_panics_can_go_on() {
    ends(|| {
        let engine = engine(Config::default());
        let mut requester = engine.requester().unwrap();
        warm_up(&engine, &mut requester);
        for round in 0..50 {
            let bad = |at: usize| at == round * 2;
            let mut operations: Vec<Fails> = (0..100)
                .map(|at| Fails {
                    before: bad(at) && round % 2 == 0,
                    after: bad(at) && round % 2 == 1,
                })
                .collect();
            let panicked =
                catch_unwind(AssertUnwindSafe(|| requester.run(&mut operations).map(drop)));
            assert!(panicked.is_err());
            parents(&mut requester, 100);
            let mut good: Vec<Fails> =
                (0..100).map(|_| Fails { before: false, after: false }).collect();
            assert_eq!(requester.run(&mut good).unwrap(), vec![parent(); 100]);
        }
    });
}

#[test]
fn threads_retire_and_start_again() {
    ends(|| {
        for retire in [Duration::ZERO, Duration::from_millis(3)] {
            let engine = engine(Config { retire, help: false, ..Config::default() });
            let mut requester = engine.requester().unwrap();
            for _ in 0..20 {
                parents(&mut requester, 50);
                until("all threads have retired", || engine.threads() == 0);
            }
        }
    });
}

#[test]
fn threads_of_the_pool_retire_and_start_again() {
    ends(|| {
        for retire in [Duration::ZERO, Duration::from_millis(3)] {
            let engine = engine(Config { retire, threads: 5, ..Config::default() });
            let mut requester = engine.requester().unwrap();
            let time = libc::timespec { tv_sec: 0, tv_nsec: 500_000 };
            let sleep = Request::new(libc::SYS_nanosleep, [&raw const time as u64, 0]);
            for _ in 0..10 {
                assert_eq!(run(&mut requester, &[sleep; 20]), [0; 20]);
                assert_eq!(run(&mut requester, &[sleep; 2]), [0; 2]);
                until("all threads have retired", || engine.threads() == 0);
            }
        }
    });
}

#[test]
fn retiring_at_any_moment_loses_nothing() {
    ends(|| {
        let retire = Duration::from_micros(50);
        let engine = engine(Config { retire, help: false, ..Config::default() });
        let mut requester = engine.requester().unwrap();
        for _ in 0..2000 {
            parents(&mut requester, fastrand::usize(1..40));
            thread::sleep(Duration::from_micros(fastrand::u64(..200)));
        }
    });
}

#[test]
fn threads_that_never_retire() {
    ends(|| {
        let engine = engine(Config { retire: Duration::MAX, ..Config::default() });
        let mut requester = engine.requester().unwrap();
        warm_up(&engine, &mut requester);
        let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000 };
        let sleep = Request::new(libc::SYS_nanosleep, [&raw const time as u64, 0]);
        assert_eq!(run(&mut requester, &[sleep; 20]), [0; 20]);
        assert!(engine.threads() > 0);
        assert!(engine.shut_down_timeout(Duration::MAX));
        assert_eq!(engine.threads(), 0);
    });
}
