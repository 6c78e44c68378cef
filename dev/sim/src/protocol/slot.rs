//! A request and its answer: in one line, and in two for comparison.

use std::sync::Arc;

use kumiki_slot::{Event, Lane, job};
use kumiki_sys::sim::atomic::{AtomicU64, Ordering};
use kumiki_sys::sim::spin_loop;

use crate::place::{Place, operations};
use crate::report::Report;

const WARM: u32 = 8;
const ROUNDS: u32 = 100;
/// An owner makes many before it loses its line: so many are a mean.
const SWAPS: u32 = 20_000;

/// A word on lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Own(AtomicU64);

fn until(word: &AtomicU64, value: u64) {
    while word.load(Ordering::Acquire) != value {
        spin_loop();
    }
}

/// A word that two cpus write in turns.
pub(super) fn raw(place: &Place) -> Report {
    let rounds = operations(place, WARM, ROUNDS);
    place.run(move |stage| {
        let word = Arc::new(Own::default());
        let theirs = Arc::clone(&word);
        let server = stage.spawn(1, move || {
            for round in 0..rounds {
                until(&theirs.0, 2 * round + 1);
                theirs.0.store(2 * round + 2, Ordering::Release);
            }
        });
        let mut round = 0;
        let report = stage.measured(WARM, ROUNDS, || {
            word.0.store(2 * round + 1, Ordering::Release);
            until(&word.0, 2 * round + 2);
            round += 1;
        });
        stage.join(server);
        report
    })
}

/// Swaps of two cpus in one line, as fast as they can: the time of one of either.
pub(super) fn contended(place: &Place) -> Report {
    place.run(|stage| {
        let word = Arc::new((Own::default(), Own::default()));
        let theirs = Arc::clone(&word);
        let server = stage.spawn(1, move || {
            let (line, over) = &*theirs;
            while over.0.load(Ordering::Relaxed) == 0 {
                line.0.fetch_add(2, Ordering::AcqRel);
            }
        });
        let (line, over) = &*word;
        let report = stage.measured(WARM, SWAPS, || _ = line.0.fetch_add(2, Ordering::AcqRel));
        over.0.store(1, Ordering::Relaxed);
        stage.join(server);
        report
    })
}

/// The lane's real code, without a wait's.
pub(super) fn lane(place: &Place) -> Report {
    place.run(move |stage| {
        let lane = Arc::new(Lane::<1>::new());
        let theirs = Arc::clone(&lane);
        let server = stage.spawn(1, move || serve(&theirs));
        let mut n = Lane::<1>::FIRST;
        let report = stage.measured(WARM, ROUNDS, || {
            // SAFETY: the last request's answer was taken, so the line is the requester's.
            unsafe { job::pack(lane.request(n), || ()) };
            lane.submit(n);
            let success = loop {
                if let Some(success) = lane.done(n) {
                    break success;
                }
                spin_loop();
            };
            // SAFETY: complete, taken once, and a job that returns nothing.
            let outcome: std::thread::Result<()> = unsafe { job::unpack(lane.request(n), success) };
            assert!(outcome.is_ok());
            n += 1;
        });
        lane.close(n);
        stage.join(server);
        report
    })
}

/// Fork and join by one cpu with each of the others, as a team without groups would do it.
pub(super) fn lanes(place: &Place) -> Report {
    let cpus = place.cpus();
    place.run(move |stage| {
        let lanes: Vec<_> = (1..cpus).map(|_| Arc::new(Lane::<1>::new())).collect();
        let start = |(at, lane): (usize, &Arc<Lane<1>>)| {
            let theirs = Arc::clone(lane);
            stage.spawn(at + 1, move || serve(&theirs))
        };
        let servers: Vec<_> = lanes.iter().enumerate().map(start).collect();
        let mut n = Lane::<1>::FIRST;
        let report = stage.measured(WARM, ROUNDS, || {
            for lane in &lanes {
                // SAFETY: the last request's answer was taken, so the line is the requester's.
                unsafe { job::pack(lane.request(n), || ()) };
                lane.submit(n);
            }
            for lane in &lanes {
                while lane.done(n).is_none() {
                    spin_loop();
                }
            }
            n += 1;
        });
        lanes.iter().for_each(|lane| lane.close(n));
        servers.into_iter().for_each(|server| stage.join(server));
        report
    })
}

fn serve(lane: &Lane<1>) {
    let mut next = Lane::<1>::FIRST;
    loop {
        match lane.pending(next) {
            Some(Event::Request(n)) => {
                assert!(lane.begin(n));
                // SAFETY: begun, so it is this thread's until `complete`.
                lane.complete(n, unsafe { job::execute(lane.request(n)) });
                next = n + 1;
            }
            Some(Event::Close) => return,
            Some(Event::Taken(_)) => unreachable!("nobody takes anything back"),
            None => spin_loop(),
        }
    }
}

/// Counts what a lane would be with its status on one line and the request on another.
pub(super) fn two_lines(place: &Place) -> Report {
    let rounds = operations(place, WARM, ROUNDS);
    place.run(move |stage| {
        let lines = Arc::new((Own::default(), Own::default()));
        let theirs = Arc::clone(&lines);
        let server = stage.spawn(1, move || {
            let (status, request) = &*theirs;
            for round in 0..rounds {
                until(&status.0, 2 * round + 1);
                request.0.load(Ordering::Relaxed);
                request.0.store(round, Ordering::Relaxed);
                status.0.store(2 * round + 2, Ordering::Release);
            }
        });
        let (status, request) = &*lines;
        let mut round = 0;
        let report = stage.measured(WARM, ROUNDS, || {
            request.0.store(round, Ordering::Relaxed);
            status.0.store(2 * round + 1, Ordering::Release);
            until(&status.0, 2 * round + 2);
            request.0.load(Ordering::Relaxed);
            round += 1;
        });
        stage.join(server);
        report
    })
}
