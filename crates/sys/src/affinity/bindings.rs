//! Which threads were bound by [`bind`](super::bind), and what they had before.
//!
//! The kernel keeps one mask a thread, and a new thread inherits its starter's: what a
//! thread may use now does not tell whether the person, the program or a binding of ours
//! has narrowed it. So each binding leaves its former set here, in two places: with its
//! thread, and for the whole process by the cpu. A thread that may use one cpu, has not
//! been put there by [`set`](super::set), and finds that cpu in the second place was
//! started by a bound one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::cpuset::CpuSet;
use crate::fork::PerProcess;

/// Of one thread.
struct Own {
    /// Before the first binding.
    former: CpuSet,
    /// Bindings that live, the last one in force.
    cpus: Vec<(u64, usize)>,
    /// Number of the next binding.
    next: u64,
    /// Its cpus were chosen by `set`.
    chosen: bool,
}

thread_local! {
    static OWN: RefCell<Own> = const {
        RefCell::new(Own { former: CpuSet::new(), cpus: Vec::new(), next: 0, chosen: false })
    };
}

/// By cpu, how many threads are bound to it, and what the first one had before.
static ALL: PerProcess<Mutex<BTreeMap<usize, (usize, CpuSet)>>> = PerProcess::new();

fn all<T>(f: impl FnOnce(&mut BTreeMap<usize, (usize, CpuSet)>) -> T) -> Option<T> {
    // Without memory for it nothing is known.
    let all = ALL.get().ok()?;
    Some(f(&mut all.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The calling thread's cpus have been chosen.
pub(super) fn choose() {
    let _ = OWN.try_with(|own| own.borrow_mut().chosen = true);
}

/// The calling thread, which might use `former`, is bound to `cpu` now. The binding's
/// number.
pub(super) fn add(cpu: usize, former: &CpuSet) -> u64 {
    all(|all| all.entry(cpu).or_insert_with(|| (0, former.clone())).0 += 1);
    let number = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        if own.cpus.is_empty() {
            own.former = former.clone();
        }
        let number = own.next;
        own.next += 1;
        own.cpus.push((number, cpu));
        number
    });
    // At a thread's end nobody asks any more.
    number.unwrap_or(0)
}

/// A binding has ended; what the thread may use now, if that changes.
pub(super) fn remove(number: u64, cpu: usize) -> Option<CpuSet> {
    all(|all| match all.get_mut(&cpu) {
        Some((count, _)) if *count > 1 => *count -= 1,
        _ => _ = all.remove(&cpu),
    });
    let next = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        let at = own.cpus.iter().position(|&(other, _)| other == number)?;
        own.cpus.remove(at);
        if at < own.cpus.len() {
            return None;
        }
        let former = || own.former.clone();
        Some(own.cpus.last().map_or_else(former, |&(_, cpu)| CpuSet::from_iter([cpu])))
    });
    next.ok().flatten()
}

/// The cpu of the calling thread's last binding.
pub(super) fn last() -> Option<usize> {
    OWN.try_with(|own| own.borrow().cpus.last().map(|&(_, cpu)| cpu)).ok().flatten()
}

/// What the calling thread, which may use `now`, might use if nothing of ours were bound.
pub(super) fn without(now: CpuSet) -> CpuSet {
    let own = OWN.try_with(|own| {
        let own = own.borrow();
        match own.cpus.last() {
            Some(&(_, cpu)) if now == CpuSet::from_iter([cpu]) => Some(own.former.clone()),
            // Somebody else has placed it since, or its program has.
            Some(_) => Some(now.clone()),
            None if own.chosen => Some(now.clone()),
            None => None,
        }
    });
    own.ok().flatten().unwrap_or_else(|| inherited(now))
}

/// What a thread of which nothing else is known might use if nothing were bound.
pub(super) fn inherited(now: CpuSet) -> CpuSet {
    let one = now.first().filter(|_| now.len() == 1);
    let former = one.and_then(|cpu| all(|all| Some(all.get(&cpu)?.1.clone())).flatten());
    former.unwrap_or(now)
}
