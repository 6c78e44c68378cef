//! A batch of system calls, claimed by several threads.

use std::sync::Arc;

use kumiki_parasc::simulated::Batch;
use kumiki_sys::sim::Machine as _;
use kumiki_sys::sim::atomic::{AtomicBool, Ordering};

use crate::Run;
use crate::machine::Machine;
use crate::report::{Report, measured};

const WARM: u32 = 2;
const ROUNDS: u32 = 10;

/// A word on lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Ends(AtomicBool);

/// A batch on a machine, shared by so many, while all other cpus have a thread that spins.
fn shared(machine: &Machine, threads: usize) -> Report {
    let cpus = machine.cpus;
    Run::of(machine, move |run| {
        let (batch, ends) = (Arc::new(Batch::new(300, 200, 32)), Arc::new(Ends::default()));
        let start = |cpu: usize| {
            let (batch, ends) = (Arc::clone(&batch), Arc::clone(&ends));
            let serve = move || batch.serve(cpu - 1, || ends.0.load(Ordering::Relaxed));
            run.spawn(cpu, Box::new(serve))
        };
        let helpers: Vec<usize> = (1..cpus).map(start).collect();
        let report = measured(run, WARM, ROUNDS, || batch.run(threads));
        ends.0.store(true, Ordering::Relaxed);
        helpers.into_iter().for_each(|helper| run.join(helper));
        report
    })
}

pub(super) fn by_all(machine: &Machine) -> Report {
    shared(machine, machine.cpus)
}

pub(super) fn by_two(machine: &Machine) -> Report {
    shared(machine, 2)
}
