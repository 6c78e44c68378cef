//! The choice between the ways, where a test says what each takes.

use super::trials::{RISEN, SAMPLES};
use super::*;

const CALLS: usize = 10;
const HOT: Means =
    Means { others: true, hot: true, pool: true, wake: 5e4, long: 5e4, ..Means::NONE };

/// An entry whose batches take what a test says.
struct World {
    entry: Entry,
}

impl World {
    fn new() -> Self {
        World { entry: Entry::default() }
    }

    /// Runs `batches`, of which `cost` says what a call takes each way and
    /// how many calls others have made; returns how often each way was
    /// taken, and how many wakes there were.
    fn run(
        &mut self,
        batches: u32,
        prior: Prior,
        means: Means,
        mut cost: impl FnMut(Way) -> (u64, usize),
    ) -> ([u32; WAYS.len()], u32) {
        let (mut taken, mut wakes) = ([0; WAYS.len()], 0);
        let mut pass = 0;
        for _ in 0..batches {
            if pass > 0 {
                (pass, taken[0]) = (pass - 1, taken[0] + 1);
                continue;
            }
            let choice = self.entry.choose(CALLS, prior, means);
            taken[WAYS.iter().position(|way| *way == choice.way).unwrap()] += 1;
            wakes += u32::from(choice.wake);
            pass = choice.pass;
            self.entry.pass(pass, CALLS);
            let (each, helped) = cost(choice.way);
            if choice.way == Way::Shared && !choice.measure && helped == 0 {
                self.entry.nobody_came();
            }
            let ticks = each * CALLS as u64;
            if choice.measure {
                let (woke, kept) = (choice.wake, 0);
                let sample = Sample { calls: CALLS, ticks, helped, kept, woke, away: 0 };
                self.entry.record(choice.way, sample, means);
            }
        }
        (taken, wakes)
    }
}

fn shared_costs(each: u64) -> impl FnMut(Way) -> (u64, usize) {
    move |way| if way == Way::Shared { (each, CALLS / 2) } else { (100, 0) }
}

#[test]
fn the_faster_way_is_taken_and_the_other_tried() {
    let (taken, _) = World::new().run(10_000, Prior::Scales, HOT, shared_costs(60));
    assert!(taken[1] > 9_800 && taken[0] >= 4, "{taken:?}");
    let (taken, _) = World::new().run(10_000, Prior::Scales, HOT, shared_costs(130));
    assert!(taken[0] > 9_800 && taken[1] >= 4, "{taken:?}");
}

#[test]
fn what_changes_is_noticed() {
    let mut world = World::new();
    world.run(10_000, Prior::Scales, HOT, shared_costs(130));
    world.run(10_000, Prior::Scales, HOT, shared_costs(60));
    let (taken, _) = world.run(10_000, Prior::Scales, HOT, shared_costs(60));
    assert!(taken[1] > 9_000, "{taken:?}");
    world.run(10_000, Prior::Scales, HOT, shared_costs(130));
    let (taken, _) = world.run(10_000, Prior::Scales, HOT, shared_costs(130));
    assert!(taken[0] > 9_000, "{taken:?}");
}

#[test]
fn batches_that_differ_a_lot_are_no_reason_to_change() {
    // Calls of a batch take so many times as much as those of another.
    let loads: [&[u64]; 3] = [&[1, 20], &[1, 1, 1, 1, 20, 20, 20, 20], &[100, 1]];
    for loads in loads {
        for (shared, best) in [(60, 1), (130, 0)] {
            let mut turns = loads.iter().cycle();
            let cost = |way| {
                let load = turns.next().unwrap();
                if way == Way::Shared { (shared * load, CALLS / 2) } else { (100 * load, 0) }
            };
            let (taken, _) = World::new().run(10_000, Prior::Scales, HOT, cost);
            assert!(taken[best] > 9_500, "{loads:?}, {shared}: {taken:?}");
        }
    }
}

