//! What a shadow promises: results, borrows, panics, no hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kumiki_shadow::{Builder, Error, Policy, Shadow, Threshold};

use crate::child::in_a_child_with;
use crate::common::shadow;
use crate::filter::{REFUSE, filter};

#[test]
fn results_and_borrows_cross() {
    let mut shadow = shadow();
    let text = String::from("borrowed");
    let mut ours = 0;
    let (length, theirs) = shadow.both(
        || {
            ours += 1;
            text.len()
        },
        || text.to_uppercase(),
    );
    assert_eq!((ours, length, theirs.as_str()), (1, 8, "BORROWED"));
}

#[test]
fn many_jobs_each_run_once() {
    let mut shadow = shadow();
    let ran = AtomicUsize::new(0);
    for i in 0..100_000_u64 {
        let job = |x: u64| {
            ran.fetch_add(1, Ordering::Relaxed);
            x * 3
        };
        let got = shadow.scope(|scope| scope.fork(|| job(i)).join().unwrap());
        assert_eq!(got, i * 3);
    }
    assert_eq!(ran.into_inner(), 100_000);
}

#[test]
fn large_captures_and_results_travel_in_a_box() {
    let mut shadow = shadow();
    let large = [7_u8; 4096];
    let back = shadow.scope(|scope| scope.fork(move || large).join().unwrap());
    assert_eq!(back, large);
    #[repr(align(64))]
    struct Aligned(u8);
    let aligned = shadow.scope(|scope| scope.fork(|| Aligned(3)).join().unwrap());
    assert_eq!((aligned.0, &raw const aligned as usize % 64), (3, 0));
}

#[test]
fn a_panic_crosses_the_join_and_the_helper_lives_on() {
    let mut shadow = shadow();
    for _ in 0..3 {
        let panic = shadow.scope(|scope| scope.fork(|| -> u8 { panic!("in the job") }).join());
        let panic = panic.expect_err("the job panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the job"));
        assert_eq!(shadow.both(|| 1, || 2), (1, 2));
    }
    let ours = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        shadow.both(|| panic!("ours"), || std::thread::sleep(Duration::from_millis(20)));
    }));
    assert!(ours.is_err());
    assert_eq!(shadow.both(|| 3, || 4), (3, 4));
}

#[test]
fn a_dropped_job_has_ended_and_its_result_is_dropped() {
    let mut shadow = shadow();
    let token = std::sync::Arc::new(());
    let theirs = token.clone();
    shadow.scope(|scope| {
        drop(scope.fork(move || {
            std::thread::sleep(Duration::from_millis(5));
            theirs
        }));
        assert_eq!(std::sync::Arc::strong_count(&token), 1);
    });
}

#[test]
fn a_forgotten_job_has_ended_when_the_scope_has() {
    let mut shadow = shadow();
    let done = AtomicUsize::new(0);
    shadow.scope(|scope| {
        std::mem::forget(scope.fork(|| {
            std::thread::sleep(Duration::from_millis(5));
            done.fetch_add(1, Ordering::Relaxed);
        }));
        // The next fork waits for the forgotten one first.
        scope.fork(|| done.fetch_add(1, Ordering::Relaxed)).join().unwrap();
        std::mem::forget(scope.fork(|| {
            std::thread::sleep(Duration::from_millis(5));
            done.fetch_add(1, Ordering::Relaxed);
        }));
    });
    assert_eq!(done.into_inner(), 3);
}

#[test]
fn a_join_times_out_and_can_be_repeated() {
    let mut shadow = shadow();
    let (open, gate) = (AtomicUsize::new(0), AtomicUsize::new(0));
    shadow.scope(|scope| {
        let job = scope.fork(|| {
            open.store(1, Ordering::Release);
            while gate.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            42
        });
        // Once it has begun it cannot be taken back.
        while open.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        assert!(!job.is_done());
        let Err(job) = job.join_timeout(Duration::from_millis(5)) else {
            panic!("the gate is closed");
        };
        gate.store(1, Ordering::Release);
        assert_eq!(job.join().unwrap(), 42);
    });
}

