//! What a team promises: everything once, barriers, panics, no hang.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_shadow::{Builder, Error, Shadow, Team};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::Relation;

use crate::{common, turn};

/// A team of two, or of one where there is no second cpu; and larger ones, whose
/// members may have to share cpus.
fn each_team(test: impl Fn(Team)) {
    let _turn = turn();
    test(match Team::create(2) {
        Ok(team) => team,
        Err(Error::NoFreeCpu { allowed, .. }) if allowed.len() == 1 => {
            println!("a team of one: only cpu {allowed} is allowed");
            Team::inline()
        }
        Err(error) => panic!("{error}"),
    });
    // Of 16 and more some hand work on.
    for size in [3, 5, 19] {
        test(Builder::new().share().create_team(size).unwrap());
    }
}

fn counters(n: usize) -> Vec<AtomicUsize> {
    (0..n).map(|_| AtomicUsize::new(0)).collect()
}

fn counts(counters: &[AtomicUsize]) -> Vec<usize> {
    counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect()
}

#[test]
fn it_covers_everything_once() {
    each_team(|mut team| {
        for n in [0, 1, 7, 1000, 4097, 100_000] {
            let seen = counters(n);
            let see = |range: std::ops::Range<usize>| {
                for i in range {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                }
            };
            team.for_each(n, 16, see);
            assert!(counts(&seen).iter().all(|&count| count == 1), "{n}");
            team.for_each_timeout(n, 16, Duration::MAX, see).unwrap();
            assert!(counts(&seen).iter().all(|&count| count == 2), "{n}");
            let expected = (n > 0).then(|| n * (n - 1) / 2);
            let sum = |range: std::ops::Range<usize>| range.sum::<usize>();
            assert_eq!(team.reduce(n, 16, sum, |a, b| a + b), expected);
            let timed = team.reduce_timeout(n, 16, Duration::MAX, sum, |a, b| a + b);
            assert_eq!(timed.unwrap(), expected);
        }
    });
}

#[test]
fn sizes_near_the_largest_number_are_covered_once() {
    each_team(|mut team| {
        // Two grains are more than a number can say.
        for n in [1, 10, usize::MAX] {
            team.for_each(n, usize::MAX, |range| assert_eq!(range, 0..n));
            assert_eq!(team.reduce(n, usize::MAX, |range| range, |_, _| panic!("one")), Some(0..n));
        }
        // What follows the last range would begin there, or at 0 again.
        let third = usize::MAX / 3;
        for grain in [third, third + 1, usize::MAX / 2] {
            let seen = Mutex::new(Vec::new());
            let see = |range| seen.lock().unwrap().push(range);
            let check = || {
                let mut seen = std::mem::take(&mut *seen.lock().unwrap());
                seen.sort_by_key(|range: &std::ops::Range<usize>| range.start);
                let end = seen.iter().fold(0, |end, range| {
                    assert_eq!(range.start, end);
                    range.end
                });
                assert_eq!(end, usize::MAX);
            };
            team.for_each(usize::MAX, grain, see);
            check();
            team.for_each_timeout(usize::MAX, grain, Duration::MAX, see).unwrap();
            check();
        }
    });
}

#[test]
fn members_meet_at_a_barrier() {
    each_team(|mut team| {
        let members = AtomicUsize::new(0);
        let (barrier, size) = (team.barrier(), team.size());
        team.broadcast(|_| {
            for round in 1..=100 {
                members.fetch_add(1, Ordering::Relaxed);
                barrier.wait();
                assert_eq!(members.load(Ordering::Relaxed), round * size);
                barrier.wait_timeout(Duration::MAX).unwrap();
            }
        });
    });
}

#[test]
fn a_panic_of_any_member_crosses() {
    each_team(|mut team| {
        for panics in 0..team.size() {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                team.broadcast(|member| assert_ne!(member, panics, "one of them"));
            }));
            assert!(panicked.is_err(), "member {panics}");
        }
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            team.broadcast(|member| assert_eq!(member, 0, "all but the caller panic"));
        }));
        assert_eq!(panicked.is_err(), team.size() > 1);
        team.broadcast(|_| ());
    });
}

#[test]
fn a_panic_leaves_nobody_at_the_barrier() {
    each_team(|mut team| {
        let barrier = team.barrier();
        for panics in 0..team.size() {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                team.broadcast(|member| {
                    assert_ne!(member, panics, "does not come");
                    barrier.wait();
                });
            }));
            assert!(panicked.is_err());
            // It serves the next broadcast.
            team.broadcast(|_| barrier.wait());
        }
    });
}

