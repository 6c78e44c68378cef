//! A batch of system calls, claimed by several threads.

use std::sync::Arc;

use kumiki_parasc::simulated::Batch;
use kumiki_sys::sim::atomic::{AtomicBool, Ordering};

use crate::place::{Helper, Place};
use crate::report::Report;

const WARM: u32 = 2;
const ROUNDS: u32 = 10;

/// A word on lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Ends(AtomicBool);

/// A batch on a machine, shared by so many, while all other cpus have a thread that spins.
fn shared(place: &Place, threads: usize) -> Report {
    let cpus = place.cpus();
    place.run(move |stage| {
        let (batch, ends) = (Arc::new(Batch::new(300, 200, 32)), Arc::new(Ends::default()));
        let start = |cpu: usize| {
            let (batch, ends) = (Arc::clone(&batch), Arc::clone(&ends));
            let serve = move || batch.serve(cpu - 1, || ends.0.load(Ordering::Relaxed));
            stage.spawn(cpu, serve)
        };
        let helpers: Vec<Helper> = (1..cpus).map(start).collect();
        let report = stage.measured(WARM, ROUNDS, || batch.run(threads));
        ends.0.store(true, Ordering::Relaxed);
        helpers.into_iter().for_each(|helper| stage.join(helper));
        report
    })
}

pub(super) fn by_all(place: &Place) -> Report {
    shared(place, place.cpus())
}

pub(super) fn by_two(place: &Place) -> Report {
    shared(place, 2)
}
