//! Which cpus shadows take: never more helpers than hardware threads that no shadow of
//! this process sits on, unless asked. Nothing is known of other processes' shadows.
//!
//! A main thread that is not bound goes where the kernel puts it, and counts where it was
//! seen last, at its last fork from another cpu than before.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::fork::{PerProcess, Process};
use kumiki_sys::here::Here;
use kumiki_sys::topology::{Relation, Topology};

use crate::choice::{Counts, Scene, Wish};
use crate::error::Result;

/// This process's. In an inherited one are the shadows of threads that a child of fork(2)
/// does not have, and one of them may hold the lock.
static TAKEN: PerProcess<Mutex<Counts>> = PerProcess::new();

thread_local! {
    /// The main thread's cpu of each of this thread's pairs.
    static MAINS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A helper is moved to a nearer cpu no more often than this. The kernel moves a thread
/// that runs by way of a thread of its own, some tens of microseconds.
const PAUSE: Duration = Duration::from_millis(1);

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn leave(counts: &mut Counts, cpu: usize) {
    match counts.get_mut(&cpu) {
        Some(count) if *count > 1 => *count -= 1,
        _ => _ = counts.remove(&cpu),
    }
}

/// Cpus to choose from.
#[derive(Debug)]
pub(crate) struct Machine {
    topology: Topology,
    allowed: CpuSet,
}

impl Machine {
    /// Reads the machine for the calling thread.
    pub(crate) fn read() -> Result<Arc<Machine>> {
        Ok(Arc::new(Machine { topology: Topology::read()?, allowed: affinity::unbound()? }))
    }

    /// Number of cpus that the calling thread may use.
    pub(crate) fn cpus(&self) -> usize {
        self.allowed.len()
    }

    /// Cpus that have shadows of this process.
    pub(crate) fn taken(&self) -> Result<CpuSet> {
        Ok(lock(TAKEN.get()?).keys().copied().collect())
    }

    /// Cpu of this thread, or the first that it may use.
    fn here(&self) -> usize {
        let here = Here::of_this_thread().cpu();
        if self.allowed.contains(here) { here } else { self.allowed.first().unwrap_or(here) }
    }
}

/// A main thread's cpu and its helper's, given back on drop.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) main: usize,
    pub(crate) helper: usize,
    pub(crate) relation: Relation,
    wish: Wish,
    /// Time of the helper's last move.
    moved: Option<Instant>,
    machine: Arc<Machine>,
    process: Process,
    counts: &'static Mutex<Counts>,
}

impl Pair {
    /// Chooses and takes a pair for the calling thread.
    pub(crate) fn take(machine: &Arc<Machine>, wish: Wish) -> Result<Pair> {
        let Machine { topology, allowed } = &**machine;
        for cpu in [wish.main, wish.helper].into_iter().flatten() {
            affinity::require(cpu, allowed)?;
        }
        let (process, taken) = (Process::current()?, TAKEN.get()?);
        let mut counts = lock(taken);
        let (main, helper) = MAINS.with_borrow(|mains| {
            let own: Vec<_> = mains.iter().copied().chain(affinity::bound()).collect();
            let (counts, here, own) = (&*counts, machine.here(), &own[..]);
            Scene { topology, allowed, counts, here, own }.choose(wish)
        })?;
        for cpu in [main, helper] {
            *counts.entry(cpu).or_default() += 1;
        }
        MAINS.with_borrow_mut(|mains| mains.push(main));
        let (relation, machine) = (topology.relation(main, helper), Arc::clone(machine));
        Ok(Pair { main, helper, relation, wish, moved: None, machine, process, counts: taken })
    }

    /// The machine as it was when this was chosen.
    pub(crate) fn topology(&self) -> &Topology {
        &self.machine.topology
    }

    /// The main thread was seen on `main`.
    pub(crate) fn see(&mut self, main: usize) {
        if main == self.main {
            return;
        }
        let mut counts = lock(self.counts);
        leave(&mut counts, self.main);
        *counts.entry(main).or_default() += 1;
        MAINS.with_borrow_mut(|mains| {
            mains.iter_mut().filter(|cpu| **cpu == self.main).take(1).for_each(|cpu| *cpu = main);
        });
        self.main = main;
        self.relation = self.machine.topology.relation(main, self.helper);
    }

    /// Has `place` put the helper on a better cpu, if there is one for a main thread that
    /// was [seen](Pair::see) where it is, and `place` says that it worked.
    pub(crate) fn improve(&mut self, place: impl FnOnce(usize) -> bool) {
        let Machine { topology, allowed } = &*self.machine;
        let (Wish { helper: None, share, .. }, here) = (self.wish, self.main) else { return };
        let mut counts = lock(self.counts);
        leave(&mut counts, self.helper);
        let scene = Scene { topology, allowed, counts: &counts, here, own: &[] };
        if let Some(better) = scene.better(self.helper, share) {
            if place(better) {
                self.helper = better;
                self.relation = topology.relation(here, better);
                self.moved = Some(Instant::now());
            }
        }
        *counts.entry(self.helper).or_default() += 1;
    }

    /// True if the helper, which is not under its main thread, was moved within the last pause.
    pub(crate) fn is_settled(&self) -> bool {
        self.main != self.helper && self.moved.is_some_and(|moved| moved.elapsed() < PAUSE)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // At the thread's end there may be nothing left to set right.
        let _ = MAINS.try_with(|mains| {
            let mut mains = mains.borrow_mut();
            if let Some(at) = mains.iter().position(|cpu| *cpu == self.main) {
                mains.swap_remove(at);
            }
        });
        if !self.process.is_current() {
            return;
        }
        let mut counts = lock(self.counts);
        for cpu in [self.main, self.helper] {
            leave(&mut counts, cpu);
        }
    }
}
