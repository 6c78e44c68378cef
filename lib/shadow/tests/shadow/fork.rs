//! What a shadow promises in a child of fork(2), where its helper is not: its own
//! jobs run, the parent's are refused unless they had ended, nothing hangs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kumiki_shadow::{Error, Shadow, Team};

use crate::child::in_a_child;
use crate::common::{Gate, exit, fork, shadow};

/// Panics without a word: in a child of many threads nobody may need their locks.
fn panics(with: &'static str) {
    resume_unwind(Box::new(with));
}

fn is(panic: &(dyn Any + Send), with: &str) -> bool {
    panic.downcast_ref::<&str>() == Some(&with)
}

fn caught<T>(body: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(body))
}

/// Whether `body` panics with the text of the error.
fn is_orphaned<T>(body: impl FnOnce() -> T) -> bool {
    let panic = caught(body).err();
    panic.is_some_and(|p| p.downcast_ref::<String>() == Some(&Error::Orphaned.to_string()))
}

/// Serves as one without a helper does, panics included.
fn serves(shadow: &mut Shadow) -> bool {
    let twice = (0..2).all(|_| shadow.both(|| 1, || 2) == (1, 2));
    let joined = shadow.scope(|scope| scope.fork(|| panics("job")).join());
    let crossed = caught(|| shadow.both(|| (), || panics("theirs")));
    let unscoped = shadow.fork(|| panics("unscoped")).is_ok() && !shadow.is_done();
    let timed =
        matches!(shadow.join_timeout(Duration::ZERO), Ok(Some(Err(p))) if is(&*p, "unscoped"));
    let [joined, crossed] = [(joined, "job"), (crossed.map(drop), "theirs")]
        .map(|(result, with)| result.is_err_and(|panic| is(&*panic, with)));
    twice && joined && crossed && unscoped && timed
}

/// A shadow whose unscoped job runs.
fn busy() -> (Shadow, Arc<Gate>) {
    let (mut shadow, gate) = (shadow(), Arc::new(Gate::default()));
    let theirs = Arc::clone(&gate);
    shadow.fork(move || theirs.pass()).unwrap();
    gate.wait_begun();
    (shadow, gate)
}

#[test]
fn a_child_runs_jobs_itself() {
    let mut shadow = shadow();
    assert_eq!(shadow.both(|| 1, || 2), (1, 2));
    let Some(child) = fork() else { exit(serves(&mut shadow)) };
    child.ended_well();
    assert_eq!(shadow.both(|| 5, || 6), (5, 6));
}

#[test]
fn a_running_job_cannot_be_joined_in_the_child() {
    let joins: [fn(&mut Shadow) -> Option<Error>; 2] =
        [|shadow| shadow.join().err(), |shadow| shadow.join_timeout(Duration::MAX).err()];
    for join in joins {
        let (mut shadow, gate) = busy();
        let Some(child) = fork() else {
            let refused = shadow.is_busy()
                && !shadow.is_done()
                && matches!(shadow.fork(|| ()), Err(Error::Busy))
                && matches!(join(&mut shadow), Some(Error::Orphaned))
                && matches!(join(&mut shadow), Some(Error::NotForked));
            exit(refused && serves(&mut shadow))
        };
        child.ended_well();
        gate.open();
        shadow.join().unwrap().unwrap();
    }
}

#[test]
fn a_running_job_of_a_scope_cannot_be_joined_in_the_child() {
    let (mut shadow, gate) = (shadow(), Gate::default());
    shadow.scope(|scope| {
        let job = scope.fork(|| gate.pass());
        gate.wait_begun();
        let Some(child) = fork() else { exit(!job.is_done() && is_orphaned(|| job.join())) };
        child.ended_well();
        let Some(child) = fork() else {
            exit(is_orphaned(|| job.join_timeout(Duration::ZERO).ok()))
        };
        child.ended_well();
        gate.open();
        job.join().unwrap();
    });
}

