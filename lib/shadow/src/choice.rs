//! The choice of cpus: the main thread's where it runs, the helper's beside it.

use std::collections::BTreeMap;

use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::Topology;

use crate::error::{Error, Result};

/// Cpus that are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) main: Option<usize>,
    pub(crate) helper: Option<usize>,
    pub(crate) share: bool,
}

/// Number of main threads and helpers of a process on each cpu.
pub(crate) type Counts = BTreeMap<usize, usize>;

/// State that a choice depends on.
pub(crate) struct Scene<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) allowed: &'a CpuSet,
    pub(crate) counts: &'a Counts,
    /// Cpu on which the caller runs.
    pub(crate) here: usize,
    /// Cpus of its own shadows.
    pub(crate) own: &'a [usize],
}

impl Scene<'_> {
    /// A main thread's cpu and its helper's; those wished for are allowed. Without
    /// wishes: the cpu where the caller runs now, its hardware sibling, or without one
    /// the cpu nearest by cache.
    pub(crate) fn choose(&self, wish: Wish) -> Result<(usize, usize)> {
        let Wish { main, helper, share } = wish;
        let taken: CpuSet = self.counts.keys().copied().collect();
        let none = || Error::NoFreeCpu { allowed: self.allowed.clone(), taken: taken.clone() };
        let free = self.allowed.difference(&taken);
        // A thread's own cpu is taken by itself.
        let usable = |cpu: usize| share || !taken.contains(cpu) || self.own.contains(&cpu);
        // Not the one that was chosen for the helper.
        let left = |cpu: &usize| share || helper != Some(*cpu);
        let main = match main {
            Some(main) => main,
            None => Some(self.here)
                .filter(|cpu| usable(*cpu) && left(cpu))
                .or_else(|| {
                    let free = free.iter().filter(left).collect();
                    self.topology.nearest(self.here, &free)
                })
                .ok_or_else(none)?,
        };
        let mut others = self.allowed.clone();
        others.remove(main);
        let chosen = match helper {
            Some(helper) if helper == main && !share => return Err(Error::SameCpu { cpu: main }),
            Some(helper) => (share || !taken.contains(helper)).then_some(helper),
            None if share => {
                let least = self.least_taken(&others);
                Some(self.topology.nearest(main, &least).unwrap_or(main))
            }
            // The sibling is the nearest.
            None => self.topology.nearest(main, &others.difference(&taken)),
        };
        let helper = chosen.filter(|_| usable(main)).ok_or_else(none)?;
        Ok((main, helper))
    }

    /// A better cpu for a helper on `helper`, whose main thread has come `here`; it is not
    /// counted itself. Any other one if that is the main thread's, else one that is nearer.
    pub(crate) fn better(&self, helper: usize, share: bool) -> Option<usize> {
        let (main, mut others) = (self.here, self.allowed.clone());
        others.remove(main);
        let free = match share {
            true => self.least_taken(&others),
            false => others.iter().filter(|cpu| !self.counts.contains_key(cpu)).collect(),
        };
        let nearest = self.topology.nearest(main, &free)?;
        let relation = |cpu| self.topology.relation(main, cpu);
        (helper == main || relation(nearest) < relation(helper)).then_some(nearest)
    }

    /// Cpus out of `cpus` with the fewest threads: none, where one is free.
    fn least_taken(&self, cpus: &CpuSet) -> CpuSet {
        let count = |cpu: &usize| self.counts.get(cpu).copied().unwrap_or(0);
        let least = cpus.iter().map(|cpu| count(&cpu)).min();
        cpus.iter().filter(|cpu| Some(count(cpu)) == least).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// Two packages of four cores: cpus 0 to 3 and 4 to 7. Pairs of cores have a level-2
    /// cache in common, packages the level-3 cache. With two threads a core, the second
    /// ones are cpus 8 to 15, as Linux numbers them.
    fn machine(threads: usize) -> Topology {
        const CORES: usize = 8;
        let dir = TempDir::new().unwrap();
        let put = |path: String, content: String| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let cpus = CORES * threads;
        put("cpu/online".to_owned(), format!("0-{}", cpus - 1));
        for cpu in 0..cpus {
            let group = |cores: usize| {
                let same = |&other: &usize| other % CORES / cores == cpu % CORES / cores;
                (0..cpus).filter(same).collect::<CpuSet>().to_string()
            };
            let folder = format!("cpu/cpu{cpu}");
            put(format!("{folder}/topology/core_cpus_list"), group(1));
            let package = cpu % CORES / 4;
            put(format!("{folder}/topology/physical_package_id"), package.to_string());
            for (index, level, cores) in [(0, 1, 1), (1, 2, 2), (2, 3, 4)] {
                let cache = format!("{folder}/cache/index{index}");
                put(format!("{cache}/level"), level.to_string());
                put(format!("{cache}/type"), "Unified".to_owned());
                put(format!("{cache}/shared_cpu_list"), group(cores));
            }
        }
        Topology::read_from(dir.path()).unwrap()
    }

    /// The choice of a caller on cpu 1 where so many sit on some cpus.
    fn choice(
        topology: &Topology,
        allowed: &str,
        counts: impl IntoIterator<Item = (usize, usize)>,
        wish: Wish,
    ) -> Result<(usize, usize)> {
        let (allowed, counts) = (allowed.parse().unwrap(), counts.into_iter().collect());
        let (allowed, counts) = (&allowed, &counts);
        Scene { topology, allowed, counts, here: 1, own: &[] }.choose(wish)
    }

    fn taken(cpus: &str) -> impl Iterator<Item = (usize, usize)> {
        let cpus: CpuSet = cpus.parse().unwrap();
        (0..16).filter(move |cpu| cpus.contains(*cpu)).map(|cpu| (cpu, 1))
    }

    #[test]
    fn a_helper_is_on_the_nearest_cpu_that_is_free() {
        let (single, double, any) = (machine(1), machine(2), Wish::default());
        let cases = [
            (&double, "0-15", "", 9),
            (&double, "0-15", "9", 0),
            (&double, "0-15", "0,8-9", 2),
            (&double, "0-15", "0,2-3,8-11", 4),
            // One that is free but not allowed is none.
            (&double, "1-7", "", 2),
            (&single, "0-7", "", 0),
            (&single, "0-7", "0", 2),
            (&single, "0-7", "0,2", 3),
            (&single, "0-7", "0,2-3", 4),
        ];
        for (topology, allowed, others, helper) in cases {
            let chosen = choice(topology, allowed, taken(others), any).unwrap();
            assert_eq!(chosen, (1, helper), "{others} of {allowed} taken");
        }
    }

    #[test]
    fn without_a_free_cpu_the_error_says_what_is_taken() {
        let single = machine(1);
        for (allowed, others, wish) in [
            ("0-7", "0,2-7", Wish::default()),
            ("1", "", Wish::default()),
            ("0-1,5", "0,5", Wish::default()),
            ("0-7", "3", Wish { helper: Some(3), ..Wish::default() }),
            ("0-7", "3", Wish { main: Some(3), ..Wish::default() }),
        ] {
            let error = choice(&single, allowed, taken(others), wish).unwrap_err();
            let text = error.to_string();
            let Error::NoFreeCpu { allowed: among, taken } = error else { panic!("{text}") };
            assert_eq!((among.to_string(), taken.to_string()), (allowed.into(), others.into()));
            assert!(text.contains(&format!("allowed {allowed} ")), "{text}");
        }
    }

    #[test]
    fn a_caller_on_a_taken_cpu_moves_to_the_nearest_free_one() {
        let double = machine(2);
        let moved = choice(&double, "0-15", taken("1,9"), Wish::default()).unwrap();
        assert_eq!(moved, (0, 8));
        // Unless it sits there itself.
        let (allowed, counts) = ("0-15".parse().unwrap(), taken("1,9").collect());
        let (allowed, counts) = (&allowed, &counts);
        let own = Scene { topology: &double, allowed, counts, here: 1, own: &[1] };
        assert_eq!(own.choose(Wish::default()).unwrap(), (1, 0));
    }

    #[test]
    fn a_caller_leaves_the_cpu_that_was_chosen_for_its_helper() {
        let double = machine(2);
        let wish = Wish { helper: Some(1), ..Wish::default() };
        assert_eq!(choice(&double, "0-15", [], wish).unwrap(), (9, 1));
        assert_eq!(choice(&double, "0-1", [], wish).unwrap(), (0, 1));
        let share = Wish { share: true, ..wish };
        assert_eq!(choice(&double, "0-15", [], share).unwrap(), (1, 1));
        let main = Wish { main: Some(1), ..wish };
        assert!(matches!(choice(&double, "0-15", [], main), Err(Error::SameCpu { cpu: 1 })));
    }

    #[test]
    fn helpers_that_share_are_spread() {
        let (single, share) = (machine(1), Wish { share: true, ..Wish::default() });
        let mut counts = BTreeMap::new();
        let helpers = (0..8).map(|_| {
            let (main, helper) = choice(&single, "0-3", counts.clone(), share).unwrap();
            [main, helper].iter().for_each(|&cpu| *counts.entry(cpu).or_default() += 1);
            helper
        });
        assert_eq!(helpers.collect::<Vec<_>>(), [0, 2, 3, 0, 2, 3, 0, 2]);
        assert_eq!(choice(&single, "1", [], share).unwrap(), (1, 1));
    }

    #[test]
    fn a_helper_moves_when_its_main_thread_sits_on_it_or_far_away() {
        let (double, all) = (machine(2), "0-15".parse().unwrap());
        let better = |here, helper, allowed: &CpuSet, others| {
            let (topology, counts) = (&double, &taken(others).collect());
            Scene { topology, allowed, counts, here, own: &[] }.better(helper, false)
        };
        // To the sibling, from wherever.
        assert_eq!(better(2, 9, &all, ""), Some(10));
        assert_eq!(better(9, 9, &all, ""), Some(1));
        // It is there already, or as near as the others.
        assert_eq!(better(9, 1, &all, ""), None);
        assert_eq!(better(4, 6, &"4,6-7".parse().unwrap(), ""), None);
        assert_eq!(better(4, 6, &"4-7".parse().unwrap(), ""), Some(5));
        // Nearer ones are taken; the main thread's own place is none.
        assert_eq!(better(2, 4, &all, "0-1,3,8-11"), None);
        assert_eq!(better(4, 4, &"4".parse().unwrap(), ""), None);
        assert_eq!(better(4, 4, &"4-5".parse().unwrap(), "5"), None);
    }
}
