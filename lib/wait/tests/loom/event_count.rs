//! Many sleepers. What they wait for is read and written Relaxed, so that the
//! event count alone orders it.

use std::time::Instant;

use kumiki_wait::EventCount;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread::{self, JoinHandle};

/// Things to be had, one for each who comes, and where those sleep who find none.
struct Counter {
    events: EventCount,
    things: AtomicU32,
}

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Counter { events: EventCount::new(), things: AtomicU32::new(0) })
    }

    /// Puts so many there, and wakes as many.
    fn put(&self, count: u32) {
        self.things.fetch_add(count, Relaxed);
        self.events.notify(count);
    }

    fn try_take(&self) -> bool {
        self.things.fetch_update(Relaxed, Relaxed, |things| things.checked_sub(1)).is_ok()
    }

    fn take(&self) {
        loop {
            let seen = self.events.look();
            if self.try_take() {
                return;
            }
            self.events.sleep(seen, None);
        }
    }
}

/// Threads that each take one thing.
fn takers<const N: usize>(counter: &Arc<Counter>) -> [JoinHandle<()>; N] {
    std::array::from_fn(|_| {
        let counter = Arc::clone(counter);
        thread::spawn(move || counter.take())
    })
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn one_sleeper_several_rounds() {
    loom::model(|| {
        let counter = Counter::new();
        let waker = thread::spawn({
            let counter = Arc::clone(&counter);
            move || (0..2).for_each(|_| counter.put(1))
        });
        (0..2).for_each(|_| counter.take());
        join([waker]);
    });
}

#[test]
fn one_notification_wakes_as_many_as_it_says_or_all() {
    for count in [2, u32::MAX] {
        loom::model(move || {
            let counter = Counter::new();
            let takers = takers::<2>(&counter);
            counter.things.fetch_add(2, Relaxed);
            counter.events.notify(count);
            join(takers);
        });
    }
}

#[test]
fn each_notification_wakes_another_one() {
    loom::model(|| {
        let counter = Counter::new();
        let takers = takers::<2>(&counter);
        (0..2).for_each(|_| counter.put(1));
        join(takers);
    });
}

#[test]
fn two_wakers_one_sleeper() {
    loom::model(|| {
        let counter = Counter::new();
        let wakers = [1, 2].map(|_| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || counter.put(1))
        });
        (0..2).for_each(|_| counter.take());
        join(wakers);
    });
}

#[test]
fn a_sleep_that_times_out_takes_no_wake_from_others() {
    loom::model(|| {
        let counter = Counter::new();
        let taker = takers::<1>(&counter);
        let passer_by = thread::spawn({
            let counter = Arc::clone(&counter);
            move || counter.events.sleep(counter.events.look(), Some(Instant::now()))
        });
        counter.put(1);
        join(taker);
        passer_by.join().unwrap();
    });
}