#[test]
fn a_way_that_gets_worse_is_soon_left_even_if_the_other_had_failed_often() {
    // Whenever that is: a trial that is due just then says what was before, and the next
    // one is some thousand batches later.
    let soon = |batches: &u32| {
        let mut world = World::new();
        world.run(*batches, Prior::Scales, HOT, shared_costs(50));
        assert!(world.entry.means[0].failed > 4, "{:?}", world.entry);
        let (left, _) = world.run(1_000, Prior::Scales, HOT, shared_costs(150));
        // It was for a moment only.
        world.run(2_000, Prior::Scales, HOT, shared_costs(50));
        let (back, _) = world.run(1_000, Prior::Scales, HOT, shared_costs(50));
        left[0] > 800 && back[1] > 900
    };
    let times = (0..24).map(|time| 100_000 + 997 * time);
    assert!(times.filter(soon).count() >= 18);
}

#[test]
fn trials_get_on_where_every_other_batch_has_none_of_the_two_ways() {
    let mut world = World::new();
    let cost = |way| match way {
        Way::Shared => (200, CALLS / 2),
        Way::Inline => (100, 0),
        _ => (50, CALLS / 2),
    };
    let mut shared = 0;
    for batch in 0..10_000 {
        world.run(1, Prior::Sleeps, HOT, cost);
        let taken = world.run(1, Prior::Scales, HOT, cost).0[1];
        shared += if batch > 9_000 { taken } else { 0 };
    }
    assert!(shared < 100, "{shared}");
}

#[test]
fn trials_that_come_early_leave_the_others_theirs() {
    let ring = Means { ring: Some(1.5), ..HOT };
    let mut turns = [1, 20].iter().cycle();
    let cost = |way| {
        let load = turns.next().unwrap();
        match way {
            Way::Shared => (60 * load, CALLS / 2),
            Way::Ring => (50 * load, CALLS),
            _ => (100 * load, 0),
        }
    };
    let (taken, _) = World::new().run(20_000, Prior::Scales, ring, cost);
    assert!(taken[5] > 10_000, "{taken:?}");
}

#[test]
fn what_shows_nothing_leaves_beliefs_that_are_numbers() {
    let mut seed = 1_u64;
    let mut world = World::new();
    let mut cost = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (1 << (seed >> 60), CALLS / 2)
    };
    for prior in [Prior::Sleeps, Prior::Scales, Prior::OneFile, Prior::Sleeps] {
        world.run(20_000, prior, HOT, &mut cost);
        let means = world.entry.means;
        let is_number = |mean: &Mean| mean.samples == 0 || (1e-3..1e9).contains(&mean.ticks);
        assert!(means.iter().all(is_number), "{means:?}");
    }
}

#[test]
fn a_terrible_first_sample_is_forgotten() {
    let mut world = World::new();
    let mut first = true;
    let cost = |way| match way {
        Way::Shared if std::mem::take(&mut first) => (1_000_000, 1),
        Way::Shared => (60, 5),
        _ => (100, 0),
    };
    world.run(5_000, Prior::Scales, HOT, cost);
    let (taken, _) = world.run(5_000, Prior::Scales, HOT, shared_costs(60));
    assert!(taken[1] > 4_800, "{taken:?}");
}

#[test]
fn accidents_are_no_reason_to_change() {
    let mut batch = 0;
    let cost = |way| match way {
        Way::Shared => {
            batch += 1;
            (if batch % 20 == 0 { 1000 } else { 80 }, 5)
        }
        _ => (100, 0),
    };
    let (taken, _) = World::new().run(10_000, Prior::Scales, HOT, cost);
    assert!(taken[1] > 9_700, "{taken:?}");
}

#[test]
fn one_trial_is_enough_for_what_has_changed() {
    let mut world = World::new();
    world.run(10_000, Prior::Scales, HOT, shared_costs(1800));
    while world.run(1, Prior::Scales, HOT, shared_costs(80)).0[1] == 0 {}
    let (taken, _) = world.run(100, Prior::Scales, HOT, shared_costs(80));
    // Plain ones beside it.
    assert_eq!(taken[0], *SAMPLES.end() as u32);
}

#[test]
fn who_comes_from_sleep_is_not_held_against_sharing() {
    let cold = Means { hot: false, ..HOT };
    let mut world = World::new();
    let mut taken = 0;
    for cycle in 0..200 {
        // Somebody is woken in the end, and has not come when the batch is over.
        let alone = |way| if way == Way::Shared { (5000, 0) } else { (100, 0) };
        let mut wakes = 0;
        for _ in 0..1000 {
            wakes += world.run(1, Prior::Scales, cold, alone).1;
            if wakes > 0 {
                break;
            }
        }
        let mut comes = wakes > 0;
        let arrives = |way| match way {
            Way::Shared if std::mem::take(&mut comes) => (3000, 1),
            Way::Shared => (80, 5),
            _ => (100, 0),
        };
        let ways = world.run(50, Prior::Scales, HOT, arrives).0;
        taken += if cycle >= 100 { ways[1] } else { 0 };
    }
    assert!(taken > 4_500, "{taken} of 5000");
}

