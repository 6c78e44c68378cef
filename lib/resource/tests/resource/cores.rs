//! Where things run.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use kumiki_resource::{Error, Interface, Memory, Pattern};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::child::in_a_child;
use crate::{Counter, Flag, builder};

/// Cpus of this process, or fewer where its control group rations their time.
fn at_once() -> usize {
    thread::available_parallelism().unwrap().get()
}

#[test]
fn operations_run_on_their_owner_s_cpu() {
    let interface = builder().per_core().unwrap();
    let cpus: Vec<usize> = affinity::current().unwrap().iter().collect();
    assert_eq!(interface.places().len(), at_once());
    for (place, cpu) in interface.places().into_iter().zip(cpus) {
        let flag = interface.create::<Flag>(place, None, ()).unwrap();
        let (name, there) = interface
            .with(&flag, |_, ()| {
                (thread::current().name().map(str::to_owned), affinity::current().unwrap())
            })
            .unwrap();
        assert_eq!((name, there.to_string()), (Some(format!("core{cpu}")), cpu.to_string()));
    }
}

/// What this thread may use, and one that it starts.
fn seen() -> [CpuSet; 2] {
    let see = || affinity::current().unwrap();
    [see(), thread::spawn(see).join().unwrap()]
}

#[test]
fn managers_are_bound_and_nothing_else() {
    let before = seen();
    let interface = builder().per_core().unwrap();
    let flag = interface.create::<Flag>(interface.places()[0], None, ()).unwrap();
    interface.with(&flag, |_, ()| ()).unwrap();
    assert_eq!(seen(), before);
    drop(interface);
    // A thread of the program that manages is where it likes to be.
    let cpu = before[0].first().unwrap();
    let interface = builder().cores([]).adopted([cpu]).per_core().unwrap();
    thread::scope(|threads| {
        threads.spawn(|| {
            let manager = interface.manage(interface.places()[0]).unwrap();
            assert_eq!(seen(), before);
            drop(manager);
        });
    });
}

#[test]
fn a_bound_thread_has_managers_on_all_cpus() {
    let (allowed, most) = (affinity::current().unwrap(), at_once());
    let bound = affinity::bind(allowed.first().unwrap()).unwrap();
    assert_eq!(builder().per_core().unwrap().places().len(), most);
    let inherited = || builder().per_core().unwrap().places().len();
    assert_eq!(thread::spawn(inherited).join().unwrap(), most);
    drop(bound);
    assert_eq!(affinity::current().unwrap(), allowed);
}

#[test]
fn a_control_group_s_quota_bounds_how_many_managers_there_are() {
    in_a_child("cores::a_control_group_s_quota_bounds_how_many_managers_there_are", rationed);
}

/// In a control group of one cpu's time.
fn rationed() {
    if affinity::current().unwrap().len() < 2 {
        return eprintln!("skipped: two cpus are needed");
    }
    let (one, two) = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup");
    let (above, limit) = match Path::new(one).join("cpu.shares").exists() {
        true => (one, ("cpu.cfs_quota_us", "100000")),
        false => (two, ("cpu.max", "100000 100000")),
    };
    let own = Path::new(above).join(format!("kumiki-test-{}", process::id()));
    let enter = |group: &Path| fs::write(group.join("cgroup.procs"), process::id().to_string());
    let rationed = fs::create_dir(&own)
        .and_then(|()| fs::write(own.join(limit.0), limit.1))
        .and_then(|()| enter(&own));
    let counts = rationed.map(|()| {
        let all = || builder().per_core().unwrap().places().len();
        let free = all();
        let _bound = affinity::bind(affinity::current().unwrap().first().unwrap()).unwrap();
        let asked = builder().cores(affinity::unbound().unwrap().iter()).per_core().unwrap();
        (free, all(), asked.places().len() > 1)
    });
    let _ = enter(Path::new(above));
    let _ = fs::remove_dir(&own);
    match counts {
        Ok(counts) => assert_eq!(counts, (1, 1, true)),
        Err(error) => eprintln!("skipped: no control group can be made here: {error}"),
    }
}

#[test]
fn many_guests_share_one_counter() {
    let interface = builder().per_core().unwrap();
    let place = interface.places()[0];
    let counter = interface.create::<Counter>(place, None, (0, None)).unwrap();
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..5000 {
                    interface.with(&counter, |counter, _| counter.value += 1).unwrap();
                }
            });
        }
    });
    assert_eq!(interface.with(&counter, |counter, _| counter.value).unwrap(), 20_000);
}

