//! Which cpus shadows take: never more helpers than idle hardware threads.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Mutex, MutexGuard};

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::fork::Process;
use kumiki_sys::topology::{Relation, Topology};

use crate::binding;
use crate::error::{Error, Result};

/// How many main threads and helpers of a process sit on each cpu.
#[derive(Debug)]
struct Taken {
    process: Process,
    counts: Mutex<BTreeMap<usize, usize>>,
}

/// This process's. A child of fork(2) makes its own: in the inherited one are the
/// shadows of threads that it does not have, and one of them may hold the lock.
static TAKEN: AtomicPtr<Taken> = AtomicPtr::new(std::ptr::null_mut());

impl Taken {
    fn of_this_process() -> Result<&'static Taken> {
        // Acquire: partner is the exchange.
        let old = TAKEN.load(Acquire);
        // SAFETY: null, or from the exchange below, and never freed since.
        if let Some(taken) = unsafe { old.as_ref() }
            && taken.process.is_current()
        {
            return Ok(taken);
        }
        let process = Process::current()?;
        let new = Box::into_raw(Box::new(Taken { process, counts: Mutex::default() }));
        // Release: partner is the load. Another thread may have been first; ours
        // is left behind then, as the inherited one is.
        let now = TAKEN.compare_exchange(old, new, AcqRel, Acquire).map_or_else(|now| now, |_| new);
        // SAFETY: from the exchange, by this thread or another of this process.
        Ok(unsafe { &*now })
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A main thread's cpu and its helper's, given back on drop.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) main: usize,
    pub(crate) helper: usize,
    pub(crate) relation: Relation,
    of: &'static Taken,
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
        let of = Taken::of_this_process()?;
        let mut counts = of.counts();
        let taken: CpuSet = counts.keys().copied().collect();
        let none = || Error::NoFreeCpu { allowed: allowed.clone(), taken: taken.clone() };
        let free = allowed.difference(&taken);
        // A thread's own cpu is taken by itself.
        let usable = |cpu: usize| share || !taken.contains(cpu) || binding::bound() == Some(cpu);
        let main = match main {
            Some(main) => affinity::require(main, allowed).map(|()| main)?,
            None => Some(current(allowed))
                .filter(|cpu| usable(*cpu))
                .or_else(|| topology.nearest(current(allowed), &free))
                .ok_or_else(none)?,
        };
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
            .filter(|_| usable(main))
            .ok_or_else(none)?;
        for cpu in [main, helper] {
            *counts.entry(cpu).or_default() += 1;
        }
        Ok(Pair { main, helper, relation: topology.relation(main, helper), of })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if !self.of.process.is_current() {
            return;
        }
        let mut counts = self.of.counts();
        for cpu in [self.main, self.helper] {
            match counts.get_mut(&cpu) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = counts.remove(&cpu),
            }
        }
    }
}

/// Where this thread runs, or the first cpu that it may use.
fn current(allowed: &CpuSet) -> usize {
    let here = rustix::thread::sched_getcpu();
    if allowed.contains(here) { here } else { allowed.first().unwrap_or(here) }
}
