//! Machines that tests share: a start takes longer than most tests do. At most two tests
//! use machines at a time; one that has ended well leaves its machine to the next one of
//! this kind. What is idle when the last test has ended goes with the process.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use kumiki_lab::Machine;

use crate::{chosen_kernel, least_bytes};

/// What a shared machine runs, and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Debian 12's kernel, or what `KUMIKI_LAB_KERNEL` names in its place.
    Debian12,
    /// Debian 13's kernel, 5 GiB: some above 4 GiB.
    Debian13,
}

impl Kind {
    pub(crate) fn kernel(self) -> String {
        match self {
            Kind::Debian12 => chosen_kernel(),
            Kind::Debian13 => "6.12".to_owned(),
        }
    }

    pub(crate) fn memory_bytes(self) -> u64 {
        match self {
            Kind::Debian12 => least_bytes(&chosen_kernel()),
            Kind::Debian13 => 5 << 30,
        }
    }
}

/// As many processors as a machine keeps busy: a node that starts has one, and the host
/// that waits for it hardly any.
const AT_ONCE: usize = 2;

struct Pool {
    /// Tests that use a machine.
    busy: usize,
    /// Each with the free memory that it began with.
    idle: Vec<(Kind, Machine, u64)>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { busy: 0, idle: Vec::new() });
static FREE: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    // A test that failed has left nothing that another one meets.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to use a machine.
pub(crate) struct Turn(());

impl Turn {
    pub(crate) fn wait() -> Self {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let full = |pool: &mut Pool| pool.busy >= AT_ONCE.min(cpus);
        let mut pool = FREE.wait_while(pool(), full).unwrap_or_else(PoisonError::into_inner);
        pool.busy += 1;
        Turn(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        pool().busy -= 1;
        FREE.notify_one();
    }
}

/// A machine of this kind that nobody uses, and the memory that was free at its start.
pub(crate) fn idle(kind: Kind) -> Option<(Machine, u64)> {
    let mut pool = pool();
    let at = pool.idle.iter().position(|(other, ..)| *other == kind)?;
    let (_, machine, free_kib) = pool.idle.swap_remove(at);
    Some((machine, free_kib))
}

/// Leaves a machine to the next test.
pub(crate) fn put(kind: Kind, machine: Machine, free_kib: u64) {
    pool().idle.push((kind, machine, free_kib));
}