/// Counts how many of it there are.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(alive: &'a AtomicUsize) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted(alive)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn results_are_dropped_whoever_panics() {
    each_team(|mut team| {
        let (alive, size) = (AtomicUsize::new(0), team.size());
        for panics in 0..size {
            // One range a member, of which nobody takes another's.
            let reduced = catch_unwind(AssertUnwindSafe(|| {
                let map = |range: std::ops::Range<usize>| {
                    assert_ne!(range.start, panics, "no result");
                    Counted::new(&alive)
                };
                drop(team.reduce(size, 1, map, |a, _| a));
            }));
            assert!(reduced.is_err());
            assert_eq!(alive.load(Ordering::Relaxed), 0, "member {panics} of {size} has panicked");
        }
    });
}

#[test]
fn what_has_not_begun_in_time_does_not_begin() {
    each_team(|mut team| {
        let none = Duration::ZERO;
        let ran = AtomicUsize::new(0);
        let run = || _ = ran.fetch_add(1, Ordering::Relaxed);
        let size = team.size();
        for error in [
            team.for_each_timeout(100, 10, none, |_| run()).unwrap_err(),
            team.for_each_timeout(1, 10, none, |_| run()).unwrap_err(),
            team.reduce_timeout(100, 10, none, |_| run(), |(), ()| ()).unwrap_err(),
            team.reduce_timeout(1, 10, none, |_| run(), |(), ()| ()).unwrap_err(),
            team.broadcast_timeout(none, |_| run()).unwrap_err(),
        ] {
            let Error::TimedOut { done: 0, of, timeout, .. } = error else { panic!("{error}") };
            assert!([1, 100, size].contains(&of) && timeout == none, "{error}");
        }
        assert_eq!(ran.into_inner(), 0);
        // Nothing to do is always done in time.
        team.for_each_timeout(0, 10, none, |_| unreachable!()).unwrap();
        team.broadcast_timeout(Duration::MAX, |_| ()).unwrap();
    });
}