#[test]
fn a_contended_place_is_left_to_plain_calls_unless_sharing_proves_better() {
    let (taken, _) = World::new().run(50_000, Prior::OneDirectory, HOT, shared_costs(200));
    assert!((4..200).contains(&taken[1]), "{taken:?}");
    let (taken, _) = World::new().run(50_000, Prior::OneDirectory, HOT, shared_costs(60));
    assert!(taken[1] > 40_000, "{taken:?}");
    // No thread is started for it in a process that has none.
    let cold = Means { hot: false, alone: true, ..HOT };
    let (taken, _) = World::new().run(50_000, Prior::OneDirectory, cold, shared_costs(60));
    assert_eq!(taken[0], 50_000, "{taken:?}");
    let cold = Means { alone: false, ..cold };
    let (_, wakes) = World::new().run(50_000, Prior::OneDirectory, cold, shared_costs(60));
    assert!(wakes > 0);
}

#[test]
fn the_address_space_is_never_shared() {
    let (taken, _) = World::new().run(4096, Prior::Serial, HOT, shared_costs(1));
    assert_eq!(taken[0], 4096);
}

#[test]
fn asking_takes_no_large_part_of_short_shared_batches_and_each_is_asked_that_takes_more() {
    for (each, passes) in [(100, 8), (500, 5), (4_000, 0)] {
        let mut world = World::new();
        let cost = |way| match way {
            Way::Inline => (2 * each, 0),
            _ => (each, CALLS / 2),
        };
        world.run(2_000, Prior::Scales, HOT, cost);
        // Nor shall there be a trial.
        while world.entry.trial.is_some() {
            world.run(1, Prior::Scales, HOT, cost);
        }
        (world.entry.next_trial, world.entry.soonest) = (u64::MAX, u64::MAX);
        let unasked = |world: &mut World| {
            world.entry.unasked = 0;
            let first = world.entry.choose(CALLS, Prior::Scales, HOT);
            assert_eq!((first.way, first.measure), (Way::Shared, true), "{each}");
            let next = || world.entry.choose(CALLS, Prior::Scales, HOT);
            std::iter::repeat_with(next).take_while(|choice| !choice.measure).count()
        };
        assert_eq!(unasked(&mut world), passes, "{each}");
        // Not if nobody is awake, or comes, or they sleep.
        let cold = Means { hot: false, ..HOT };
        for (prior, means) in [(Prior::Scales, cold), (Prior::Sleeps, HOT)] {
            world.entry.unasked = 5;
            let choice = world.entry.choose(CALLS, prior, means);
            assert!(choice.way != Way::Shared || choice.wake, "{choice:?}");
            assert_eq!(world.entry.unasked, 0);
        }
        for measured in [true, false] {
            world.entry.unasked = 5;
            if measured {
                let sample =
                    Sample { calls: CALLS, ticks: 1, helped: 0, kept: 0, woke: false, away: 0 };
                world.entry.record(Way::Shared, sample, HOT);
            } else {
                world.entry.nobody_came();
            }
            assert!(world.entry.choose(CALLS, Prior::Scales, HOT).measure);
        }
        // Nor before the caller's part is known, beside other work, or while a trial waits.
        let own = std::mem::take(&mut world.entry.own);
        assert_eq!(unasked(&mut world), 0);
        world.entry.own = own;
        let beside = Means { beside: true, ..HOT };
        world.entry.unasked = 0;
        assert!(world.entry.choose(CALLS, Prior::Scales, beside).measure);
        assert_eq!(world.entry.unasked, 0);
        world.entry.try_beside(place(Way::Ring), place(Way::Shared), false, HOT);
        assert_eq!(unasked(&mut world), 0);
        world.entry.trial = None;
        world.entry.means[1].ticks *= RISEN * 1.01;
        assert_eq!(unasked(&mut world), 0, "{each}");
    }
}

