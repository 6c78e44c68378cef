//! Every interleaving of a lane's protocol, as far as the checker goes: a request runs
//! once, whoever runs it, in the order of the numbers on the server's side, and its data
//! never has two owners.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{Event, Lane};

/// A lane and, for each line, what only the owner of its request may touch.
struct Scene<const LINES: usize> {
    lane: Lane<LINES>,
    data: [UnsafeCell<Vec<u64>>; LINES],
}

// SAFETY: `data` is touched by the request's owner only; the checker reports
// where that is not so.
unsafe impl<const LINES: usize> Sync for Scene<LINES> {}
// SAFETY: as above.
unsafe impl<const LINES: usize> Send for Scene<LINES> {}

impl<const LINES: usize> Scene<LINES> {
    fn new() -> Self {
        Scene { lane: Lane::new(), data: std::array::from_fn(|_| UnsafeCell::new(Vec::new())) }
    }

    fn of(&self, n: u64) -> &UnsafeCell<Vec<u64>> {
        &self.data[n as usize % LINES]
    }

    fn run(&self, n: u64) {
        // SAFETY: the pointer is to live data; exclusiveness is what is checked.
        self.of(n).with_mut(|data| unsafe { (*data).push(n) });
    }
}

/// A server until the lane is closed; which requests it has run, in order.
fn server<const LINES: usize>(scene: Arc<Scene<LINES>>) -> thread::JoinHandle<Vec<u64>> {
    thread::spawn(move || {
        let (mut next, mut ran) = (Lane::<LINES>::FIRST, Vec::new());
        loop {
            match scene.lane.pending(next) {
                None => thread::yield_now(),
                Some(Event::Close) => break ran,
                Some(Event::Taken(n)) => next = n + 1,
                Some(Event::Request(n)) => {
                    next = n + 1;
                    if scene.lane.begin(n) {
                        scene.run(n);
                        ran.push(n);
                        scene.lane.complete(n, true);
                    } else {
                        thread::yield_now();
                    }
                }
            }
        }
    })
}

/// Requests 1 to `requests`, `LINES` of them under way, of which those in `back` are
/// wanted back. In some executions they are got back, in others the server was there
/// first.
fn scene<const LINES: usize>(requests: u64, back: &'static [u64]) {
    // Not the model's: they count over all of its executions.
    let counts = [const { AtomicUsize::new(0) }; 2].map(std::sync::Arc::new);
    let [taken, left] = counts.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let scene = Arc::new(Scene::<LINES>::new());
        let server = server(Arc::clone(&scene));
        let mut ours = Vec::new();
        let mut join = |n: u64| {
            if back.contains(&n) {
                if scene.lane.take_back(n) {
                    taken.fetch_add(1, Relaxed);
                    scene.run(n);
                    return ours.push(n);
                }
                left.fetch_add(1, Relaxed);
            }
            while scene.lane.done(n).is_none() {
                thread::yield_now();
            }
            // The requester reads the result.
            scene.of(n).with(|_| ());
        };
        let lines = LINES as u64;
        for n in 1..=requests {
            if n > lines {
                join(n - lines);
            }
            scene.lane.submit(n);
        }
        for n in requests.saturating_sub(lines) + 1..=requests {
            join(n);
        }
        scene.lane.close(requests + 1);
        let theirs = server.join().unwrap();
        assert!(theirs.is_sorted(), "{theirs:?}");
        let mut all = [theirs, ours].concat();
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=requests), "{all:?}");
    });
    for count in counts {
        assert_eq!(count.load(Relaxed) > 0, !back.is_empty());
    }
}

#[test]
fn each_request_runs_once() {
    scene::<1>(2, &[]);
}

#[test]
fn a_request_taken_back_runs_once() {
    scene::<1>(1, &[1]);
}

#[test]
fn requests_after_one_taken_back_run_once() {
    scene::<1>(2, &[1]);
}

#[test]
fn a_late_server_begins_no_request_of_two_taken_back() {
    scene::<1>(2, &[1, 2]);
}

#[test]
fn requests_of_two_lines_run_once_and_in_order() {
    scene::<2>(3, &[]);
}

#[test]
fn the_first_of_two_is_taken_back_and_its_line_used_again() {
    scene::<2>(3, &[1]);
}

#[test]
fn the_second_of_two_is_taken_back_while_the_first_is_left() {
    scene::<2>(2, &[2]);
}