#[test]
fn a_scope_with_a_running_job_ends_in_the_child() {
    for forgotten in [false, true] {
        let (mut shadow, gate) = (shadow(), Gate::default());
        let child = shadow.scope(|scope| {
            let job = scope.fork(|| gate.pass());
            gate.wait_begun();
            let child = fork();
            if child.is_some() {
                gate.open();
            }
            if forgotten {
                std::mem::forget(job);
            }
            child
        });
        let Some(child) = child else { exit(serves(&mut shadow)) };
        child.ended_well();
    }
}

#[test]
fn a_panic_in_the_child_crosses_a_scope_with_a_running_job() {
    let (mut shadow, gate) = (shadow(), Gate::default());
    let mut child = None;
    let both = caught(|| {
        shadow.both(
            || {
                gate.wait_begun();
                child = fork();
                if child.is_none() {
                    panics("ours");
                }
                gate.open();
            },
            || gate.pass(),
        )
    });
    let Some(child) = child else {
        exit(both.is_err_and(|panic| is(&*panic, "ours")) && serves(&mut shadow))
    };
    child.ended_well();
    assert!(both.is_ok());
}

#[test]
fn both_of_which_one_stayed_in_the_parent_panics() {
    let (mut shadow, gate) = (shadow(), Gate::default());
    let mut child = None;
    let both = || {
        let ours = || {
            gate.wait_begun();
            child = fork();
            if child.is_some() {
                gate.open();
            }
        };
        shadow.both(ours, || gate.pass());
    };
    let orphaned = is_orphaned(both);
    let Some(child) = child else { exit(orphaned && serves(&mut shadow)) };
    child.ended_well();
    assert!(!orphaned);
}

#[test]
fn a_busy_shadow_is_destroyed_in_the_child() {
    let destroys: [fn(Shadow) -> bool; 2] = [
        |shadow| caught(|| drop(shadow)).is_ok(),
        |shadow| shadow.destroy_timeout(Duration::MAX).is_ok(),
    ];
    for destroy in destroys {
        let (mut shadow, gate) = busy();
        let Some(child) = fork() else { exit(destroy(shadow)) };
        child.ended_well();
        gate.open();
        shadow.join().unwrap().unwrap();
    }
}

#[test]
fn what_had_ended_is_joined_on_both_sides() {
    let mut shadow = shadow();
    let boxed = [7_u8; 100];
    shadow.scope(|scope| {
        let job = scope.fork(|| boxed);
        while !job.is_done() {
            thread::yield_now();
        }
        let Some(child) = fork() else {
            exit(job.is_done() && job.join().is_ok_and(|b| b == boxed))
        };
        child.ended_well();
        let Some(child) = fork() else {
            exit(job.join_timeout(Duration::ZERO).is_ok_and(|r| r.is_ok_and(|b| b == boxed)))
        };
        child.ended_well();
        assert_eq!(job.join().unwrap(), boxed);
    });
    shadow.fork(|| panics("unscoped")).unwrap();
    while !shadow.is_done() {
        thread::yield_now();
    }
    let Some(child) = fork() else {
        exit(shadow.is_done() && matches!(shadow.join(), Ok(Err(p)) if is(&*p, "unscoped")))
    };
    child.ended_well();
    assert!(is(&*shadow.join().unwrap().unwrap_err(), "unscoped"));
}

#[test]
fn a_broadcast_that_is_split_by_a_fork_panics_in_the_child() {
    // Other tests take cpus.
    in_a_child("fork::a_broadcast_that_is_split_by_a_fork_panics_in_the_child", split_broadcast);
}

fn split_broadcast() {
    let Ok(mut team) = Team::create(2) else {
        println!("skipped: needs a second cpu to itself");
        return;
    };
    let gate = Gate::default();
    let child = Mutex::new(None);
    let orphaned = is_orphaned(|| {
        team.broadcast(|member| {
            if member > 0 {
                return gate.pass();
            }
            gate.wait_begun();
            let made = fork();
            if made.is_some() {
                gate.open();
            }
            *child.lock().unwrap() = made;
        });
    });
    let Some(child) = child.into_inner().unwrap() else { exit(orphaned) };
    child.ended_well();
    assert!(!orphaned);
}
