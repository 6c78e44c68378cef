//! Which cpus shadows take, and give back.

use std::thread;
use std::time::Duration;

use kumiki_shadow::{Builder, Error, Shadow};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::{common, turn};

/// A shadow on two cpus, if there are two.
fn on_two() -> Option<(Shadow, usize, usize)> {
    match Shadow::create() {
        Ok(shadow) => {
            let info = shadow.info().unwrap();
            Some((shadow, info.main_cpu, info.helper_cpu))
        }
        Err(Error::NoFreeCpu { allowed, .. }) if allowed.len() == 1 => {
            println!("skipped: needs a second cpu");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_last_shadow_gives_the_cpus_back() {
    let _turn = turn();
    let former = affinity::current().unwrap();
    let shared = || Builder::new().share().create().unwrap();
    let (first, second) = (shared(), shared());
    let bound = CpuSet::from_iter([second.info().unwrap().main_cpu]);
    drop(first);
    assert_eq!(affinity::current().unwrap(), bound);
    drop(second);
    assert_eq!(affinity::current().unwrap(), former);
}

#[test]
fn a_second_shadow_chooses_from_what_the_thread_may_use() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    let Some((_shadow, main, helper)) = on_two() else { return };
    match Shadow::create() {
        Ok(second) => {
            let info = second.info().unwrap();
            assert_eq!(info.main_cpu, main);
            assert!(info.helper_cpu != helper && allowed.contains(info.helper_cpu));
        }
        Err(Error::NoFreeCpu { allowed: among, taken }) => {
            assert_eq!(among, allowed);
            assert_eq!(taken, CpuSet::from_iter([main, helper]));
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_shared_cpu_is_taken_until_all_have_gone() {
    let _turn = turn();
    let Some((first, main, helper)) = on_two() else { return };
    let there = || Builder::new().main_cpu(main).helper_cpu(helper);
    let second = there().share().create().unwrap();
    drop(first);
    assert!(matches!(there().create(), Err(Error::NoFreeCpu { .. })));
    drop(second);
    drop(there().create().unwrap());
}

#[test]
fn a_main_thread_is_not_put_on_a_taken_cpu() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    let Some((_shadow, main, helper)) = on_two() else { return };
    thread::scope(|threads| {
        threads.spawn(|| {
            // It has inherited main's binding.
            affinity::set(&allowed).unwrap();
            for cpu in [main, helper] {
                let refused = Builder::new().main_cpu(cpu).create();
                assert!(matches!(refused, Err(Error::NoFreeCpu { .. })), "cpu {cpu}");
            }
            drop(Builder::new().main_cpu(helper).share().create().unwrap());
        });
    });
}

#[test]
fn a_shadow_of_a_job_shares_the_helpers_cpu() {
    let _turn = turn();
    let Some((mut shadow, main, helper)) = on_two() else { return };
    let alone = CpuSet::from_iter([helper]);
    shadow.scope(|scope| {
        let job = scope.fork(|| {
            match Shadow::create().err().expect("the helper's cpu is taken") {
                Error::NoFreeCpu { allowed, taken } => {
                    assert_eq!((&allowed, taken), (&alone, CpuSet::from_iter([main, helper])));
                }
                other => panic!("{other}"),
            }
            assert_eq!(affinity::current().unwrap(), alone);
            let mut inner = Builder::new().share().create().unwrap();
            let info = inner.info().unwrap();
            assert_eq!((info.main_cpu, info.helper_cpu), (helper, helper));
            assert_eq!(inner.both(|| 1, || 2), (1, 2));
            drop(inner);
            assert_eq!(affinity::current().unwrap(), alone);
            assert_eq!(Shadow::inline().both(|| 3, || 4), (3, 4));
        });
        // With a limit it is the helper's.
        job.join_timeout(Duration::from_secs(60)).ok().expect("in time").unwrap();
    });
    // Taken back, there may be cpus.
    match shadow.both(|| (), || Shadow::create().map(drop)).1 {
        Ok(()) | Err(Error::NoFreeCpu { .. }) => {}
        Err(other) => panic!("{other}"),
    }
    assert_eq!(shadow.both(|| 5, || 6), (5, 6));
}

#[test]
fn a_child_of_fork_has_all_cpus_to_itself() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    let Some((_shadow, main, _)) = on_two() else { return };
    // Some threads hold the lock at any time.
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                drop(Builder::new().share().create());
            }
        });
        for _ in 0..50 {
            let Some(child) = common::fork() else {
                common::exit(
                    affinity::set(&allowed).is_ok()
                        && Builder::new()
                            .main_cpu(main)
                            .create()
                            .is_ok_and(|mut own| own.both(|| 1, || 2) == (1, 2)),
                )
            };
            child.ended_well();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
