//! Figures 5 and 6: fork and join for every pair of cpus, with a helper that
//! spins and with one that sleeps. The paper's sleep is monitor/mwait; here it
//! is the best that a program may use (UMWAIT, MWAITX, else futex).

use std::collections::BTreeMap;

use kumiki_measure::Result;
use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_shadow::Threshold;
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::{Relation, Topology};

use super::{Asleep, Helped, Hot, waiting};

const ABOUT: &str = "fork and join of nothing on every pair of cpus (of many cpus some of each \
                     relation, all in a full run), with a helper that spins and with one that \
                     sleeps at once";

/// Runs that are shorter than the full one, which has every pair: the cpus up
/// to which they have every pair too, and the pairs of each relation that they
/// have beyond that. 64 cpus make 4032 pairs.
const SHORTER: [(Level, usize, usize); 2] = [(Level::Quick, 2, 1), (Level::Default, 8, 8)];

pub(super) fn cases() -> Vec<Case> {
    let (Ok(topology), Ok(allowed)) = (Topology::read(), affinity::current()) else {
        return Vec::new();
    };
    let pairs = pairs(&topology, &allowed);
    let both = |(pair, level): ([usize; 2], Level)| {
        let [main, helper] = pair;
        let relation = word(topology.relation(main, helper));
        [spin(pair, level), sleep(pair, level)].map(|case| case.with("relation", relation.as_str()))
    };
    pairs.into_iter().flat_map(both).collect()
}

/// Word for the relation of two cpus.
fn word(relation: Relation) -> String {
    match relation {
        Relation::Sibling => "one_core".to_owned(),
        Relation::Cache { level } => format!("one_l{level}"),
        Relation::Node => "one_node".to_owned(),
        Relation::Package => "one_socket".to_owned(),
        Relation::Remote => "other_socket".to_owned(),
        Relation::Same => "one_cpu".to_owned(),
    }
}

/// Pairs of main thread's and helper's cpu with the shortest run that has them.
fn pairs(topology: &Topology, allowed: &CpuSet) -> Vec<([usize; 2], Level)> {
    let cpus = allowed.intersection(topology.online());
    let mut by_relation: BTreeMap<Relation, Vec<[usize; 2]>> = BTreeMap::new();
    for main in cpus.iter() {
        for helper in cpus.iter().filter(|&helper| helper != main) {
            by_relation.entry(topology.relation(main, helper)).or_default().push([main, helper]);
        }
    }
    let mut pairs = Vec::new();
    for group in by_relation.values() {
        for (i, &pair) in group.iter().enumerate() {
            let first = SHORTER
                .iter()
                .find(|(_, all, some)| cpus.len() <= *all || is_among(i, group.len(), *some));
            pairs.push((pair, first.map_or(Level::Full, |(level, ..)| *level)));
        }
    }
    pairs.sort();
    pairs
}

/// True if the `i`-th of `len` is among `some` of them, evenly apart.
fn is_among(i: usize, len: usize, some: usize) -> bool {
    let at = |i: usize| i * some.min(len) / len;
    i == 0 || at(i) != at(i - 1)
}

fn case<W: Workload + 'static>(
    [main, helper]: [usize; 2],
    level: Level,
    wait: &str,
    setup: impl Fn(&Place) -> Result<W> + 'static,
) -> Case {
    let case = Case::new("shadow.pair", ABOUT, setup).between(main, helper).level(level);
    case.with("main_cpu", main).with("helper_cpu", helper).with("wait", wait)
}

fn spin(pair: [usize; 2], level: Level) -> Case {
    case(pair, level, "spin", |place| {
        Ok(Hot(Helped::new(place, waiting(Threshold::Infinite))?, Helped::fork_join))
    })
}

