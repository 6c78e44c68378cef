//! Every wait has a form that ends in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::yield_now;
use std::time::Duration;

use kumiki_shadow::{Builder, Error, Policy, Shadow, Team, Threshold};

use crate::common::{Gate, shadow};

const NONE: Duration = Duration::ZERO;

#[test]
fn theirs_runs_in_time_or_not_at_all() {
    for mut shadow in [shadow(), Shadow::inline()] {
        let token = Arc::new(AtomicUsize::new(0));
        for (timeout, runs) in [(NONE, 0), (Duration::MAX, 1)] {
            let theirs = Arc::clone(&token);
            let job = move || theirs.fetch_add(1, Ordering::Relaxed);
            let (ours, theirs) = shadow.both_timeout(timeout, || 7, job);
            assert_eq!((ours, token.load(Ordering::Relaxed)), (7, runs));
            match theirs {
                Ok(before) => assert_eq!((before, runs), (0, 1)),
                Err(Error::TimedOut { done: 1, of: 2, timeout: NONE, .. }) => assert_eq!(runs, 0),
                Err(other) => panic!("{other}"),
            }
            assert_eq!(Arc::strong_count(&token), 1, "captures are dropped");
        }
    }
}

#[test]
fn theirs_is_waited_for_once_it_has_begun() {
    let mut shadow = shadow();
    let gate = Gate::default();
    let mut borrowed = 0;
    let limit = Duration::from_millis(200);
    let ours = || {
        // Without a cpu of its own the helper may come too late: then it will
        // not begin.
        let start = std::time::Instant::now();
        while gate.begun.load(Ordering::Acquire) == 0 && start.elapsed() < 2 * limit {
            yield_now();
        }
        std::thread::sleep(limit);
        gate.open();
    };
    let theirs = || {
        gate.pass();
        borrowed = 1;
    };
    let ((), theirs) = shadow.both_timeout(limit, ours, theirs);
    assert_eq!(theirs.is_ok(), borrowed == 1);
    assert_eq!(theirs.is_ok(), gate.begun.into_inner() == 1);
}

#[test]
fn a_job_that_nobody_has_joined_is_waited_for_in_the_same_time() {
    let mut shadow = shadow();
    let gate = Arc::new(Gate::default());
    let its = Arc::clone(&gate);
    shadow.fork(move || its.pass()).unwrap();
    let (ours, theirs) = shadow.both_timeout(Duration::from_millis(20), || 7, || 8);
    assert!(ours == 7 && matches!(theirs, Err(Error::TimedOut { done: 1, of: 2, .. })));
    gate.open();
    let (ours, theirs) = shadow.both_timeout(Duration::MAX, || 7, || 8);
    assert_eq!((ours, theirs.unwrap()), (7, 8));
}

#[test]
fn a_panic_crosses_a_limit() {
    let mut shadow = shadow();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        shadow.both_timeout(Duration::MAX, || (), || panic!("theirs"))
    }));
    assert_eq!(panic.err().unwrap().downcast_ref::<&str>(), Some(&"theirs"));
    assert_eq!(shadow.both(|| 1, || 2), (1, 2));
}

#[test]
fn a_limit_may_lie_past_the_end_of_the_clock() {
    let mut shadow = shadow();
    let got = shadow.scope(|scope| scope.fork(|| 3).join_timeout(Duration::MAX).ok());
    assert_eq!(got.unwrap().unwrap(), 3);
}

#[test]
fn a_shadow_whose_job_runs_is_handed_back() {
    let (mut shadow, gate) = (shadow(), Arc::new(Gate::default()));
    let theirs = Arc::clone(&gate);
    shadow.fork(move || theirs.pass()).unwrap();
    gate.wait_begun();
    for timeout in [NONE, Duration::from_millis(5)] {
        let Err(back) = shadow.destroy_timeout(timeout) else { panic!("the gate is closed") };
        shadow = back;
        assert!(shadow.is_busy() && !shadow.is_done());
        assert!(matches!(shadow.fork(|| ()), Err(Error::Busy)));
    }
    gate.open();
    assert!(shadow.destroy_timeout(Duration::MAX).is_ok());
    assert_eq!(Arc::strong_count(&gate), 1, "the job has ended");
}

/// The helper of the second one is asleep when a job comes.
fn awake_and_asleep() -> [Shadow; 2] {
    let at_once = Policy { threshold: Threshold::Ticks(0), ..Policy::default() };
    let asleep = Builder::new().share().policy(at_once).create().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    [shadow(), asleep]
}

#[test]
fn a_job_that_has_not_begun_is_left_to_the_helper() {
    // It ends only if this thread comes back and opens the gate.
    for mut shadow in awake_and_asleep() {
        let gate = Arc::new(Gate::default());
        let theirs = Arc::clone(&gate);
        shadow.fork(move || theirs.pass()).unwrap();
        for timeout in [NONE, Duration::from_millis(2)] {
            assert!(shadow.join_timeout(timeout).unwrap().is_none());
        }
        let Err(mut shadow) = shadow.destroy_timeout(NONE) else { panic!("the gate is closed") };
        gate.open();
        assert!(shadow.join_timeout(Duration::MAX).unwrap().unwrap().is_ok());
    }
    for mut shadow in awake_and_asleep() {
        let gate = Gate::default();
        shadow.scope(|scope| {
            let job = scope.fork(|| gate.pass());
            let job = job.join_timeout(NONE).expect_err("the gate is closed");
            let job = job.join_timeout(Duration::from_millis(2)).expect_err("it still is");
            gate.open();
            job.join().unwrap();
        });
    }
}

#[test]
fn a_shadow_without_a_job_is_destroyed_at_once() {
    for shadow in [shadow(), Shadow::inline()] {
        assert!(shadow.destroy_timeout(NONE).is_ok());
    }
    // Where there is no helper, what was forked runs here, as in a join.
    let (mut shadow, ran) = (Shadow::inline(), Arc::new(AtomicUsize::new(0)));
    let theirs = Arc::clone(&ran);
    shadow.fork(move || theirs.store(1, Ordering::Relaxed)).unwrap();
    assert!(shadow.destroy_timeout(NONE).is_ok());
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn a_creation_without_time_gives_a_shadow_or_an_error() {
    let mut late = 0;
    for _ in 0..50 {
        match Builder::new().share().create_timeout(NONE) {
            Ok(shadow) => assert!(shadow.destroy_timeout(NONE).is_ok()),
            Err(Error::TimedOut { done: 0, of: 1, timeout: NONE, .. }) => late += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(late > 0, "no thread starts in no time");
    let team = Team::create_timeout(1, &Policy::default(), NONE).unwrap();
    assert_eq!(team.size(), 1);
    team.destroy_timeout(NONE);
}