#[test]
fn asking_takes_no_large_part_of_plain_batches_and_is_not_forgotten() {
    for (each, fewest, most) in [(10, 32, 32), (100, 25, 25), (1_000, 8, 8), (10_000, 0, 0)] {
        let mut world = World::new();
        world.run(200, Prior::Scales, HOT, |way| match way {
            Way::Inline => (each, 0),
            _ => (2 * each, CALLS / 2),
        });
        let plain = (0..50).map(|_| world.entry.choose(CALLS, Prior::Scales, HOT));
        let passes: Vec<u32> =
            plain.filter(|choice| choice.way == Way::Inline).map(|choice| choice.pass).collect();
        assert!(passes.len() > 20, "{each}: {passes:?}");
        assert!(passes.iter().all(|pass| (fewest..=most).contains(pass)), "{each}: {passes:?}");
    }
}

#[test]
fn a_wake_waits_until_it_would_have_paid() {
    let cold = Means { hot: false, ..HOT };
    let mut world = World::new();
    let mut before = 0;
    while world.run(1, Prior::Scales, cold, shared_costs(60)).1 == 0 {
        before += 1;
    }
    // Each batch would have saved 400 ticks, and the wake costs 50,000.
    assert!((125..=130).contains(&before), "{before}");
}

#[test]
fn if_nobody_comes_wakes_get_rare() {
    // Awake, as it seems, but never on a cpu.
    let absent = |way| if way == Way::Shared { (110, 0) } else { (100, 0) };
    let mut world = World::new();
    world.run(20_000, Prior::Scales, HOT, absent);
    let (taken, wakes) = world.run(100_000, Prior::Scales, HOT, absent);
    let loss = f64::from(taken[1]) * 100.0 + f64::from(wakes) * 5e4;
    let total = 100_000.0 * 1000.0;
    assert!(loss / total < 0.05, "{taken:?}, {wakes} wakes");
    // It comes back.
    world.run(100_000, Prior::Scales, HOT, shared_costs(60));
    let (taken, _) = world.run(10_000, Prior::Scales, HOT, shared_costs(60));
    assert!(taken[1] > 9_500, "{taken:?}");
}

#[test]
fn calls_that_sleep_get_threads_at_once() {
    let mut world = World::new();
    let first = world.entry.choose(CALLS, Prior::Sleeps, HOT);
    assert!(matches!(first.way, Way::Many(_)), "{first:?}");
    let cost = |way| match way {
        Way::Many(32) => (10_000, 9),
        Way::Inline => (100_000, 0),
        _ => (30_000, 9),
    };
    // Each of many threads is taken once.
    let (taken, _) = world.run(15, Prior::Sleeps, HOT, cost);
    assert!(taken[3] >= 10, "{taken:?}");
    let (taken, _) = world.run(4096, Prior::Sleeps, HOT, cost);
    assert!(taken[3] > 3_700, "{taken:?}");
}

#[test]
fn calls_that_were_guessed_to_sleep_and_do_not_become_plain() {
    let cost = |way| (if way == Way::Inline { 200 } else { 20_000 }, 9);
    let (taken, _) = World::new().run(10_000, Prior::Sleeps, HOT, cost);
    assert!(taken[0] > 9_000, "{taken:?}");
}

#[test]
fn a_thread_that_never_comes_is_not_called_for_ever() {
    let never = |way| if way == Way::Shared { (5_100, 0) } else { (100, 0) };
    let cold = Means { hot: false, ..HOT };
    for prior in [Prior::Scales, Prior::OneFile, Prior::OneDirectory] {
        let (_, wakes) = World::new().run(1_000_000, prior, cold, never);
        let loss = f64::from(wakes) * 5e4 / (1_000_000.0 * 1000.0);
        assert!(loss < 0.05, "{prior:?}: {wakes} wakes, {loss}");
    }
}

#[test]
fn a_trial_waits_until_who_was_woken_has_come() {
    let cold = Means { hot: false, ..HOT };
    let mut world = World::new();
    world.run(SETTLED - 1, Prior::OneDirectory, cold, shared_costs(60));
    let mut shared = 0;
    let cost = |way| match way {
        Way::Shared => {
            shared += 1;
            // A wake takes 5,000 ticks of each call, and somebody comes later.
            (if shared == 1 { 5_000 } else { 105 }, if shared < 20 { 0 } else { 5 })
        }
        _ => (100, 0),
    };
    world.run(2_000, Prior::OneDirectory, cold, cost);
    assert!(world.entry.means[1].samples > 0, "{:?}", world.entry);
}