#[test]
fn a_time_out_leaves_the_first_elements_done() {
    each_team(|mut team| {
        const N: usize = 1_000_000;
        let seen = counters(N);
        // All of it would take 50 seconds on two cpus.
        let slow = |range: std::ops::Range<usize>| {
            for i in range {
                seen[i].fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let error = team.for_each_timeout(N, 10, Duration::from_millis(20), slow).unwrap_err();
        let Error::TimedOut { what, done, of: N, .. } = error else { panic!("{error}") };
        assert_eq!((what, done % 10), ("elements were done", 0));
        assert!(counts(&seen).iter().enumerate().all(|(i, &count)| count == usize::from(i < done)));
        // The team serves on.
        assert_eq!(team.reduce(10, 1, |range| range.len(), |a, b| a + b), Some(10));
    });
}

#[test]
fn a_member_that_has_begun_is_waited_for() {
    each_team(|mut team| {
        let ended = AtomicUsize::new(0);
        let late = team.broadcast_timeout(Duration::from_millis(5), |_| {
            std::thread::sleep(Duration::from_millis(20));
            ended.fetch_add(1, Ordering::Relaxed);
        });
        let ended = ended.into_inner();
        match late {
            Ok(()) => assert_eq!(ended, team.size()),
            Err(Error::TimedOut { done, .. }) => assert_eq!(ended, done),
            Err(other) => panic!("{other}"),
        }
    });
}

#[test]
fn nobody_waits_at_a_barrier_for_a_member_that_was_late() {
    each_team(|mut team| {
        let (barrier, patience) = (team.barrier(), Duration::from_secs(60));
        let quickest = (0..20).map(|_| {
            let begin = Instant::now();
            team.broadcast(|_| ());
            begin.elapsed()
        });
        // Limits within which one of the members begins, and the other does not: up to twice what
        // it takes here, be the machine an emulated one.
        let most = 2 * quickest.min().unwrap().max(Duration::from_micros(5));
        let mut alone = 0;
        for timeout in (0_u32..20_000).map(|i| most * (i % 200) / 200) {
            let met = Mutex::new(Vec::new());
            let in_time = team.broadcast_timeout(timeout, |_| {
                let one = barrier.wait_timeout(patience);
                met.lock().unwrap().push(one);
            });
            let met = met.into_inner().unwrap();
            match in_time {
                Ok(()) => assert!(met.len() == team.size() && met.iter().all(Result::is_ok)),
                Err(Error::TimedOut { done, .. }) => {
                    assert_eq!(met.len(), done);
                    assert!(met.iter().all(|met| matches!(met, Err(Error::Deserted))), "{met:?}");
                    alone += done;
                }
                Err(other) => panic!("{other}"),
            }
            if alone >= 3 {
                break;
            }
        }
        assert!(alone > 0 || team.size() == 1, "each began in time, or none");
        team.broadcast(|_| barrier.wait());
    });
}

#[test]
fn nobody_waits_at_a_barrier_in_a_child_of_fork() {
    each_team(|mut team| {
        if team.size() < 2 {
            println!("skipped: needs a second cpu");
            return;
        }
        let barrier = team.barrier();
        let Some(child) = common::fork() else {
            let (runs, deserted) = (AtomicUsize::new(0), AtomicUsize::new(0));
            team.broadcast(|_| {
                runs.fetch_add(1, Ordering::Relaxed);
                if matches!(barrier.wait_timeout(Duration::MAX), Err(Error::Deserted)) {
                    deserted.fetch_add(1, Ordering::Relaxed);
                }
            });
            common::exit((runs.into_inner(), deserted.into_inner()) == (team.size(), team.size()))
        };
        child.ended_well();
        team.broadcast(|_| barrier.wait());
    });
}

#[test]
fn more_members_than_cpus_are_refused() {
    let _turn = turn();
    // Of the last not even the counters would fit into memory.
    for size in [100_000, usize::MAX] {
        let error = Team::create(size).expect_err("no machine has so many cpus");
        assert!(error.to_string().contains("allowed"), "{error}");
    }
}

#[test]
fn a_team_sits_where_it_was_asked_to() {
    let _turn = turn();
    let before = affinity::current().unwrap();
    let cpus: Vec<usize> = before.iter().collect();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    for (main, other) in [(first, last), (last, first)] {
        // The fourth helper is placed where the fewest sit.
        let asked = [other, main, main];
        let builder = Builder::new().share().main_cpu(main).helper_cpus(asked);
        let mut team = builder.create_team(5).unwrap();
        let infos: Vec<_> = team.info().collect();
        assert!(infos.iter().all(|info| info.main_cpu == main));
        let helpers: Vec<_> = infos.iter().map(|info| info.helper_cpu).collect();
        assert_eq!((helpers.len(), &helpers[..3]), (4, &asked[..]));
        assert!(helpers[3] != main || first == last, "{helpers:?}");
        assert_eq!(infos[1].relation, Relation::Same);
        assert_eq!(affinity::current().unwrap(), CpuSet::from_iter([main]));
        team.broadcast(|member| {
            // One that is late runs on the caller.
            let here = affinity::current().unwrap().first().unwrap();
            assert!(here == main || here == helpers[member - 1]);
        });
        drop(team);
        assert_eq!(affinity::current().unwrap(), before);
    }

    let refused = |builder: Builder, size| builder.create_team(size).err().unwrap().to_string();
    let three = || Builder::new().share().helper_cpus([last; 3]);
    let text = refused(three(), 3);
    assert!(text.contains("3 cpus were chosen for helpers, of which there are 2"), "{text}");
    let text = three().create().err().unwrap().to_string();
    assert!(text.contains("3 cpus were chosen for helpers, of which there are 1"), "{text}");
    let text = refused(Builder::new().share().helper_cpus([last, 99_999]), 3);
    assert!(text.contains("cpu 99999 "), "{text}");
    assert_eq!(affinity::current().unwrap(), before);
    let alone = Builder::new().main_cpu(last).create_team(1).unwrap();
    assert_eq!((alone.size(), alone.info().count()), (1, 0));
    assert_eq!(affinity::current().unwrap(), before);
}

/// As somebody who writes 64 because that is the machine at work.
#[test]
fn a_team_that_is_too_large_is_told_how_large_it_may_be() {
    let _turn = turn();
    let allowed = affinity::current().unwrap();
    let asked = allowed.len() + 62;
    match Team::create(asked).expect_err("there are not that many cpus") {
        Error::TeamTooLarge { asked: told, free, allowed: among, taken } => {
            assert_eq!((told, free, &among), (asked, allowed.len(), &allowed));
            assert!(taken.is_empty(), "its own helpers are no other shadows: {taken}");
        }
        Error::NoFreeCpu { .. } if allowed.len() == 1 => {}
        error => panic!("{error}"),
    }
    // Nothing of it stays, and as many as there are can be had.
    let all = Team::create_up_to(asked).unwrap();
    assert_eq!(all.size(), allowed.len());
    if allowed.len() > 1 {
        let error = Team::create(asked).expect_err("a team has the cpus");
        assert!(matches!(&error, Error::NoFreeCpu { taken, .. } if *taken == allowed), "{error}");
        // Which no fallback hides.
        assert!(matches!(Shadow::create_or_inline(), Err(Error::NoFreeCpu { .. })));
        assert!(Team::create_up_to(2).is_err());
    }
    drop(all);
    assert!(Shadow::create_or_inline().unwrap().info().is_some() == (allowed.len() > 1));
    assert_eq!(Team::create_up_to(2).unwrap().size(), allowed.len().min(2));
}

#[test]
fn with_one_cpu_it_is_this_thread_alone() {
    let _turn = turn();
    let first = affinity::current().unwrap().first().unwrap();
    thread::spawn(move || {
        affinity::set(&CpuSet::from_iter([first])).unwrap();
        let mut shadow = Shadow::create_or_inline().unwrap();
        assert!(shadow.info().is_none());
        assert_eq!(shadow.both(|| 1, || 2), (1, 2));
        assert_eq!(Team::create_up_to(64).unwrap().size(), 1);
    })
    .join()
    .unwrap();
}
