//! Processing threads that belong to the program: it has called
//! [`Engine::process`](crate::Engine::process), and may end them at any moment.
//!
//! Such a thread's [`Claim`] names what it is at. A thread that waits for an overdue result
//! looks for dead ones ([`Life`]) and repairs what they were at (`threads/dead.rs`). The
//! program cannot end the engine's own threads, but a seccomp filter may kill one at a call
//! that it makes, or the program's handler of SIGSYS may end it.
//!
//! There may be more of them than cpus, and nobody knows on which they run. So only as many
//! of them spin as there are cpus for that; the others sleep until they are called.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use kumiki_sys::life::Life;

use super::Doorbell;
use crate::claim::Claim;
use crate::primitive::{AtomicUsize, Mutex, lock};

/// A processing thread of the program's; the value outlives the thread.
#[derive(Debug, Default)]
pub(crate) struct ProgramThread {
    pub(crate) claim: Claim,
    pub(crate) bell: Doorbell,
    pub(crate) life: Life,
}

impl ProgramThread {
    fn is_idle(&self) -> bool {
        !self.claim.is_set()
    }
}

/// The program's processing threads in one engine.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    list: Mutex<Vec<Arc<ProgramThread>>>,
    count: AtomicUsize,
    /// Number of times that one has come or gone.
    changes: AtomicUsize,
}

impl Callers {
    /// Number of such threads, dead ones that nobody has found among them.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// True if there is one, perhaps dead.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count() > 0
    }

    /// Number of times that one has come or gone.
    #[inline(always)]
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(SeqCst)
    }

    /// Registers the calling thread as one, until [`leave`](Self::leave).
    pub(crate) fn enter(&self) -> Arc<ProgramThread> {
        let caller = Arc::new(ProgramThread::default());
        caller.life.begin();
        self.change(|list| list.push(Arc::clone(&caller)));
        caller
    }

    /// Leaves, by the thread that has entered.
    pub(crate) fn leave(&self, caller: &Arc<ProgramThread>) {
        caller.life.end();
        self.forget(caller);
    }

    /// Takes one off the list that has left or died.
    pub(crate) fn forget(&self, caller: &Arc<ProgramThread>) {
        self.change(|list| list.retain(|other| !Arc::ptr_eq(other, caller)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<ProgramThread>>)) {
        let mut list = lock(&self.list);
        change(&mut list);
        self.count.store(list.len(), SeqCst);
        self.changes.fetch_add(1, SeqCst);
    }

    pub(crate) fn all(&self) -> Vec<Arc<ProgramThread>> {
        if self.any() { lock(&self.list).clone() } else { Vec::new() }
    }

    /// Wakes all that sleep.
    pub(crate) fn ring_all(&self) {
        self.all().iter().for_each(|caller| caller.bell.ring());
    }

    /// Wakes up to so many that are at no request, to look for some, and says how many there
    /// are of these; who is awake comes first.
    pub(crate) fn call(&self, threads: usize) -> usize {
        if threads == 0 || !self.any() {
            return 0;
        }
        let list = lock(&self.list);
        let idle = |asleep: bool| {
            let idle = list.iter().filter(|caller| caller.is_idle());
            idle.filter(move |caller| caller.bell.is_asleep() == asleep)
        };
        let called = idle(false).chain(idle(true)).take(threads);
        called.map(|caller| caller.bell.call()).count()
    }

    /// True if one that is about to wait may spin, as not more than `most` do then.
    pub(crate) fn may_spin(&self, most: usize) -> bool {
        let list = lock(&self.list);
        let spinning = list.iter().filter(|caller| caller.is_idle() && !caller.bell.is_asleep());
        // The one that asks is among them.
        spinning.take(most + 1).count() <= most
    }

    /// Sums up the requests that have been taken.
    pub(crate) fn quick(&self) -> u32 {
        self.all().iter().map(|caller| caller.claim.quick()).fold(0, u32::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_spin_and_who_is_awake_is_called_first() {
        let callers = Callers::default();
        assert_eq!((callers.call(3), callers.count()), (0, 0));
        let changes = callers.changes();
        // Of one thread each, as its life is a thread's.
        let enter = || std::thread::scope(|scope| scope.spawn(|| callers.enter()).join().unwrap());
        let three = [(); 3].map(|()| enter());
        assert_eq!((callers.count(), callers.changes() - changes), (3, 3));
        assert!(callers.may_spin(3) && !callers.may_spin(2) && !callers.may_spin(0));
        three[0].claim.hold(0);
        assert!(callers.may_spin(2) && !callers.may_spin(1));
        assert_eq!((callers.call(1), callers.call(9)), (1, 2));
        assert!(three.iter().all(|caller| caller.bell.looks_soon()));
        callers.forget(&three[1]);
        assert_eq!((callers.count(), callers.call(9)), (2, 1));
    }
}
