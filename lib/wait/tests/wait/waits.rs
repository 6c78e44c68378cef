//! Waits as a user makes them: deadlines, order of ring and wait, processes.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_sys::cpu::Features;
use kumiki_wait::{
    Bell, Counts, Error, Policy, Relax, Sleep, Threshold, TimedOut, Waiter, barrier,
    sleep_cost_ticks,
};

/// A bell and the word that it guards.
#[derive(Default)]
struct Door {
    bell: Bell,
    word: AtomicU32,
}

impl Door {
    fn wait(&self, waiter: &mut Waiter, least: u32) -> u32 {
        waiter.wait(&self.bell, &self.word, || self.is(least))
    }

    fn wait_for(&self, waiter: &mut Waiter, least: u32, span: Duration) -> Result<u32, TimedOut> {
        let deadline = Instant::now() + span;
        waiter.wait_deadline(&self.bell, &self.word, deadline, || self.is(least))
    }

    fn is(&self, least: u32) -> Option<u32> {
        Some(self.word.load(Acquire)).filter(|value| *value >= least)
    }

    fn publish(&self, value: u32) {
        self.word.store(value, Release);
        self.bell.ring();
    }

    /// Returns when a thread sleeps here, or is about to.
    fn until_asleep(&self) {
        while !self.bell.is_asleep() {
            thread::yield_now();
        }
    }
}

fn waiter(threshold: Threshold) -> Waiter {
    Waiter::new(&Policy { threshold, sleep: Sleep::Futex, ..Policy::default() }).unwrap()
}

const ALL: [Threshold; 4] =
    [Threshold::Ticks(0), Threshold::Ticks(20_000), Threshold::Adaptive, Threshold::Infinite];

#[test]
fn what_is_ready_is_taken_at_once_and_uncounted() {
    let door = Door::default();
    door.publish(3);
    for threshold in ALL {
        let mut waiter = waiter(threshold);
        assert_eq!(door.wait(&mut waiter, 1), 3);
        let past = Instant::now();
        assert_eq!(waiter.wait_deadline(&door.bell, &door.word, past, || door.is(3)), Ok(3));
        assert_eq!(waiter.counts(), Counts::default());
    }
}

#[test]
fn deadlines_end_every_kind_of_wait_and_never_early() {
    let door = Door::default();
    for threshold in ALL {
        for relax in [Relax::Auto, Relax::Pause, Relax::Tight] {
            let policy = Policy { threshold, sleep: Sleep::Auto, relax };
            let mut waiter = Waiter::new(&policy).unwrap();
            for span in [Duration::ZERO, Duration::from_micros(50), Duration::from_millis(3)] {
                let begin = Instant::now();
                assert_eq!(door.wait_for(&mut waiter, 1, span), Err(TimedOut));
                assert!(begin.elapsed() >= span, "{policy:?}");
                assert!(!door.bell.is_asleep());
            }
            assert_eq!(waiter.counts(), Counts::default());
        }
    }
}

#[test]
fn a_sleeper_is_woken_and_counted() {
    let door = Arc::new(Door::default());
    let mut waiter = waiter(Threshold::Ticks(0));
    let waker = thread::spawn({
        let door = Arc::clone(&door);
        move || {
            door.until_asleep();
            door.publish(1);
        }
    });
    assert_eq!(door.wait(&mut waiter, 1), 1);
    assert_eq!(waiter.counts(), Counts { slept: 1, ..Counts::default() });
    assert!(!door.bell.is_asleep());
    waker.join().unwrap();
}

#[test]
fn a_sleeper_with_a_deadline_is_woken_before_it() {
    let door = Arc::new(Door::default());
    let waker = thread::spawn({
        let door = Arc::clone(&door);
        move || {
            door.until_asleep();
            door.publish(1);
        }
    });
    let far = Duration::from_secs(600);
    assert_eq!(door.wait_for(&mut waiter(Threshold::Ticks(0)), 1, far), Ok(1));
    waker.join().unwrap();
}

#[test]
fn the_infinite_never_sleep() {
    let door = Arc::new(Door::default());
    let waker = thread::spawn({
        let door = Arc::clone(&door);
        move || {
            // Longer than any threshold.
            thread::sleep(Duration::from_millis(5));
            assert!(!door.bell.is_asleep());
            door.publish(1);
        }
    });
    let mut waiter = waiter(Threshold::Infinite);
    door.wait(&mut waiter, 1);
    assert_eq!(waiter.counts(), Counts { spun: 1, ..Counts::default() });
    waker.join().unwrap();
}

