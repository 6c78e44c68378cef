//! Fork, join and barrier of nothing by teams of each size.

use std::time::Instant;

use kumiki_measure::error::{Error, Result};
use kumiki_measure::stats::describe::median_of;
use kumiki_shadow::{Builder, Policy, Threshold};
use serde::Serialize;

use crate::{Effort, order};

/// Times of a team of so many members, its caller included. Times are nanoseconds, medians.
#[derive(Clone, Debug, Serialize)]
pub struct Team {
    /// Members, each bound to a cpu.
    pub members: usize,
    /// Fork to all helpers and join.
    pub broadcast_ns: f64,
    /// Fork, a barrier of all, and join.
    pub barrier_ns: f64,
}

/// Operations between two looks at the clock.
const BATCH: u32 = 50;

/// Teams of 2, 4, 8, … members on `cpus`.
pub(crate) fn teams(cpus: &[usize], effort: Effort) -> Result<Vec<Team>> {
    order::sizes(cpus.len())
        .into_iter()
        .filter(|size| *size > 1)
        .map(|size| team(&cpus[..size], effort))
        .collect()
}

fn team(cpus: &[usize], effort: Effort) -> Result<Team> {
    let [main, helpers @ ..] = cpus else {
        return Err(Error::Invalid("a team of nobody".to_owned()));
    };
    let failed =
        |error| Error::os(format!("a team on cpus {cpus:?}"), std::io::Error::other(error));
    // Those that sleep would add a wake to what is counted in lines.
    let spins = Policy { threshold: Threshold::Infinite, ..Policy::default() };
    let builder = Builder::new().main_cpu(*main).helper_cpus(helpers.iter().copied()).policy(spins);
    let mut team = builder.create_team(cpus.len()).map_err(failed)?;
    let barrier = team.barrier();
    let (mut plain, mut with_barrier) = (Vec::new(), Vec::new());
    let began = Instant::now();
    while began.elapsed() < effort.span || plain.len() < effort.rounds {
        plain.push(each(|| team.broadcast(|_| ())));
        with_barrier.push(each(|| team.broadcast(|_| barrier.wait())));
    }
    Ok(Team {
        members: cpus.len(),
        broadcast_ns: median_of(plain),
        barrier_ns: median_of(with_barrier),
    })
}

/// Nanoseconds of one operation.
fn each(mut operation: impl FnMut()) -> f64 {
    let began = Instant::now();
    (0..BATCH).for_each(|_| operation());
    began.elapsed().as_nanos() as f64 / f64::from(BATCH)
}
