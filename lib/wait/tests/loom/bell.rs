//! One sleeper and its wakers.

use std::time::Instant;

use kumiki_wait::{Bell, Policy, Sleep, Threshold, TimedOut, Waiter};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;

/// What a waiter sleeps on: a bell and the word that it guards.
struct Door {
    bell: Bell,
    word: AtomicU32,
}

impl Door {
    fn new() -> Arc<Self> {
        Self::with(Bell::new())
    }

    fn with(bell: Bell) -> Arc<Self> {
        Arc::new(Door { bell, word: AtomicU32::new(0) })
    }

    fn at_least(&self, least: u32) -> impl FnMut() -> Option<u32> {
        move || Some(self.word.load(Acquire)).filter(|value| *value >= least)
    }

    fn publish(&self, value: u32) {
        self.word.store(value, Release);
        self.bell.ring();
    }
}

/// One that sleeps at once: of the phases only the last has a protocol.
fn sleeper() -> Waiter {
    let policy =
        Policy { threshold: Threshold::Ticks(0), sleep: Sleep::Futex, ..Policy::default() };
    Waiter::new(&policy).unwrap()
}

#[test]
fn one_waker_several_rounds() {
    loom::model(|| {
        let door = Door::new();
        let waker = thread::spawn({
            let door = Arc::clone(&door);
            move || (1..=3).for_each(|round| door.publish(round))
        });
        let mut waiter = sleeper();
        for round in 1..=3 {
            assert!(waiter.wait(&door.bell, &door.word, door.at_least(round)) >= round);
        }
        waker.join().unwrap();
    });
}

#[test]
fn hand_over_in_turns() {
    loom::model(|| {
        let (there, back) = (Door::new(), Door::new());
        let partner = thread::spawn({
            let (there, back) = (Arc::clone(&there), Arc::clone(&back));
            move || {
                let mut waiter = sleeper();
                for round in 1..=2 {
                    waiter.wait(&there.bell, &there.word, there.at_least(round));
                    back.publish(round);
                }
            }
        });
        let mut waiter = sleeper();
        for round in 1..=2 {
            there.publish(round);
            waiter.wait(&back.bell, &back.word, back.at_least(round));
        }
        partner.join().unwrap();
    });
}

fn two_wakers(bell: fn() -> Bell) {
    loom::model(move || {
        let door = Door::with(bell());
        let wakers = [1, 2].map(|_| {
            let door = Arc::clone(&door);
            thread::spawn(move || {
                door.word.fetch_add(1, Release);
                door.bell.ring();
            })
        });
        let mut waiter = sleeper();
        // A first wait, so that the second waker's ring may come late, in the
        // middle of a second wait.
        waiter.wait(&door.bell, &door.word, door.at_least(1));
        assert_eq!(waiter.wait(&door.bell, &door.word, door.at_least(2)), 2);
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

#[test]
fn two_wakers_one_bell() {
    two_wakers(Bell::new);
}

#[test]
fn two_wakers_one_shared_bell() {
    two_wakers(Bell::shared);
}

/// One of two processes dies between its exchange and its wake. Whoever rings to
/// the end is heard, before, meanwhile and after.
#[test]
fn a_ring_at_a_shared_bell_makes_up_for_a_waker_that_has_died() {
    const DIES: u32 = 1;
    const RINGS: u32 = 2;
    loom::model(|| {
        let door = Door::with(Bell::shared());
        let dies = thread::spawn({
            let door = Arc::clone(&door);
            move || {
                door.word.fetch_add(DIES, Release);
                door.bell.ring_and_die();
            }
        });
        let rings = thread::spawn({
            let door = Arc::clone(&door);
            move || {
                door.word.fetch_add(RINGS, Release);
                door.bell.ring();
            }
        });
        sleeper().wait(&door.bell, &door.word, door.at_least(RINGS));
        [dies, rings].into_iter().for_each(|waker| waker.join().unwrap());
    });
}

#[test]
fn a_ring_without_a_cause_does_not_wake_for_good() {
    loom::model(|| {
        let door = Door::new();
        let waker = thread::spawn({
            let door = Arc::clone(&door);
            move || {
                door.bell.ring();
                door.publish(1);
            }
        });
        assert_eq!(sleeper().wait(&door.bell, &door.word, door.at_least(1)), 1);
        waker.join().unwrap();
    });
}

#[test]
fn a_wait_that_timed_out_loses_nothing_for_the_next() {
    loom::model(|| {
        let door = Door::new();
        let waker = thread::spawn({
            let door = Arc::clone(&door);
            move || door.publish(1)
        });
        let mut waiter = sleeper();
        let first = waiter.wait_deadline(&door.bell, &door.word, Instant::now(), door.at_least(1));
        assert!(matches!(first, Ok(1) | Err(TimedOut)));
        assert_eq!(waiter.wait(&door.bell, &door.word, door.at_least(1)), 1);
        waker.join().unwrap();
    });
}

/// What the sleeper waits for carries data with it.
#[test]
fn what_was_written_before_is_seen_after() {
    loom::model(|| {
        let door = Door::new();
        let data = Arc::new(AtomicU32::new(0));
        let waker = thread::spawn({
            let (door, data) = (Arc::clone(&door), Arc::clone(&data));
            move || {
                data.store(7, Relaxed);
                door.publish(1);
            }
        });
        sleeper().wait(&door.bell, &door.word, door.at_least(1));
        assert_eq!(data.load(Relaxed), 7);
        waker.join().unwrap();
    });
}
