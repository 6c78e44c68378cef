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
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::Pid;
use rustix::thread::gettid;

use crate::cpuset::CpuSet;
use crate::fork::PerProcess;

/// Bindings of one thread.
struct Own {
    /// Cpus that it might use, without any binding of ours, before the first one of its own.
    former: CpuSet,
    /// Cpus that it might use in fact before that: less, if its starter was bound.
    restore: CpuSet,
    /// Bindings that live, the last one in force. Who [moves](moved) the thread changes
    /// the cpus.
    cpus: Vec<(u64, Arc<AtomicUsize>)>,
    /// Number of the next binding.
    next: u64,
    /// Its cpus were chosen by `set`.
    chosen: bool,
}

thread_local! {
    static OWN: RefCell<Own> = const {
        RefCell::new(Own {
            former: CpuSet::new(),
            restore: CpuSet::new(),
            cpus: Vec::new(),
            next: 0,
            chosen: false,
        })
    };
}

/// Bindings of all threads of the process.
#[derive(Default)]
struct All {
    /// Number of bindings by cpu, and the cpus that the first one's thread had before.
    cpus: BTreeMap<usize, (usize, CpuSet)>,
    /// The bindings of each thread. Those of a thread that has ended without dropping them
    /// are gone, and its number may be another's.
    threads: BTreeMap<i32, Vec<Weak<AtomicUsize>>>,
}

impl All {
    fn enter(&mut self, cpu: usize, former: &CpuSet) {
        self.cpus.entry(cpu).or_insert_with(|| (0, former.clone())).0 += 1;
    }

    fn leave(&mut self, cpu: usize) {
        match self.cpus.get_mut(&cpu) {
            Some((count, _)) if *count > 1 => *count -= 1,
            _ => _ = self.cpus.remove(&cpu),
        }
    }
}

/// Bindings that live, of all threads, and in a child of fork(2) also those of its parent's
/// other threads: with none nobody need look.
static LIVE: AtomicUsize = AtomicUsize::new(0);

static ALL: PerProcess<Mutex<All>> = PerProcess::new();

fn all<T>(f: impl FnOnce(&mut All) -> T) -> Option<T> {
    // Without memory for it nothing is known.
    let all = ALL.get().ok()?;
    Some(f(&mut all.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The calling thread's cpus have been chosen: what it gets back, too, if it is bound.
pub(super) fn choose(cpus: &CpuSet) {
    let _ = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        own.chosen = true;
        own.former = cpus.clone();
        own.restore = cpus.clone();
    });
}

/// The calling thread, which might use `restore`, and `former` without any binding of
/// ours, is bound to `cpu` now. The binding's number.
pub(super) fn add(cpu: usize, former: &CpuSet, restore: &CpuSet) -> u64 {
    let place = Arc::new(AtomicUsize::new(cpu));
    // Relaxed, as below: asked by threads that have made bindings, or were started since.
    LIVE.fetch_add(1, Relaxed);
    all(|all| {
        all.enter(cpu, former);
        let its = all.threads.entry(gettid().as_raw_pid()).or_default();
        its.retain(|place| place.strong_count() > 0);
        its.push(Arc::downgrade(&place));
    });
    let number = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        if own.cpus.is_empty() {
            own.former = former.clone();
            own.restore = restore.clone();
        }
        let number = own.next;
        own.next += 1;
        own.cpus.push((number, place));
        number
    });
    // At a thread's end nobody asks any more.
    number.unwrap_or(0)
}

/// A binding, made to `cpu`, has ended; what the thread may use now, if that changes.
pub(super) fn remove(number: u64, cpu: usize) -> Option<CpuSet> {
    LIVE.fetch_sub(1, Relaxed);
    let taken = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        let at = own.cpus.iter().position(|&(other, _)| other == number)?;
        let (_, place) = own.cpus.remove(at);
        let force = || match own.cpus.last() {
            Some((_, place)) => CpuSet::from_iter([place.load(Relaxed)]),
            None => own.restore.clone(),
        };
        let next = (at == own.cpus.len()).then(force);
        Some((place, next))
    });
    let (place, next) = taken.ok().flatten().unzip();
    all(|all| {
        all.leave(place.as_ref().map_or(cpu, |place| place.load(Relaxed)));
        drop(place);
        let thread = gettid().as_raw_pid();
        if let Some(its) = all.threads.get_mut(&thread) {
            its.retain(|place| place.strong_count() > 0);
            if its.is_empty() {
                all.threads.remove(&thread);
            }
        }
    });
    next.flatten()
}

/// A thread was put on `cpu` by another one: its bindings, if it has any, are to that now.
pub(super) fn moved(thread: Pid, cpu: usize) {
    all(|all| {
        let its: Vec<_> = all.threads.get(&thread.as_raw_pid()).into_iter().flatten().collect();
        let its: Vec<_> = its.into_iter().filter_map(Weak::upgrade).collect();
        for place in its {
            // Relaxed: read under the lock, or by the thread itself, which learns of its
            // move from who has moved it.
            let before = place.swap(cpu, Relaxed);
            if let Some((_, former)) = all.cpus.get(&before).cloned() {
                all.enter(cpu, &former);
                all.leave(before);
            }
        }
    });
}

/// The cpu of one of the calling thread's bindings.
pub(super) fn cpu(number: u64) -> Option<usize> {
    let cpu = OWN.try_with(|own| {
        let own = own.borrow();
        let (_, place) = own.cpus.iter().find(|(other, _)| *other == number)?;
        Some(place.load(Relaxed))
    });
    cpu.ok().flatten()
}

/// The cpu of the calling thread's last binding.
pub(super) fn last() -> Option<usize> {
    OWN.try_with(|own| own.borrow().cpus.last().map(|(_, place)| place.load(Relaxed)))
        .ok()
        .flatten()
}

/// True if any thread is bound.
pub(super) fn any() -> bool {
    LIVE.load(Relaxed) > 0
}

/// Cpus that the calling thread, which may use `now`, might use if nothing of ours were bound.
pub(super) fn without(now: CpuSet) -> CpuSet {
    let own = OWN.try_with(|own| {
        let own = own.borrow();
        match own.cpus.last().map(|(_, place)| place.load(Relaxed)) {
            Some(cpu) if now == CpuSet::from_iter([cpu]) => Some(own.former.clone()),
            // Somebody else has placed it since, or its program has.
            Some(_) => Some(now.clone()),
            None if own.chosen => Some(now.clone()),
            None => None,
        }
    });
    own.ok().flatten().unwrap_or_else(|| inherited(now))
}

/// Cpus that a thread of which nothing else is known might use if nothing were bound.
pub(super) fn inherited(now: CpuSet) -> CpuSet {
    let one = now.first().filter(|_| now.len() == 1);
    let former = one.and_then(|cpu| all(|all| Some(all.cpus.get(&cpu)?.1.clone())).flatten());
    former.unwrap_or(now)
}