#[test]
fn few_long_batches_do_not_pay_for_what_is_likely_to_be_worse() {
    let ring = Means { ring: Some(2.0), ..HOT };
    let cost = |way| (if way == Way::Inline { 100_000 } else { 120_000 }, CALLS / 2);
    let (taken, _) = World::new().run(10, Prior::OneDirectory, ring, cost);
    assert_eq!(taken[0], 10, "{taken:?}");
    // One batch is a trial then, as long as it is.
    let (taken, _) = World::new().run(40, Prior::OneDirectory, ring, cost);
    assert!(taken[0] > 36, "{taken:?}");
    let (taken, _) = World::new().run(800, Prior::OneDirectory, ring, cost);
    assert!(taken[0] > 770 && taken[1] > 1 && taken[5] > 1, "{taken:?}");
}

#[test]
fn a_trial_takes_no_more_of_a_long_batch_than_it_needs() {
    const LONG: usize = 10_000;
    let mut entry = Entry::default();
    let (mut inline, mut shared) = (0, 0);
    for _ in 0..100 {
        let mut left = LONG;
        while left > 0 {
            let choice = entry.choose(left, Prior::Scales, HOT);
            let (each, helped) = match choice.way {
                Way::Shared => (600, choice.calls / 2),
                _ => (1000, 0),
            };
            let count = if choice.way == Way::Shared { &mut shared } else { &mut inline };
            *count += choice.calls;
            left -= choice.calls;
            let ticks = each * choice.calls as u64;
            let sample =
                Sample { calls: choice.calls, ticks, helped, kept: 0, woke: choice.wake, away: 0 };
            entry.record(choice.way, sample, HOT);
        }
    }
    assert_eq!(inline + shared, 100 * LONG);
    assert!(inline > 100 && inline < LONG, "{inline}");
}

#[test]
fn beside_other_work_a_trial_that_others_help_with_takes_the_whole_batch() {
    const LONG: usize = 10_000;
    let means = Means { beside: true, ..HOT };
    let mut entry = Entry::default();
    let (mut inline, mut shared) = (0, 0);
    for _ in 0..1000 {
        let choice = entry.choose(LONG, Prior::Scales, means);
        let is_shared = choice.way == Way::Shared;
        let part = if is_shared { &mut shared } else { &mut inline };
        *part += usize::from(choice.calls < LONG);
        let (each, helped) = if is_shared { (1300, LONG / 2) } else { (1000, 0) };
        let ticks = each * choice.calls as u64;
        let sample =
            Sample { calls: choice.calls, ticks, helped, kept: 0, woke: choice.wake, away: 0 };
        entry.record(choice.way, sample, means);
    }
    assert!(entry.means[1].samples > 0, "{entry:?}");
    assert!(shared == 0 && inline > 0, "{shared} and {inline}");
}

#[test]
fn what_is_known_of_a_similar_batch_need_not_be_learnt_again() {
    let mut known = World::new();
    known.run(100_000, Prior::Scales, HOT, shared_costs(60));
    let mut world = World { entry: Entry::like(&known.entry) };
    let (taken, _) = world.run(4, Prior::Scales, HOT, shared_costs(60));
    assert_eq!(taken[1], 4, "{taken:?}");
    // It may be wrong.
    world.run(2000, Prior::Scales, HOT, shared_costs(130));
    let (taken, _) = world.run(1000, Prior::Scales, HOT, shared_costs(130));
    assert!(taken[0] > 900, "{taken:?}");
}

