//! Which cpus shadows take: never more helpers than idle hardware threads.

use std::sync::Mutex;

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::{Relation, Topology};

use crate::error::{Error, Result};

/// Cpus on which a main thread or a helper of this process sits.
static TAKEN: Mutex<CpuSet> = Mutex::new(CpuSet::new());

/// A main thread's cpu and its helper's, given back on drop.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) main: usize,
    pub(crate) helper: usize,
    pub(crate) relation: Relation,
    /// Those that this pair took; a shared cpu belongs to somebody else.
    own: CpuSet,
}

impl Pair {
    /// Chooses and takes a pair. Without wishes: the cpu where the caller runs
    /// now, its hardware sibling, or without one the cpu nearest by cache.
    pub(crate) fn take(
        allowed: &CpuSet,
        main: Option<usize>,
        helper: Option<usize>,
        share: bool,
    ) -> Result<Pair> {
        let topology = Topology::read()?;
        let mut taken = TAKEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let main = main.unwrap_or_else(|| current(allowed));
        affinity::require(main, allowed)?;
        let mut others = allowed.clone();
        others.remove(main);
        let free = others.difference(&taken);
        let chosen = match helper {
            Some(helper) if helper == main && !share => return Err(Error::SameCpu { cpu: main }),
            Some(helper) => {
                affinity::require(helper, allowed)?;
                (share || !taken.contains(helper)).then_some(helper)
            }
            None => topology.sibling(main, &free).or_else(|| topology.nearest(main, &free)),
        };
        let among = if share { &others } else { &free };
        let helper = chosen
            .or_else(|| share.then(|| topology.nearest(main, among).unwrap_or(main)))
            .ok_or_else(|| Error::NoFreeCpu { allowed: allowed.clone(), taken: taken.clone() })?;
        let mut own = CpuSet::new();
        for cpu in [main, helper] {
            if taken.insert(cpu) {
                own.insert(cpu);
            }
        }
        Ok(Pair { main, helper, relation: topology.relation(main, helper), own })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *taken = taken.difference(&self.own);
    }
}

/// Where this thread runs, or the first cpu that it may use.
fn current(allowed: &CpuSet) -> usize {
    let here = rustix::thread::sched_getcpu();
    if allowed.contains(here) { here } else { allowed.first().unwrap_or(here) }
}