#[test]
fn threads_of_the_program_manage_and_call_each_other() {
    let cpus: Vec<usize> = affinity::current().unwrap().iter().take(2).collect();
    if cpus.len() < 2 {
        return eprintln!("skipped: two cpus are needed");
    }
    let interface = builder().cores([]).adopted(cpus).per_core().unwrap();
    let places = interface.places();
    let ended = AtomicUsize::new(0);
    let counters: Vec<_> = thread::scope(|threads| {
        let run = |own: usize| {
            let (interface, places, ended) = (&interface, &places, &ended);
            move || {
                let mut manager = interface.manage(places[own]).unwrap();
                let again = interface.manage(places[own]).unwrap_err();
                assert!(matches!(again, Error::Nested { .. }), "{again}");
                let mine = interface.create::<Counter>(places[own], None, (0, None)).unwrap();
                let there = interface.create::<Counter>(places[1 - own], None, (0, None)).unwrap();
                for _ in 0..2000 {
                    interface.with(&mine, |counter, _| counter.value += 1).unwrap();
                    interface.with(&there, |counter, _| counter.value += 1).unwrap();
                }
                let sum = interface.with(&mine, |counter, _| counter.value).unwrap()
                    + interface.with(&there, |counter, _| counter.value).unwrap();
                // The other may still need this one.
                ended.fetch_add(1, Ordering::Relaxed);
                while ended.load(Ordering::Relaxed) < 2 {
                    manager.wait_timeout(Duration::from_millis(1));
                }
                sum
            }
        };
        let both = [threads.spawn(run(0)), threads.spawn(run(1))];
        both.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(counters, [4000, 4000]);
    let gone = interface.create::<Flag>(places[0], None, ()).unwrap_err();
    assert!(matches!(gone, Error::Manager { .. }), "{gone}");
}

#[test]
fn a_manager_that_serves_comes_back_to_its_own_work() {
    const MOST: usize = 100;
    let cpu = affinity::current().unwrap().first().unwrap();
    let interface = builder().cores([]).adopted([cpu]).per_core().unwrap();
    let place = interface.places()[0];
    let manager = interface.manage(place).unwrap();
    let counter = interface.create::<Counter>(place, None, (0, None)).unwrap();
    let submitted = Arc::new(AtomicUsize::new(0));
    thread::scope(|threads| {
        let guest = threads.spawn(|| {
            let mut answers = VecDeque::new();
            for n in 1..=MOST {
                let its = Arc::clone(&submitted);
                // Each goes on until the next one is there: a round always finds one.
                let count = move |counter: &mut Counter, _: &mut usize| {
                    while its.load(Ordering::Acquire) < (n + 1).min(MOST) {
                        thread::yield_now();
                    }
                    counter.value += 1;
                };
                answers.push_back(interface.start(&counter, count).unwrap());
                submitted.store(n, Ordering::Release);
                if answers.len() == 8 {
                    answers.pop_front().unwrap().wait().unwrap();
                }
            }
            answers.into_iter().for_each(|answer| answer.wait().unwrap());
        });
        while submitted.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        assert!(manager.serve());
        let served = interface.with(&counter, |counter, _| counter.value).unwrap();
        while !guest.is_finished() {
            manager.serve();
        }
        // As many rounds as a caller may have requests under way.
        assert_eq!(served, 32);
    });
}

#[test]
fn a_program_part_does_not_call_other_places() {
    let interface = builder().per_core().unwrap();
    let places = interface.places();
    let [first, last] = [places[0], *places.last().unwrap()];
    let flag = interface.create::<Flag>(first, None, ()).unwrap();
    let inner = interface.clone();
    let outcome = interface
        .with(&flag, move |_, ()| {
            let other = inner.create::<Flag>(last, None, ());
            let own = inner.create::<Flag>(first, None, ());
            [other.map(drop), own.map(drop)]
        })
        .unwrap();
    for error in outcome.map(Result::unwrap_err) {
        assert!(matches!(error, Error::Nested { .. }), "{error}");
    }
    // It goes on.
    interface.create::<Flag>(first, None, ()).unwrap();
}

#[test]
fn memory_belongs_to_its_core_and_goes_back_to_it() {
    let interface = Interface::builder().kind::<Memory>().per_core().unwrap();
    for place in interface.places() {
        let mut before = None;
        for _ in 0..10 {
            let buffer = interface.create::<Memory>(place, Some("buffer"), 600).unwrap();
            let (len, pool) = interface
                .with(&buffer, |memory, pool| {
                    memory.frame(599).unwrap().fill(1);
                    assert!(memory.frame(600).is_none());
                    (memory.len(), pool.bytes())
                })
                .unwrap();
            // The pool does not grow with each round.
            assert_eq!((len, *before.get_or_insert(pool)), (600, pool));
            let listed = &interface.ls(&Pattern::all()).unwrap()[0];
            assert_eq!((listed.about.bytes, &*listed.about.state), (600 * 4096, "600 frames"));
            interface.destroy(buffer).unwrap();
        }
        let none = interface.create::<Memory>(place, None, 0).unwrap_err();
        assert!(none.to_string().contains("ask for 1 to"), "{none}");
    }
}
