//! Shadows and teams.

use kumiki_shadow::{Shadow, Team};
use kumiki_sys::sim::work;
use kumiki_wait::{Policy, Threshold};

use crate::Run;
use crate::machine::Machine;
use crate::report::{Report, measured};

const WARM: u32 = 4;
const ROUNDS: u32 = 20;
/// Helpers that are counted are awake: one that sleeps adds its bell's line and a system call.
const SPINS: Policy = Policy {
    threshold: Threshold::Infinite,
    sleep: kumiki_wait::Sleep::Auto,
    relax: kumiki_wait::Relax::Auto,
};

pub(super) fn fork(machine: &Machine) -> Report {
    Run::of(machine, |run| {
        let mut shadow = Shadow::create().expect("a second cpu");
        measured(run, 5 * WARM, 5 * ROUNDS, || {
            shadow.scope(|scope| scope.fork(|| ()).join().expect("it does nothing"));
        })
    })
}

/// A team on all cpus, and what it does.
fn team(machine: &Machine, operation: impl Fn(&mut Team) + 'static) -> Report {
    let cpus = machine.cpus;
    Run::of(machine, move |run| {
        let mut team = Team::with_policy(cpus, &SPINS).expect("all cpus");
        measured(run, WARM, ROUNDS, || operation(&mut team))
    })
}

pub(super) fn broadcast(machine: &Machine) -> Report {
    team(machine, |team| team.broadcast(|_| ()))
}

pub(super) fn for_each(machine: &Machine) -> Report {
    team(machine, |team| team.for_each(4096, 1, |range| work(range.len() as u64)))
}

pub(super) fn barrier(machine: &Machine) -> Report {
    let cpus = machine.cpus;
    Run::of(machine, move |run| {
        let mut team = Team::with_policy(cpus, &SPINS).expect("all cpus");
        let barrier = team.barrier();
        measured(run, WARM, ROUNDS, || team.broadcast(|_| barrier.wait()))
    })
}
