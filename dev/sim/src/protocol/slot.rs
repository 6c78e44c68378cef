//! A request and its answer: in one line, and in two for comparison.

use std::sync::Arc;

use kumiki_slot::{Event, Lane, job};
use kumiki_sys::sim::atomic::{AtomicU64, Ordering};
use kumiki_sys::sim::{Access, Machine as _, spin_loop, touch};

use crate::machine::Machine;
use crate::report::{Report, measured};
use crate::{Run, machine};

const WARM: u32 = 8;
const ROUNDS: u32 = 100;

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
pub(super) fn raw(machine: &Machine) -> Report {
    Run::of(machine, |run| {
        let word = Arc::new(Own::default());
        let theirs = Arc::clone(&word);
        let rounds = u64::from(WARM + ROUNDS);
        let server = run.spawn(
            1,
            Box::new(move || {
                for round in 0..rounds {
                    until(&theirs.0, 2 * round + 1);
                    theirs.0.store(2 * round + 2, Ordering::Release);
                }
            }),
        );
        let mut round = 0;
        let report = measured(run, WARM, ROUNDS, || {
            word.0.store(2 * round + 1, Ordering::Release);
            until(&word.0, 2 * round + 2);
            round += 1;
        });
        run.join(server);
        report
    })
}

/// The lane's real code, without a wait's.
pub(super) fn lane(machine: &machine::Machine) -> Report {
    Run::of(machine, |run| {
        let lane = Arc::new(Lane::<1>::new());
        let theirs = Arc::clone(&lane);
        let server = run.spawn(1, Box::new(move || serve(&theirs)));
        let mut n = Lane::<1>::FIRST;
        let report = measured(run, WARM, ROUNDS, || {
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
        run.join(server);
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
pub(super) fn two_lines(machine: &Machine) -> Report {
    Run::of(machine, |run| {
        let lines = Arc::new((Own::default(), Own::default()));
        let theirs = Arc::clone(&lines);
        let rounds = u64::from(WARM + ROUNDS);
        let server = run.spawn(
            1,
            Box::new(move || {
                let (status, request) = &*theirs;
                for round in 0..rounds {
                    until(&status.0, 2 * round + 1);
                    touch(request, 8, Access::Load);
                    touch(request, 8, Access::Store);
                    status.0.store(2 * round + 2, Ordering::Release);
                }
            }),
        );
        let (status, request) = &*lines;
        let mut round = 0;
        let report = measured(run, WARM, ROUNDS, || {
            touch(request, 8, Access::Store);
            status.0.store(2 * round + 1, Ordering::Release);
            until(&status.0, 2 * round + 2);
            touch(request, 8, Access::Load);
            round += 1;
        });
        run.join(server);
        report
    })
}
