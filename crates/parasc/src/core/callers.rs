//! Processing threads that belong to the program: it has called
//! [`Engine::process`](crate::Engine::process), and may end them at any moment.
//!
//! Such a thread's [`Claim`] names what it is at. A thread that waits for an overdue result
//! looks for dead ones ([`Life`]) and repairs what they were at (`threads/dead.rs`). The
//! program cannot end the engine's own threads, but a seccomp filter may kill one at a call
//! that it makes, or the program's handler of SIGSYS may end it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use kumiki_slot::Life;
use kumiki_wait::Bell;

use crate::claim::Claim;
use crate::primitive::{AtomicUsize, Mutex, lock};

/// One of the program's processing threads; outlives the thread.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    pub(crate) claim: Claim,
    pub(crate) bell: Bell,
    pub(crate) life: Life,
}

/// The program's processing threads in one engine.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    list: Mutex<Vec<Arc<Caller>>>,
    count: AtomicUsize,
}

impl Callers {
    /// Whether there is one, perhaps dead.
    pub(crate) fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    /// Registers the calling thread as one, until [`leave`](Self::leave).
    pub(crate) fn enter(&self) -> Arc<Caller> {
        let caller = Arc::new(Caller::default());
        caller.life.begin();
        let mut list = lock(&self.list);
        list.push(Arc::clone(&caller));
        self.count.store(list.len(), SeqCst);
        caller
    }

    /// By the thread that has entered.
    pub(crate) fn leave(&self, caller: &Arc<Caller>) {
        caller.life.end();
        self.forget(caller);
    }

    /// Takes one off the list that has left or died.
    pub(crate) fn forget(&self, caller: &Arc<Caller>) {
        let mut list = lock(&self.list);
        list.retain(|other| !Arc::ptr_eq(other, caller));
        self.count.store(list.len(), SeqCst);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Caller>> {
        if self.any() { lock(&self.list).clone() } else { Vec::new() }
    }

    /// Wakes all that sleep.
    pub(crate) fn ring_all(&self) {
        self.all().iter().for_each(|caller| caller.bell.ring());
    }

    /// Wakes one that is at no request, to look for some. `false` if there is none.
    pub(crate) fn call(&self) -> bool {
        if !self.any() {
            return false;
        }
        let list = lock(&self.list);
        let idle = list.iter().find(|caller| !caller.claim.is_set());
        idle.map(|caller| caller.bell.ring()).is_some()
    }

    /// Sums up the requests that have been taken.
    pub(crate) fn quick(&self) -> u32 {
        self.all().iter().map(|caller| caller.claim.quick()).fold(0, u32::wrapping_add)
    }
}