#[test]
fn the_caller_keeps_so_much_that_all_are_ready_at_once() {
    const LONG: usize = 100;
    let mut entry = Entry::default();
    assert_eq!((entry.kept(LONG, 1), entry.kept(LONG, 3)), (45, 22));
    // Others who make `speed` calls while the caller makes one.
    let mut run = |batches: u32, speed: f64| {
        for _ in 0..batches {
            let kept = entry.kept(LONG, 1);
            let offered = LONG - kept;
            let helped = (LONG as f64 * speed / (1.0 + speed)) as usize;
            let helped = helped.min(offered);
            let sample = Sample { calls: LONG, ticks: 6_000, helped, kept, woke: false, away: 0 };
            entry.record(Way::Shared, sample, HOT);
        }
        entry.kept(LONG, 1)
    };
    assert!((47..=50).contains(&run(100, 1.0)));
    assert!((75..=80).contains(&run(100, 0.25)));
    // Nobody comes: that says nothing of those who will.
    assert!((75..=80).contains(&run(10, 0.0)));
    // One batch that was disturbed changes little.
    assert!((74..=81).contains(&run(1, 0.05)));
    assert!((47..=50).contains(&run(200, 1.0)));
    assert!((22..=25).contains(&run(200, 3.0)));
}

#[test]
fn without_other_cpus_everything_is_plain_and_unmeasured() {
    let alone = Means { others: false, hot: false, pool: false, ..HOT };
    let choice = Entry::default().choose(300, Prior::Scales, alone);
    assert_eq!((choice.way, choice.measure), (Way::Inline, false));
}

#[test]
fn who_comes_only_to_the_second_of_two_batches_is_not_called_for_ever() {
    let cold = Means { hot: false, ..HOT };
    for each in [60, 130] {
        for prior in [Prior::Scales, Prior::OneDirectory] {
            let (mut world, mut calls) = (World::new(), 0);
            for _ in 0..100_000 {
                let alone = |way| (if way == Way::Shared { 5_100 } else { 100 }, 0);
                calls += world.run(1, prior, cold, alone).1;
                world.run(1, prior, HOT, shared_costs(each));
            }
            let loss = f64::from(calls) * 5e4 / (200_000.0 * 1000.0);
            // What sharing would save of one batch in two, or what trials may take.
            let most = if each == 60 { 0.4 / 2.0 } else { 0.05 };
            assert!(loss < most * 1.05, "{prior:?}, {each}: {calls} wakes, {loss}");
        }
    }
}

#[test]
fn who_was_absent_once_is_tried_again() {
    let cold = Means { hot: false, ..HOT };
    let mut world = World::new();
    let absent = |way| (if way == Way::Shared { 5_100 } else { 100 }, 0);
    world.run(100_000, Prior::OneDirectory, cold, absent);
    assert!(world.entry.trust.is_gone(), "{:?}", world.entry);
    // It comes too late for the first batch after a while.
    let (mut since, mut long) = (0, true);
    let late = |way| {
        since = if way == Way::Shared { 0 } else { since + 1 };
        let alone = std::mem::replace(&mut long, since > 20);
        match way {
            Way::Shared if alone => (5_100, 0),
            Way::Shared => (60, 5),
            _ => (100, 0),
        }
    };
    world.run(3_000_000, Prior::OneDirectory, cold, late);
    let shared = world.entry.means[1];
    assert!(shared.samples > 0 && shared.ticks < 70.0, "{:?}", world.entry);
}

#[test]
fn a_ring_is_tried_where_no_thread_comes() {
    let ring = Means { ring: Some(0.9), ..HOT };
    let cost = |way| match way {
        Way::Ring => (50, 0),
        Way::Shared => (110, 0),
        _ => (100, 0),
    };
    let mut world = World::new();
    world.run(100_000, Prior::Scales, ring, cost);
    let (taken, _) = world.run(10_000, Prior::Scales, ring, cost);
    assert!(taken[5] > 9_000, "{taken:?}");
}

#[test]
fn what_is_not_seen_beside_other_work_changes_nothing() {
    let beside = Means { beside: true, ..HOT };
    let mut world = World::new();
    for batch in 0..20_000 {
        let choice = world.entry.choose(CALLS, Prior::Scales, beside);
        let dear = batch % 2 == 1;
        let (ticks, away) = match choice.way {
            Way::Inline => (10_000 * choice.calls as u64, 0),
            _ if dear => (60_000, 30_000),
            _ => (20_000, 60_000),
        };
        if choice.measure {
            let (calls, helped, woke) = (choice.calls, choice.calls / 2, choice.wake);
            let sample = Sample { calls, ticks, helped, kept: 0, woke, away };
            world.entry.record(choice.way, sample, beside);
        }
        let plain = world.entry.means[0].ticks;
        assert!((1e3..1e5).contains(&plain) || batch < 2, "{batch}: {:?}", world.entry);
    }
}