/// Counts its drops, and runs when it is asked.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_job_that_is_cancelled_has_not_run_and_one_that_has_begun_is_not_cancelled() {
    let mut shadow = shadow();
    let (mut cancelled, mut ran) = (0, 0);
    for round in 0..2000 {
        let (dropped, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let is_back = shadow.scope(|scope| {
            let counted = Counted(&dropped);
            let (large, runs) = ([round; 20], &runs);
            let job = scope.fork(move || {
                let _held = counted;
                runs.fetch_add(large.len(), Ordering::Relaxed);
                large[7]
            });
            match job.cancel() {
                Ok(()) => true,
                Err(job) => {
                    assert_eq!(job.wait().unwrap(), round);
                    false
                }
            }
        });
        assert_eq!(dropped.into_inner(), 1);
        assert_eq!(runs.into_inner(), if is_back { 0 } else { 20 });
        if is_back {
            cancelled += 1
        } else {
            ran += 1
        }
        // It serves on.
        assert_eq!(shadow.both(|| 1, || 2), (1, 2));
        if round % 100 == 0 {
            // It sleeps: the next one is most likely taken back.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    println!("cancelled {cancelled}, ran {ran}");
    let (open, gate) = (AtomicUsize::new(0), AtomicUsize::new(0));
    shadow.scope(|scope| {
        let job = scope.fork(|| {
            open.store(1, Ordering::Release);
            while gate.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
        });
        while open.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let job = job.cancel().expect_err("it has begun");
        let job = job.wait_timeout(Duration::from_millis(1)).expect_err("the gate is closed");
        gate.store(1, Ordering::Release);
        job.wait().unwrap();
    });
}

#[test]
fn an_unscoped_job_is_cancelled_and_another_one_is_forked() {
    let mut shadow = Shadow::inline();
    assert!(matches!(shadow.cancel(), Err(Error::NotForked)));
    let count = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&count);
    shadow.fork(move || _ = theirs.fetch_add(1, Ordering::Relaxed)).unwrap();
    assert!(shadow.cancel().unwrap());
    assert!(!shadow.is_busy() && matches!(shadow.join(), Err(Error::NotForked)));
    assert_eq!((count.load(Ordering::Relaxed), Arc::strong_count(&count)), (0, 1));
    let theirs = Arc::clone(&count);
    shadow.fork(move || _ = theirs.fetch_add(1, Ordering::Relaxed)).unwrap();
    // Without a helper it runs here now.
    assert!(shadow.join_timeout(Duration::ZERO).unwrap().unwrap().is_ok());
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_helper_that_slept_serves_again() {
    let mut shadow = shadow();
    for pause_ms in [0, 1, 30, 0, 30] {
        std::thread::sleep(Duration::from_millis(pause_ms));
        assert_eq!(shadow.both(|| 1, || 2), (1, 2));
    }
}

#[test]
fn without_a_helper_the_environment_does_not_matter() {
    let name = "promises::without_a_helper_the_environment_does_not_matter";
    in_a_child_with([("KUMIKI_WAIT", "no such way".to_owned())], name, || {
        assert_eq!(Shadow::inline().both(|| 1, || 2), (1, 2));
    });
}

#[test]
fn a_shadow_gives_its_cpus_back() {
    let before = kumiki_sys::affinity::current().unwrap();
    for _ in 0..20 {
        let mut shadow = shadow();
        assert_eq!(shadow.both(|| 1, || 2), (1, 2));
    }
    assert_eq!(kumiki_sys::affinity::current().unwrap(), before);
}

#[test]
fn a_job_without_a_scope_is_joined_once() {
    for mut shadow in [shadow(), Shadow::inline()] {
        assert!(matches!(shadow.join(), Err(Error::NotForked)));
        assert!(matches!(shadow.join_timeout(Duration::ZERO), Err(Error::NotForked)));
        assert!(!shadow.is_done());
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..1000 {
            let theirs = ran.clone();
            shadow.fork(move || _ = theirs.fetch_add(1, Ordering::Relaxed)).unwrap();
            assert!(matches!(shadow.fork(|| unreachable!()), Err(Error::Busy)));
            shadow.join().unwrap().unwrap();
        }
        assert_eq!(ran.load(Ordering::Relaxed), 1000);
        assert!(matches!(shadow.join(), Err(Error::NotForked)));
        assert_eq!(Arc::strong_count(&ran), 1, "captures are dropped");

        shadow.fork(|| panic!("without a scope")).unwrap();
        let panic = shadow.join().unwrap().expect_err("the job panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"without a scope"));
        // A time past the end of the clock.
        shadow.fork(|| ()).unwrap();
        assert!(matches!(shadow.join_timeout(Duration::MAX), Ok(Some(Ok(())))));
    }
}

#[test]
fn a_join_without_a_scope_times_out_and_can_be_repeated() {
    let mut shadow = shadow();
    let gates = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let theirs = gates.clone();
    let job = move || {
        theirs.0.store(1, Ordering::Release);
        while theirs.1.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    };
    shadow.fork(job).unwrap();
    while gates.0.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    assert!(!shadow.is_done());
    assert!(matches!(shadow.join_timeout(Duration::from_millis(5)), Ok(None)));
    assert!(matches!(shadow.fork(|| ()), Err(Error::Busy)));
    gates.1.store(1, Ordering::Release);
    while !shadow.is_done() {
        std::thread::yield_now();
    }
    assert!(matches!(shadow.join_timeout(Duration::ZERO), Ok(Some(Ok(())))));
}

#[test]
fn a_job_that_nobody_joins_ends_with_the_shadow() {
    for mut shadow in [shadow(), Shadow::inline()] {
        let ran = Arc::new(AtomicUsize::new(0));
        let job = |ran: &Arc<AtomicUsize>| {
            let ran = ran.clone();
            move || {
                std::thread::sleep(Duration::from_millis(5));
                ran.fetch_add(1, Ordering::Relaxed);
                panic!("nobody sees this");
            }
        };
        // A scope in which nothing is forked has nothing to wait for.
        shadow.fork(job(&ran)).unwrap();
        shadow.scope(|_| ());
        assert!(shadow.is_busy());
        assert!(shadow.join().unwrap().is_err());
        shadow.fork(job(&ran)).unwrap();
        drop(shadow);
        assert_eq!(ran.load(Ordering::Relaxed), 2);
        assert_eq!(Arc::strong_count(&ran), 1);
    }
}

/// A limit, and no test takes so long.
const LONG: Duration = Duration::from_secs(60);

/// A helper on its main thread's cpu that does not get it while the main thread has
/// something to do.
fn kept_from_its_cpu() -> Shadow {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let policy = Policy { threshold: Threshold::Ticks(0), ..Policy::default() };
    let builder = Builder::new().main_cpu(cpu).helper_cpu(cpu).share().policy(policy);
    let mut shadow = builder.create().unwrap();
    let when_idle = || {
        // SAFETY: numbers alone, of which musl has more than one; 0 is the priority that this class has.
        let priority: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: changes this thread's class; `priority` is readable.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &priority) }
    };
    // With a limit a job is left to the helper, whose thread is to change.
    let changed = shadow.scope(|scope| scope.fork(when_idle).join_timeout(LONG).ok());
    assert_eq!(changed.unwrap().unwrap(), 0, "{}", std::io::Error::last_os_error());
    shadow
}

#[test]
fn what_the_helper_has_not_begun_runs_in_the_joining_thread() {
    const JOBS: usize = 1000;
    let mut shadow = kept_from_its_cpu();
    let here = std::thread::current().id();
    let (ran, boxed) = (AtomicUsize::new(0), [7_u8; 100]);
    let mut taken_back = 0;
    for _ in 0..JOBS {
        let job = || {
            ran.fetch_add(1, Ordering::Relaxed);
            (std::thread::current().id(), boxed)
        };
        let (thread, result) = shadow.scope(|scope| scope.fork(job).join().unwrap());
        taken_back += usize::from(thread == here);
        assert_eq!(result, boxed);
    }
    // An idle thread gets the cpu where a third one takes it from the joining one.
    assert!(taken_back > 0, "none of {JOBS} was taken back");
    assert_eq!(ran.load(Ordering::Relaxed), JOBS);

    // A panic is the join's here, too.
    let panic = shadow.scope(|scope| scope.fork(|| -> u8 { panic!("taken back") }).join());
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"taken back"));
    // With a limit the helper has it, late as it is.
    let job = || std::thread::current().id();
    let ran = shadow.scope(|scope| scope.fork(job).join_timeout(LONG).ok());
    assert_ne!(ran.unwrap().unwrap(), here);
}

/// A helper that has begun unseen would run the same request.
#[test]
fn nothing_is_taken_back_where_the_fence_fails() {
    // The filter is this thread's alone.
    let filtered = std::thread::spawn(|| {
        let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
        // On one cpu the helper is always late.
        let policy = Policy { threshold: Threshold::Ticks(0), ..Policy::default() };
        let builder = Builder::new().main_cpu(cpu).helper_cpu(cpu).share().policy(policy);
        let mut shadow = builder.create().unwrap();
        if !shadow.info().unwrap().asymmetric {
            println!("skipped: this kernel or a filter around us refuses membarrier");
            return;
        }
        filter(&[libc::SYS_membarrier], REFUSE);
        let here = std::thread::current().id();
        for _ in 0..50 {
            let job = || std::thread::current().id();
            let ran = shadow.scope(|scope| scope.fork(job).join().unwrap());
            assert_ne!(ran, here);
        }
    });
    filtered.join().unwrap();
}
