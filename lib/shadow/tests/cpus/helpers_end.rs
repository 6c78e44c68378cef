//! Helpers end, whatever happens: also one that a thread of higher priority keeps
//! from its cpu. One after the other in a process of their own, as they count its
//! helpers.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, spawn, yield_now};
use std::time::Duration;

use kumiki_shadow::{Builder, Error, Policy, Team, Threshold};
use kumiki_sys::affinity;

use crate::child::in_a_child;
use crate::turn;

const LIMIT: Duration = Duration::from_millis(10);

#[test]
fn helpers_end() {
    let _turn = turn();
    in_a_child("helpers_end::helpers_end", one_after_the_other);
}

fn one_after_the_other() {
    what_a_job_has_panicked_with_panics_when_dropped();
    creation_and_end_do_not_wait_for_a_helper_that_is_kept_from_its_cpu();
}

fn what_a_job_has_panicked_with_panics_when_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let mut shadow = Builder::new().share().create().unwrap();
    let cpu = shadow.info().unwrap().helper_cpu;
    shadow.fork(|| panic_any(Bomb)).unwrap();
    assert_eq!(helpers(cpu), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(shadow))).is_err());
    while helpers(cpu) > 0 {
        yield_now();
    }
}

fn creation_and_end_do_not_wait_for_a_helper_that_is_kept_from_its_cpu() {
    let before = affinity::current().unwrap();
    let mut cpus = before.iter();
    let (Some(ours), Some(theirs)) = (cpus.next(), cpus.next()) else {
        return println!("skipped: needs two cpus");
    };
    if Hog::on(theirs).is_none() {
        return println!("skipped: may not use SCHED_FIFO");
    }
    let pair = || Builder::new().main_cpu(ours).helper_cpu(theirs);
    let gone = || {
        while helpers(theirs) > 0 {
            yield_now();
        }
    };
    in_one_of_ten(|| {
        let hog = Hog::on(theirs).unwrap();
        let late = pair().create_timeout(LIMIT);
        assert_eq!(affinity::current().unwrap() == before, late.is_err());
        drop(hog);
        let seen = timed_out(late.err());
        // Neither cpu is taken any more, and a late helper ends.
        let shadow = pair().create_timeout(Duration::MAX).unwrap();
        while helpers(theirs) > 1 {
            yield_now();
        }
        drop(shadow);
        seen
    });

    // Asleep, so that nobody but the hog is on its cpu.
    let at_once = Policy { threshold: Threshold::Ticks(0), ..Policy::default() };
    in_one_of_ten(|| {
        let mut shadow = pair().policy(at_once).create().unwrap();
        assert_eq!(shadow.both(|| 1, || 2), (1, 2));
        let hog = Hog::on(theirs).unwrap();
        assert!(shadow.destroy_timeout(LIMIT).is_ok());
        let seen = helpers(theirs) == 1;
        assert_eq!(affinity::current().unwrap(), before);
        drop(hog);
        gone();
        seen
    });

    // The same for a team; a shadow keeps its main thread where it is.
    let _here = Builder::new().main_cpu(ours).helper_cpu(ours).share().create().unwrap();
    in_one_of_ten(|| {
        let hog = Hog::on(theirs).unwrap();
        let late = Team::create_timeout(2, &at_once, LIMIT);
        drop(hog);
        timed_out(late.err())
    });
    let team = Team::create_timeout(2, &at_once, Duration::MAX).unwrap();
    let hog = Hog::on(theirs).unwrap();
    team.destroy_timeout(LIMIT);
    drop(hog);
    gone();
}

/// Asks up to ten times whether a helper was kept from its cpu: Linux lends a cpu that
/// one of higher priority holds to the others for 50 ms of each second, and a helper
/// that is there then is on it in time.
fn in_one_of_ten(kept_away: impl FnMut() -> bool) {
    assert!(std::iter::repeat_with(kept_away).take(10).any(|seen| seen), "it was waited for");
}

/// Whether creation ended by its limit.
fn timed_out(error: Option<Error>) -> bool {
    match error {
        None => false,
        Some(Error::TimedOut { done: 0, of: 1, timeout: LIMIT, .. }) => true,
        other => panic!("{other:?}"),
    }
}

/// A thread that lets no other run on a cpu until it is dropped.
struct Hog {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// `None` if that is not allowed.
    fn on(cpu: usize) -> Option<Hog> {
        let over = Arc::new(AtomicBool::new(false));
        let (ready, begun) = channel();
        let until = Arc::clone(&over);
        let thread = spawn(move || {
            let _bound = affinity::bind(cpu).unwrap();
            // SAFETY: numbers alone, of which musl has more than one.
            let mut least: libc::sched_param = unsafe { std::mem::zeroed() };
            least.sched_priority = 1;
            // SAFETY: changes the calling thread; `least` is readable.
            let allowed = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) } == 0;
            ready.send(allowed).unwrap();
            while allowed && !until.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let hog = Hog { over, thread: Some(thread) };
        begun.recv().unwrap().then_some(hog)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// How many helpers there are for this cpu.
fn helpers(cpu: usize) -> usize {
    let name = format!("shadow-{cpu}\n");
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // One that has just ended has no name.
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| *found == name).count()
}
