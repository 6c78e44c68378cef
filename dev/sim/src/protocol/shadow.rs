//! Shadows and teams.

use kumiki_shadow::{Shadow, Team};
use kumiki_sys::sim::work;
use kumiki_wait::{Policy, Threshold};

use crate::place::Place;
use crate::report::Report;

const WARM: u32 = 4;
const ROUNDS: u32 = 20;
/// Helpers that are counted are awake: one that sleeps adds its bell's line and a system call.
pub(super) const SPINS: Policy = Policy {
    threshold: Threshold::Infinite,
    sleep: kumiki_wait::Sleep::Auto,
    relax: kumiki_wait::Relax::Auto,
};

pub(super) fn fork(place: &Place) -> Report {
    place.run(|stage| {
        let mut shadow = Shadow::create().expect("a second cpu");
        stage.measured(5 * WARM, 5 * ROUNDS, || {
            shadow.scope(|scope| scope.fork(|| ()).join().expect("it does nothing"));
        })
    })
}

/// A team on all cpus, and what it does.
fn team(place: &Place, operation: impl Fn(&mut Team) + 'static) -> Report {
    let cpus = place.cpus();
    place.run(move |stage| {
        let mut team = Team::with_policy(cpus, &SPINS).expect("all cpus");
        stage.measured(WARM, ROUNDS, || operation(&mut team))
    })
}

pub(super) fn broadcast(place: &Place) -> Report {
    team(place, |team| team.broadcast(|_| ()))
}

pub(super) fn for_each(place: &Place) -> Report {
    team(place, |team| team.for_each(4096, 1, |range| work(range.len() as u64)))
}

pub(super) fn barrier(place: &Place) -> Report {
    let cpus = place.cpus();
    place.run(move |stage| {
        let mut team = Team::with_policy(cpus, &SPINS).expect("all cpus");
        let barrier = team.barrier();
        stage.measured(WARM, ROUNDS, || team.broadcast(|_| barrier.wait()))
    })
}
