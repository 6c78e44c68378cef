//! How many cores at once, and which.

use kumiki_measure::Result;
use kumiki_measure::case::{Level, Place};
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::Topology;

use crate::partner;

/// Cores at once that every run has.
const QUICK: usize = 2;
/// Every number up to here; the paper's machine has so many.
const EACH: usize = 16;

/// Every number to [`EACH`], then powers of two, and all.
pub(super) fn counts(cpus: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (1..=cpus.min(EACH)).collect();
    let powers = std::iter::successors(Some(2 * EACH), |n| Some(2 * n));
    counts.extend(powers.take_while(|n| *n < cpus));
    if cpus > EACH {
        counts.push(cpus);
    }
    counts
}

/// Level of a run with so many cores: powers of two and all by default, every number in full.
pub(super) fn level(cores: usize, cpus: usize) -> Level {
    match cores {
        ..=QUICK => Level::Quick,
        n if n.is_power_of_two() || n == cpus => Level::Default,
        _ => Level::Full,
    }
}

/// Order in which cpus are used: whole cores of the first one's socket, of other sockets, and the
/// second hardware threads of cores last.
fn order(first: usize, all: &CpuSet, topology: &Topology) -> Vec<usize> {
    let package = |cpu| topology.cpu(cpu).and_then(|cpu| cpu.package);
    let mut cpus: Vec<usize> = all.iter().collect();
    cpus.sort_by_key(|&cpu| {
        let siblings = topology.siblings(cpu).intersection(all);
        // The first one stands for its core.
        let is_second = cpu != first
            && siblings.iter().any(|other| other == first || other < cpu && other != cpu);
        (cpu != first, is_second, package(cpu) != package(first), package(cpu), cpu)
    });
    cpus
}

/// Value for one cpu of each core, all of one socket.
pub(super) const WHOLE: &str = "whole cores";

/// Value for the last of these cpus: the relation that the others do not have.
fn reach(cpus: &[usize], topology: &Topology) -> &'static str {
    let package = |cpu: usize| topology.cpu(cpu).and_then(|cpu| cpu.package);
    let is_sibling = |(at, cpu): (usize, &usize)| {
        cpus[..at].iter().any(|o| topology.siblings(*cpu).contains(*o))
    };
    match cpus {
        _ if cpus.iter().enumerate().any(is_sibling) => "SMT siblings",
        [first, rest @ ..] if rest.iter().any(|cpu| package(*cpu) != package(*first)) => {
            "more sockets"
        }
        _ => WHOLE,
    }
}

/// The cpus of a case: this thread's, and those next in order. Of two the second is the
/// place's partner, as everywhere.
pub(super) fn cpus(place: &Place, cores: usize, all: &CpuSet) -> Result<Vec<usize>> {
    match cores {
        1 => Ok(vec![place.cpu]),
        2 => Ok(vec![place.cpu, partner(place)?]),
        _ => {
            let mut cpus = order(place.cpu, all, &Topology::read()?);
            cpus.truncate(cores);
            Ok(cpus)
        }
    }
}

/// Value before a place is known, for the description of the case.
pub(super) fn reach_of(cores: usize, all: &CpuSet) -> &'static str {
    let (Ok(topology), Some(first)) = (Topology::read(), all.first()) else { return "unknown" };
    let mut cpus = order(first, all, &topology);
    cpus.truncate(cores);
    reach(&cpus, &topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_every_number_to_16_then_powers_of_two_and_all() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 3, 4, 5, 6]);
        let every: Vec<usize> = (1..=16).collect();
        assert_eq!(counts(16), every);
        assert_eq!(counts(17), [&every[..], &[17]].concat());
        assert_eq!(counts(64), [&every[..], &[32, 64]].concat());
        assert_eq!(counts(96), [&every[..], &[32, 64, 96]].concat());
        assert_eq!(level(3, 6), Level::Full);
        assert_eq!([level(4, 6), level(6, 6)], [Level::Default; 2]);
    }

    #[test]
    fn the_first_cpu_is_this_one_and_none_is_twice() {
        let topology = Topology::read().unwrap();
        let all = topology.online().clone();
        for first in all.iter() {
            let order = order(first, &all, &topology);
            assert_eq!((order[0], order.len()), (first, all.len()));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), all.len());
            // As many whole cores as there are come first.
            let cores = topology.cores();
            let seen: std::collections::BTreeSet<_> =
                order[..cores].iter().map(|cpu| topology.siblings(*cpu).first()).collect();
            assert_eq!(seen.len(), cores, "{order:?}");
        }
    }
}
