//! Every interleaving of the channel's protocol, as far as the checker goes:
//! a request runs once, whoever runs it, and its data never has two owners.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{Channel, Event};

/// A channel and something that only the request's owner may touch.
struct Scene {
    channel: Channel,
    data: UnsafeCell<Vec<u64>>,
}

// SAFETY: `data` is touched by the request's owner only; the checker reports
// where that is not so.
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

impl Scene {
    fn run(&self, n: u64) {
        // SAFETY: the pointer is to live data; exclusiveness is what is checked.
        self.data.with_mut(|data| unsafe { (*data).push(n) });
    }
}

/// A helper that serves until the channel is closed.
fn helper(scene: Arc<Scene>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut seen = 0;
        loop {
            match scene.channel.pending(seen) {
                None => thread::yield_now(),
                Some(Event::Close) => break,
                Some(Event::Taken(n)) => seen = n,
                Some(Event::Request(n)) => {
                    seen = n;
                    if scene.channel.begin(n) {
                        scene.run(n);
                        scene.channel.complete(n, true);
                    } else {
                        thread::yield_now();
                    }
                }
            }
        }
    })
}

/// Requests 1 to `requests`, of which those in `back` are wanted back. In some
/// executions they are got back, in others the helper was there first.
fn scene(requests: u64, back: &'static [u64]) {
    // Not the model's: they count over all of its executions.
    let counts = [const { AtomicUsize::new(0) }; 2].map(std::sync::Arc::new);
    let [taken, left] = counts.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let scene = Arc::new(Scene { channel: Channel::new(), data: UnsafeCell::new(Vec::new()) });
        let helper = helper(Arc::clone(&scene));
        for n in 1..=requests {
            scene.channel.submit(n);
            if back.contains(&n) {
                if scene.channel.take_back(n) {
                    taken.fetch_add(1, Relaxed);
                    scene.run(n);
                    continue;
                }
                left.fetch_add(1, Relaxed);
            }
            while scene.channel.done(n).is_none() {
                thread::yield_now();
            }
            // The main thread reads the result.
            scene.data.with(|_| ());
        }
        scene.channel.close(requests + 1);
        helper.join().unwrap();
        scene.data.with(|data| {
            // SAFETY: the helper has ended.
            let ran = unsafe { &*data };
            assert!(ran.iter().copied().eq(1..=requests), "{ran:?}");
        });
    });
    for count in counts {
        assert_eq!(count.load(Relaxed) > 0, !back.is_empty());
    }
}

#[test]
fn each_request_runs_once() {
    scene(2, &[]);
}

#[test]
fn a_request_taken_back_runs_once() {
    scene(1, &[1]);
}

#[test]
fn requests_after_one_taken_back_run_once() {
    scene(2, &[1]);
}

#[test]
fn a_late_helper_begins_no_request_of_two_taken_back() {
    scene(2, &[1, 2]);
}