#[test]
fn rings_without_a_cause_do_not_end_a_wait() {
    let door = Arc::new(Door::default());
    let waker = thread::spawn({
        let door = Arc::clone(&door);
        move || {
            for _ in 0..100 {
                door.until_asleep();
                door.bell.ring();
            }
            door.until_asleep();
            door.publish(1);
        }
    });
    assert_eq!(door.wait(&mut waiter(Threshold::Ticks(0)), 1), 1);
    waker.join().unwrap();
}

#[test]
fn one_waiter_serves_many_bells_in_turn_and_values_are_moved_out() {
    // Nobody rings here, so it must not sleep.
    let mut waiter = waiter(Threshold::Infinite);
    for text in ["a", "b", "c"] {
        let (door, mut value) = (Door::default(), Some(text.to_owned()));
        let mut looks = 0;
        let got = waiter.wait(&door.bell, &door.word, || {
            looks += 1;
            if looks < 1000 { None } else { value.take() }
        });
        assert_eq!(got, text);
    }
    assert_eq!(waiter.counts(), Counts { spun: 3, ..Counts::default() });
}

#[test]
fn what_the_machine_lacks_is_a_typed_error() {
    let features = Features::detect();
    for (sleep, has) in [(Sleep::Umwait, features.waitpkg), (Sleep::Mwaitx, features.monitorx)] {
        let policy = Policy { sleep, ..Policy::default() };
        match Waiter::new(&policy) {
            Ok(waiter) => assert!(has && waiter.sleep() == sleep),
            Err(Error::Unsupported { feature, needs }) => {
                assert!(!has && !feature.is_empty() && !needs.is_empty());
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs on machines that have the instructions; elsewhere only their encoding
/// and the order of steps are tested (in doze.rs).
#[test]
fn a_doze_ends_by_a_store() {
    let instructions = [Sleep::Umwait, Sleep::Mwaitx].map(|sleep| {
        let policy = Policy { threshold: Threshold::Ticks(0), sleep, ..Policy::default() };
        Waiter::new(&policy)
    });
    let mut tried = false;
    for mut waiter in instructions.into_iter().flatten() {
        tried = true;
        let door = Arc::new(Door::default());
        let waker = thread::spawn({
            let door = Arc::clone(&door);
            move || {
                thread::sleep(Duration::from_millis(3));
                door.publish(1);
            }
        });
        assert_eq!(door.wait(&mut waiter, 1), 1);
        assert_eq!(waiter.counts(), Counts { dozed: 1, ..Counts::default() });
        waker.join().unwrap();
    }
    if !tried {
        eprintln!("skipped: this processor has neither UMWAIT nor MWAITX");
    }
}

#[test]
fn auto_is_resolved() {
    let waiter = Waiter::new(&Policy::default()).unwrap();
    assert_ne!(waiter.sleep(), Sleep::Auto);
}

#[test]
fn the_cost_of_a_sleep_is_known_and_stays() {
    let cost = sleep_cost_ticks();
    assert!(cost > 0);
    let asked = [(); 4].map(|()| thread::spawn(sleep_cost_ticks));
    asked.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), cost));
}

/// Two threads that each store to one place and load from the other: with the
/// pair of fences between, one of them sees the other's store.
#[test]
fn light_and_heavy_are_a_pair() {
    const ROUNDS: u32 = 20_000;
    let places = Arc::new([const { AtomicU32::new(0) }; 2]);
    let (round, arrived) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = [0, 1].map(|side| {
        let (places, round, arrived) =
            (Arc::clone(&places), Arc::clone(&round), Arc::clone(&arrived));
        thread::spawn(move || {
            (1..=ROUNDS)
                .map(|this| {
                    // Together, or nothing would race.
                    if arrived.fetch_add(1, Release) % 2 == 1 {
                        round.store(this, Release);
                    }
                    while round.load(Acquire) < this {
                        thread::yield_now();
                    }
                    places[side].store(this, Release);
                    if side == 0 {
                        barrier::light();
                    } else {
                        assert!(barrier::heavy());
                    }
                    places[1 - side].load(Acquire) >= this
                })
                .collect::<Vec<bool>>()
        })
    });
    let [often, rarely] = seen.map(|side| side.join().unwrap());
    assert!(often.iter().zip(&rarely).all(|(a, b)| *a || *b));
}
