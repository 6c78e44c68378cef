//! One sleeper at a descriptor, and those that ring. What they put there is written and read
//! Relaxed, so that the bell alone orders it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kumiki_wait::PollBell;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

struct Queue {
    bell: PollBell,
    /// Of each ringer one: nobody else's change orders its own.
    put: [AtomicU32; 2],
}

impl Queue {
    fn new() -> Arc<Self> {
        let put = [AtomicU32::new(0), AtomicU32::new(0)];
        Arc::new(Queue { bell: PollBell::new().unwrap(), put })
    }

    fn put(&self, by: usize) {
        self.put[by].store(self.put[by].load(Relaxed) + 1, Relaxed);
        self.bell.ring();
    }

    fn found(&self) -> u32 {
        self.put.iter().map(|put| put.load(Relaxed)).sum()
    }
}

/// Two ringers that put there `each`, and one sleeper that ends when it has seen all.
fn scene(each: u32, sleep: fn(&Queue, all: u32)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let queue = Queue::new();
        let ringers = [0, 1].map(|by| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || (0..each).for_each(|_| queue.put(by)))
        });
        sleep(&queue, 2 * each);
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    });
}

#[test]
fn the_descriptor_tells_of_all_that_is_put_there() {
    scene(2, |queue, all| {
        while queue.found() < all {
            queue.bell.poll();
            queue.bell.listen();
        }
    });
}

/// The same without a look before the first poll.
#[test]
fn who_looks_only_after_a_poll_sees_all() {
    scene(1, |queue, all| {
        let mut found = 0;
        while found < all {
            queue.bell.poll();
            queue.bell.listen();
            found = queue.found();
        }
    });
}

/// As a core's thread that is awake most of the time.
#[test]
fn nor_does_one_miss_it_who_is_hushed_while_awake() {
    scene(1, |queue, all| {
        let mut was_readable = false;
        loop {
            match was_readable {
                true => queue.bell.listen(),
                false => queue.bell.listen_again(),
            }
            if queue.found() == all {
                break;
            }
            queue.bell.poll();
            was_readable = true;
            queue.bell.hush();
            if queue.found() == all {
                break;
            }
        }
    });
}

/// The order in which `Completions` had it: the read comes last, and eats a write of after the flag.
#[test]
fn the_model_finds_a_descriptor_that_is_read_after_the_flag() {
    let lost = catch_unwind(AssertUnwindSafe(|| {
        scene(2, |queue, all| {
            while queue.found() < all {
                queue.bell.poll();
                queue.bell.listen_too_early();
            }
        });
    }));
    let why = lost.expect_err("no wake was lost");
    let why = why.downcast_ref::<String>().expect("loom says it in words");
    assert!(why.contains("deadlock"), "{why}");
}