fn sleep(pair: [usize; 2], level: Level) -> Case {
    case(pair, level, "sleep", Asleep::new)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine of packages of so many cores with two hardware threads each, a
    /// node and a level-3 cache a package, in sysfs' formats.
    fn machine(packages: usize, cores: usize) -> (Topology, CpuSet) {
        let root = tempfile::tempdir().unwrap();
        let put = |path: String, content: String| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content + "\n").unwrap();
        };
        let half = packages * cores;
        for name in ["online", "possible", "present"] {
            put(format!("cpu/{name}"), format!("0-{}", 2 * half - 1));
        }
        for package in 0..packages {
            let (a, b) = (package * cores, package * cores + cores - 1);
            let cpus = format!("{a}-{b},{}-{}", a + half, b + half);
            put(format!("node/node{package}/cpulist"), cpus.clone());
            for core in a..=b {
                for cpu in [core, core + half] {
                    let cpu = format!("cpu/cpu{cpu}");
                    put(format!("{cpu}/topology/physical_package_id"), package.to_string());
                    put(format!("{cpu}/topology/core_id"), core.to_string());
                    let siblings = format!("{core},{}", core + half);
                    put(format!("{cpu}/topology/core_cpus_list"), siblings);
                    let cache = format!("{cpu}/cache/index3");
                    put(format!("{cache}/level"), "3".into());
                    put(format!("{cache}/type"), "Unified".into());
                    put(format!("{cache}/shared_cpu_list"), cpus.clone());
                }
            }
        }
        let topology = Topology::read_from(root.path()).unwrap();
        let online = topology.online().clone();
        assert_eq!(online.len(), 2 * half);
        (topology, online)
    }

    fn until(pairs: &[([usize; 2], Level)], level: Level) -> Vec<[usize; 2]> {
        pairs.iter().filter(|(_, first)| *first <= level).map(|(pair, _)| *pair).collect()
    }

    #[test]
    fn a_small_machine_has_every_pair_both_ways() {
        let (topology, cpus) = machine(1, 1);
        assert_eq!(pairs(&topology, &cpus), [([0, 1], Level::Quick), ([1, 0], Level::Quick)]);
        let (topology, cpus) = machine(2, 2);
        let pairs = pairs(&topology, &cpus);
        assert_eq!(pairs.len(), 8 * 7);
        assert_eq!(until(&pairs, Level::Default).len(), 8 * 7);
        // A sibling, a cache's other core, another package.
        assert_eq!(until(&pairs, Level::Quick).len(), 3);
    }

    #[test]
    fn of_a_large_machine_each_relation_has_some_and_a_full_run_all() {
        let (topology, cpus) = machine(2, 64);
        let pairs = pairs(&topology, &cpus);
        for (level, some) in [(Level::Quick, 1), (Level::Default, 8)] {
            let taken = until(&pairs, level);
            for relation in [Relation::Sibling, Relation::Cache { level: 3 }, Relation::Remote] {
                let related = |pair: &&[usize; 2]| topology.relation(pair[0], pair[1]) == relation;
                let count = taken.iter().filter(related).count();
                assert!(count >= some, "{level:?} {relation:?}: {count}");
            }
            assert!(taken.len() <= 3 * 2 * some, "{level:?}: {}", taken.len());
        }
        assert_eq!(until(&pairs, Level::Full).len(), 256 * 255);
        // Spread over the machine, not the first cpus alone.
        let mains: std::collections::BTreeSet<_> =
            until(&pairs, Level::Default).into_iter().map(|[main, _]| main).collect();
        assert!(mains.len() > 4 && mains.iter().any(|main| *main > 128), "{mains:?}");
    }

    #[test]
    fn cpus_that_are_not_allowed_are_in_no_pair() {
        let (topology, _) = machine(1, 4);
        let pairs = pairs(&topology, &"2,5".parse().unwrap());
        assert_eq!(until(&pairs, Level::Full), [[2, 5], [5, 2]]);
        assert!(pairs.len() == 2 && pairs_of_one(&topology).is_empty());
    }

    fn pairs_of_one(topology: &Topology) -> Vec<([usize; 2], Level)> {
        pairs(topology, &"3".parse().unwrap())
    }
}
