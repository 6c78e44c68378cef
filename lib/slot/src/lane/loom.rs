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
        &self.data[Lane::<LINES>::place(n)]
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

/// Steps of the requester; requests are counted from 0.
#[derive(Clone, Copy)]
enum Act {
    /// Submits the next one.
    Ask,
    /// Waits for this one.
    Join(usize),
    /// Wants this one back, and waits for it if it was not to be had.
    Back(usize),
}
use Act::{Ask, Back, Join};

/// A requester that does this. In some executions it gets back what it wants back, in
/// others the server was there first.
fn scene<const LINES: usize>(acts: &'static [Act]) {
    // Not the model's: they count over all of its executions.
    let counts = [const { AtomicUsize::new(0) }; 2].map(std::sync::Arc::new);
    let [taken, left] = counts.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let scene = Arc::new(Scene::<LINES>::new());
        let server = server(Arc::clone(&scene));
        let (mut asked, mut ours, mut busy, mut last) = (Vec::new(), Vec::new(), [false; LINES], 0);
        let after =
            |last, busy: &[bool]| Lane::<LINES>::after(last, !busy[Lane::<LINES>::place(last)]);
        for act in acts {
            let (at, back) = match *act {
                Ask => {
                    last = after(last, &busy);
                    assert!(!std::mem::replace(&mut busy[Lane::<LINES>::place(last)], true));
                    scene.lane.submit(last);
                    asked.push(last);
                    continue;
                }
                Join(at) => (at, false),
                Back(at) => (at, true),
            };
            let n = asked[at];
            busy[Lane::<LINES>::place(n)] = false;
            if back {
                if scene.lane.take_back(n) {
                    taken.fetch_add(1, Relaxed);
                    scene.run(n);
                    ours.push(n);
                    continue;
                }
                left.fetch_add(1, Relaxed);
            }
            while scene.lane.done(n).is_none() {
                thread::yield_now();
            }
            // The requester reads the result.
            scene.of(n).with(|_| ());
        }
        scene.lane.close(after(last, &busy));
        let theirs = server.join().unwrap();
        assert!(theirs.is_sorted(), "{theirs:?}");
        let mut all = [theirs, ours].concat();
        all.sort_unstable();
        assert_eq!(all, asked);
    });
    for count in counts {
        assert_eq!(count.load(Relaxed) > 0, acts.iter().any(|act| matches!(act, Back(_))));
    }
}

#[test]
fn each_request_runs_once() {
    scene::<1>(&[Ask, Join(0), Ask, Join(1)]);
}

#[test]
fn a_request_taken_back_runs_once() {
    scene::<1>(&[Ask, Back(0)]);
}

#[test]
fn requests_after_one_taken_back_run_once() {
    scene::<1>(&[Ask, Back(0), Ask, Join(1)]);
}

#[test]
fn a_late_server_begins_no_request_of_two_taken_back() {
    scene::<1>(&[Ask, Back(0), Ask, Back(1)]);
}

#[test]
fn requests_of_two_lines_run_once_and_in_order() {
    scene::<2>(&[Ask, Ask, Join(0), Ask, Join(1), Join(2)]);
}

#[test]
fn the_first_of_two_is_taken_back_and_its_line_used_again() {
    scene::<2>(&[Ask, Ask, Back(0), Ask, Join(1), Join(2)]);
}

#[test]
fn the_second_of_two_is_taken_back_while_the_first_is_left() {
    scene::<2>(&[Ask, Ask, Join(0), Back(1)]);
}

#[test]
fn a_turn_and_a_step_after_it_run_in_order() {
    scene::<2>(&[Ask, Join(0), Ask, Ask, Join(1), Join(2)]);
}

#[test]
fn the_next_turn_follows_one_taken_back_while_the_step_before_is_left() {
    scene::<2>(&[Ask, Ask, Back(1), Ask, Join(0), Join(2)]);
}
