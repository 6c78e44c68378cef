//! Waits for another thread's answer: within a cache line's time if it comes soon, asleep if it
//! does not, and no longer than a limit. Feature `wait`.
//!
//! ```console
//! $ cargo run -p kumiki --features wait --example wait_for_answer
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kumiki::wait::{Bell, Policy, Waiter};

/// Where the answer comes, 0 until then.
static ANSWER: AtomicU64 = AtomicU64::new(0);
/// What wakes the thread that waits for it. Only one may wait at a bell.
static BELL: Bell = Bell::new();

fn main() -> Result<(), Box<dyn Error>> {
    let mut waiter = Waiter::new(&Policy::default())?;
    let worker = thread::spawn(|| {
        // Much longer than anybody should spin.
        thread::sleep(Duration::from_millis(200));
        ANSWER.store(42, Ordering::Release);
        // A system call only if the other thread sleeps.
        BELL.ring();
    });
    let ready = || match ANSWER.load(Ordering::Acquire) {
        0 => None,
        answer => Some(answer),
    };
    let limit = Instant::now() + Duration::from_secs(60);
    let answer = waiter.wait_deadline(&BELL, &ANSWER, limit, ready)?;
    let counts = waiter.counts();
    println!("{answer}; spun {} times, slept {}", counts.spun, counts.dozed + counts.slept);
    worker.join().expect("the worker does not panic");
    Ok(())
}
