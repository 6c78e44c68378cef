//! Work beside a batch that calls fork(2): the calls stay the parent's.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use kumiki_parasc::op::{Close, Nanosleep, Write};
use kumiki_parasc::{Config, Engine, Error, Operation, Requester, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::time::Timespec;

use super::{ends, engine, getppid, parents, run};

/// How a child ends.
const BAD: i32 = 1;
const MIDST: i32 = 2;
const AFTERWARDS: i32 = 3;
/// Seconds after which a child hangs.
const PATIENCE: u32 = 20;

/// Forks beside the batch. The child ends once `judge` has found whether what it got
/// is right; the parent gets its outputs, and whether others had the calls then.
fn part<O: Operation>(
    requester: &mut Requester,
    operations: &mut [O],
    judge: impl FnOnce(&Result<Vec<O::Output>>, &mut [O]) -> bool,
) -> (Vec<O::Output>, bool) {
    let child = Cell::new(-1);
    let fork = || {
        // SAFETY: the child makes calls, allocates (the C library prepares its
        // allocator for that) and leaves below.
        child.set(unsafe { libc::fork() });
        if child.get() == 0 {
            // SAFETY: ends the child where it hangs; takes no pointer.
            unsafe { libc::alarm(PATIENCE) };
        }
    };
    let made = catch_unwind(AssertUnwindSafe(|| requester.run_while(operations, fork)));
    if child.get() == 0 {
        let code = catch_unwind(AssertUnwindSafe(|| {
            let made = made.unwrap().map(|(outputs, ())| outputs);
            let code = match made {
                Ok(_) => AFTERWARDS,
                Err(Error::Forked) => MIDST,
                Err(_) => BAD,
            };
            let good = judge(&made, operations);
            // And the requesting thread is as good as one of any child.
            let own = run(requester, &[getppid(); 300]) == [super::parent(); 300];
            if good && own { code } else { BAD }
        }));
        // SAFETY: leaves at once.
        unsafe { libc::_exit(code.unwrap_or(BAD)) }
    }
    let child = Pid::from_raw(child.get()).expect("fork has worked");
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
    let code = status.exit_status();
    assert!([Some(MIDST), Some(AFTERWARDS)].contains(&code), "{status:?}");
    (made.unwrap().unwrap().0, code == Some(MIDST))
}

/// A whole lane's worth at once, or in parts.
fn configs() -> [Config; 2] {
    [Config::default(), Config { slots: 16, ..Config::default() }]
}

#[test]
fn a_child_makes_none_of_the_calls_again() {
    ends(|| {
        let counters = [(); 64].map(|()| eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let mut midst = 0;
        for config in configs() {
            let engine = engine(config);
            let mut requester = engine.requester().unwrap();
            for _ in 0..200 {
                let one = || 1u64.to_ne_bytes();
                let mut adds: Vec<_> = counters.iter().map(|to| Write::new(to, one())).collect();
                let (outputs, forked) = part(&mut requester, &mut adds, |_, _| true);
                assert!(outputs.iter().all(|output| *output == Ok(8)));
                for counter in &counters {
                    let mut sum = [0; 8];
                    rustix::io::read(counter, &mut sum).unwrap();
                    assert_eq!(u64::from_ne_bytes(sum), 1);
                }
                midst += u32::from(forked);
                parents(&mut requester, 300);
            }
        }
        assert!(midst > 0 || available_parallelism().unwrap().get() == 1, "nothing was shared");
    });
}

#[test]
fn a_child_does_not_wait_for_calls_under_way() {
    ends(|| {
        for config in configs() {
            let engine = engine(config);
            let mut requester = engine.requester().unwrap();
            let time = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
            let mut sleeps: Vec<_> = (0..40).map(|_| Nanosleep::new(time)).collect();
            let begin = Instant::now();
            let (outputs, forked) = part(&mut requester, &mut sleeps, |made, _| {
                made.is_err() && begin.elapsed() < Duration::from_secs(u64::from(PATIENCE) / 2)
            });
            assert!(forked && outputs.iter().all(|output| *output == Ok(())));
        }
    });
}

fn closes() -> Vec<Close> {
    (0..100).map(|_| Close::new(File::open("/dev/null").unwrap())).collect()
}

/// The descriptor that it would close when dropped.
fn left(close: &mut Close) -> Option<i32> {
    i32::try_from(close.request().args[0]).ok()
}

fn is_open(number: i32) -> bool {
    // SAFETY: asks for a flag; takes no pointer.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

#[test]
fn no_close_has_a_descriptor_in_a_child_that_is_not_open_there() {
    ends(|| {
        let mut midst = 0;
        for config in configs() {
            let engine = engine(config);
            let mut requester = engine.requester().unwrap();
            for _ in 0..100 {
                let (outputs, forked) = part(&mut requester, &mut closes(), |made, closes| {
                    let mut left = closes.iter_mut().filter_map(left);
                    if made.is_ok() { left.next().is_none() } else { left.all(is_open) }
                });
                assert!(outputs.iter().all(Result::is_ok));
                midst += u32::from(forked);
            }
        }
        assert!(midst > 0 || available_parallelism().unwrap().get() == 1, "nothing was shared");
    });
}

#[test]
fn a_panic_in_a_child_goes_on() {
    ends(|| {
        let engine = Engine::new(&Config::default()).unwrap();
        let mut requester = engine.requester().unwrap();
        let time = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let mut sleeps: Vec<_> = (0..8).map(|_| Nanosleep::new(time)).collect();
        let child = Cell::new(-1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            requester.run_while(&mut sleeps, || {
                // SAFETY: as in `part`.
                child.set(unsafe { libc::fork() });
                if child.get() == 0 {
                    // SAFETY: as in `part`.
                    unsafe { libc::alarm(PATIENCE) };
                    std::panic::resume_unwind(Box::new(7));
                }
            })
        }));
        if child.get() == 0 {
            let good = panicked.is_err_and(|reason| reason.downcast_ref::<i32>() == Some(&7));
            // SAFETY: leaves at once.
            unsafe { libc::_exit(i32::from(!good)) }
        }
        assert!(panicked.unwrap().unwrap().0.iter().all(Result::is_ok));
        let child = Pid::from_raw(child.get()).expect("fork has worked");
        let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0), "{status:?}");
    });
}
