//! Which cpus shadows take, and give back.

use std::thread;
use std::time::Duration;

use kumiki_shadow::{Builder, Error, Shadow};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::{common, turn};

/// A shadow on two cpus, if there are two.
fn on_two() -> Option<(Shadow, usize, usize)> {
    two(Builder::new())
}

fn two(builder: Builder) -> Option<(Shadow, usize, usize)> {
    match builder.create() {
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
    let shared = || Builder::new().bind_main(true).share().create().unwrap();
    let (first, second) = (shared(), shared());
    let bound = CpuSet::from_iter([second.info().unwrap().main_cpu]);
    drop(first);
    assert_eq!(affinity::current().unwrap(), bound);
    drop(second);
    assert_eq!(affinity::current().unwrap(), former);
}

/// What a program sees of its cpus: here, and in a thread started here.
fn seen() -> [(CpuSet, usize); 2] {
    let see = || (affinity::current().unwrap(), thread::available_parallelism().unwrap().get());
    [see(), thread::spawn(see).join().unwrap()]
}

#[test]
fn nothing_else_of_the_program_is_bound() {
    let _turn = turn();
    let before = seen();
    let mut shadow = Builder::new().share().create().unwrap();
    assert_eq!(seen(), before);
    assert_eq!(shadow.both(seen, || ()).0, before);
    let mut team = Builder::new().share().create_team(3).unwrap();
    assert_eq!(seen(), before);
    team.broadcast(|member| {
        if member == 0 {
            assert_eq!(seen(), before);
        }
    });
    drop((shadow, team));
    assert_eq!(seen(), before);
}

/// By choice it is, and so is what it starts; the next of ours is not.
#[test]
fn what_a_bound_main_thread_starts_may_have_shadows_on_all_cpus() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    let shadow = Builder::new().bind_main(true).share().create().unwrap();
    let main = shadow.info().unwrap().main_cpu;
    assert_eq!(seen()[1].0, CpuSet::from_iter([main]));
    thread::scope(|threads| {
        threads.spawn(|| {
            for cpu in allowed.iter() {
                let own = Builder::new().helper_cpu(cpu).share().create().unwrap();
                assert_eq!(own.info().unwrap().helper_cpu, cpu);
            }
        });
    });
    drop(shadow);
    assert_eq!(affinity::current().unwrap(), allowed);
}

/// As the kernel does it, which asks nobody.
fn move_to(cpu: usize) {
    affinity::request(None, &CpuSet::from_iter([cpu])).unwrap();
}

#[test]
fn the_helper_moves_when_its_main_thread_comes_onto_its_cpu() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    let Some((mut shadow, _, _)) = on_two() else { return };
    for _ in 0..20 {
        let cpu = shadow.info().unwrap().helper_cpu;
        move_to(cpu);
        // With a limit the job is left to the helper.
        let job = || (thread::current().name().map(str::to_owned), affinity::current().unwrap());
        let forked =
            shadow.scope(|scope| scope.fork(job).join_timeout(Duration::from_secs(60)).ok());
        let (name, cpus) = forked.expect("in time").unwrap();
        let info = shadow.info().unwrap();
        assert_eq!((info.main_cpu, cpus), (cpu, CpuSet::from_iter([info.helper_cpu])));
        assert!(info.helper_cpu != cpu && name.unwrap().starts_with("shadow-"));
        // Who asks where it is learns of the move: a shadow of a job, and who looks on.
        let of_job = || (affinity::bound(), affinity::unbound().unwrap());
        let forked =
            shadow.scope(|scope| scope.fork(of_job).join_timeout(Duration::from_secs(60)).ok());
        let of_job = forked.expect("in time").unwrap();
        assert_eq!(of_job, (Some(info.helper_cpu), allowed.clone()));
        let mut roll = kumiki_crew::roll::call();
        roll.retain(|seen| seen.kind == "shadow");
        assert_eq!(roll.iter().map(|seen| seen.cpu).collect::<Vec<_>>(), [Some(info.helper_cpu)]);
    }
    // What was left is free for others.
    let taken = shadow.info().unwrap();
    drop(shadow);
    affinity::request(None, &allowed).unwrap();
    drop(Builder::new().main_cpu(taken.main_cpu).helper_cpu(taken.helper_cpu).create().unwrap());
}

#[test]
fn a_helper_stays_where_it_was_put_by_choice() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    let Some((shadow, main, helper)) = on_two() else { return };
    drop(shadow);
    let mut shadow = Builder::new().helper_cpu(helper).create().unwrap();
    for cpu in [helper, main, helper] {
        move_to(cpu);
        assert_eq!(shadow.both(|| 1, || 2), (1, 2));
        let info = shadow.info().unwrap();
        assert_eq!((info.main_cpu, info.helper_cpu), (cpu, helper));
    }
    affinity::request(None, &allowed).unwrap();
}

#[test]
fn the_helpers_of_a_team_move_too() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    if allowed.len() < 2 {
        return println!("skipped: needs a second cpu");
    }
    // The kernel may move this thread while its team is made.
    (0..20).for_each(|_| drop(Builder::new().create_team(allowed.len()).unwrap()));
    let mut team = Builder::new().create_team(allowed.len()).unwrap();
    for _ in 0..10 {
        for cpu in allowed.iter() {
            move_to(cpu);
            team.broadcast(|_| ());
            let infos: Vec<_> = team.info().collect();
            assert!(infos.iter().all(|info| info.main_cpu == cpu));
            let helpers: CpuSet = infos.iter().map(|info| info.helper_cpu).collect();
            assert_eq!(helpers, allowed.difference(&CpuSet::from_iter([cpu])));
        }
    }
    affinity::request(None, &allowed).unwrap();
}

#[test]
fn a_second_shadow_chooses_from_what_the_thread_may_use() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    // So that it is where it was.
    let bound = || Builder::new().bind_main(true);
    let Some((_shadow, main, helper)) = two(bound()) else { return };
    match bound().create() {
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
fn a_shadow_of_a_job_has_the_helpers_cpu_for_its_main_thread() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    let Some((mut shadow, main, helper)) = two(Builder::new().bind_main(true)) else { return };
    let alone = CpuSet::from_iter([helper]);
    shadow.scope(|scope| {
        let job = scope.fork(|| {
            match Shadow::create() {
                Ok(inner) => {
                    let info = inner.info().unwrap();
                    assert!(info.main_cpu == helper && ![main, helper].contains(&info.helper_cpu));
                }
                Err(Error::NoFreeCpu { allowed: among, taken }) => {
                    assert_eq!((&among, taken), (&allowed, CpuSet::from_iter([main, helper])));
                }
                Err(other) => panic!("{other}"),
            }
            assert_eq!(affinity::current().unwrap(), alone);
            let mut inner = Builder::new().share().create().unwrap();
            assert_eq!(inner.info().unwrap().main_cpu, helper);
            assert_eq!(inner.both(|| 1, || 2), (1, 2));
            drop(inner);
            assert_eq!(affinity::current().unwrap(), alone);
            assert_eq!(Shadow::inline().both(|| 3, || 4), (3, 4));
        });
        // With a limit it is the helper's.
        job.join_timeout(Duration::from_secs(60)).expect("in time").unwrap();
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
