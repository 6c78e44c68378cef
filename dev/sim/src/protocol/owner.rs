//! An owner of resources, whom all other cpus ask, and one cpu that asks many owners.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_resource::desk;
use kumiki_sys::sim::work;
use kumiki_wait::{Policy, Threshold, Waiter};

use crate::place::Place;
use crate::report::Report;

const WARM: u32 = 4;
const ROUNDS: u32 = 20;
/// Answers of a round.
const ANSWERS: u32 = 512;
/// Work of a request, nanoseconds.
const SERVICE: u64 = 200;

/// Answers so far, on lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Served(AtomicU64);

/// Waits without a sleep: who is counted is awake.
fn waiter() -> Waiter {
    let spins = Policy { threshold: Threshold::Infinite, ..Policy::default() };
    Waiter::new(&spins).expect("it sleeps nowhere")
}

/// The time that the owner takes for an answer while every other cpu has a request under way.
pub(super) fn asked(place: &Place) -> Report {
    let cpus = place.cpus();
    place.run(move |stage| {
        let (door, server) = desk::open();
        // Plain for the machine: it is the owner's own. Kept for ever, so that a request has all that it
        // needs with it: what lies on its caller's stack costs another line, which nobody counts here.
        let served: &'static Served = Box::leak(Box::default());
        let callers: Vec<_> = (1..cpus)
            .map(|cpu| {
                let mut caller = door.caller(waiter());
                let answer = move || {
                    work(SERVICE);
                    served.0.fetch_add(1, Relaxed);
                };
                stage.spawn(cpu, move || while caller.call(answer).is_ok() {})
            })
            .collect();
        let mut serving = server.begin();
        let mut wanted = 0;
        let report = stage.measured(WARM, ROUNDS, || {
            wanted += u64::from(ANSWERS);
            while served.0.load(Relaxed) < wanted {
                serving.round();
            }
        });
        door.close();
        serving.end();
        callers.into_iter().for_each(|caller| stage.join(caller));
        report.each(ANSWERS)
    })
}

/// A request to an owner on each of the other cpus, all under way before the first answer is waited
/// for, as `Interface::each` does it.
pub(super) fn each(place: &Place) -> Report {
    let cpus = place.cpus();
    place.run(move |stage| {
        let owner = |cpu| {
            let (door, server) = desk::open();
            let caller = door.caller(waiter());
            let serves = stage.spawn(cpu, move || server.serve(&mut waiter()));
            (door, caller, serves)
        };
        let mut owners: Vec<_> = (1..cpus).map(owner).collect();
        let report = stage.measured(WARM, ROUNDS, || {
            let start = |(_, caller, _): &mut (_, desk::Caller, _)| {
                caller.submit(|| work(SERVICE)).expect("its lines are free")
            };
            let answers: Vec<_> = owners.iter_mut().map(start).collect();
            for ((_, caller, _), answer) in owners.iter_mut().zip(answers) {
                caller.join(answer).expect("the owner serves");
            }
        });
        for (door, _, serves) in owners {
            door.close();
            stage.join(serves);
        }
        report
    })
}
